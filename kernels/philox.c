#include "kernels/philox.h"

#include <math.h>

/* Two words to two independent normals. */
static void box_muller(uint32_t first, uint32_t second, float normal[2])
{
    const double two_pi = 6.283185307179586476925;
    double radius = sqrt(-2.0 * log((double)philox_unit(first)));
    double angle = two_pi * (double)philox_unit(second);
    normal[0] = (float)(radius * cos(angle));
    normal[1] = (float)(radius * sin(angle));
}

void philox_normal4(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index,
                    float normal[4])
{
    struct philox_words words = philox(seed, stream, step, index);
    box_muller(words.word[0], words.word[1], normal);
    box_muller(words.word[2], words.word[3], normal + 2);
}
