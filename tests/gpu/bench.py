#!/usr/bin/env python3
"""twinscale's training step beside PyTorch's on the same GPU, in turns, in one run.

    bench.py BENCH_STEP DEVICE OUT.jsonl [--rounds N] [--steps N] [--only dcgan64-b64]

PyTorch at its best in five forms of the same step (fp16 autocast, one GradScaler a network):
eager; channels_last; channels_last with fused capturable Adam; that compiled with
torch.compile(mode="reduce-overhead"); that captured as one CUDA graph. Compile and capture
happen before the clock starts and are told apart. Every round uploads fresh images. One JSON
object a line, written as soon as it is known.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

WORK = {  # name: preset, batch, more settings, resolution
    "dcgan64-b64": ("dcgan64", 64, [], 64),
    "dcgan64-b128": ("dcgan64", 128, [], 64),
    "dcgan64-b256": ("dcgan64", 256, [], 64),
    "dcgan128-b64": ("dcgan64", 64, ["--resolution", "128"], 128),
}
LATENT, WIDTH = 100, 64


def networks(nn, resolution):
    """The DCGAN of PyTorch's example, with one more level for 128 px."""
    top = WIDTH * resolution // 8

    def up(inputs, outputs):
        return [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False),
                nn.BatchNorm2d(outputs), nn.ReLU(True)]

    def down(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False),
                nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2, True)]

    g = [nn.ConvTranspose2d(LATENT, top, 4, 1, 0, bias=False), nn.BatchNorm2d(top),
         nn.ReLU(True)]
    d = [nn.Conv2d(3, WIDTH, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    width = top
    while width > WIDTH:
        g += up(width, width // 2)
        width //= 2
    g += [nn.ConvTranspose2d(WIDTH, 3, 4, 2, 1, bias=False), nn.Tanh()]
    while width < top:
        d += down(width, width * 2)
        width *= 2
    d += [nn.Conv2d(top, 1, 4, 1, 0, bias=False), nn.Flatten()]
    return nn.Sequential(*g), nn.Sequential(*d)


class Peer:
    """One form of PyTorch's step; `run(images)` takes one step."""

    def __init__(self, torch, batch, resolution, channels_last, fused, compiled, captured):
        self.torch, self.batch, self.captured = torch, batch, captured
        g, d = networks(torch.nn, resolution)
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        self.g = g.cuda().to(memory_format=self.format)
        self.d = d.cuda().to(memory_format=self.format)
        keep = dict(lr=2e-4, betas=(0.5, 0.999), fused=fused, capturable=fused)
        self.adam_g = torch.optim.Adam(self.g.parameters(), **keep)
        self.adam_d = torch.optim.Adam(self.d.parameters(), **keep)
        self.scale_g, self.scale_d = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
        self.real = torch.empty(batch, 3, resolution, resolution, device="cuda",
                                memory_format=self.format)
        self.pixels = torch.empty(batch, 3, resolution, resolution, dtype=torch.uint8,
                                  device="cuda").to(memory_format=self.format)
        self.ones, self.zeros = torch.ones(batch, 1).cuda(), torch.zeros(batch, 1).cuda()
        if compiled:
            self.g = torch.compile(self.g, mode="reduce-overhead")
            self.d = torch.compile(self.d, mode="reduce-overhead")
        self.graph = None

    def losses(self):
        torch, bce = self.torch, self.torch.nn.functional.binary_cross_entropy_with_logits
        cast = torch.autocast("cuda", dtype=torch.float16)
        self.real.copy_(self.pixels).div_(127.5).sub_(1)
        z = torch.randn(self.batch, LATENT, 1, 1, device="cuda")
        self.adam_d.zero_grad(set_to_none=not self.captured)
        with cast:
            real_loss = bce(self.d(self.real).float(), self.ones)
        self.scale_d.scale(real_loss).backward()
        with cast:
            fake = self.g(z)
            fake_loss = bce(self.d(fake.detach()).float(), self.zeros)
        self.scale_d.scale(fake_loss).backward()
        self.scale_d.step(self.adam_d)
        self.scale_d.update()
        self.adam_g.zero_grad(set_to_none=not self.captured)
        with cast:
            g_loss = bce(self.d(fake).float(), self.ones)
        self.scale_g.scale(g_loss).backward()
        self.scale_g.step(self.adam_g)
        self.scale_g.update()

    def prepare(self, images):
        for i in range(20):
            self.pixels.copy_(images[i % len(images)], non_blocking=True)
            self.losses()
        if self.captured:
            self.torch.cuda.synchronize()
            self.graph = self.torch.cuda.CUDAGraph()
            with self.torch.cuda.graph(self.graph):
                self.losses()
        self.torch.cuda.synchronize()

    def run(self, images):
        self.pixels.copy_(images, non_blocking=True)
        if self.graph:
            self.graph.replay()
        else:
            self.losses()


FORMS = {  # name: channels_last, fused, compiled, captured
    "torch eager AMP": (False, False, False, False),
    "torch AMP channels_last": (True, False, False, False),
    "torch AMP channels_last fused Adam": (True, True, False, False),
    "torch AMP channels_last fused compile": (True, True, True, False),
    "torch AMP channels_last fused CUDA graph": (True, True, False, True),
}


def time_peer(torch, peer, images, steps):
    group, times = 10, []
    for _ in range(max(1, steps // group)):
        start = time.perf_counter()
        for i in range(group):
            peer.run(images[i % len(images)])
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start) / group)
    return times


def time_ours(bench_step, device, preset, batch, more, steps):
    run = subprocess.run([bench_step, str(steps), preset, "--device", device, "--batch",
                          str(batch), *more], check=True, capture_output=True, text=True)
    return [json.loads(run.stdout)["ms_per_step"]]


def open_peers(torch, batch, resolution, images, say):
    peers = {}
    for name, form in FORMS.items():
        start = time.perf_counter()
        try:
            peer = Peer(torch, batch, resolution, *form)
            peer.prepare(images)
            peers[name] = peer
            say(impl=name, prepare_s=round(time.perf_counter() - start, 2))
        except Exception as error:  # a form that does not work here is told, not hidden
            say(impl=name, error=str(error)[:300])
    return peers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench_step"), parser.add_argument("device"), parser.add_argument("out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", choices=WORK)
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
        print("torch is not here: only our own times", file=sys.stderr)
    with open(args.out, "w") as file:
        for work, (preset, batch, more, resolution) in WORK.items():
            if args.only and work != args.only:
                continue

            def say(**row):
                file.write(json.dumps({"work": work, **row}) + "\n")
                file.flush()

            times, peers, images = {}, {}, []
            if torch:
                images = [torch.randint(0, 256, (batch, 3, resolution, resolution),
                                        dtype=torch.uint8).pin_memory() for _ in range(4)]
                peers = open_peers(torch, batch, resolution, images, say)
            for _ in range(args.rounds):
                for name, plain in (("twinscale graph", []), ("twinscale stream", ["--no-graph"])):
                    times.setdefault(name, []).extend(time_ours(
                        args.bench_step, args.device, preset, batch, more + plain, args.steps))
                for name, peer in peers.items():
                    times.setdefault(name, []).extend(
                        time_peer(torch, peer, images, args.steps))
            ours = statistics.median(times["twinscale graph"])
            for name, all_times in times.items():
                all_times.sort()
                median = statistics.median(all_times)
                say(impl=name, batch=batch, median_ms=round(median, 4),
                    p10=round(all_times[len(all_times) // 10], 4),
                    p90=round(all_times[-1 - len(all_times) // 10], 4),
                    ratio=round(median / ours, 3), rounds=args.rounds)
                print(f"{work} {name}: {median:.3f} ms", flush=True)
            del peers
            if torch:
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
