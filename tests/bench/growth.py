#!/usr/bin/env python3
"""How the time of a training step grows with batch, width, resolution and threads.

    growth.py BENCH_STEP [--rounds N] [--steps N] [--precision fp16|bf16|fp32]

Starts from the preset fmnist-quick and changes one thing at a time; the variants run in turns
and each one's time is the fastest of all rounds, which on a busy machine is the one that was
not interrupted. Prints a table in Markdown whose last column is the time beside that of the
line's first variant, divided by how much more work it is: 1.00 is a straight line.
"""
import argparse
import json
import os
import subprocess

NET = "fmnist-quick"


def dcgan_work(side, width=24, channels=1):
    """Multiplications of D's convolutions, or of G's: the layers between are all alike."""
    layers = side.bit_length() - 3
    return side**2 * (4 * channels * width + 2 * (layers - 1) * width**2)


def axes(cores):
    """Name, and its variants: label, settings, work relative to the first."""
    threads = sorted({2**i for i in range(cores.bit_length()) if 2**i <= cores} | {cores})
    yield "batch", [(str(b), ["--batch", str(b)], b / 16) for b in (16, 32, 64, 128)]
    # Both the channels of a layer's input and of its output grow.
    yield "width", [(str(w), ["--g-width", str(w), "--d-width", str(w)], (w / 24) ** 2)
                    for w in (24, 48, 96)]
    # With the side of an image grow its area and the number of layers.
    yield "resolution", [(str(r), ["--data", "builtin:shapes", "--resolution", str(r)],
                          dcgan_work(r) / dcgan_work(32)) for r in (32, 64, 128)]
    # Threads divide the work.
    yield "threads", [(str(t), ["--threads", str(t)], 1 / t) for t in threads]


def step_ms(args, settings):
    command = [args.bench_step, str(args.steps), NET, "--device", "cpu",
               "--precision", args.precision]
    if "--threads" not in settings:
        command += ["--threads", "1"]
    run = subprocess.run(command + settings, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(run.stdout)["ms_per_step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench_step")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--precision", choices=("fp16", "bf16", "fp32"), default="fp16")
    args = parser.parse_args()
    print("| axis | value | ms a step | time per work, the first = 1 |\n|---|---|---|---|")
    for axis, variants in axes(len(os.sched_getaffinity(0))):
        times = [[] for _ in variants]
        for _ in range(args.rounds):
            for i, (_, settings, _) in enumerate(variants):
                times[i].append(step_ms(args, settings))
        first = min(times[0]) / variants[0][2]
        for (label, _, work), all_ms in zip(variants, times):
            ms = min(all_ms)
            print(f"| {axis} | {label} | {ms:.2f} | {ms / work / first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
