"""Writes topology_traces.bin: what PyTorch's own GradScalers do in a GAN, one, two or three.

Each sequence plants overflows in the gradients of D on real images, of D on fakes and of G
(inf, -inf or NaN in a .grad), and goes through GradScaler.unscale_(), step() and update() on
the CPU in the order of one of three topologies. The layout of the file is in README.md;
tests/scaler/test_topology.c reads it.
"""

import pathlib
import random
import struct

import torch

STEPS = 160
# init scale, growth factor, backoff factor, growth interval
RULES = [
    (65536.0, 2.0, 0.5, 5),
    (65536.0, 2.0, 0.5, 2000),
    (1024.0, 2.0, 0.5, 1),
    (12345.678, 1.5, 0.3, 3),
    (2.0**40, 3.0, 0.7, 4),
]
BAD = [float("inf"), float("-inf"), float("nan")]
SHARED, SHARED_PER_STEP, PER_LOSS = 1, 2, 3


class CountingOptimizer(torch.optim.Optimizer):
    """Counts the steps that the scalers let through."""

    def __init__(self, params):
        super().__init__(params, {})
        self.taken = 0

    def step(self, closure=None):
        self.taken += 1


class Network:
    def __init__(self):
        self.parameter = torch.zeros(3, requires_grad=True)
        self.parameter.grad = torch.zeros(3)
        self.optimizer = CountingOptimizer([self.parameter])

    def backward(self, rng, scaler, factor, overflows):
        """Leaves gradients of `factor` times 2^-12, times the scale, in f32."""
        scale = torch.tensor(scaler.get_scale(), dtype=torch.float32)
        self.parameter.grad = ((scale * factor) * 2.0**-12).repeat(3)
        if overflows:
            self.parameter.grad[rng.randrange(3)] = rng.choice(BAD)


def found_inf(scaler, optimizer):
    found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
    return any(value.item() for value in found.values())


def reading(scaler):
    return scaler.get_scale(), scaler._get_growth_tracker()


def iterate_one(rng, d, g, scaler, flags, updates_between):
    """One scaler for both networks, updated after each step or after both."""
    d.backward(rng, scaler, 4.0, flags[0])
    scaler.step(d.optimizer)
    if updates_between:
        scaler.update()
    after_d = reading(scaler)
    g.backward(rng, scaler, 5.0, flags[2])
    scaler.step(g.optimizer)
    scaler.update()
    return [after_d, reading(scaler), (0.0, 0)], 0.0


def iterate_per_loss(rng, d, g, scalers, flags):
    """D's losses have a scaler each; D steps unless one of them overflowed."""
    real, fake, own = scalers
    d.backward(rng, real, 4.0, flags[0])
    real.unscale_(d.optimizer)
    first = d.parameter.grad.clone()
    d.backward(rng, fake, 3.0, flags[1])
    fake.unscale_(d.optimizer)
    d.parameter.grad += first
    added = d.parameter.grad[0].item()
    if not found_inf(real, d.optimizer) and not found_inf(fake, d.optimizer):
        d.optimizer.step()
    real.update()
    fake.update()
    g.backward(rng, own, 5.0, flags[2])
    own.step(g.optimizer)
    own.update()
    return [reading(real), reading(fake), reading(own)], added


def run(rng, topology, init, growth, backoff, interval):
    d, g = Network(), Network()
    scalers = [torch.amp.GradScaler("cpu", init_scale=init, growth_factor=growth,
                                    backoff_factor=backoff, growth_interval=interval)
               for _ in range(3)]
    for scaler in scalers:
        scaler.scale(torch.zeros(()))
    packed = struct.pack("<Idddq", topology, init, growth, backoff, interval)
    start = 0.5 / (min(interval, 9) + 1)
    for _ in range(STEPS):
        flags = [rng.random() < start for _ in range(3)]
        if topology != PER_LOSS:
            flags[1] = False
        before = d.optimizer.taken, g.optimizer.taken
        if topology == PER_LOSS:
            readings, added = iterate_per_loss(rng, d, g, scalers, flags)
        else:
            readings, added = iterate_one(rng, d, g, scalers[0], flags,
                                          topology == SHARED_PER_STEP)
        bits = sum(int(flag) << i for i, flag in enumerate(flags))
        bits |= (d.optimizer.taken - before[0]) << 3
        bits |= (g.optimizer.taken - before[1]) << 4
        packed += struct.pack("<B", bits)
        for scale, tracker in readings:
            packed += struct.pack("<fH", scale, tracker)
        packed += struct.pack("<f", 0.0 if flags[0] or flags[1] else added)
    return packed


def main():
    torch.set_num_threads(1)
    rng = random.Random(20240602)
    rows = [run(rng, topology, *rule) for topology in (SHARED, SHARED_PER_STEP, PER_LOSS)
            for rule in RULES]
    header = b"TWINTOP1" + struct.pack("<II", len(rows), STEPS)
    path = pathlib.Path(__file__).parent / "topology_traces.bin"
    path.write_bytes(header + b"".join(rows))
    print(f"{path.name}: {len(rows)} sequences, {path.stat().st_size} bytes, "
          f"PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
