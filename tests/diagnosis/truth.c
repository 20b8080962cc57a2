#include "tests/diagnosis/truth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/train/train.h"

#define OUTLIER_RATIO 4.0 // of the largest scales without and with the image

/* ---- the other trainers ---------------------------------------------------------- */

static void must(enum status status)
{
    CHECK(status == STATUS_OK, "%s", status_message());
}

void truth_open(struct truth *truth, const struct config *config)
{
    struct config other = *config;
    memset(truth, 0, sizeof *truth);
    other.scaler = SCALER_PER_NETWORK;
    other.skip = SKIP_OWN;
    must(trainer_create(&truth->half, &other));
    other.precision = PRECISION_FP32;
    other.g.precision = other.d.precision = OWN_SAME;
    must(trainer_create(&truth->single, &other));
    for (int network = 0; network < ROLES; network++) {
        truth->params[network] =
            malloc(truth->half.gan.net[network].param_elements * sizeof(float));
        CHECK(truth->params[network]);
    }
}

void truth_close(struct truth *truth)
{
    trainer_release(&truth->half);
    trainer_release(&truth->single);
    for (int network = 0; network < ROLES; network++)
        free(truth->params[network]);
}

void truth_remember(struct truth *truth, const struct trainer *trainer)
{
    for (int network = 0; network < ROLES; network++) {
        const struct net *net = &trainer->gan.net[network];
        memcpy(truth->params[network], net->params, net->param_elements * sizeof(float));
    }
}

/* ---- one trial ------------------------------------------------------------------- */

struct seen {
    int network, has_finite_grads;
    float scale;
    int is_finite_unscaled;
};

static int all_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return 0;
    return 1;
}

static void look_at_grads(struct trainer *trainer, int network, void *context)
{
    struct seen *seen = context;
    const struct net *net = &trainer->gan.net[network];
    if (network != seen->network)
        return;
    seen->has_finite_grads = all_finite(net->grads, net->param_elements);
    seen->is_finite_unscaled = 1;
    for (size_t i = 0; i < net->param_elements; i++)
        seen->is_finite_unscaled &= isfinite(net->grads[i] / seen->scale) != 0;
}

// The skipped step's images and latents, and the weights that it began with: D's step has
// come before G's, so that of a skip of G's, D's are those of now.
static void set_up(const struct truth *truth, const struct trainer *trainer,
                   struct trainer *other, int network)
{
    for (int i = 0; i < ROLES; i++) {
        const struct net *net = &trainer->gan.net[i];
        int is_now = network == ROLE_G;
        memcpy(other->gan.net[i].params, is_now ? net->params : truth->params[i],
               net->param_elements * sizeof(float));
        net_params_changed(&other->gan.net[i]);
    }
    other->progress = trainer->progress;
    other->progress.images -= config_step_images(&trainer->config);
    must(trainer_start_data(other));
    other->progress.images = trainer->progress.images;
    snprintf(other->config.inject, sizeof other->config.inject, "%s",
             trainer->config.inject);
    inject_prepare(other);
    feed_next(&other->feed);
}

// The latents of D's first batch.
static uint64_t first_draw(const struct trainer *trainer)
{
    return *trainer->feed.draw - (uint64_t)config_step_batches(&trainer->config);
}

// The step's gradients at `scale`.
static struct seen gradients_at(struct trainer *other, const struct trainer *trainer,
                                int network, double scale)
{
    struct seen seen = {.network = network, .scale = (float)scale};
    uint64_t draw = first_draw(trainer);
    memcpy(other->feed.draw, &draw, sizeof draw);
    for (int i = 0; i < ROLES; i++) {
        struct scaler_state *state = other->scaler[i].state;
        state->scale = (float)scale;
    }
    train_rehearse(other, other->config.n_dis, look_at_grads, &seen);
    return seen;
}

static int is_good_at(struct trainer *other, const struct trainer *trainer, int network,
                      double scale)
{
    return gradients_at(other, trainer, network, scale).has_finite_grads;
}

// In every batch of the optimizer step: two losses of D's, then G's one.
static int has_finite_logits(const struct trainer *other, int network)
{
    const struct config *config = &other->config;
    int losses_of_d = 2 * config->d.accum, first = network == ROLE_D ? 0 : losses_of_d;
    int end = network == ROLE_D ? losses_of_d : losses_of_d + config->g.accum;
    double nonfinite = 0.0;
    for (int i = first; i < end; i++)
        nonfinite += other->results.here.sums[i].nonfinite;
    return nonfinite == 0.0;
}

/* ---- the last batch -------------------------------------------------------------- */

/* True when the last of several batches overflows by itself. With one batch the losses
 * are not divided by the number of them, so its scale is. G takes D's last batch first,
 * and then the others from the first on. */
static int is_last_batch_bad(struct trainer *other, const struct trainer *trainer,
                             int network, double scale)
{
    int batches = other->config.network[network].accum;
    int g_accum = other->config.g.accum, d_accum = other->config.d.accum;
    int last = network == ROLE_D ? batches - 1 : batches - 2;
    struct seen seen = {.network = network, .scale = (float)(scale / batches)};
    if (batches == 1)
        return 1;
    CHECK(g_accum == d_accum && other->config.n_dis == 1);
    uint64_t draw = first_draw(trainer) + (uint64_t)last;
    size_t bytes = tensor_bytes(&other->feed.pixels) / (size_t)batches;
    memcpy(other->feed.draw, &draw, sizeof draw);
    memmove(other->feed.pixels.data,
            (char *)other->feed.pixels.data + (size_t)last * bytes, bytes);
    for (int i = 0; i < ROLES; i++) {
        struct scaler_state *state = other->scaler[i].state;
        state->scale = seen.scale;
    }
    other->config.g.accum = other->config.d.accum = 1;
    train_rehearse(other, 1, look_at_grads, &seen);
    other->config.g.accum = g_accum;
    other->config.d.accum = d_accum;
    return !seen.has_finite_grads;
}

/* ---- an outlier ------------------------------------------------------------------ */

static void replace_image(struct trainer *other, int row, int by)
{
    size_t rows = (size_t)config_step_images(&other->config);
    size_t bytes = tensor_bytes(&other->feed.pixels) / rows;
    char *pixels = other->feed.pixels.data;
    memcpy(pixels + (size_t)row * bytes, pixels + (size_t)by * bytes, bytes);
}

// Any image, left out, makes the step good at the scale; and with it, a quarter of the
// largest scale that is good without it is not.
static int has_outlier(const struct truth *truth, const struct trainer *trainer,
                       struct trainer *other, double scale)
{
    int found = 0, batch = (int)config_step_images(&trainer->config);
    size_t bytes = tensor_bytes(&other->feed.pixels);
    char *kept = malloc(bytes);
    CHECK(kept);
    memcpy(kept, other->feed.pixels.data, bytes);
    for (int row = 0; truth->was_quiet && row < batch && !found; row++) {
        double most = scale;
        replace_image(other, row, (row + 1) % batch);
        int is_good = is_good_at(other, trainer, ROLE_D, scale);
        while (is_good && most < 4.0 * scale &&
               is_good_at(other, trainer, ROLE_D, most * sqrt(sqrt(2.0))))
            most *= sqrt(sqrt(2.0));
        memcpy(other->feed.pixels.data, kept, bytes);
        found = is_good && !is_good_at(other, trainer, ROLE_D, most / OUTLIER_RATIO);
    }
    free(kept);
    return found;
}

/* ---- the cause ------------------------------------------------------------------- */

static int has_bad_weight(const struct trainer *other)
{
    for (int i = 0; i < ROLES; i++)
        if (!all_finite(other->gan.net[i].params, other->gan.net[i].param_elements))
            return 1;
    return 0;
}

const char *truth_of(struct truth *truth, const struct trainer *trainer, int network)
{
    struct trainer *half = &truth->half, *single = &truth->single;
    int slot = network == ROLE_D ? 0 : trainer->results.record_count - 1;
    double scale = (double)trainer->last.view.records[slot].scale_used;
    if (slot < trainer->results.fake_count) // D's losses have one each
        scale = fmax(scale, (double)trainer->last.view.fakes[slot].scale_used);
    set_up(truth, trainer, half, network);
    inject_weights(half);
    if (has_bad_weight(half))
        return "weight";
    struct seen seen = gradients_at(half, trainer, network, scale);
    if (!has_finite_logits(half, network)) {
        set_up(truth, trainer, single, network);
        gradients_at(single, trainer, network, 1.0);
        return has_finite_logits(single, network) ? "forward" : "invalid";
    }
    if (seen.has_finite_grads)
        return seen.is_finite_unscaled ? "elsewhere" : "gradients";
    if (scale <= 1.0 || !is_good_at(half, trainer, network, 1.0))
        return "gradients";
    int is_outlier = network == ROLE_D && has_outlier(truth, trainer, half, scale);
    if (!is_last_batch_bad(half, trainer, network, scale))
        return "elsewhere";
    return is_outlier ? "outlier" : "scale";
}
