#!/bin/sh
# install.sh BUILD [STANDINS KERNELS DEVICE] - what is installed runs from where it is, documents
# beside it. With the folder of the stand-ins for CUDA, their kernels and the description of a
# GPU: the program finds its CUDA module there too, and says so where there is none.
set -eu

build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/a prefix" >"$folder/log" || {
    cat "$folder/log"
    exit 1
}
cd "$folder/a prefix"
program=$(pwd)/bin/twinscale

fail()
{
    echo "not true: $1" >&2
    [ ! -s "$folder/said" ] || cat "$folder/said" >&2
    exit 1
}

"$program" --version >"$folder/said" 2>&1 || fail "the program starts"
"$program" train --help >"$folder/said" 2>&1 || fail "it has its help"
cd "$folder"
"$program" train --preset dcgan28 --data builtin:shapes --g-width 2 --d-width 2 --batch 4 \
    --kimg 0.004 --preview off >"$folder/said" 2>&1 || fail "it trains a preset"
"$program" info outputs/00000-* >"$folder/said" 2>&1 || fail "it reads what it wrote"
for file in README.md LICENSE SOURCES.md assets/presets/dcgan28.json; do
    [ -s "$folder/a prefix/share/doc/twinscale/$file" ] || fail "$file is installed"
done
grep -q 'SET(CPACK_GENERATOR "TGZ")\|set(CPACK_GENERATOR "TGZ")' "$build/CPackConfig.cmake" ||
    fail "cpack makes a TGZ"

[ $# -gt 1 ] || exit 0
devices()
{
    LD_LIBRARY_PATH=$1 LD_PRELOAD=cudnn_execute.so STANDIN_KERNELS=$2 STANDIN_DEVICE_JSON=$3 \
        "$program" info --devices >"$folder/said" 2>&1 || fail "the devices are told"
}
devices "$2" "$3" "$4"
grep -q '^cuda:0: .*stand-in' "$folder/said" || fail "the CUDA module is found"
rm "$folder/a prefix"/lib*/twinscale/twinscale_cuda.so 2>/dev/null ||
    rm "$folder/a prefix"/lib/*/twinscale/twinscale_cuda.so
devices "$2" "$3" "$4"
grep -q 'built without its CUDA backend' "$folder/said" || fail "a missing module is told"
