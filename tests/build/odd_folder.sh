#!/bin/sh
# odd_folder.sh ROOT CUDA - a copy of the project builds and passes tests in a folder whose name
# has a blank, a quote, a dollar and a letter beyond ASCII. With CUDA=ON the stand-ins, whose
# paths are in command lines and in the environment, too; without quote and dollar, which
# nvcc does not take: CMake says so and leaves the backend out.
set -eu

root=$1 cuda=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# into NAME CMAKE-OPTION...: the copy, configured; leaves its path in `copy`.
into()
{
    copy=$folder/$1
    shift
    mkdir "$copy"
    (cd "$root" && tar cf - --exclude=tests/bench/results app assets kernels nets scaler \
        tests CMakeLists.txt LICENSE README.md) | (cd "$copy" && tar xf -)
    cd "$copy"
    cmake -S . -B build -GNinja -DCMAKE_BUILD_TYPE=Debug "$@" >"$folder/log" 2>&1 || {
        cat "$folder/log"
        exit 1
    }
}

# passes TESTS TARGET...: builds the targets and runs the tests.
passes()
{
    tests=$1
    shift
    cmake --build build --parallel 2 --target "$@" >"$folder/log" 2>&1 || {
        tail -n 40 "$folder/log"
        exit 1
    }
    (cd build && ctest --output-on-failure --no-tests=error -R "^($tests)\$")
}

if [ "$cuda" = ON ]; then
    into "a b é" -DTWINSCALE_CUDA=ON -DTWINSCALE_CUDA_ARCHITECTURES=90-real
    passes cuda/standins test_cuda_standins
fi
into "a b'c\$d é"
[ "$cuda" != ON ] || grep "CUDA backend: left out, nvcc takes no path" "$folder/log"
passes 'app/scripts|kernels/device|nets/parity' twinscale test_app_scripts \
    test_kernels_device test_nets_parity
build/twinscale train --data builtin:shapes --preset dcgan28 --g-width 2 --d-width 2 --batch 4 \
    --kimg 0.004 --preview off
build/twinscale info outputs/00000-* --digest
