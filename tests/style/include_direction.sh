#!/bin/sh
# include_direction.sh ROOT - includes point down only: app > scaler > nets > kernels.
# Every quoted include names its room from the root ("nets/loss.h"). Prints each violation
# as file:line and exits 1 when there is one, 2 when it could not look.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
for room in app scaler nets kernels; do
    [ -d "$room" ] || { echo "$1: the room $room/ is missing" >&2; exit 2; }
done
list=$(find app scaler nets kernels -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) \
    -exec awk -f "$here/includes.awk" {} +)
[ -n "$list" ] || { echo "$1: no include was found at all" >&2; exit 2; }
printf '%s\n' "$list" | awk -F '\t' '
    BEGIN {
        height["kernels"] = 1; height["nets"] = 2; height["scaler"] = 3; height["app"] = 4
    }
    $3 == "quote" {
        seen++
        from = $1; sub(/\/.*/, "", from)
        to = $4; sub(/\/.*/, "", to)
        if (!(to in height) || $4 ~ /\.\.\//) {
            printf "%s:%d: \"%s\" does not name a room from the root (app/, scaler/, " \
                   "nets/, kernels/)\n", $1, $2, $4
            bad = 1
        } else if (height[to] > height[from]) {
            printf "%s:%d: %s/ includes \"%s\" above it; includes point down only: " \
                   "app > scaler > nets > kernels\n", $1, $2, from, $4
            bad = 1
        }
    }
    END {
        if (!bad) printf "%d includes between rooms, all point down\n", seen
        exit bad
    }'
