#!/usr/bin/env python3
"""What PyTorch takes for one training step of the networks that twinscale trains.

    bench_torch.py [--threads N] [--steps N] [--net fmnist-quick|dcgan64] [--format F]

One step, as in the PyTorch DCGAN example: D on real, z, G, D on fake, D's Adam, then D on the
same fake again and G's Adam; BCE on logits; float32; batch 64. Prints one JSON line per
network and memory format with the median time of a step in milliseconds.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn

BATCH = 64


def conv_block(inputs, outputs, norm=True):
    layers = [nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False)]
    if norm:
        layers.append(nn.BatchNorm2d(outputs))
    return layers + [nn.LeakyReLU(0.2, inplace=True)]


def transpose_block(inputs, outputs):
    return [
        nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    ]


class Dense7(nn.Module):
    """z -> 7x7 maps by a dense layer."""

    def __init__(self, latent, channels):
        super().__init__()
        self.channels = channels
        self.linear = nn.Linear(latent, 7 * 7 * channels, bias=False)

    def forward(self, z):
        return self.linear(z.flatten(1)).view(-1, self.channels, 7, 7)


def fmnist_quick():
    g = nn.Sequential(
        Dense7(64, 48),
        nn.BatchNorm2d(48),
        nn.ReLU(inplace=True),
        *transpose_block(48, 24),
        nn.ConvTranspose2d(24, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    d = nn.Sequential(
        *conv_block(1, 24, norm=False),
        *conv_block(24, 48),
        nn.Flatten(),
        nn.Linear(7 * 7 * 48, 1),
    )
    return g, d, (64, 1, 28)


def dcgan64():
    g = nn.Sequential(
        nn.ConvTranspose2d(100, 512, 4, 1, 0, bias=False),
        nn.BatchNorm2d(512),
        nn.ReLU(inplace=True),
        *transpose_block(512, 256),
        *transpose_block(256, 128),
        *transpose_block(128, 64),
        nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    d = nn.Sequential(
        *conv_block(3, 64, norm=False),
        *conv_block(64, 128),
        *conv_block(128, 256),
        *conv_block(256, 512),
        nn.Conv2d(512, 1, 4, 1, 0, bias=False),
    )
    return g, d, (100, 3, 64)


NETS = {"fmnist-quick": fmnist_quick, "dcgan64": dcgan64}
FORMATS = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
}


def make_step(g, d, latent, real):
    adam_g = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    adam_d = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(BATCH), torch.zeros(BATCH)

    def step():
        adam_d.zero_grad()
        bce(d(real).view(-1), ones).backward()
        fake = g(torch.randn(BATCH, latent, 1, 1))
        bce(d(fake.detach()).view(-1), zeros).backward()
        adam_d.step()
        adam_g.zero_grad()
        bce(d(fake).view(-1), ones).backward()
        adam_g.step()

    return step


def median_ms(step, steps):
    for _ in range(3):
        step()
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=0, help="0: what PyTorch chooses")
    parser.add_argument("--steps", type=int, default=11)
    parser.add_argument("--net", choices=NETS, help="default: all")
    parser.add_argument("--format", choices=FORMATS, help="default: all")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    for net in [args.net] if args.net else NETS:
        for form in [args.format] if args.format else FORMATS:
            torch.manual_seed(0)
            g, d, (latent, channels, size) = NETS[net]()
            memory = FORMATS[form]
            g, d = g.to(memory_format=memory), d.to(memory_format=memory)
            real = torch.rand(BATCH, channels, size, size).mul_(2).sub_(1)
            step = make_step(g, d, latent, real.contiguous(memory_format=memory))
            result = {
                "net": net,
                "program": "torch " + torch.__version__,
                "precision": "fp32",
                "format": form,
                "threads": torch.get_num_threads(),
                "batch": BATCH,
                "steps": args.steps,
                "ms_per_step": round(median_ms(step, args.steps), 3),
            }
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
