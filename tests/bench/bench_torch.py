#!/usr/bin/env python3
"""What PyTorch takes for one training step of the networks that twinscale trains.

    bench_torch.py [--threads N] [--steps N] [--warm-up N] [--net fmnist-quick|dcgan32|dcgan64]
                   [--format contiguous|channels_last] [--precision fp32|bf16] [--sample]

One step, as in the PyTorch DCGAN example: D on real, z, G, D on fake, D's Adam, then D on the
same fake again and G's Adam; BCE on logits; batch 64; in float32, or under the CPU's bfloat16
autocast. Prints one JSON line per network, memory format and precision with the median time
of a step in milliseconds and the GFLOP that the step needs by definition. --sample times the
drawing of 64 images by G in place of a step: latents, network in eval mode, pixels of 8 bits.
"""
import argparse
import contextlib
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


def dcgan(side):
    """PyTorch's example at 64; a level less at 32."""
    widths = [64 * 2**level for level in range(side.bit_length() - 3)]
    g = [nn.ConvTranspose2d(100, widths[-1], 4, 1, 0, bias=False),
         nn.BatchNorm2d(widths[-1]), nn.ReLU(inplace=True)]
    d = conv_block(3, widths[0], norm=False)
    for narrow, wide in reversed(list(zip(widths, widths[1:]))):
        g += transpose_block(wide, narrow)
    for narrow, wide in zip(widths, widths[1:]):
        d += conv_block(narrow, wide)
    g += [nn.ConvTranspose2d(widths[0], 3, 4, 2, 1, bias=False), nn.Tanh()]
    d += [nn.Conv2d(widths[-1], 1, 4, 1, 0, bias=False)]
    return nn.Sequential(*g), nn.Sequential(*d), (100, 3, side)


NETS = {"fmnist-quick": fmnist_quick, "dcgan32": lambda: dcgan(32), "dcgan64": lambda: dcgan(64)}
FORMATS = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
}


def layer_gflop(net, example):
    """What each convolution and dense layer of a net needs forward, in order."""
    found = []

    def count(layer, inputs, output):
        # Each weight meets each pixel of the smaller side once.
        pixels = min(inputs[0].numel() // inputs[0].shape[1], output.numel() // output.shape[1])
        found.append(2e-9 * layer.weight.numel() * pixels)

    kinds = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)
    hooks = [layer.register_forward_hook(count) for layer in net.modules()
             if isinstance(layer, kinds)]
    with torch.no_grad():
        output = net(example)
    for hook in hooks:
        hook.remove()
    return found, output


def step_gflop(g, d, latent):
    """Three times D forward, twice its gradients and once only dgrad; G once each. Neither
    net's input has a gradient, except fakes' in G's turn."""
    of_g, fake = layer_gflop(g, torch.randn(BATCH, latent, 1, 1))
    of_d, _ = layer_gflop(d, fake)
    return 8 * sum(of_d) - 2 * of_d[0] + 3 * sum(of_g) - of_g[0]


def make_step(g, d, latent, real, precision):
    adam_g = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    adam_d = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(BATCH), torch.zeros(BATCH)

    def autocast():
        if precision == "bf16":
            return torch.autocast("cpu", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def loss(images, labels):
        with autocast():
            logits = d(images).view(-1)
        return bce(logits.float(), labels)

    def step():
        adam_d.zero_grad()
        loss(real, ones).backward()
        with autocast():
            fake = g(torch.randn(BATCH, latent, 1, 1))
        loss(fake.detach(), zeros).backward()
        adam_d.step()
        adam_g.zero_grad()
        loss(fake, ones).backward()
        adam_g.step()

    return step


def make_draw(g, latent, precision):
    g.eval()

    @torch.inference_mode()
    def draw():
        use = (torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bf16"
               else contextlib.nullcontext())
        with use:
            images = g(torch.randn(BATCH, latent, 1, 1))
        return images.float().add_(1).mul_(127.5).round_().to(torch.uint8)

    return draw


def median_ms(step, steps, warm_up):
    for _ in range(warm_up):
        step()
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def bench(net, form, precision, args):
    torch.manual_seed(0)
    g, d, (latent, channels, size) = NETS[net]()
    gflop = step_gflop(g, d, latent)
    memory = FORMATS[form]
    g, d = g.to(memory_format=memory), d.to(memory_format=memory)
    real = torch.rand(BATCH, channels, size, size).mul_(2).sub_(1)
    if args.sample:
        gflop = sum(layer_gflop(g, torch.randn(BATCH, latent, 1, 1))[0])
        step = make_draw(g, latent, precision)
    else:
        step = make_step(g, d, latent, real.contiguous(memory_format=memory), precision)
    return {
        "net": net,
        "program": "torch " + torch.__version__,
        "precision": precision,
        "format": form,
        "threads": torch.get_num_threads(),
        "batch": BATCH,
        "steps": args.steps,
        "ms_per_step": round(median_ms(step, args.steps, args.warm_up), 3),
        "gflop": round(gflop, 3),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=0, help="0: what PyTorch chooses")
    parser.add_argument("--steps", type=int, default=11)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--net", choices=NETS, help="default: all")
    parser.add_argument("--format", choices=FORMATS, help="default: all")
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="default: both")
    parser.add_argument("--sample", action="store_true")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    for net in [args.net] if args.net else NETS:
        for form in [args.format] if args.format else FORMATS:
            for precision in [args.precision] if args.precision else ("fp32", "bf16"):
                print(json.dumps(bench(net, form, precision, args)), flush=True)


if __name__ == "__main__":
    main()
