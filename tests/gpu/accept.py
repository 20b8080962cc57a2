#!/usr/bin/env python3
"""Keeps the results of tests/gpu/accept.sh as one JSON file.

    accept.py begin OUT ROOT              starts OUT/accept.json
    accept.py stage OUT NAME RC MS        adds a stage and what it left in OUT
    accept.py trace RUN FILE --interval N checks a run's scales against the scaler's rule
    accept.py table OUT                   prints a summary
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import time

LISTS = {"ops": ("ops.jsonl", "ops-tf32.jsonl"), "bench": ("bench.jsonl",)}
OBJECTS = {"device": ("device.json", "device"), "graph": ("graph.json", "graph"),
           "scaler": ("trace.json", "scaler"), "parity": ("parity.json", "parity")}


def load(out):
    with open(os.path.join(out, "accept.json")) as file:
        return json.load(file)


def save(out, report):
    path = os.path.join(out, "accept.json")
    with open(path + ".new", "w") as file:
        json.dump(report, file, indent=1)
    os.replace(path + ".new", path)


def parsed(text):
    """None for what a stage that was cut short has left half written."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def said(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def begin(args):
    gpu = said(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    save(args.out, {
        "schema": 1, "date": time.strftime("%Y-%m-%d"),
        "git": said(["git", "-C", args.root, "rev-parse", "HEAD"]),
        "gpu": gpu, "cuda": (said(["nvcc", "--version"]) or "").splitlines()[-1:],
        "torch": said([sys.executable, "-c", "import torch; print(torch.__version__)"]),
        "stages": []})


def stage(args):
    report = load(args.out)
    report["stages"].append({"name": args.name, "rc": args.rc, "wall_s": round(args.ms / 1000, 1),
                             "skipped": args.rc == 77, "timed_out": args.rc in (124, 137)})
    rows = []
    for name in LISTS.get(args.name, ()):
        path = os.path.join(args.out, name)
        if os.path.exists(path):
            with open(path) as file:
                rows += [dict(row, file=name) for row in map(parsed, file) if row]
    if rows:
        report[args.name] = rows
    name, key = OBJECTS.get(args.name, ("", ""))
    path = os.path.join(args.out, name)
    if name and os.path.exists(path):
        with open(path) as file:
            report[key] = parsed(file.read())
    path = os.path.join(args.out, "sanitizer.txt")
    if args.name == "sanitizer" and os.path.exists(path):
        with open(path) as file:
            report["sanitizer"] = dict(line.split() for line in file)
    save(args.out, report)


def rule(events, steps, interval, scale=65536.0):
    """PyTorch's rule in plain Python: the scale after each step, from which steps skipped.
    Checked against torch.amp.GradScaler in tests/golden/make_scaler_traces.py."""
    tracker, scales = 0, []
    for step in range(1, steps + 1):
        if step in events:
            scale, tracker = scale * 0.5, 0
        else:
            tracker += 1
            if tracker == interval:
                scale, tracker = scale * 2.0, 0
        scales.append(scale)
    return scales


def trace(args):
    with open(os.path.join(args.run, "events.jsonl")) as file:
        events = [json.loads(line) for line in file]
    ok, traces = True, {}
    for net in "DG":
        mine = [e for e in events if e.get("net") == net]
        skips = {e["step"] for e in mine if e["event"] == "skip"}
        last = max([e["step"] for e in mine], default=0)
        want = rule(skips, last, args.interval)
        wrong = [e["step"] for e in mine if e["scale_after"] != want[e["step"] - 1]]
        planted = net == "D" and not {50, 51, 52} <= skips
        ok = ok and not wrong and not planted
        traces[net] = {"events": len(mine), "skips": sorted(skips), "wrong_steps": wrong}
    with open(args.file, "w") as file:
        json.dump({"ok": ok, "interval": args.interval, "nets": traces}, file)
    print(json.dumps(traces))
    return 0 if ok else 1


def table(args):
    report = load(args.out)
    print(f'{report["gpu"]}, {report["date"]}, {(report["git"] or "")[:12]}')
    for one in report["stages"]:
        state = "skipped" if one["skipped"] else "ok" if one["rc"] == 0 else f'FAILED ({one["rc"]})'
        print(f'  {one["name"]:<10} {state:<14} {one["wall_s"]:>6.1f} s')
    ops = report.get("ops", [])
    bad = [one for one in ops if not one["ok"]]
    print(f"  {len(ops)} op results, {len(bad)} beyond their tolerance")
    for one in bad[:5]:
        print(f'    {one["op"]} {one["dtype"]} {one["shape"]}: {one["err"]} > {one["tol"]}')
    for one in report.get("bench", []):
        if "median_ms" not in one:
            continue
        print(f'  {one["work"]:<24} {one["impl"]:<44} {one["median_ms"]:>8.3f} ms')


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("begin")
    one.add_argument("out"), one.add_argument("root")
    one = commands.add_parser("stage")
    one.add_argument("out"), one.add_argument("name")
    one.add_argument("rc", type=int), one.add_argument("ms", type=int)
    one = commands.add_parser("trace")
    one.add_argument("run"), one.add_argument("file")
    one.add_argument("--interval", type=int, required=True)
    one = commands.add_parser("table")
    one.add_argument("out")
    args = parser.parse_args()
    return globals()[args.command](args) or 0


if __name__ == "__main__":
    sys.exit(main())
