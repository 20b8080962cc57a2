#include "app/bench/bench_diversity.h"

#include <string.h>

#include "kernels/base/status.h"

/* Sum of |a - b| over all pairs of the `images` values of one pixel. Between the levels v
 * and v + 1 lie as many pairs as one of `below` values makes with one of the others, and
 * each of them counts that step of 1. */
static uint64_t pair_sum(const uint8_t *pixel, size_t images, size_t stride)
{
    uint32_t histogram[256];
    memset(histogram, 0, sizeof histogram);
    for (size_t i = 0; i < images; i++)
        histogram[pixel[i * stride]]++;
    uint64_t below = 0, sum = 0;
    for (int level = 0; level < 255; level++) {
        below += histogram[level];
        sum += below * (images - below);
    }
    return sum;
}

double bench_diversity(const uint8_t *pixels, size_t images, size_t bytes)
{
    CHECK(images >= 2 && bytes >= 1, "%zu images of %zu bytes", images, bytes);
    uint64_t sum = 0;
    for (size_t p = 0; p < bytes; p++)
        sum += pair_sum(pixels + p, images, bytes);
    double pairs = (double)images * (double)(images - 1) / 2.0;
    return (double)sum / pairs / (double)bytes / 255.0;
}
