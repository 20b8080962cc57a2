#!/bin/sh
# sees_faults.sh CHECK ROOT - proves that a style check sees what it is there for: it must
# pass a copy of the rooms, and fail the same copy with one violation planted, naming it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
check=$1
root=$2
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failures=0

mkdir "$copy/tree"
(cd "$root" && find app scaler nets kernels -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -exec tar cf - {} +) |
    (cd "$copy/tree" && tar xf -)

# run WANTED_STATUS WANTED_TEXT WHAT: one run of the check on the copy.
run() {
    status=0
    said=$(sh "$here/$check.sh" "$copy/tree" 2>&1) || status=$?
    if [ "$status" != "$1" ]; then
        echo "$check: $3: exit status $status, $1 was expected: $said"
        failures=1
    elif ! printf '%s' "$said" | grep -qF -- "$2"; then
        echo "$check: $3: did not say \"$2\" but: $said"
        failures=1
    fi
}

# plant FILE LINE TEXT: the line in an otherwise clean copy must be reported, at its place.
plant() {
    mkdir -p "$(dirname "$copy/tree/$1")"
    printf '%s\n' "// first line" "$2" >"$copy/tree/$1"
    run 1 "$1:2: $3" "$2 in $1"
    rm "$copy/tree/$1"
}

# allow FILE LINE: no violation, however it may look.
allow() {
    mkdir -p "$(dirname "$copy/tree/$1")"
    printf '%s\n' "$2" >"$copy/tree/$1"
    run 0 "all " "$2 in $1"
    rm "$copy/tree/$1"
}

run 0 "all " "the rooms as they are"
case $check in
width)
    plant nets/planted.c "$(printf '// %090d' 0)" '93 columns'
    allow nets/planted.c "$(printf '"%090d"' 0)"
    allow nets/planted.c "$(printf '// %087d' 0)"
    ;;
include_direction)
    plant kernels/planted.c '#include "nets/net.h"' 'kernels/ includes "nets/net.h" above it'
    plant kernels/cuda/planted.cu '#include "app/config/config.h"' 'kernels/cuda/ includes "app/config/config.h"'
    plant nets/planted.h '#  include "scaler/grad_scaler.h"' 'nets/ includes "scaler/'
    plant scaler/planted.c '	#include "app/config/config.h" // why' 'scaler/ includes "app/'
    plant app/train/planted.c '#include "app/view/monitor.h"' 'app/train/ includes "app/view/monitor.h" above it'
    plant app/config/planted.c '#include "app/train/trainer.h"' 'app/config/ includes "app/train/'
    plant nets/planted.c '#include "nets/layers/layers.h"' 'nets/ includes "nets/layers/'
    plant kernels/planted.c '#include "kernels/ref/ref.h"' 'kernels/ includes "kernels/ref/'
    plant app/planted.c '#include "config.h"' '"config.h" does not name a room'
    plant app/planted.c '#include "../nets/net.h"' '"../nets/net.h" does not name a room'
    plant nets/planted.c '#include "nets/../app/config.h"' '"nets/../app/config.h" does not'
    plant app/planted.c '#include "tests/support/support.h"' '"tests/support/support.h" does not'
    plant nets/planted.c '/* x */ #include "app/config/config.h"' 'nets/ includes "app/config/config.h"'
    allow app/planted.c '#include "kernels/tensor.h"'
    allow app/view/planted.c '#include "app/train/trainer.h"'
    allow nets/planted.c '#include "nets/net.h"'
    allow nets/planted.c '// #include "app/config/config.h"'
    ;;
third_party)
    plant app/planted.c '#include <png.h>' '<png.h> may only'
    plant app/input/planted.c '#include <png.h>' '<png.h> may only'
    plant app/planted.h '#include <SDL.h>' '<SDL.h> may only'
    plant app/view/planted.c '#include <SDL2/SDL.h>' '<SDL2/SDL.h> may only'
    plant app/view/window_planted.h '#include "SDL.h"' '<SDL.h> may only'
    plant app/input/planted.c '#include <cairo.h>' '<cairo.h> may only'
    plant app/planted.c '#include <cairo/cairo-svg.h>' '<cairo/cairo-svg.h> may only'
    plant scaler/planted.c '#include <jansson.h>' '<jansson.h> may only be included in app/'
    plant app/train/planted.c '#include <jansson.h>' '<jansson.h> may only'
    plant app/view/planted.c '#include <zlib.h>' '<zlib.h> may only'
    plant kernels/cpu/planted.c '#include <cudnn.h>' '<cudnn.h> may only'
    plant nets/planted.c '#include <cuda_runtime.h>' '<cuda_runtime.h> may only'
    plant app/planted.c '#include <cublas_v2.h>' '<cublas_v2.h> may only'
    plant nets/planted.c '#include <immintrin.h>' '<immintrin.h> may only'
    plant app/planted.c '#include <curl/curl.h>' '<curl/curl.h> is no header of the system'
    allow app/input/png_planted.c '#include <png.h>'
    allow app/view/window_planted.c '#include <SDL.h>'
    allow kernels/cuda/planted.cu '#include <cudnn.h>'
    allow kernels/cpu/planted.h '#include <immintrin.h>'
    allow nets/planted.c '#include <sys/stat.h>'
    ;;
*)
    echo "no faults are known for $check"
    exit 1
    ;;
esac
rm -rf "$copy/tree/nets"
run 2 "the room nets/ is missing" "a tree without a room"
[ "$failures" = 0 ] && echo "$check sees every planted fault"
exit "$failures"
