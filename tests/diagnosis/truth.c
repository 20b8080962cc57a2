#include "tests/diagnosis/truth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/train.h"

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
    if (network == seen->network)
        seen->has_finite_grads = all_finite(net->grads, net->param_elements);
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

// True when the step's gradients are finite at `scale`.
static int is_good_at(struct trainer *other, const struct trainer *trainer, int network,
                      double scale)
{
    struct seen seen = {.network = network};
    uint64_t draw = *trainer->feed.draw - 1;
    memcpy(other->feed.draw, &draw, sizeof draw);
    for (int i = 0; i < ROLES; i++) {
        struct scaler_state *state = other->scaler[i].state;
        state->scale = (float)scale;
    }
    train_rehearse(other, other->config.n_dis, look_at_grads, &seen);
    return seen.has_finite_grads;
}

static int has_finite_logits(const struct trainer *other, int network)
{
    const struct loss_sums *sums = other->results.here.sums;
    return network == ROLE_G ? sums[2].nonfinite == 0.0
                             : sums[0].nonfinite + sums[1].nonfinite == 0.0;
}

/* ---- an outlier ------------------------------------------------------------------ */

static void replace_image(struct trainer *other, int row, int by)
{
    size_t bytes = tensor_bytes(&other->feed.pixels) / (size_t)other->config.batch;
    char *pixels = other->feed.pixels.data;
    memcpy(pixels + (size_t)row * bytes, pixels + (size_t)by * bytes, bytes);
}

// Any image, left out, makes the step good at the scale; and with it, a quarter of the
// largest scale that is good without it is not.
static int has_outlier(const struct truth *truth, const struct trainer *trainer,
                       struct trainer *other, double scale)
{
    int found = 0, batch = trainer->config.batch;
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
    double scale = (double)trainer->last.records[slot].scale_used;
    if (slot < trainer->results.fake_count) // D's losses have one each
        scale = fmax(scale, (double)trainer->last.fakes[slot].scale_used);
    set_up(truth, trainer, half, network);
    inject_weights(half);
    if (has_bad_weight(half))
        return "weight";
    int is_good = is_good_at(half, trainer, network, scale);
    if (!has_finite_logits(half, network)) {
        set_up(truth, trainer, single, network);
        is_good_at(single, trainer, network, 1.0);
        return has_finite_logits(single, network) ? "forward" : "invalid";
    }
    if (is_good)
        return "elsewhere";
    if (scale <= 1.0 || !is_good_at(half, trainer, network, 1.0))
        return "gradients";
    return network == ROLE_D && has_outlier(truth, trainer, half, scale) ? "outlier"
                                                                         : "scale";
}
