#!/bin/sh
# A second compiler reads the .cu files: clang's CUDA front end for the GPU and for the
# host, and clang++ for fibers, whose samples must then be right too.
#   sh second_compiler.sh ROOT CUDA_FOLDER SAMPLES.cpp FILE.cu...
# Exit codes: 0 accepted, 1 refused, 77 where clang 19 is absent.
set -eu

root=$1 cuda=$2 samples=$3
shift 3
clang=$(command -v clang++-19 || true)
if [ -z "$clang" ]; then
    echo "skipped: no clang++-19 here (Debian: clang-19)"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A header of older toolkits that clang asks for and CUDA 13 no longer has.
: >"$folder/texture_fetch_functions.h"

flags="-std=c++17 -Wall -Wextra -Werror"
failed=0
for file in "$root/tests/cuda/fibers/samples.cu" "$@"; do
    echo "$file"
    "$clang" -x cuda --cuda-gpu-arch=sm_90 --cuda-path="$cuda" -I"$folder" -I"$root" \
        $flags -Wno-unknown-cuda-version -fsyntax-only "$file" || failed=1
    "$clang" -x c++ -include "$root/tests/cuda/fibers/fibers.h" -I"$root" \
        -isystem "$cuda/include" $flags -fsyntax-only "$file" || failed=1
done
"$clang" -I"$root" -isystem "$cuda/include" $flags -O1 -o "$folder/samples" "$samples" \
    "$root/tests/cuda/fibers/fibers.cpp" || exit 1
for order in fwd rev rand1; do
    FIBER_ORDER=$order "$folder/samples" right || failed=1
done
exit $failed
