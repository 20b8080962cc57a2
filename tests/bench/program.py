#!/usr/bin/env python3
"""What the program as a whole costs: memory, start, threads, upkeep of a step, live view.

    program.py TWINSCALE BENCH_STEP [--rounds N] [--only NAME]

NAME is one of:
  memory   the most that `twinscale train` holds for DCGAN-64, batch 64, in each precision,
           beside PyTorch's process for the same steps in each of its modes (needs torch)
  start    from the command to the first step, `fmnist-quick` on builtin:fashion
  threads  a step on one thread beside one on all, and how far two cores were apart just then
           (line_trip_ns, see line_trip.h)
  upkeep   the share of a step that is not its passes: gradients checked and unscaled, Adam with
           half copy and average, rules, results read and reported
  diagnosis  the time that looking into overflows takes, as a share of a run: what a step that
           overflows takes more, times how many do in the first 100 kimg of fmnist-quick
  preview  processor time of a run with preview.png, and with a window where there is a display,
           beside one without: what drawing takes from training

Variants run in turns, and each figure is the median of its rounds. Prints one JSON object a
line: "work", "what", "value" with its "unit", and what the value was made of.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NETS = ("fmnist-quick", "dcgan64")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Ended:
    """A command that ran: its lines with the second each came, what it used."""

    def __init__(self, command, **settings):
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env=os.environ | settings)
        self.lines = [(time.perf_counter() - begin, line) for line in process.stdout]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.megabytes = usage.ru_maxrss / 1024
        self.processor_sec = usage.ru_utime + usage.ru_stime
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n"
                               + "".join(line for _, line in self.lines))


def train(args, preset, *settings):
    with tempfile.TemporaryDirectory() as out:
        data = "builtin:fashion" if preset == "fmnist-quick" else "builtin:shapes"
        return Ended([args.twinscale, "train", "--preset", preset, "--data", data, "--device",
                      "cpu", "--out", out, *settings])


def bench_step(args, net, steps, *settings, work=()):
    run = subprocess.run([args.bench_step, *work, str(steps), net, "--device", "cpu", *settings],
                         check=True, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    return json.loads(run.stdout)


def step_ms(*arguments, **work):
    return bench_step(*arguments, **work)["ms_per_step"]


def in_turns(args, variants):
    """Medians of what the functions return, by name."""
    found = {name: [] for name in variants}
    for turn in range(args.rounds):
        for name, measure in variants.items():
            found[name].append(measure())
        say(f"round {turn + 1} of {args.rounds}")
    return {name: statistics.median(values) for name, values in found.items()}


def memory(args):
    ours, peers = {}, {}
    for precision in ("fp16", "bf16", "fp32"):
        ours[precision] = round(train(args, "dcgan64", "--kimg", "0.64", "--preview", "off",
                                      "--precision", precision).megabytes)
    for precision in ("fp32", "bf16"):
        for form in ("contiguous", "channels_last"):
            run = Ended([sys.executable, os.path.join(HERE, "bench_torch.py"), "--net",
                         "dcgan64", "--precision", precision, "--format", form, "--steps", "9",
                         "--warm-up", "1"])
            peers[f"{precision} {form}"] = round(run.megabytes)
    for precision, megabytes in ours.items():
        yield {"work": "dcgan64, whole process, batch 64", "what": f"memory in {precision}",
               "value": megabytes, "unit": "MB", "torch_mb": peers,
               "ratio": round(min(peers.values()) / megabytes, 2)}


def start(args):
    def to_first_step():
        run = train(args, "fmnist-quick", "--kimg", "0.064", "--preview", "off")
        return next(when for when, line in run.lines if line.startswith("tick 0"))

    found = in_turns(args, {"start": to_first_step})
    yield {"work": "fmnist-quick, builtin:fashion", "what": "start to the first step's line",
           "value": round(found["start"], 3), "unit": "s"}


def threads(args):
    cores = len(os.sched_getaffinity(0))
    for net in NETS:
        steps, trips = 40 if net == "fmnist-quick" else 3, []

        def on(count):
            one = bench_step(args, net, steps, "--threads", str(count))
            if count > 1:
                trips.append(one["line_trip_ns"])
            return one["ms_per_step"]

        found = in_turns(args, {count: lambda count=count: on(count) for count in (1, cores)})
        yield {"work": f"{net}, whole step, batch 64", "what": f"1 -> {cores} threads",
               "value": round(found[1] / found[cores], 2), "unit": "times faster",
               "ms": {count: round(ms, 2) for count, ms in found.items()},
               "line_trip_ns": round(statistics.median(trips)) if trips else 0}


def upkeep(args):
    for net in NETS:
        steps = 40 if net == "fmnist-quick" else 5
        found = in_turns(args, {"step": lambda: step_ms(args, net, steps),
                                "upkeep": lambda: step_ms(args, net, steps, work=["upkeep"])})
        yield {"work": f"{net}, whole step, batch 64", "what": "upkeep",
               "value": round(100 * found["upkeep"] / found["step"], 2), "unit": "% of a step",
               "ms": {name: round(ms, 3) for name, ms in found.items()}}


def diagnosis(args):
    net, steps, kimg = "fmnist-quick", 40, 100
    always = ["--inject", "d:1-:inf,g:1-:inf", "--on-overflow-storm", "warn"]
    found = in_turns(args, {"step": lambda: step_ms(args, net, steps),
                            "overflow": lambda: step_ms(args, net, steps, *always)})
    run = train(args, net, "--kimg", str(kimg), "--preview", "off")
    skips = re.search(r"skip G (\d+).* D (\d+)", [line for _, line in run.lines
                                                  if line.startswith("tick")][-1])
    # Both networks' overflows are looked into where every step has both.
    share = (found["overflow"] / found["step"] - 1) / 2 * sum(map(int, skips.groups()))
    yield {"work": f"{net}, {kimg} kimg", "what": "looking into overflows",
           "value": round(100 * share / (kimg * 1000 / 64), 2), "unit": "% of a step on average",
           "skips": {"G": int(skips[1]), "D": int(skips[2])},
           "ms": {name: round(ms, 3) for name, ms in found.items()}}


def preview(args):
    ways = ["off", "png"]
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        ways.append("window")
    found = in_turns(args, {way: lambda way=way: train(args, "fmnist-quick", "--kimg", "100",
                                                       "--preview", way).processor_sec
                            for way in ways})
    for way in ways[1:]:
        yield {"work": "fmnist-quick, 100 kimg", "what": f"--preview {way}",
               "value": round(100 * (found[way] / found["off"] - 1), 2),
               "unit": "% more processor time",
               "sec": {name: round(sec, 2) for name, sec in found.items()}}


PARTS = {part.__name__: part for part in (memory, start, threads, upkeep, diagnosis, preview)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("twinscale")
    parser.add_argument("bench_step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=PARTS)
    args = parser.parse_args()
    for name in [args.only] if args.only else PARTS:
        say(name)
        for result in PARTS[name](args):
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
