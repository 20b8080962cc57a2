/* body_survey.h - compiled per instruction set: what a piece of memory holds.
 * Everything but the sums is told from the bits: size is the magnitude's, and a
 * comparison of vectors is all ones, which is minus one, where it holds. */
#ifndef KERNELS_CPU_BODY_SURVEY_H
#define KERNELS_CPU_BODY_SURVEY_H

#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

typedef uint32_t WORDS __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef float FLOATS __attribute__((vector_size(LANES * sizeof(float))));
typedef double DOUBLES __attribute__((vector_size(LANES * sizeof(double))));

#define F32_INF_BITS 0x7f800000u

/* Of lane j of every vector so far. */
struct survey_lanes {
    WORDS inf, nan, zero, subnormal, most;
    DOUBLES sum, sumsq;
};

ALWAYS_INLINE WORDS where(WORDS condition, WORDS yes, WORDS no)
{
    return (condition & yes) | (~condition & no);
}

ALWAYS_INLINE void survey_vector(struct survey_lanes *lanes, WORDS bits, uint32_t normal)
{
    WORDS size = bits & 0x7fffffffu, is_finite = (WORDS)(size < F32_INF_BITS);
    lanes->nan -= (WORDS)(size > F32_INF_BITS);
    lanes->inf -= (WORDS)(size == F32_INF_BITS);
    lanes->zero -= (WORDS)(size == 0);
    lanes->subnormal -= (WORDS)(size - 1u < normal - 1u); // 0 - 1 is the largest
    size &= is_finite;
    lanes->most = where((WORDS)(size > lanes->most), size, lanes->most);
    DOUBLES values = __builtin_convertvector((FLOATS)(bits & is_finite), DOUBLES);
    lanes->sum += values;
    lanes->sumsq += values * values;
}

ALWAYS_INLINE void survey_as(const struct survey_span *span, enum dtype dtype,
                             struct survey_stats *stats)
{
    // 2^-14 is the smallest normal f16; f32 and bf16 share 2^-126.
    uint32_t normal = dtype == DTYPE_F16 ? 0x38800000u : 0x00800000u, most = 0;
    struct survey_lanes lanes = {0};
    size_t i = 0, beyond = (LANES - span->n % LANES) % LANES;
    for (; i + LANES <= span->n; i += LANES)
        survey_vector(&lanes, (WORDS)v_load_as(span->data, dtype, i), normal);
    if (i < span->n)
        survey_vector(
            &lanes, (WORDS)v_load_as_n(span->data, dtype, i, (int)(span->n - i)), normal);
    *stats = (struct survey_stats){0};
    for (int j = 0; j < LANES; j++) {
        stats->inf += lanes.inf[j];
        stats->nan += lanes.nan[j];
        stats->zero += lanes.zero[j];
        stats->subnormal += lanes.subnormal[j];
        stats->sum += lanes.sum[j];
        stats->sumsq += lanes.sumsq[j];
        most = lanes.most[j] > most ? lanes.most[j] : most;
    }
    stats->zero -= beyond;
    memcpy(&stats->max_abs, &most, sizeof most);
}

static void survey(const struct survey_span *span, struct survey_stats *stats)
{
    if (span->dtype == DTYPE_F32)
        survey_as(span, DTYPE_F32, stats);
    else if (span->dtype == DTYPE_F16)
        survey_as(span, DTYPE_F16, stats);
    else
        survey_as(span, DTYPE_BF16, stats);
}

#endif
