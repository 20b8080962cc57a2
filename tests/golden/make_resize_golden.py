"""Makes resize_golden.bin: what Pillow makes of test pictures that C can draw itself.

    python make_resize_golden.py resize_golden.bin

Per case, little endian int32: kind (0 resize, 1 fit to a square, 2 grey), filter or fit,
width, height, channels, box x, y, width, height, output width, height, channels; then the
output bytes. The picture at x, y, c: ((3 x x + 5 y y + 7 x y (c + 1) + 40 c) >> 2) & 255.

Rows are resized before columns, in two calls: Pillow does so itself up to version 12; from
13 on it begins with the columns of tall pictures, which rounds differently.
"""

import struct
import sys

import numpy as np
from PIL import Image

LANCZOS, BOX = 0, 1
CROP, PAD, STRETCH = 0, 1, 2
FILTERS = {LANCZOS: Image.Resampling.LANCZOS, BOX: Image.Resampling.BOX}


def picture(width, height, channels):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels].astype(np.int64)
    values = ((3 * x * x + 5 * y * y + 7 * x * y * (c + 1) + 40 * c) >> 2) & 255
    return Image.fromarray(values.astype(np.uint8).squeeze(2) if channels == 1
                           else values.astype(np.uint8))


def resize(source, to, choice, box):
    """Image.resize(), rows first, colours weighted by alpha."""
    if to == source.size and box == (0, 0, *to):
        return source
    x, y, width, height = box
    weighted = {"LA": "La", "RGBA": "RGBa"}.get(source.mode, source.mode)
    rows = source.convert(weighted).resize((to[0], source.height), FILTERS[choice],
                                           (x, 0, x + width, source.height))
    columns = rows.resize(to, FILTERS[choice], (0, y, to[0], y + height))
    return columns.convert(source.mode)


def pad(source, side):
    """ImageOps.pad() to a square."""
    long = max(source.size)
    width, height = (max(1, round(side * length / long)) for length in source.size)
    square = Image.new(source.mode, (side, side))
    scaled = resize(source, (width, height), LANCZOS, (0, 0, *source.size))
    square.paste(scaled, (round((side - width) * 0.5), round((side - height) * 0.5)))
    return square


def case(kind, choice, size, channels, box, output):
    width, height = size
    made = np.asarray(output)
    made = made.reshape(made.shape[0], made.shape[1], -1)
    return struct.pack("<12i", kind, choice, width, height, channels, *box, made.shape[1],
                       made.shape[0], made.shape[2]) + made.tobytes()


def resized(choice, size, channels, box, to):
    return case(0, choice, size, channels, box,
                resize(picture(*size, channels), to, choice, box))


def squared(fit, size, channels, side):
    source, (width, height) = picture(*size, channels), size
    short = min(size)
    middle = ((width - short) // 2, (height - short) // 2, short, short)
    if fit == PAD:
        output = pad(source, side)
    else:
        box = middle if fit == CROP else (0, 0, *size)
        output = resize(source, (side, side), LANCZOS, box)
    return case(1, fit, size, channels, (0, 0, 0, 0), output)


def main(path):
    cases = []
    for choice in (LANCZOS, BOX):
        for channels in (1, 2, 3, 4):
            for size, to in (((28, 28), (32, 32)), ((64, 48), (16, 16)),
                             ((37, 53), (20, 9)), ((5, 3), (17, 31)), ((1, 1), (4, 4)),
                             ((97, 2), (3, 2))):
                cases.append(resized(choice, size, channels, (0, 0, *size), to))
        cases.append(resized(choice, (300, 260), 3, (0, 0, 300, 260), (28, 28)))
        cases.append(resized(choice, (60, 40), 3, (10, 5, 33, 21), (28, 28)))
    for fit in (CROP, PAD, STRETCH):
        for size in ((50, 31), (31, 50), (20, 28), (29, 28), (7, 90)):
            for channels in (1, 3, 4):
                cases.append(squared(fit, size, channels, 28))
    cases.append(case(2, 0, (40, 40), 3, (0, 0, 0, 0), picture(40, 40, 3).convert("L")))
    with open(path, "wb") as file:
        file.write(b"".join(cases))


if __name__ == "__main__":
    main(sys.argv[1])
