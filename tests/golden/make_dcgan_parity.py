"""Writes dcganNN_*.safetensors: twenty float32 steps of DCGAN as PyTorch takes them.

Layers as in PyTorch's DCGAN example, without the final sigmoid (BCEWithLogitsLoss), with
small widths. Order of a step: D on real, D on fake, D's Adam, then G through the new D on
the same fake. What each file holds, and its layouts, is in README.md; tests/nets/test_parity.c
reads them.

Seeds. (Leaky) ReLU has a kink: where a pre-activation comes within rounding noise (about 1e-7
of its layer's spread) of zero, two right programs may take different sides, and Adam and
further crossings make a 1e-6 difference a 1e-2 one within five steps; float32 and float64 in
PyTorch part like that too. So each case uses the seed, of the first eighty, that stays
farthest from every kink in all 20 steps:  python make_dcgan_parity.py --margins 80
"""

import json
import pathlib
import struct
import sys

import numpy
import torch
from torch import nn

STEPS, BATCH, LATENT = 20, 8, 16
# resolution, channels, width of G and of D, seed
CASES = {"dcgan32": (32, 1, 8, 30), "dcgan64": (64, 3, 4, 61)}
FOLDER = pathlib.Path(__file__).parent


def generator(resolution, channels, last_width):
    width = last_width * resolution // 8  # channels of the 4x4 map
    layers = [nn.ConvTranspose2d(LATENT, width, 4, 1, 0, bias=False),
              nn.BatchNorm2d(width), nn.ReLU(True)]
    while width > last_width:
        layers += [nn.ConvTranspose2d(width, width // 2, 4, 2, 1, bias=False),
                   nn.BatchNorm2d(width // 2), nn.ReLU(True)]
        width //= 2
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, channels, 4, 2, 1, bias=False),
                         nn.Tanh())


def discriminator(resolution, channels, width):
    layers = [nn.Conv2d(channels, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for _ in range(resolution.bit_length() - 4):  # halvings to 4x4, less the first
        layers += [nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False),
                   nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2, True)]
        width *= 2
    return nn.Sequential(*layers, nn.Conv2d(width, 1, 4, 1, 0, bias=False))


def initialise(net, random):
    with torch.no_grad():
        for module in net:
            if isinstance(module, nn.BatchNorm2d):
                module.weight.normal_(1.0, 0.02, generator=random)
            elif hasattr(module, "weight"):
                module.weight.normal_(0.0, 0.02, generator=random)


def real_images(step, resolution, channels):
    """[N,C,H,W] in -1..1: the top byte of a hash of the pixel's running NHWC index."""
    count = BATCH * resolution * resolution * channels
    index = numpy.arange(step * count, (step + 1) * count, dtype=numpy.uint32)
    mixed = index * numpy.uint32(2654435761)
    mixed = (mixed ^ (mixed >> numpy.uint32(15))) * numpy.uint32(2246822519)
    pixels = (mixed ^ (mixed >> numpy.uint32(13))) >> numpy.uint32(24)
    nhwc = torch.from_numpy(pixels.astype(numpy.float32)) / 127.5 - 1.0
    return nhwc.reshape(BATCH, resolution, resolution, channels).permute(0, 3, 1, 2).contiguous()


def channels_last(tensor):
    """[K,C,kh,kw] of a convolution, [in,out,kh,kw] of a transposed one -> [K,kh,kw,C]."""
    tensor = tensor.detach()
    return (tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor).contiguous().clone()


def collect(nets, pick, with_buffers):
    """Named tensors, "g.3.weight": net, row of nn.Sequential, kind."""
    found = {}
    for letter, net in nets.items():
        for name, parameter in net.named_parameters():
            found[f"{letter}.{name}"] = channels_last(pick(parameter))
        for name, buffer in net.named_buffers():
            if with_buffers and "running" in name:
                found[f"{letter}.{name}"] = buffer.detach().clone()
    return found


def write_safetensors(path, tensors):
    header, data, offset = {}, [], 0
    for name, tensor in tensors.items():
        raw = tensor.numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    header["__metadata__"] = {"made_by": "make_dcgan_parity.py",
                              "pytorch": torch.__version__}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def make(resolution, channels, width, seed, dtype=torch.float32, watch=None):
    """The tensors of each file, by the file's ending. `watch` hooks every activation."""
    random = torch.Generator().manual_seed(seed)
    nets = {"g": generator(resolution, channels, width),
            "d": discriminator(resolution, channels, width)}
    for net in nets.values():
        initialise(net, random)
        for module in net:
            if watch and isinstance(module, (nn.ReLU, nn.LeakyReLU)):
                module.register_forward_pre_hook(watch)
    latents = torch.empty(STEPS, BATCH, LATENT).normal_(generator=random)
    files = {"start": collect(nets, lambda p: p, False)}
    files["start"]["latents"] = latents
    for net in nets.values():
        net.to(dtype)
    g, d = nets["g"], nets["d"]
    adam_g, adam_d = (torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999), eps=1e-8)
                      for net in (g, d))
    bce = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(BATCH, dtype=dtype), torch.zeros(BATCH, dtype=dtype)
    losses = []
    for step in range(STEPS):
        adam_d.zero_grad()
        loss_real = bce(d(real_images(step, resolution, channels).to(dtype)).view(-1), ones)
        loss_real.backward()
        fake = g(latents[step].to(dtype).view(BATCH, LATENT, 1, 1))
        loss_fake = bce(d(fake.detach()).view(-1), zeros)
        loss_fake.backward()
        adam_d.step()
        if step == 0:
            gradients_d = collect({"d": d}, lambda p: p.grad, False)
        adam_g.zero_grad()
        loss_g = bce(d(fake).view(-1), ones)
        loss_g.backward()
        adam_g.step()
        losses.append([loss_real.item(), loss_fake.item(), loss_g.item()])
        if step == 0:
            files["gradients"] = gradients_d | collect({"g": g}, lambda p: p.grad, False)
            files["step01"] = collect(nets, lambda p: p, True)
    files["step20"] = collect(nets, lambda p: p, True)
    files["start"]["losses"] = torch.tensor(losses)
    return files


def margin(resolution, channels, width, seed):
    """The smallest |pre-activation| of the whole run, in spreads of its layer."""
    smallest = []

    def watch(_, inputs):
        z = inputs[0].detach()
        smallest.append((z.abs().min() / z.std()).item())

    make(resolution, channels, width, seed, watch=watch)
    return min(smallest)


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for case, (resolution, channels, width, seed) in CASES.items():
        if sys.argv[1:2] == ["--margins"]:
            found = [(margin(resolution, channels, width, other), other)
                     for other in range(int(sys.argv[2]))]
            print(case, [f"seed {s}: {m:.2e}" for m, s in sorted(found, reverse=True)[:5]])
            continue
        for ending, tensors in make(resolution, channels, width, seed).items():
            write_safetensors(FOLDER / f"{case}_{ending}.safetensors", tensors)


if __name__ == "__main__":
    main()
