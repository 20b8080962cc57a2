/* ref_survey.c - what a piece of memory holds. */
#include "kernels/half.h"
#include "kernels/ref/ref.h"

/* The smallest normal value of a float dtype; 2^-126 for f32 and bf16. */
static float smallest_normal(enum dtype dtype)
{
    return dtype == DTYPE_F16 ? 0x1p-14f : 0x1p-126f;
}

static struct survey_stats look(const struct survey_span *span)
{
    struct survey_stats stats = {0};
    float normal = smallest_normal(span->dtype);
    for (size_t i = 0; i < span->n; i++) {
        float value = element_load(span->data, span->dtype, i), size = fabsf(value);
        if (!is_finite_f32(value)) {
            stats.nan += isnan(value) ? 1 : 0;
            stats.inf += isnan(value) ? 0 : 1;
            continue;
        }
        stats.sum += (double)value;
        stats.sumsq += (double)value * (double)value;
        stats.zero += size == 0.0f;
        stats.subnormal += size > 0.0f && size < normal;
        stats.max_abs = size > stats.max_abs ? size : stats.max_abs;
    }
    return stats;
}

static void ref_survey_survey(struct device *device, const struct survey_span *spans,
                              int count, const struct scaler_state *gate,
                              struct survey_stats *stats)
{
    (void)device;
    if (gate && !scaler_must_skip(gate))
        return;
    for (int i = 0; i < count; i++)
        stats[i] = look(&spans[i]);
}

void ref_fill_survey(struct survey_ops *ops)
{
    *ops = (struct survey_ops){.survey = ref_survey_survey};
}
