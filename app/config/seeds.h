/* seeds.h - lists of seeds ("0,1,4-6") and grids ("8x8") from the command line. */
#ifndef APP_CONFIG_SEEDS_H
#define APP_CONFIG_SEEDS_H

#include <stdint.h>

#include "kernels/base/status.h"

#define SEEDS_MAX 65536
#define SEED_MAX (((uint64_t)1 << 43) - 1) // row of a latent: row*2^20 must fit 64 bits
#define GRID_SIDE_MAX 256                  // so that SEEDS_MAX images fit one

/* The seeds of `text` in its order; *seeds is allocated, the caller frees. STATUS_USAGE
 * with the place where the text goes wrong, when there are more than SEEDS_MAX, or when
 * one is above SEED_MAX. */
enum status seeds_parse(const char *text, uint64_t **seeds, int *count);

/* "8x4": 8 columns, 4 rows. */
enum status grid_parse(const char *text, int *columns, int *rows);

#endif
