/* bench_layers.c - `twinscale bench layers`: the passes of every convolution, one by one.
 *
 * The networks are those of a run. In each round both go forward and backward, so that
 * every pass has the operands of training; at its layer's turn each pass is run again,
 * for itself, and timed. A round visits all passes, and the median of the rounds counts:
 * what else the machine does falls on all of them, and a round that was disturbed on
 * none. */
#include "app/bench/bench_layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/process.h"
#include "app/files/terminal.h"
#include "app/signals.h"
#include "app/train/train.h"
#include "kernels/conv_check.h"
#include "kernels/half.h"
#include "nets/layers/layers.h"

#define REPEATS_MAX 1e5
#define SAMPLES_MAX 101 // of a pass in a round

/* One go through both networks. */
struct round {
    struct layer_bench *layers;
    struct trainer *trainer;
    struct backward pass[ROLES]; // what they go through
    int index;    // -1 warms up: it finds how often a pass fits its share of the time
    int is_whole; // 0 once Ctrl-C came
};

const char *bench_layers_pass(enum pass_kind pass)
{
    static const char *const names[] = {
        [PASS_FORWARD] = "forward", [PASS_DGRAD] = "dgrad", [PASS_WGRAD] = "wgrad"};
    return names[pass];
}

/* ---- rows ------------------------------------------------------------------------ */

/* How often a training step runs that pass: step.c. D's first layer has its input's
 * gradient computed only where G learns. */
static int runs_of(const struct config *config, int network, int layer,
                   enum pass_kind pass)
{
    int d_batches = config_step_batches(config), g_batches = config->g.accum;
    if (network == ROLE_G)
        return pass == PASS_FORWARD ? d_batches + g_batches - 1 : g_batches;
    if (pass == PASS_WGRAD)
        return 2 * d_batches;
    if (pass == PASS_DGRAD && layer == 0)
        return g_batches;
    return 2 * d_batches + g_batches;
}

static enum pass_kind convolution_pass(const struct node *node, enum pass_kind pass)
{
    if (!node_conv_is_transposed(node) || pass == PASS_WGRAD)
        return pass;
    return pass == PASS_FORWARD ? PASS_DGRAD : PASS_FORWARD;
}

static void add_row(struct layer_bench *layers, struct trainer *trainer, int network,
                    int index, enum pass_kind pass)
{
    const struct net *net = &trainer->gan.net[network];
    const struct node *node = &net->node[index];
    struct layer_row *row = &layers->row[layers->row_count++];
    *row = (struct layer_row){.network = network,
                              .layer = index,
                              .pass = pass,
                              .macs = conv_macs(node_conv(node)),
                              .runs = runs_of(&trainer->config, network, index, pass)};
    snprintf(row->name, sizeof row->name, "%s.%s", net->name, node->name);
    trainer->device->ops->conv.describe(trainer->device, node_conv_plan(node),
                                        convolution_pass(node, pass), &row->way);
}

static void add_rows(struct layer_bench *layers, struct trainer *trainer)
{
    for (int network = 0; network < ROLES; network++) {
        const struct net *net = &trainer->gan.net[network];
        for (int index = 0; index < net->node_count; index++) {
            if (!node_conv(&net->node[index]))
                continue;
            for (int pass = 0; pass < PASS_KINDS; pass++)
                if (pass != PASS_DGRAD || index > 0 || network == ROLE_D)
                    add_row(layers, trainer, network, index, (enum pass_kind)pass);
        }
    }
}

static struct layer_row *find_row(struct layer_bench *layers, int network, int layer,
                                  enum pass_kind pass)
{
    for (int i = 0; i < layers->row_count; i++) {
        struct layer_row *row = &layers->row[i];
        if (row->network == network && row->layer == layer && row->pass == pass)
            return row;
    }
    return NULL;
}

/* ---- one pass -------------------------------------------------------------------- */

/* Seconds of one of `count` runs in a row. */
static double time_runs(struct round *round, const struct layer_row *row, int count)
{
    struct device *device = round->trainer->device;
    device->ops->memory.wait(device);
    double started = now_seconds();
    for (int i = 0; i < count; i++)
        net_node_pass(&round->trainer->gan.net[row->network], &round->pass[row->network],
                      row->layer, row->pass);
    device->ops->memory.wait(device);
    return (now_seconds() - started) / count;
}

// On a CPU run by run, so that an interruption spoils one and not their mean; a single
// run on a GPU has no end that the host sees.
static double time_repeats(struct round *round, const struct layer_row *row)
{
    double sec[SAMPLES_MAX];
    int is_queued = round->trainer->device->steps_ahead > 0;
    int samples = is_queued ? 1 : row->repeats < SAMPLES_MAX ? row->repeats : SAMPLES_MAX;
    for (int i = 0; i < samples && round->is_whole; i++) {
        sec[i] = time_runs(round, row, row->repeats / samples);
        round->is_whole = !bench_must_end(round->layers->bench);
    }
    return round->is_whole ? bench_median(sec, samples) : 0.0;
}

static void show_progress(const struct round *round, const struct layer_row *row)
{
    char text[128], turn[32] = "warming up";
    if (round->index >= 0)
        snprintf(turn, sizeof turn, "round %d of %d", round->index + 1, LAYER_ROUNDS);
    snprintf(text, sizeof text, "%s: %s %s", turn, row->name,
             bench_layers_pass(row->pass));
    progress_note(text);
}

static void time_pass(struct round *round, int network, int index, enum pass_kind pass)
{
    struct layer_bench *layers = round->layers;
    struct layer_row *row = find_row(layers, network, index, pass);
    round->is_whole = round->is_whole && !bench_must_end(layers->bench);
    if (!row || !round->is_whole)
        return;
    show_progress(round, row);
    if (round->index >= 0) {
        row->sec[round->index] = time_repeats(round, row);
        return;
    }
    double share = layers->bench->seconds / LAYER_ROUNDS / layers->row_count;
    row->repeats =
        (int)fmin(fmax(rint(share / time_runs(round, row, 1)), 1.0), REPEATS_MAX);
}

/* ---- one round ------------------------------------------------------------------- */

// Each kind of arithmetic that the rows use, before every walk through a network: the
// peak is the fastest, and the more tries are spread over the time, the surer one was
// undisturbed.
static void measure_peak(struct layer_bench *layers, struct device *device)
{
    for (int i = 0; i < layers->row_count; i++) {
        enum dtype dtype = layers->row[i].way.arithmetic;
        int is_first = 1;
        for (int k = 0; k < i; k++)
            is_first = is_first && layers->row[k].way.arithmetic != dtype;
        if (is_first)
            layers->peak[dtype] =
                fmax(layers->peak[dtype], device->ops->conv.peak(device, dtype));
    }
}

static void go_forward(struct round *round, int network)
{
    struct net *net = &round->trainer->gan.net[network];
    measure_peak(round->layers, round->trainer->device);
    net_forward(net, round->pass[network].x, NET_TRAIN);
    for (int index = 0; index < net->node_count; index++)
        time_pass(round, network, index, PASS_FORWARD);
}

// A row's gradient is complete when its turn comes, and its passes change nothing below
// it that its own turn does not write again.
static void go_backward(struct round *round, int network)
{
    struct net *net = &round->trainer->gan.net[network];
    measure_peak(round->layers, round->trainer->device);
    for (int index = net->node_count - 1; index >= 0 && round->is_whole; index--) {
        time_pass(round, network, index, PASS_WGRAD);
        time_pass(round, network, index, PASS_DGRAD);
        net_backward_node(net, &round->pass[network], index);
    }
}

// Logits' gradients of a usual size: 1 for one half of the samples, -1 for the other.
static void seed_gradient(struct device *device, struct tensor *grad)
{
    size_t bytes = tensor_bytes(grad);
    void *host = calloc(1, bytes);
    CHECK_MEMORY(host, "a tensor");
    for (int sample = 0; sample < grad->shape.n; sample++)
        element_store(host, grad->dtype, (size_t)(sample * grad->c_stored),
                      sample % 2 ? -1.0f : 1.0f);
    device->ops->memory.upload(device, grad->data, host, bytes);
    free(host);
}

static enum status run_round(struct round *round)
{
    struct trainer *trainer = round->trainer;
    struct net *d = &trainer->gan.net[ROLE_D];
    go_forward(round, ROLE_G);
    go_forward(round, ROLE_D);
    seed_gradient(trainer->device, &d->output_grad);
    go_backward(round, ROLE_D);
    gan_hand_over(&trainer->gan);
    go_backward(round, ROLE_G);
    return device_fault(trainer->device);
}

static void take_medians(struct layer_bench *layers)
{
    for (int i = 0; i < layers->row_count; i++) {
        struct layer_row *row = &layers->row[i];
        row->median_sec = bench_median(row->sec, layers->rounds);
    }
}

/* ---- all of them ----------------------------------------------------------------- */

// A step puts real operands where the rounds read them. That it may overflow, while the
// scale is still a guess, says nothing here.
static enum status take_one_step(struct trainer *trainer)
{
    TRY(trainer_start_data(trainer));
    train_step(trainer);
    return train_collect_all(trainer);
}

// D is timed on real images, with all its gradients; G as it is trained, through D.
static void choose_passes(struct round *round)
{
    struct gan *gan = &round->trainer->gan;
    struct gan_batch batch = trainer_batch(round->trainer);
    struct net *g = &gan->net[ROLE_G], *d = &gan->net[ROLE_D];
    struct gan_walk of_d = gan_walk(gan, &batch, PASS_D_REAL, d->grads, 0);
    struct gan_walk of_g = gan_walk(gan, &batch, PASS_G_MAIN, g->grads, 0);
    round->pass[ROLE_D] = of_d.of[0];
    round->pass[ROLE_D].dx = of_g.of[0].dx;
    round->pass[ROLE_G] = of_g.of[1];
}

static enum status measure(struct layer_bench *layers, struct trainer *trainer)
{
    struct bench *bench = layers->bench;
    bench->config.channels = trainer->config.channels;
    bench->config.resolution = trainer->config.resolution;
    snprintf(layers->device, sizeof layers->device, "%s", trainer->device->description);
    layers->threads = trainer->device->threads;
    TRY(take_one_step(trainer));
    int nodes = trainer->gan.net[ROLE_G].node_count + trainer->gan.net[ROLE_D].node_count;
    layers->row = calloc((size_t)(nodes * PASS_KINDS), sizeof *layers->row);
    TRY_MEMORY(layers->row, "the passes of %d layers", nodes);
    add_rows(layers, trainer);
    bench_print(bench, "bench   layers: %d passes in %d rounds, about %.4g s",
                layers->row_count, LAYER_ROUNDS, bench->seconds);
    struct round round = {.layers = layers, .trainer = trainer, .is_whole = 1};
    choose_passes(&round);
    for (round.index = -1; round.index < LAYER_ROUNDS; round.index++) {
        TRY(run_round(&round));
        if (!round.is_whole)
            break;
        layers->rounds = round.index + 1;
    }
    progress_clear();
    take_medians(layers);
    return STATUS_OK;
}

static enum status tell(const struct layer_bench *layers, struct atomic_file *file)
{
    if (layers->rounds == 0) {
        bench_print(layers->bench, "stopped before anything was measured");
        return STATUS_OK;
    }
    if (layers->rounds < LAYER_ROUNDS)
        bench_print(layers->bench, "stopped after %d of %d rounds", layers->rounds,
                    LAYER_ROUNDS);
    bench_layers_print(layers);
    return file ? bench_commit_json(file, bench_layers_json(layers)) : STATUS_OK;
}

static enum status measure_and_print(struct layer_bench *layers, struct atomic_file *file)
{
    struct trainer *trainer = calloc(1, sizeof *trainer);
    CHECK_MEMORY(trainer, "a trainer");
    enum status status =
        bench_create_trainer(layers->bench, trainer, &layers->bench->config);
    signals_answer(BENCH_ANSWER);
    if (status == STATUS_OK)
        status = measure(layers, trainer);
    trainer_release(trainer);
    free(trainer);
    status = status == STATUS_OK ? tell(layers, file) : status;
    free(layers->row);
    return status;
}

// For signals_on_end().
static void remove_unwritten(void *file, const char *reason)
{
    (void)reason;
    unlink(((struct atomic_file *)file)->temporary);
}

enum status bench_layers(struct bench *bench)
{
    static struct layer_bench layers;
    static struct atomic_file file; // opened first: no minute is measured for nothing
    layers = (struct layer_bench){.bench = bench};
    TRY(config_check(&bench->config));
    if (!bench->json_path)
        return measure_and_print(&layers, NULL);
    TRY(atomic_open(&file, bench->json_path));
    signals_on_end(remove_unwritten, &file);
    enum status status = measure_and_print(&layers, &file);
    signals_on_end(NULL, NULL);
    atomic_discard(&file);
    return status;
}
