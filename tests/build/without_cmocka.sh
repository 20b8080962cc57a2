#!/bin/sh
# without_cmocka.sh ROOT - what tests/bench/run.sh and tests/gpu/accept.sh build can be built
# where cmocka is missing: every other package is found, and ninja has the targets.
set -eu

root=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/packages"
pkg-config --variable pc_path pkg-config | tr : '\n' | while IFS= read -r path; do
    for file in "$path"/*.pc; do
        [ ! -e "$file" ] || [ "${file##*/}" = cmocka.pc ] || ln -sf "$file" "$folder/packages"
    done
done
export PKG_CONFIG_LIBDIR="$folder/packages" PKG_CONFIG_PATH=
cmake -S "$root" -B "$folder/build" -GNinja -DTWINSCALE_CUDA=OFF >"$folder/log" 2>&1 || {
    cat "$folder/log"
    exit 1
}
grep 'Tests: left out, cmocka was not found' "$folder/log"
ninja -C "$folder/build" -n twinscale check_ops bench_step >"$folder/log" || {
    cat "$folder/log"
    exit 1
}
tail -n 1 "$folder/log"
