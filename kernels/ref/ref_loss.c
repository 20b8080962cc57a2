/* ref_loss.c - losses on logits: the seed of the backward pass, and sums for the log. */
#include "kernels/half.h"
#include "kernels/ref/ref.h"

static void ref_loss_on_logits(struct device *device, enum loss_kind kind,
                               const struct tensor *logits, float target, float weight,
                               const struct scaler_state *state, struct tensor *seed,
                               struct loss_sums *sums)
{
    (void)device;
    ref_check_shapes("loss.on_logits", logits, seed);
    CHECK(logits->dtype == DTYPE_F32, "logits are %s", dtype_name(logits->dtype));
    CHECK(logits->shape.h == 1 && logits->shape.w == 1 && logits->shape.c == 1,
          "logits are %dx%dx%d", logits->shape.h, logits->shape.w, logits->shape.c);
    int count = logits->shape.n;
    // The scale meets the f32 seed; only the product is rounded to the seed's dtype.
    float factor = (float)((double)scaler_scale(state) * (double)weight / (double)count);

    struct loss_sums total = {.count = count};
    for (int n = 0; n < count; n++) {
        float x = ((const float *)logits->data)[ref_place(logits, (size_t)n, 0)];
        struct loss_value value = loss_at(kind, x, target);
        double loss = (double)value.loss;
        element_store(seed->data, seed->dtype, ref_place(seed, (size_t)n, 0),
                      factor * value.slope);
        total.loss += loss;
        total.loss_sq += loss * loss;
        total.score += (double)x;
        total.score_sq += (double)x * (double)x;
        total.sign += x > 0.0f ? 1.0 : x < 0.0f ? -1.0 : 0.0;
        total.nonfinite += is_finite_f32(x) ? 0.0 : 1.0;
    }
    *sums = total;
    ref_clear_padding(seed);
}

void ref_fill_loss(struct loss_ops *ops)
{
    *ops = (struct loss_ops){.on_logits = ref_loss_on_logits};
}
