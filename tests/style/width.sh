#!/bin/sh
# width.sh ROOT - no line of C is wider than 90 columns, but for one that holds a string, which
# is not cut in the middle of a phrase.
set -eu
cd "$1"
list=$(find app scaler nets kernels $([ ! -d tests ] || echo tests) -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \))
[ -n "$list" ] || { echo "$1: no file of C was found" >&2; exit 2; }
printf '%s\n' "$list" | LC_ALL=C.UTF-8 xargs -d '\n' awk '
    FNR == 1 { files++ }
    length($0) > 90 && !/"/ { printf "%s:%d: %d columns\n", FILENAME, FNR, length($0); bad = 1 }
    END {
        if (!bad) printf "all %d files: none wider than 90 columns but for strings\n", files
        exit bad
    }'
