/* philox.h - random numbers as a function of where they are used.
 * Flow:  initialisers, latents, shuffling and flips all call it; nothing keeps a state,
 * so any backend, batch split or resume sees the same numbers.
 *
 * Philox4x32-10: key (seed), counter (stream, step, index) -> four 32-bit words.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * SC11. */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H

#include <stdint.h>

#include "kernels/device_inline.h"

/* What a number is for. A stream number is part of every run and checkpoint: never
 * renumber. */
enum random_stream {
    STREAM_INIT = 1,      // initial weights:         step = parameter, index = element
    STREAM_LATENT = 2,    // training latents:        step = draw of the run, row = sample
    STREAM_SAMPLE = 3,    // sampling and the grid:   step = 0, row = the user's seed
    STREAM_SHUFFLE = 4,   // data order:              step = epoch
    STREAM_FLIP = 5,      // horizontal flips:        step = draw of the run, row = sample
    STREAM_CALIBRATE = 6, // latents that recompute batch norm: step = 0
    STREAM_SHAPES = 7,    // builtin:shapes
    STREAM_DEQUANTISE = 8 // the 4-bit built-in images
};

struct philox_words {
    uint32_t word[4];
};

/* The four words at counter (index, step, stream) under `seed`.
 * counter = {index low, index high, step low, (step high 16 bits << 16) | stream}. */
DEVICE_INLINE struct philox_words philox(uint64_t seed, uint32_t stream, uint64_t step,
                                         uint64_t index)
{
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)step, c3 = (uint32_t)(step >> 32) << 16 | (stream & 0xffffu);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct philox_words words = {{c0, c1, c2, c3}};
    return words;
}

/* A float in (0, 1]: never 0, so that its logarithm is finite. */
DEVICE_INLINE float philox_unit(uint32_t word)
{
    return ((float)(word >> 8) + 1.0f) * (1.0f / 16777216.0f);
}

/* Four independent N(0,1) values from one counter, with u = philox_unit(word):
 *   normal[0], normal[1] = sqrt(-2 ln u[0]) * (cos, sin)(2 pi u[1])
 *   normal[2], normal[3] = sqrt(-2 ln u[2]) * (cos, sin)(2 pi u[3])
 * in double on the way, so that every libm gives the same f32 after rounding in all but
 * rare ties. 24 bits a word: no value is beyond 5.77.
 * Source: Box and Muller 1958, "A note on the generation of random normal deviates". */
void philox_normal4(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index,
                    float normal[4]);

#endif
