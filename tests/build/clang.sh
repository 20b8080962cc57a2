#!/bin/sh
# clang.sh ROOT [INCLUDE...] - clang takes every C file of the program as it takes warnings
# for errors: each version of it that is here. With folders of CUDA's and cuDNN's headers the
# CUDA module's files too.
# Exit codes: 0 accepted, 1 refused, 77 where there is no clang.
set -eu

root=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# clang's omp.h is in a package of its own, and gcc's is for gcc: what the program calls of it.
mkdir "$folder/include"
echo 'int omp_get_num_procs(void); int omp_get_thread_num(void);' >"$folder/include/omp.h"
packages=$(pkg-config --cflags cairo jansson sdl2 libpng zlib)

# accepts CLANG FILE [INCLUDE...]
accepts()
{
    clang=$1 file=$2 instructions=
    shift 2
    for include in "$@"; do
        set -- "$@" -isystem "$include"
        shift
    done
    case $file in
    *isa_avx2.c) instructions='-mavx2 -mfma -mf16c' ;;
    *isa_avx512*) instructions='-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq' ;;
    esac
    case $file in
    *isa_avx512_bf16.c) instructions="$instructions -mavx512bf16" ;;
    esac
    # shellcheck disable=SC2086 # lists of flags
    "$clang" -std=c11 -fsyntax-only -Wall -Wextra -Wshadow -Wconversion -Werror -O3 \
        -D_GNU_SOURCE -DTWINSCALE_VERSION='"0"' -fopenmp $instructions -I "$root" \
        $packages "$@" -idirafter "$folder/include" "$file"
}

cuda=-prune
[ $# -eq 0 ] || cuda=-print
find "$root/app" "$root/scaler" "$root/nets" "$root/kernels" -name '*.c' \
    \( -path '*/kernels/cuda/*' ! -name cuda.c $cuda -o -print \) >"$folder/files"
case $(uname -m) in
x86_64 | i?86) ;;
*) sed -i '/isa_avx/d' "$folder/files" ;;
esac

compilers=0 failed=0
for clang in clang clang-14 clang-15 clang-16 clang-17 clang-18 clang-19 clang-20; do
    path=$(command -v "$clang") || continue
    path=$(readlink -f "$path")
    case " ${seen-} " in *" $path "*) continue ;; esac
    seen="${seen-} $path"
    compilers=$((compilers + 1))
    while IFS= read -r file; do
        accepts "$clang" "$file" "$@" || failed=1
    done <"$folder/files"
    echo "$("$clang" --version | head -n 1): $(wc -l <"$folder/files") files"
done
if [ "$compilers" -eq 0 ]; then
    echo "skipped: no clang here (Debian: clang)"
    exit 77
fi
exit $failed
