/* bench_diversity.h - how different samples are from one another, in pixels.
 * Flow:  u8 images -> [bench_diversity] -> one number.
 * Owns:  nothing. */
#ifndef APP_BENCH_BENCH_DIVERSITY_H
#define APP_BENCH_BENCH_DIVERSITY_H

#include <stddef.h>
#include <stdint.h>

/* The mean absolute difference of two images, over all pairs.
 *   diversity = 2/(N (N-1)) sum_{i<j} 1/P sum_p |x[i,p] - x[j,p]| / 255
 * 0 where all images are the same (a generator that collapsed to one), about 1/3 for
 * images of uniform noise; only to be compared between images of one data set, with that
 * of its real images. It sees pixels, not meaning: noise counts as diverse.
 *   pixels   [images, bytes] u8, every channel a pixel p of P = bytes; two images at
 *   least
 * Exact: integer sums, by a histogram of each pixel's values over the images.
 * Source: the average distance of pairs of samples as diversity, Zhu et al. 2017
 * (BicycleGAN, arXiv:1711.11586), there with LPIPS as the distance; over one pixel's
 * values it is Gini's mean difference (Gini 1912). */
double bench_diversity(const uint8_t *pixels, size_t images, size_t bytes);

#endif
