"""Makes assets/fashion2000.png, the images of builtin:fashion.

The first 200 training images of each class of Fashion-MNIST, class by class, as a sheet
of 50 x 40 tiles with 16 grey levels (a palette of multiples of 17). No randomness.

    python make_fashion2000.py /usr/share/datasets/fashion-mnist fashion2000.png

Needs numpy and Pillow, and Debian's package dataset-fashion-mnist (or its four files).
"""

import gzip
import sys
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES, PER_CLASS, SIDE, ACROSS, LEVELS = 10, 200, 28, 50, 16


def read_idx(path, header_bytes):
    return np.frombuffer(gzip.open(path).read(), np.uint8, offset=header_bytes)


def main(folder, output):
    images = read_idx(Path(folder) / "train-images-idx3-ubyte.gz", 16)
    images = images.reshape(-1, SIDE, SIDE)
    labels = read_idx(Path(folder) / "train-labels-idx1-ubyte.gz", 8)
    chosen = np.concatenate([np.flatnonzero(labels == c)[:PER_CLASS]
                             for c in range(CLASSES)])
    levels = np.rint(images[chosen] / 17.0).astype(np.uint8)
    tiles = levels.reshape(-1, ACROSS, SIDE, SIDE)
    sheet = tiles.transpose(0, 2, 1, 3).reshape(-1, ACROSS * SIDE)

    picture = Image.fromarray(sheet)  # mode L, turned into a palette of greys
    picture = picture.convert("P")
    picture.putdata(sheet.ravel().tolist())
    picture.putpalette([17 * level for level in range(LEVELS) for _ in range(3)])
    picture.save(output, bits=4, optimize=True, compress_level=9)


if __name__ == "__main__":
    main(*sys.argv[1:])
