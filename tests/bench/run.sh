#!/bin/sh
# Measures twinscale and PyTorch at its best side by side; one JSON object a line on stdout.
#   sh tests/bench/run.sh [--quick] [options of compare.py]
# PYTHON names an interpreter that has torch (default: python3).
# Other peers need what the project does not: build bench_libtorch.cpp or bench_dlib.cpp, or
# install tinygrad, as their heads say, and give compare.py the command of each:
#   compare.py BENCH_STEP --net dcgan64 --threads 1 --program './bench_dlib dcgan64 1 3'
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
python=${PYTHON:-python3}
build=$root/build/tests-release

if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "tests/bench/run.sh: $python has no torch; set PYTHON to an interpreter that has" >&2
    exit 3
fi
if [ "${1:-}" = --quick ]; then
    shift
    set -- --rounds 3 --net fmnist-quick "$@"
fi
cmake -S "$root" -B "$build" >&2
cmake --build "$build" --target bench_step --parallel 2 >&2
exec "$python" "$root/tests/bench/compare.py" "$build/tests/bench/bench_step" "$@"
