#!/usr/bin/env python3
"""twinscale against PyTorch at its best, side by side: training steps, drawing images.

    compare.py BENCH_STEP [--rounds N] [--steps N] [--threads N] [--net NAME]
               [--finalists N] [--work step|sample]
    compare.py BENCH_STEP --net NAME --program COMMAND... [--rounds N] [--steps N] [--threads N]

PyTorch runs in float32 and in bfloat16 autocast, with contiguous and channels_last memory, on
every power of two of threads up to ours, bound to cores and not. Each of these modes is tried
once; the two fastest of each precision (--finalists) are then timed in turns with
every precision of ours, so that whatever else the machine does falls on all of them, and each
one's time is the median over all rounds of its median step. What was tried and which was best
is said on stderr.

With --program, which may be given several times, the peer is what COMMAND runs in place of
PyTorch: bench_libtorch.cpp, bench_dlib.cpp or bench_tinygrad.py on the network of --net, with
COMMAND's own threads and steps. Then the lines have no gflops and no share_of_peak.

Prints one JSON object a line: the work, our precision, threads and time, the peer and its
time, ratio = peer/ours (above 1 we are faster), gflops and share_of_peak. Both count the
multiplications and additions that a convolution's definition has, whatever is done in their
place: Winograd does fewer, so that share_of_peak is no share of what the CPU is busy with and
exceeds 1 where much is done by Winograd. The peak is that of fused multiply-adds in registers
for that precision, measured in every round as well. line_trip_ns is what a cache line takes from
one core to another and back, the median of the rounds: where it is hundreds, the two were on
different dies, and times of small networks are up to twice those on one. Single times on a shared machine mean
little; the ratio within one run is what counts.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NETS = {"fmnist-quick": 200, "dcgan32": 20, "dcgan64": 5}  # and the steps of a round
WORKS = {"step": "whole step, batch 64", "sample": "drawing 64 images"}
OURS = ("fp16", "bf16", "fp32")
COUNTED = "by the definition; Winograd does fewer, so share_of_peak may exceed 1"


def say(text):
    print(text, file=sys.stderr, flush=True)


def lines(command, **settings):
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                         env=os.environ | settings)
    return [json.loads(line) for line in run.stdout.splitlines()]


class Peer:
    """One way to run PyTorch."""

    def __init__(self, precision, form, threads, is_bound):
        self.precision, self.form, self.threads = precision, form, threads
        self.is_bound = is_bound
        self.times = []
        self.program, self.gflop = "", 0.0

    def __str__(self):
        bound = ", bound to cores" if self.is_bound else ""
        return (f"{self.program} {self.precision} {self.form}, {self.threads} thread"
                f"{'s' if self.threads > 1 else ''}{bound}")

    def run(self, net, work, steps, warm_up):
        binding = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"} if self.is_bound else {}
        (one,) = lines([sys.executable, os.path.join(HERE, "bench_torch.py"), "--net", net,
                        "--precision", self.precision, "--format", self.form,
                        "--threads", str(self.threads), "--steps", str(steps),
                        "--warm-up", str(warm_up)]
                       + (["--sample"] if work == "sample" else []), **binding)
        self.program, self.gflop = one["program"], one["gflop"]
        return one["ms_per_step"]


class Program:
    """A command that times training steps of a network and prints one line about them."""

    def __init__(self, command):
        self.command = shlex.split(command)
        self.precision, self.gflop, self.line = "", None, {}
        self.times = []

    def __str__(self):
        told = {"format": "", "beam": "BEAM="}
        settings = "".join(f" {name}{self.line[key]}" for key, name in told.items()
                           if key in self.line)
        threads = self.line["threads"]
        return (f"{self.line['program']} {self.precision}{settings}, {threads} thread"
                f"{'s' if threads > 1 else ''}")

    def run(self, net, *_):
        (self.line,) = lines(self.command)
        if self.line["net"] != net:
            sys.exit(f"compare.py: {shlex.join(self.command)} trained {self.line['net']}, not {net}, "
                     "which --net says; name the same network to both")
        self.precision = self.line["precision"]
        return self.line["ms_per_step"]


def all_peers(threads_most):
    counts = {2**i for i in range(threads_most.bit_length())} | {threads_most}
    return [Peer(precision, form, threads, is_bound)
            for precision in ("fp32", "bf16")
            for form in ("contiguous", "channels_last")
            for threads in sorted(c for c in counts if c <= threads_most)
            for is_bound in ((False, True) if threads > 1 else (False,))]


def choose_finalists(net, work, args):
    tried = []
    for peer in all_peers(args.threads):
        tried.append((peer.run(net, work, min(5, args.steps_of[net]), 1), peer))
        say(f"{net}, {work}: tried {peer}: {tried[-1][0]:.1f} ms")
    chosen = []
    for precision in ("fp32", "bf16"):
        group = sorted((t for t in tried if t[1].precision == precision), key=lambda t: t[0])
        chosen += [peer for _, peer in group[:args.finalists]]
    return chosen


def run_ours(args, net, work, precision):
    form = ["sample"] if work == "sample" else []
    (one,) = lines([args.bench_step, *form, str(args.steps_of[net]), net, "--device", "cpu",
                    "--threads", str(args.threads), "--precision", precision])
    return one


def counted(gflop, our_ms, peak):
    if not gflop:
        return {}
    gflops = gflop / our_ms * 1e3
    return {"gflops": round(gflops, 1), "share_of_peak": round(gflops / peak, 3) if peak else None,
            "flops_counted": COUNTED}


def compare(net, work, args):
    peers = [Program(command) for command in args.program]
    peers = peers or choose_finalists(net, work, args)
    ours, peaks, trips, device = {}, {}, [], ""
    for turn in range(args.rounds):
        say(f"{net}, {work}: round {turn + 1} of {args.rounds}")
        for precision in OURS:
            one = run_ours(args, net, work, precision)
            ours.setdefault(precision, []).append(one["ms_per_step"])
            peaks.setdefault(precision, []).append(one["peak_gflops"])
            trips.append(one["line_trip_ns"])
            device = one["device"]
        for peer in peers:
            peer.times.append(peer.run(net, work, args.steps_of[net], 2))
    for precision in sorted({peer.precision for peer in peers}, reverse=True):
        group = [peer for peer in peers if peer.precision == precision]
        say(f"{net}, {work}: the best of {precision}: "
            f"{min(group, key=lambda peer: statistics.median(peer.times))}")
    for precision in OURS:
        for peer in peers:
            our_ms, peer_ms = statistics.median(ours[precision]), statistics.median(peer.times)
            yield {"work": f"{net}, {WORKS[work]}", "precision": precision,
                   "threads": args.threads, "ours_ms": round(our_ms, 2), "peer": str(peer),
                   "peer_ms": round(peer_ms, 2), "ratio": round(peer_ms / our_ms, 2),
                   # The fastest round of the peak: a slower one was interrupted.
                   **counted(peer.gflop, our_ms, max(peaks[precision])),
                   "rounds": args.rounds, "line_trip_ns": round(statistics.median(trips)),
                   "machine": device}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench_step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="a round; 0: by the network")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--net", choices=NETS)
    parser.add_argument("--finalists", type=int, default=2, help="of each PyTorch precision")
    parser.add_argument("--work", choices=WORKS, help="default: all")
    parser.add_argument("--program", action="append", default=[], metavar="COMMAND",
                        help="the peer in place of PyTorch; needs --net, times steps")
    args = parser.parse_args()
    if args.program and (not args.net or args.work == "sample"):
        parser.error("--program times training steps of one network: give --net, not --work sample")
    args.steps_of = {net: args.steps or steps for net, steps in NETS.items()}
    for net in [args.net] if args.net else NETS:
        for work in ["step"] if args.program else [args.work] if args.work else WORKS:
            for result in compare(net, work, args):
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
