/* builtin_fashion.h - 2,000 images of Fashion-MNIST that are part of the program.
 * Flow:  assets/fashion2000.png, embedded -> [builtin_fashion] -> the loader.
 * Owns:  its pixels; fashion_release() frees them.
 *
 * The sheet has 50 x 40 tiles of 28 x 28 pixels: the first 200 training images of each of
 * the ten classes, class by class, four rows of tiles each. Its 16 grey levels keep it
 * small. Source and licence: assets/SOURCES.md. */
#ifndef APP_INPUT_BUILTIN_FASHION_H
#define APP_INPUT_BUILTIN_FASHION_H

#include <stdint.h>

#include "app/input/idx.h"

/* Decodes the sheet. A level l of 1..15 becomes one of the bytes that are nearest to it,
 * as likely each, so that D cannot tell real images by their few levels; 0 stays 0. 17 l
 * - 8 <= byte <= min(17 l + 8, 255) The choice is philox(0, STREAM_DEQUANTISE, image,
 * pixel / 4): the same on every machine. */
enum status fashion_read(struct idx_images *images);

#endif
