#!/usr/bin/env python3
"""What tinygrad takes for one training step of the networks that twinscale trains.

    python3 -m venv VENV && VENV/bin/pip install tinygrad
    NUM_CPU_THREADS=2 DEV=CPU BEAM=2 VENV/bin/python bench_tinygrad.py
        [--steps N] [--warm-up N] [--net fmnist-quick|dcgan64]

The work is that of bench_torch.py, in float32: one D+G step at batch 64, both networks with
their Adams, as one JIT graph; tinygrad's Adam and batch norm. Its own variables set the rest:
NUM_CPU_THREADS, DEV (CPU: clang, CPU:LLVM: libLLVM), BEAM (0: heuristics; N: a search that
takes minutes once and is kept in a cache). Prints one JSON line per network with the median
time of a step in milliseconds.
"""
import argparse
import importlib.metadata
import json
import statistics
import time

from tinygrad import Context, Device, Tensor, TinyJit, nn
from tinygrad.helpers import BEAM, NUM_CPU_THREADS

BATCH = 64


class Block:
    """A layer, then batch norm where wanted, then its activation."""

    def __init__(self, layer, norm, activation):
        self.layer, self.activation = layer, activation
        self.norm = nn.BatchNorm(norm) if norm else None

    def __call__(self, x):
        x = self.layer(x)
        return self.activation(self.norm(x) if self.norm else x)


class Net:
    def __init__(self, *blocks):
        self.blocks = blocks

    def __call__(self, x):
        return x.sequential(list(self.blocks))


def leaky(x):
    return x.leaky_relu(0.2)


def down(inputs, outputs, norm=True):
    return Block(nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False), outputs if norm else 0, leaky)


def up(inputs, outputs, stride=2, padding=1):
    layer = nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False)
    return Block(layer, outputs, Tensor.relu)


def to_pixels(inputs, channels):
    return Block(nn.ConvTranspose2d(inputs, channels, 4, 2, 1, bias=False), 0, Tensor.tanh)


class Dense7:
    """z -> 7x7 maps by a dense layer."""

    def __init__(self, latent, channels):
        self.channels = channels
        self.linear = nn.Linear(latent, 7 * 7 * channels, bias=False)

    def __call__(self, z):
        return self.linear(z.flatten(1)).reshape(-1, self.channels, 7, 7)


class Score:
    """All maps of an image -> its logit."""

    def __init__(self, inputs):
        self.linear = nn.Linear(inputs, 1)

    def __call__(self, x):
        return self.linear(x.flatten(1))


def fmnist_quick():
    g = Net(Block(Dense7(64, 48), 48, Tensor.relu), up(48, 24), to_pixels(24, 1))
    d = Net(down(1, 24, norm=False), down(24, 48), Score(7 * 7 * 48))
    return g, d, (64, 1, 28)


def dcgan64():
    g = Net(up(100, 512, stride=1, padding=0), up(512, 256), up(256, 128), up(128, 64),
            to_pixels(64, 3))
    d = Net(down(3, 64, norm=False), down(64, 128), down(128, 256), down(256, 512),
            nn.Conv2d(512, 1, 4, 1, 0, bias=False))
    return g, d, (100, 3, 64)


NETS = {"fmnist-quick": fmnist_quick, "dcgan64": dcgan64}


def make_step(net):
    g, d, (latent, channels, size) = NETS[net]()
    adam_g, adam_d = (nn.optim.Adam(nn.state.get_parameters(n), lr=2e-4, b1=0.5) for n in (g, d))
    real = Tensor.rand(BATCH, channels, size, size).mul(2).sub(1).realize()

    def loss(images, is_real):
        logits = d(images).reshape(-1)
        return logits.binary_crossentropy_logits(Tensor.full((BATCH,), float(is_real)))

    @TinyJit
    def step():
        # Nothing is realized between the two turns: tinygrad would forget how the fakes came
        # about and draw them again for G's turn.
        adam_d.zero_grad()
        fake = g(Tensor.randn(BATCH, latent, 1, 1)).contiguous()
        loss_d = loss(real, True) + loss(fake.detach(), False)
        loss_d.backward()
        updated_d = adam_d.schedule_step()
        adam_g.zero_grad()
        loss_g = loss(fake, True)
        loss_g.backward()
        Tensor.realize(loss_d, loss_g, *updated_d, *adam_g.schedule_step())
        return loss_d, loss_g

    return step


def median_ms(step, steps, warm_up):
    times = []
    for _ in range(warm_up + steps):
        begin = time.perf_counter()
        step()
        Device[Device.DEFAULT].synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times[warm_up:])


def bench(net, args):
    Tensor.manual_seed(0)
    with Context(TRAINING=1):
        ms = median_ms(make_step(net), args.steps, args.warm_up)
    return {
        "net": net,
        "program": "tinygrad " + importlib.metadata.version("tinygrad"),
        "precision": "fp32",
        "beam": BEAM.value,
        "threads": NUM_CPU_THREADS.value,
        "batch": BATCH,
        "steps": args.steps,
        "ms_per_step": round(ms, 3),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=11)
    parser.add_argument("--warm-up", type=int, default=3, help="2 or more: the JIT records")
    parser.add_argument("--net", choices=NETS, help="default: all")
    args = parser.parse_args()
    for net in [args.net] if args.net else NETS:
        print(json.dumps(bench(net, args)), flush=True)


if __name__ == "__main__":
    main()
