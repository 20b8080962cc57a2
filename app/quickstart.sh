#!/bin/sh
# From a fresh machine to trained samples: installs what is missing, builds a release, trains
# the preset fmnist-quick. At its end the program prints the paths of the grid, the curves and
# the checkpoint; a window stays until it is closed. Whatever follows is handed on to `twinscale train`:
#   sh app/quickstart.sh
#   sh app/quickstart.sh --kimg 20 --preview png
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

for argument in "$@"; do
    case "$argument" in
    -h | --help)
        echo "usage: sh app/quickstart.sh [SETTING ...]"
        echo "Installs what is missing, builds build/twinscale and runs"
        echo "    build/twinscale train --preset fmnist-quick --out outputs [SETTING ...]"
        echo "\`build/twinscale train --help\` lists the settings."
        exit 0
        ;;
    esac
done

sh "$root/app/install_packages.sh"

# An earlier build keeps its generator: CMake refuses to change it.
if [ ! -f "$root/build/CMakeCache.txt" ]; then
    cmake -S "$root" -B "$root/build" -G Ninja
else
    cmake -S "$root" -B "$root/build"
fi
# The GPU's kernels take a minute to compile: only where there is an NVIDIA driver to use them.
if command -v nvidia-smi >/dev/null 2>&1 || [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then
    target=program
else
    target=twinscale
fi
cmake --build "$root/build" --target "$target" --parallel "$(nproc 2>/dev/null || echo 2)"

# From the repository's own folder the paths that are printed stay short.
if [ "$(pwd)" = "$root" ]; then
    out=outputs
else
    out=$root/outputs
fi
# In the shell's place, so that Ctrl-C reaches the program alone: it saves, and exits with 0.
exec "$root/build/twinscale" train --preset fmnist-quick --out "$out" "$@"
