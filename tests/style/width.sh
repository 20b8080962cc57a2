#!/bin/sh
# width.sh ROOT - no line of C is wider than 90 columns, but for one that holds a string, which
# is not cut in the middle of a phrase.
set -eu
cd "$1"
for room in app scaler nets kernels; do
    [ -d "$room" ] || { echo "$1: the room $room/ is missing" >&2; exit 2; }
done
find app scaler nets kernels $([ ! -d tests ] || echo tests) -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) \
    -exec awk 'length($0) > 90 && !/"/ { printf "%s:%d: %d columns\n", FILENAME, FNR, length($0) }
        FNR == 1 { files++ }
        END { printf "%d files\n", files }' {} + |
    awk '/ files$/ { files += $1; next }
        { print; bad = 1 }
        END {
            if (!bad) printf "all %d files: none wider than 90 columns but for strings\n", files
            exit bad
        }'
