"""Writes scaler_traces.bin: what PyTorch's own GradScaler does with overflow decisions.

Every decision is planted through a real gradient: a parameter whose .grad is inf, -inf, NaN
or finite goes through GradScaler.step() and GradScaler.update() on the CPU.
The layout of the file is in README.md; test_traces.c reads it.
"""

import math
import pathlib
import random
import struct

import torch

STEPS = 2000
INTERVALS = [1, 2, 3, 7, 50, 500, 2000]
PER_INTERVAL = 30
GROWTHS = [2.0, 2.0, 1.5, 4.0, 3.0, 1.1, 1.0001, 2.718281828459045, 16.0]
BACKOFFS = [0.5, 0.5, 0.25, 0.3, 0.9, 0.99, 0.7, 0.1]
SCALES = [65536.0, 65536.0, 1.0, 3.0, 12345.678, 1e10, 2.0**-24, 1e-30]
# Growth must be refused: it would be infinite in f32.
REFUSING = [(1e38, 16.0), (2.0**127, 2.0), (3.4e38, 1.0001), (2.0**120, 4.0), (1e37, 3.0)]
# A few backoffs away from subnormal scales, from an infinite 1/scale, and from 0.
TINY = [2.0**-126, 1.2e-38, 3e-38, 1e-37, 2.0**-120]
BAD = [float("inf"), float("-inf"), float("nan")]


class CountingOptimizer(torch.optim.Optimizer):
    """Counts the steps that the scaler lets through."""

    def __init__(self, params):
        super().__init__(params, {})
        self.taken = 0

    def step(self, closure=None):
        self.taken += 1


def choose(rng, interval, number):
    """Init scale, factors, and how likely an overflow is to start and to go on."""
    growth, backoff = rng.choice(GROWTHS), rng.choice(BACKOFFS)
    init = rng.choice(SCALES)
    go_on = rng.choice([0.0, 0.0, 0.3, 0.7])
    start = rng.choice([0.3, 0.5, 1.0, 2.0]) / (interval + 1)
    # A weak growth against a strong backoff would only fall: fewer overflows then.
    start *= min(1.0, math.log(growth) / -math.log(backoff))
    if number == 0:  # no overflow at all
        start, go_on = 0.0, 0.0
    elif number == 1:  # mostly overflows: the scale falls through the subnormals to 0
        start, go_on = 0.8, 0.8
    elif number in (2, 3, 4, 5, 6):
        init, growth = REFUSING[number - 2]
        start = 0.2 / (interval + 1)
    elif number in (7, 8, 9):
        init = TINY[rng.randrange(len(TINY))]
    elif number in (10, 11, 12, 13):  # PyTorch's own factors
        growth, backoff, init = 2.0, 0.5, 65536.0
    return init, growth, backoff, start, go_on


def run(rng, init, growth, backoff, interval, start, go_on):
    """(decisions, scale bits, trackers, steps taken) of one sequence."""
    parameter = torch.zeros(3, requires_grad=True)
    parameter.grad = torch.zeros(3)
    optimizer = CountingOptimizer([parameter])
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=init, growth_factor=growth, backoff_factor=backoff,
        growth_interval=interval)
    scaler.scale(torch.zeros(()))
    found, bits, trackers = [], [], []
    overflows = False
    for _ in range(STEPS):
        overflows = rng.random() < (go_on if overflows else start)
        parameter.grad.fill_(2.0**-60)
        if overflows:
            parameter.grad[rng.randrange(3)] = rng.choice(BAD)
        scaler.step(optimizer)
        scaler.update()
        found.append(overflows)
        bits.append(struct.unpack("<I", struct.pack("<f", scaler.get_scale()))[0])
        trackers.append(scaler._get_growth_tracker())
    assert optimizer.taken == STEPS - sum(found)
    return found, bits, trackers, optimizer.taken


def bitmap(flags):
    packed = bytearray((len(flags) + 7) // 8)
    for i, flag in enumerate(flags):
        packed[i // 8] |= int(flag) << (i % 8)
    return bytes(packed)


def pack(init, growth, backoff, interval, found, bits, trackers, taken):
    first = struct.unpack("<I", struct.pack("<f", init))[0]
    before = [first] + bits[:-1]
    new_scale = [b != a for a, b in zip(before, bits)]
    expected = [0] + trackers[:-1]
    new_tracker = [t != e + 1 for e, t in zip(expected, trackers)]
    scales = [b for b, is_new in zip(bits, new_scale) if is_new]
    breaks = [t for t, is_new in zip(trackers, new_tracker) if is_new]
    return b"".join([
        struct.pack("<dddqq", init, growth, backoff, interval, taken),
        struct.pack("<II", len(scales), len(breaks)),
        bitmap(found), bitmap(new_scale), bitmap(new_tracker),
        struct.pack(f"<{len(scales)}I", *scales),
        struct.pack(f"<{len(breaks)}H", *breaks)])


def main():
    torch.set_num_threads(1)
    rng = random.Random(20240601)
    rows = []
    for interval in INTERVALS:
        for number in range(PER_INTERVAL):
            init, growth, backoff, start, go_on = choose(rng, interval, number)
            trace = run(rng, init, growth, backoff, interval, start, go_on)
            rows.append(pack(init, growth, backoff, interval, *trace))
    header = b"TWINTRC1" + struct.pack("<II", len(rows), STEPS)
    path = pathlib.Path(__file__).parent / "scaler_traces.bin"
    path.write_bytes(header + b"".join(rows))
    print(f"{path.name}: {len(rows)} sequences, {path.stat().st_size} bytes, "
          f"PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
