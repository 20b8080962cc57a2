#!/bin/sh
# include_direction.sh ROOT - includes point down only: app > scaler > nets > kernels, and inside
# each of these by the order of its rooms below.
# Every quoted include names its room from the root ("nets/layers/kinds.h"). Prints each violation
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
    # A room is a folder; each may include those before it. kernels/device.c is the list of
    # backends, and the only file that sees them from below.
    BEGIN {
        count = split("kernels/base kernels kernels/ref kernels/cpu kernels/cuda nets " \
            "nets/layers nets/optim nets/arch scaler app/files app/config app/input " \
            "app/train app/recovery app/record app/view app/live app/ranks app app/bench",
            rooms, " ")
        for (i = 1; i <= count; i++) height[rooms[i]] = i
    }
    $3 == "quote" {
        seen++
        from = $1; sub(/\/[^\/]*$/, "", from)
        to = $4; sub(/\/[^\/]*$/, "", to)
        if (!(to in height) || $4 ~ /\.\.\//) {
            printf "%s:%d: \"%s\" does not name a room from the root (app/, scaler/, " \
                   "nets/, kernels/, or one inside them)\n", $1, $2, $4
            bad = 1
        } else if (!(from in height)) {
            printf "%s: %s/ is no room; add it to the order in include_direction.sh\n", $1, from
            bad = 1
        } else if (height[to] > height[from] && $1 != "kernels/device.c") {
            printf "%s:%d: %s/ includes \"%s\" above it; includes point down only: " \
                   "app > scaler > nets > kernels, and inside them by the order in " \
                   "include_direction.sh\n", $1, $2, from, $4
            bad = 1
        }
    }
    END {
        if (!bad) printf "%d includes between %d rooms, all point down\n", seen, count
        exit bad
    }'
