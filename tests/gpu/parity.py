#!/usr/bin/env python3
"""The GPU's losses against the CPU's, step by step, from the same weights, images and latents.

    parity.py TWINSCALE DEVICE OUT.json

The CPU backend reproduces PyTorch's golden vectors (tests/nets/test_parity.c), so this joins
the two. Per-step losses of D and G: 20 steps in fp32 within 5e-3 relative, 200 in fp16 with
means over 20 steps within 10 % (single steps of two correct programs part once rounding has
been amplified).
"""
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

BATCH = 32
RATE = "2e-4"  # DCGAN's, not the preset's: faster rates amplify rounding sooner


def losses(program, device, precision, steps):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [program, "train", "builtin:fashion", "--preset", "fmnist-quick", "--batch",
             str(BATCH), "--device", device, "--precision", precision, "--preview", "off",
             "--kimg", str(BATCH * steps / 1000), "--tick", str(BATCH / 1000), "--out", folder,
             "--g-lr", RATE, "--d-lr", RATE],
            check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        (stats,) = glob.glob(os.path.join(folder, "*", "stats.jsonl"))
        with open(stats) as file:
            lines = [json.loads(line) for line in file]
    return [[line[f"Loss/{net}/loss"]["mean"] for line in lines] for net in "DG"]


def windows(values, size):
    return [statistics.fmean(values[i:i + size]) for i in range(0, len(values), size)]


def worst(program, device, precision, steps, window):
    pairs = zip(losses(program, device, precision, steps),
                losses(program, "cpu", precision, steps))
    return max(abs(a - b) / max(abs(b), 0.1)
               for one, other in pairs
               for a, b in zip(windows(one, window), windows(other, window)))


def main():
    program, device, path = sys.argv[1:]
    tight = worst(program, device, "fp32", 20, 1)
    loose = worst(program, device, "fp16", 200, 20)
    result = {"fp32_20_steps": tight, "fp32_tolerance": 5e-3,
              "fp16_200_steps": loose, "fp16_tolerance": 0.1,
              "ok": tight <= 5e-3 and loose <= 0.1}
    with open(path, "w") as file:
        json.dump(result, file)
    print(json.dumps(result))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
