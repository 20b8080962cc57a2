#!/bin/bash
# What only a GPU can show, in one command and at most ten minutes:
#   bash tests/gpu/accept.sh OUTDIR
# Stages, each under a limit of its own: env, build, device, ops, graph, scaler, parity,
# sanitizer, bench.
# OUTDIR/accept.json is written anew after every stage, so that a run that is cut short still
# tells what it saw; OUTDIR/<stage>.log has each stage's output. Exits 1 when a stage other than
# bench failed; when the build failed, nothing else is tried. Needs nvcc, cuDNN, python3 and what
# app/install_packages.sh installs (cmake, cairo, SDL2 and so on, although no window is opened);
# torch only for comparisons, which are then named as skipped. To try the script itself where there is no card: ACCEPT_PATIENCE multiplies
# the limits, ACCEPT_SETTINGS is added to the settings of every short run.
set -uo pipefail

out=${1:?usage: accept.sh OUTDIR}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/accept
device=${ACCEPT_DEVICE:-cuda:0}
export XDG_CACHE_HOME=$build/cache out root build device
exec > >(tee "$out/log.txt") 2>&1
python3 "$root/tests/gpu/accept.py" begin "$out" "$root" || exit 3

failed=0
# stage NAME SECONDS FUNCTION: runs it, keeps its result, leaves its exit code in rc; 77 is
# "skipped".
stage()
{
    local name=$1 limit=$(($2 * ${ACCEPT_PATIENCE:-1})) started
    started=$(date +%s%N)
    echo "== $name"
    timeout --kill-after=5 "$limit" bash -c "set -euo pipefail; $(declare -f short_run "$3"); $3" \
        >"$out/$name.log" 2>&1
    rc=$?
    tail -n 6 "$out/$name.log"
    python3 "$root/tests/gpu/accept.py" stage "$out" "$name" "$rc" \
        "$((($(date +%s%N) - started) / 1000000))"
    [ $rc -eq 0 ] || [ $rc -eq 77 ] || [ "$name" = bench ] || failed=1
}

environment()
{
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader
    nvcc --version | tail -n 2
    python3 -c 'import torch; print("torch", torch.__version__)' || echo "no torch here"
}

build_all()
{
    # The card's own architecture only: minutes count here.
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    cudnn=$(python3 -c 'import os, nvidia.cudnn as c; print(list(c.__path__)[0])' 2>/dev/null || true)
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTWINSCALE_CUDA=ON \
        -DTWINSCALE_CUDA_ARCHITECTURES="$arch" ${cudnn:+-DCUDNN_ROOT="$cudnn"} || {
        echo "cmake names above what is missing here; sh app/install_packages.sh installs" \
            "all of it but CUDA and cuDNN"
        exit 3
    }
    cmake --build "$build" --parallel "$(nproc)" \
        --target twinscale twinscale_cuda check_ops describe_device bench_step
    ldd "$build/twinscale_cuda.so" | grep -E 'cud|cublas'
    "$build/twinscale" info --devices
}

# What cuDNN knows of this card: tests/cuda/devices/ wants one file for each kind.
describe()
{
    "$build/tests/gpu/describe_device" >"$out/device.json"
    cat "$out/device.json"
}

ops()
{
    "$build/tests/gpu/check_ops" "$device" >"$out/ops.jsonl"
    "$build/tests/gpu/check_ops" "$device" --tf32 >"$out/ops-tf32.jsonl"
}

# A short run of the small network; prints the digest of its last snapshot.
short_run()
{
    folder=$1
    shift
    "$build/twinscale" train builtin:fashion --preset fmnist-quick --device "$device" \
        --preview off --kimg 3.2 --out "$folder" ${ACCEPT_SETTINGS:-} "$@" >&2
    "$build/twinscale" info "$folder"/*/ | sed -n 's/^.*digest[^0-9a-f]*\([0-9a-f]*\).*$/\1/p'
}

graph()
{
    work=$(mktemp -d)
    replayed=$(short_run "$work/a" --deterministic)
    again=$(short_run "$work/b" --deterministic)
    queued=$(short_run "$work/c" --deterministic --no-graph)
    echo "{\"replayed\": \"$replayed\", \"again\": \"$again\", \"queued\": \"$queued\"}" |
        tee "$out/graph.json"
    rm -r "$work"
    [ -n "$replayed" ] && [ "$replayed" = "$again" ] && [ "$replayed" = "$queued" ]
}

scaler()
{
    work=$(mktemp -d)
    "$build/twinscale" train builtin:fashion --preset fmnist-quick --device "$device" \
        --preview off --kimg 12.8 --out "$work" --d-growth-interval 20 --g-growth-interval 20 \
        --inject d:50-52:inf ${ACCEPT_SETTINGS:-}
    python3 "$root/tests/gpu/accept.py" trace "$work"/*/ "$out/trace.json" --interval 20
    rm -r "$work"
}

parity()
{
    python3 "$root/tests/gpu/parity.py" "$build/twinscale" "$device" "$out/parity.json"
}

sanitizer()
{
    command -v compute-sanitizer || { echo "compute-sanitizer is not here"; exit 77; }
    work=$(mktemp -d)
    for tool in memcheck initcheck racecheck synccheck; do
        filter=
        case $tool in racecheck | synccheck) filter='--kernel-regex kns=cuda_' ;; esac
        timeout 60 compute-sanitizer --tool $tool $filter --error-exitcode 9 \
            "$build/twinscale" train builtin:fashion --preset fmnist-quick --g-width 8 \
            --d-width 8 --batch 4 --device "$device" --no-graph --preview off --kimg 0.008 \
            --out "$work" >"$out/$tool.txt" 2>&1 && state=passed || state=failed:$?
        grep -q 'not supported' "$out/$tool.txt" && state=skipped
        echo "$tool $state" | tee -a "$out/sanitizer.txt"
    done
    rm -r "$work"
    ! grep -q failed "$out/sanitizer.txt"
}

bench()
{
    python3 "$root/tests/gpu/bench.py" "$build/tests/bench/bench_step" "$device" \
        "$out/bench.jsonl"
}

rm -f "$out/sanitizer.txt"
stage env 15 environment
stage build 120 build_all
if [ "$rc" -ne 0 ]; then
    echo "nothing was built, so nothing else can be tried; $out/build.log has all of it"
    python3 "$root/tests/gpu/accept.py" table "$out"
    exit 1
fi
stage device 15 describe
stage ops 75 ops
stage graph 30 graph
stage scaler 30 scaler
stage parity 60 parity
stage sanitizer 80 sanitizer
stage bench 165 bench
python3 "$root/tests/gpu/accept.py" table "$out"
exit $failed
