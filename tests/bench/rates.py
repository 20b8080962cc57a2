#!/usr/bin/env python3
"""Image quality of fmnist-quick under other learning rates, beta1 and EMA half-lives.

    rates.py TWINSCALE RESULTS.jsonl [--work FOLDER] [--only TEXT] [--jobs N]

Needs torch, Pillow and Debian's dataset-fashion-mnist. Trains the preset with every row of
GRID for 500 kimg on one thread (no result depends on threads or speed) and measures the Frechet
distance between 10,000 images of the averaged G and the 10,000 test images, as FID does it, but
on 128 features of a small classifier (those before its last layer), trained here first on the
60,000 training images. The distance is comparable within one RESULTS.jsonl: its first line has
the classifier's accuracy and the distance of 10,000 training images, the best there could be.

Runs stay in --work (rates-work), and rows that RESULTS.jsonl has are passed over, so that
what was interrupted goes on. A line has the settings, the seed, the distance by kimg, the share
of the rarest and the most frequent class among the images (0.1 each where all are alike), every
network's skips and the lowest and highest scale of the last 200 kimg.
"""
import argparse
import concurrent.futures
import glob
import gzip
import json
import math
import os
import shutil
import subprocess

import torch
from PIL import Image
from torch import nn

DATA = "/usr/share/datasets/fashion-mnist"
KIMG, SAMPLES, SIDE, GAP, COLUMNS = 500, 10000, 28, 2, 100
EMA = 4.0  # kimg; training does not read the average, so other half-lives fork from its run
FORK = 400  # kimg, at which they do: all but 1 % of a half-life of 16 is from later


def row(lr, d_lr=None, beta1=0.5, ema=EMA, seeds=(0,)):
    return {"g_lr": lr, "d_lr": d_lr or lr, "beta1": beta1, "ema_kimg": ema}, seeds


GRID = [
    row(2e-4, seeds=(0, 1, 2)),
    row(4e-4),
    row(8e-4, seeds=(0, 1, 2)),
    row(1.2e-3, seeds=(0, 1, 2)),
    row(1.6e-3),
    row(4e-4, d_lr=8e-4),
    row(8e-4, d_lr=4e-4),
    row(8e-4, d_lr=1.6e-3),
    row(1.6e-3, d_lr=8e-4, seeds=(0, 1, 2)),
    row(8e-4, beta1=0.0),
    row(2.4e-3, d_lr=8e-4),
    row(1.6e-3, d_lr=4e-4),
    row(1.6e-3, d_lr=8e-4, ema=16.0),
    row(1.6e-3, d_lr=8e-4, ema=8.0),
    row(1.6e-3, d_lr=8e-4, ema=2.0),
]


def idx(name, header):
    with gzip.open(os.path.join(DATA, name)) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def load(part):
    images = idx(f"{part}-images-idx3-ubyte.gz", 16).view(-1, 1, SIDE, SIDE).float() / 255
    return images, idx(f"{part}-labels-idx1-ubyte.gz", 8).long()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU())
        self.head = nn.Linear(128, 10)

    def look(self, images):
        """Features and the class of each image."""
        with torch.no_grad():
            features = torch.cat([self.features(part) for part in images.split(1000)])
            return features.double(), self.head(features).argmax(1)


def train_classifier(images, labels):
    torch.manual_seed(0)
    net = Classifier()
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(6):
        for batch in torch.randperm(len(images)).split(128):
            loss = nn.functional.cross_entropy(net.head(net.features(images[batch])),
                                               labels[batch])
            adam.zero_grad()
            loss.backward()
            adam.step()
    return net


def root(matrix):
    values, vectors = torch.linalg.eigh(matrix)
    return vectors * values.clamp(min=0).sqrt() @ vectors.T


def frechet(a, b):
    """|mean difference|^2 + trace(A + B - 2 (A B)^(1/2)); that root's trace is the sum of
    the roots of the eigenvalues of A^(1/2) B A^(1/2)."""
    cov_a, cov_b = torch.cov(a.T), torch.cov(b.T)
    half = root(cov_a)
    cross = torch.linalg.eigvalsh(half @ cov_b @ half).clamp(min=0).sqrt().sum()
    return float((a.mean(0) - b.mean(0)).square().sum() + (cov_a.trace() + cov_b.trace())
                 - 2 * cross)


def tiles(path):
    """The images of a grid: COLUMNS to a line, GAP pixels between them."""
    step = SIDE + GAP
    with Image.open(path) as image:
        grid = torch.frombuffer(bytearray(image.convert("L").tobytes()),
                                dtype=torch.uint8).view(image.height, image.width)
    cut = grid.unfold(0, SIDE, step).unfold(1, SIDE, step).reshape(-1, 1, SIDE, SIDE)
    assert len(cut) == SAMPLES, f"{path}: {len(cut)} images, expected {SAMPLES}"
    return cut.float() / 255


def name_of(settings, seed):
    return "-".join(f"{key}{value:g}" for key, value in settings.items()) + f"-seed{seed}"


def finished(out):
    found = glob.glob(os.path.join(out, "*", f"snapshot-{KIMG:06}.safetensors"))
    return os.path.dirname(found[0]) if found else None


def twinscale(args, out, *arguments):
    with open(os.path.join(out, "terminal.txt"), "w") as terminal:
        subprocess.run([args.twinscale, "train", *arguments, "--kimg", str(KIMG), "--keep", "0",
                        "--device", "cpu", "--threads", "1", "--preview", "off"],
                       check=True, stdout=terminal, stderr=subprocess.STDOUT)


def train(args, settings, seed):
    """The folder of a finished run; one that is there is taken."""
    out = os.path.join(args.work, name_of(settings, seed))
    if finished(out):
        return finished(out)
    shutil.rmtree(out, ignore_errors=True)
    if settings["ema_kimg"] == EMA:
        os.makedirs(out)
        twinscale(args, out, "--preset", "fmnist-quick", "--seed", str(seed), "--out", out,
                  "--g-lr", str(settings["g_lr"]), "--d-lr", str(settings["d_lr"]),
                  "--g-beta1", str(settings["beta1"]), "--d-beta1", str(settings["beta1"]),
                  "--ema-kimg", str(EMA))
    else:
        source = train(args, {**settings, "ema_kimg": EMA}, seed)
        run = os.path.join(out, os.path.basename(source))
        shutil.copytree(source, run, ignore=shutil.ignore_patterns(
            f"snapshot-{KIMG:06}*", "fakes*", "samples*"))
        twinscale(args, out, "--resume", os.path.join(run, f"snapshot-{FORK:06}.safetensors"),
                  "--ema-kimg", str(settings["ema_kimg"]))
    return finished(out)


def draw(args, run, kimg):
    grid = os.path.join(run, f"samples-{kimg:06}.png")
    if not os.path.exists(grid):
        subprocess.run([args.twinscale, "sample",
                        os.path.join(run, f"snapshot-{kimg:06}.safetensors"),
                        "--seeds", f"0-{SAMPLES - 1}", "--grid", f"{COLUMNS}x{COLUMNS}",
                        "--device", "cpu", "--threads", "1", "-o", grid],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return tiles(grid)


def scales(run):
    """Skips of the whole run; of its end the lowest and the highest scale, as powers of two."""
    with open(os.path.join(run, "stats.jsonl")) as file:
        ticks = [line for line in map(json.loads, file) if "Progress/kimg" in line]
    late = [tick for tick in ticks if tick["Progress/kimg"]["mean"] > KIMG - 200]
    powers = {net: [round(math.log2(tick[f"Scale/{net}"]["mean"])) for tick in late]
              for net in "GD"}
    return {"skips": {net: int(ticks[-1][f"Scale/{net}_skipped"]["mean"]) for net in "GD"},
            "late_scale_log2": {net: [min(values), max(values)]
                                for net, values in powers.items()}}


def measure(args, classifier, real, settings, seed):
    run = train(args, settings, seed)
    distance = {}
    for kimg in (100, 300, KIMG) if settings["ema_kimg"] == EMA else (KIMG,):
        features, classes = classifier.look(draw(args, run, kimg))
        distance[kimg] = round(frechet(features, real), 2)
    share = classes.bincount(minlength=10) / len(classes)
    return {**settings, "seed": seed, "distance": distance,
            "class_share": [round(float(share.min()), 3), round(float(share.max()), 3)],
            **scales(run)}


def real_line(classifier, train_images, test_images, test_labels):
    features, classes = classifier.look(test_images)
    other, _ = classifier.look(train_images[:SAMPLES])
    accuracy = float((classes == test_labels).double().mean())
    line = {"work": "10,000 training images against the 10,000 test images",
            "distance": round(frechet(other, features), 2), "accuracy": round(accuracy, 4)}
    return features, line


def prepare(args):
    """The classifier, trained once per --work, and the features of the test images."""
    weights = os.path.join(args.work, "classifier.pt")
    images, labels = load("train")
    if os.path.exists(weights):
        classifier = Classifier()
        classifier.load_state_dict(torch.load(weights))
    else:
        classifier = train_classifier(images, labels)
        torch.save(classifier.state_dict(), weights)
    return classifier, *real_line(classifier, images, *load("t10k"))


def known(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("twinscale")
    parser.add_argument("results")
    parser.add_argument("--work", default="rates-work")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    torch.set_num_threads(1)
    classifier, real, first = prepare(args)
    lines = known(args.results)
    have = {name_of({key: line[key] for key in GRID[0][0]}, line["seed"])
            for line in lines if "seed" in line}
    wanted = [(settings, seed) for settings, seeds in GRID for seed in seeds
              if name_of(settings, seed) not in have and args.only in name_of(settings, seed)]
    with open(args.results, "a") as file, \
            concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        if not lines:
            print(json.dumps(first), file=file, flush=True)
        rows = [pool.submit(measure, args, classifier, real, *one) for one in wanted]
        for done in concurrent.futures.as_completed(rows):
            print(json.dumps(done.result()), file=file, flush=True)


if __name__ == "__main__":
    main()
