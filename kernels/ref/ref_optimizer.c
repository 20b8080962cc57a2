/* ref_optimizer.c - the finite check, clipping, Adam, the scalers' rule and the
 * moving average. */
#include "kernels/half.h"
#include "kernels/ref/ref.h"

static void ref_optimizer_grads_check(struct device *device, const float *grads, size_t n,
                                      struct scaler_state *state)
{
    (void)device;
    float inverse = scaler_inverse(state);
    for (size_t i = 0; i < n; i++) {
        if (!is_finite_f32(grads[i]))
            state->found_inf = 1.0f;
        else if (!is_finite_f32(grads[i] * inverse))
            state->found_inf_unscaled = 1.0f;
    }
}

static void ref_optimizer_grads_unscale(struct device *device, float *grads, size_t n,
                                        const struct scaler_state *state)
{
    (void)device;
    float inverse = scaler_inverse(state);
    for (size_t i = 0; i < n; i++)
        grads[i] *= inverse;
}

static void take_step(const struct adam_args *args, int is_unscaled,
                      struct scaler_state *state)
{
    int64_t t = state->adam_t + 1;
    float inverse = is_unscaled ? 1.0f : scaler_inverse(state);
    double correction1 = 1.0 - pow((double)args->beta1, (double)t);
    double correction2 = 1.0 - pow((double)args->beta2, (double)t);
    float step_size = (float)((double)args->lr / correction1);
    float root_correction2 = (float)sqrt(correction2);
    float rest1 = 1.0f - args->beta1, rest2 = 1.0f - args->beta2;
    for (size_t i = 0; i < args->n; i++) {
        float g = args->grads[i] * inverse;
        float m = args->beta1 * args->m[i] + rest1 * g;
        float v = args->beta2 * args->v[i] + rest2 * (g * g);
        float p =
            args->params[i] - step_size * m / (sqrtf(v) / root_correction2 + args->eps);
        args->m[i] = m;
        args->v[i] = v;
        args->params[i] = p;
        if (args->half)
            element_store(args->half, args->half_dtype, i, p);
    }
    state->adam_t = t;
}

static void move_average(const struct adam_args *args)
{
    float decay = *args->ema_decay, rest = 1.0f - decay;
    for (size_t i = 0; i < args->n; i++)
        args->ema[i] = args->ema[i] * decay + args->params[i] * rest;
}

static void ref_optimizer_adam_step(struct device *device, const struct adam_args *args,
                                    int is_unscaled, struct scaler_state *state)
{
    (void)device;
    if (!scaler_must_skip(state))
        take_step(args, is_unscaled, state);
    if (args->ema)
        move_average(args);
}

static void ref_optimizer_scaler_update(struct device *device, struct scaler_state *state,
                                        struct step_record *record)
{
    (void)device;
    scaler_finish_step(state, record);
}

static void ref_optimizer_scaler_both(struct device *device, struct scaler_state *first,
                                      struct step_record *first_record,
                                      struct scaler_state *second,
                                      struct step_record *second_record, int holds)
{
    (void)device;
    scaler_finish_both(first, first_record, second, second_record, holds);
}

static void ref_optimizer_scaler_share(struct device *device,
                                       const struct scaler_state *from,
                                       struct scaler_state *to)
{
    (void)device;
    scaler_take_scale(to, from);
}

static void ref_optimizer_scaler_spread(struct device *device,
                                        const struct scaler_state *from,
                                        struct scaler_state *to,
                                        enum overflow_reach reach)
{
    (void)device;
    scaler_spread_overflow(from, to, (int)reach);
}

static void ref_optimizer_grads_norm(struct device *device, const float *grads, size_t n,
                                     float *norm)
{
    (void)device;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)grads[i] * (double)grads[i];
    *norm = norm_of_sum(sqrt(sum));
}

static void ref_optimizer_grads_clip(struct device *device, float *grads, size_t n,
                                     float max_norm, const float *norm)
{
    (void)device;
    float factor = clip_factor(*norm, max_norm);
    for (size_t i = 0; factor != 1.0f && i < n; i++)
        grads[i] *= factor;
}

static void ref_optimizer_half_copy(struct device *device, const float *params,
                                    void *half, enum dtype half_dtype, size_t n)
{
    (void)device;
    for (size_t i = 0; i < n; i++)
        element_store(half, half_dtype, i, params[i]);
}

void ref_fill_optimizer(struct optimizer_ops *ops)
{
    *ops = (struct optimizer_ops){
        .grads_check = ref_optimizer_grads_check,
        .grads_unscale = ref_optimizer_grads_unscale,
        .adam_step = ref_optimizer_adam_step,
        .scaler_update = ref_optimizer_scaler_update,
        .scaler_both = ref_optimizer_scaler_both,
        .scaler_share = ref_optimizer_scaler_share,
        .scaler_share_overflow = ref_optimizer_scaler_spread,
        .grads_norm = ref_optimizer_grads_norm,
        .grads_clip = ref_optimizer_grads_clip,
        .half_copy = ref_optimizer_half_copy,
    };
}
