#!/usr/bin/env python3
"""twinscale against PyTorch on the same training steps, side by side.

    compare.py BENCH_STEP [--rounds N] [--steps N] [--threads N] [--net NAME]

Runs bench_step (every precision) and bench_torch.py (float32, both memory formats) in turns,
so that whatever else the machine does falls on both, and takes the median over all rounds of
each one's median step. Prints one JSON object a line: the work, our precision and time, the
peer and its time, and peer/ours: above 1 we are faster. Single times on a shared machine mean
little; the ratio within one run is what counts.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def lines(command):
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench_step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="a round; 0: by the network")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--net", choices=("fmnist-quick", "dcgan64"))
    args = parser.parse_args()
    for net in [args.net] if args.net else ["fmnist-quick", "dcgan64"]:
        steps = args.steps or (40 if net == "fmnist-quick" else 3)
        ours, peers, device = {}, {}, ""
        for turn in range(args.rounds):
            print(f"{net}: round {turn + 1} of {args.rounds}", file=sys.stderr)
            for precision in ("fp16", "bf16", "fp32"):
                for one in lines([args.bench_step, str(steps), net, "--device", "cpu",
                                  "--threads", str(args.threads),
                                  "--precision", precision]):
                    ours.setdefault(precision, []).append(one["ms_per_step"])
                    device = one["device"]
            for one in lines([sys.executable, os.path.join(HERE, "bench_torch.py"), "--net",
                              net, "--threads", str(args.threads), "--steps", str(steps)]):
                peer = f'{one["program"]} {one["precision"]} {one["format"]}'
                peers.setdefault(peer, []).append(one["ms_per_step"])
        for precision, our_times in ours.items():
            for peer, peer_times in peers.items():
                our_ms, peer_ms = statistics.median(our_times), statistics.median(peer_times)
                print(json.dumps({
                    "work": f"{net}, whole step, batch 64", "precision": precision,
                    "threads": args.threads, "ours_ms": round(our_ms, 2), "peer": peer,
                    "peer_ms": round(peer_ms, 2), "ratio": round(peer_ms / our_ms, 2),
                    "rounds": args.rounds, "machine": device}), flush=True)


if __name__ == "__main__":
    main()
