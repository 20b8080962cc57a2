/* test_plans.c - the real cuDNN builds the plans of every preset's networks, from a
 * description of a GPU instead of a GPU.
 *
 * Each plan is printed: network, layer and use, batch, precision, engine, workspace,
 * notes. Plans that cuDNN has compiled already take milliseconds; those with an epilogue
 * are compiled at run time, 0.5 to 3 seconds each, and kept in the plan cache beside this
 * test. So without an argument the plain plans of everything are built, and the fused
 * ones of FUSED below; with --all the fused ones of everything, which takes minutes once
 * and seconds afterwards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cudnn.h>

#include "app/config/config.h"
#include "app/config/config_table.h"
#include "kernels/cuda/conv_plans.h"
#include "kernels/cuda/plan_cache.h"
#include "nets/layers/layers.h"
#include "nets/arch/dcgan.h"
#include "tests/support/support.h"

enum { CHANNEL_MULTIPLE = 8 };

static int is_everything_wanted; // --all
static void *h200;

/* ---- the device ------------------------------------------------------------------- */

static int describe_h200(void **state)
{
    (void)state;
    static char json[1 << 16];
    FILE *file = fopen(TESTS_DIR "/cuda/devices/h200.json", "r");
    if (!file)
        return -1;
    size_t bytes = fread(json, 1, sizeof json, file);
    fclose(file);
    h200 = plan_devprop(json, bytes);
    return h200 ? 0 : -1;
}

static int forget_h200(void **state)
{
    (void)state;
    plan_devprop_release(h200);
    return 0;
}

static struct plan_maker maker_for_h200(const char *cache_folder)
{
    return (struct plan_maker){.devprop = h200,
                               .device = "NVIDIA H200 9.0",
                               .workspace_max = CONV_WORKSPACE_MAX,
                               .cache_folder = cache_folder};
}

/* ---- what the networks ask of a device --------------------------------------------- */

enum { LAYERS_MAX = NET_NODES_MAX };

static struct conv_desc asked[LAYERS_MAX];
static int asked_count;

static enum status record(struct device *device, const struct conv_desc *desc,
                          struct conv_plan **plan)
{
    (void)device;
    *plan = NULL;
    assert_true(asked_count < LAYERS_MAX);
    asked[asked_count++] = *desc;
    return STATUS_OK;
}

// Addresses only: nobody computes anything here.
static void *reserve(struct device *device, size_t bytes)
{
    (void)device;
    void *block = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

static void keep(struct device *device, void *block)
{
    (void)device;
    (void)block;
}

static struct device *open_recorder(void)
{
    static struct ops ops;
    struct device *device;
    assert_int_equal(device_open("ref", 1, &device), STATUS_OK);
    ops = *device->ops;
    ops.conv.prepare = record;
    ops.memory.alloc = reserve;
    ops.memory.release = keep;
    device->ops = &ops;
    device->channel_multiple = CHANNEL_MULTIPLE;
    return device;
}

/* One network of a preset, as training or sampling plans it. */
struct case_net {
    const char *preset;
    struct dcgan_config sizes;
    int is_generator, options, batch;
    enum dtype dtype;
};

// Fills `asked`, and the names of the layers.
static void ask(const struct case_net *c, char names[LAYERS_MAX][NET_NAME_MAX + 4])
{
    static struct net net;
    struct device *device = open_recorder();
    asked_count = 0;
    if (c->is_generator)
        assert_int_equal(dcgan_generator(&net, device, &c->sizes, c->dtype, c->batch),
                         STATUS_OK);
    else
        assert_int_equal(dcgan_discriminator(&net, device, &c->sizes, c->dtype, c->batch),
                         STATUS_OK);
    assert_int_equal(net_plan(&net, c->options), STATUS_OK);
    for (int i = 0, conv = 0; i < net.node_count; i++)
        if (node_conv(&net.node[i]))
            snprintf(names[conv++], NET_NAME_MAX + 4, "%.2s.%s", net.name,
                     net.node[i].name);
    net_release(&net);
    device_close(device);
}

/* ---- the plans of everything ------------------------------------------------------- */

struct precision_case {
    const char *name;
    enum dtype dtype;
    int allows_tf32;
};

static const struct precision_case precisions[] = {
    {"fp16", DTYPE_F16, 0},
    {"bf16", DTYPE_BF16, 0},
    {"fp32", DTYPE_F32, 0},
    {"tf32", DTYPE_F32, 1},
};

static const int batches[] = {16, 64, 256};

static const char *const use_names[CONV_USES] = {
    "own", "own+epilogue", "own+epilogue+sums", "other", "other+undo", "wgrad"};

/* What a run of the test has seen. */
struct tally {
    int plans, fused, unfused, faults;
};

// cuBLAS takes those where the kernel covers the map (cuda_dense.h).
static int is_dense(const struct conv_desc *d)
{
    return d->y.h == 1 && d->y.w == 1 && d->pad == 0 && d->kernel == d->x.h &&
           d->kernel == d->x.w;
}

// FUSED: the default precision and batch, and the smallest network in the others.
static int wants_fused(const struct case_net *c, const struct precision_case *precision)
{
    if (is_everything_wanted || c->batch != 64)
        return is_everything_wanted;
    return precision->dtype == DTYPE_F16 || strcmp(c->preset, "dcgan28") == 0;
}

static void fault(struct tally *tally, const char *what)
{
    printf("    ^ FAULT: %s\n", what);
    tally->faults++;
}

static void look_at(const struct case_net *c, const struct precision_case *precision,
                    const char *layer, enum conv_use use, const struct plan_maker *maker,
                    struct conv_plans *plans, struct tally *tally)
{
    const struct cuda_plan *plan = conv_plans_find(plans, use);
    int has_own = plans->plans[use].plan != NULL;
    tally->plans++;
    tally->fused += has_own && (plan->desc.has_bias || plan->desc.makes_sums ||
                                plan->desc.activation != ACTIVATION_NONE);
    tally->unfused += !has_own;
    printf("%-12s %-8s %-17s b%-3d %s%s engine %-4d workspace %-9lld numerical %03x "
           "behavior %02x%s%s%s\n",
           c->preset, layer, use_names[use], c->batch, precision->name,
           maker->is_deterministic ? " det" : "    ", plan->engine,
           (long long)plan->workspace_bytes, plan->numerical_notes, plan->behavior_notes,
           plan_uses_tensor_cores(plan) ? " tensor-cores" : "",
           plan_is_compiled_at_run_time(plan) ? " compiled" : "",
           has_own ? "" : " + own epilogue kernel");
    if (!plan->plan)
        fault(tally, "no plan at all");
    if (precision->dtype != DTYPE_F32 && !plan_uses_tensor_cores(plan))
        fault(tally, "a half type without tensor cores");
    if (precision->dtype == DTYPE_F32 && !precision->allows_tf32 &&
        plan_uses_tensor_cores(plan))
        fault(tally, "f32 operands are rounded to TF32 unasked");
    if (maker->is_deterministic && !plan_is_deterministic(plan))
        fault(tally, "not deterministic");
    if (plan->workspace_bytes > CONV_WORKSPACE_MAX)
        fault(tally, "workspace over the budget");
    if (precision->dtype == DTYPE_F16 && !has_own)
        fault(tally, "fp16 has a fused plan for every use of these networks");
}

static void strip_epilogues(struct conv_desc *desc)
{
    desc->has_bias = desc->makes_sums = 0;
    desc->activation = desc->input_activation = ACTIVATION_NONE;
}

static int all_are_deterministic(const struct conv_plans *plans)
{
    for (int use = 0; use < CONV_USES; use++)
        if (!plan_is_deterministic(&plans->plans[use]))
            return 0;
    return 1;
}

/* Deterministic mode only leaves out candidates. So where the free choice is
 * deterministic it is the choice of that mode too, and need not be compiled a second
 * time. */
static enum status build_plans(struct plan_maker *maker, const struct conv_desc *desc,
                               struct conv_plans *plans)
{
    int is_deterministic = maker->is_deterministic;
    maker->is_deterministic = 0;
    enum status status = conv_plans_build(maker, desc, CHANNEL_MULTIPLE, plans);
    maker->is_deterministic = is_deterministic;
    if (status != STATUS_OK || !is_deterministic || all_are_deterministic(plans))
        return status;
    conv_plans_release(plans);
    return conv_plans_build(maker, desc, CHANNEL_MULTIPLE, plans);
}

static void build_layer(const struct case_net *c, const struct precision_case *precision,
                        const char *layer, struct conv_desc desc,
                        struct plan_maker *maker, struct tally *tally)
{
    struct conv_plans plans;
    if (!wants_fused(c, precision))
        strip_epilogues(&desc);
    if (build_plans(maker, &desc, &plans) != STATUS_OK) {
        printf("%s %s b%d %s: %s\n", c->preset, layer, c->batch, precision->name,
               status_message());
        fault(tally, "no plan");
        return;
    }
    for (int use = 0; use < CONV_USES; use++) {
        struct plan_desc graph;
        if (conv_plans_describe(&desc, CHANNEL_MULTIPLE, (enum conv_use)use, &graph))
            look_at(c, precision, layer, (enum conv_use)use, maker, &plans, tally);
    }
    conv_plans_release(&plans);
}

static void build_net(const struct case_net *c, const struct precision_case *precision,
                      struct plan_maker *maker, struct tally *tally)
{
    char names[LAYERS_MAX][NET_NAME_MAX + 4];
    ask(c, names);
    assert_true(asked_count >= 2);
    for (int i = 0; i < asked_count; i++)
        if (!is_dense(&asked[i]))
            build_layer(c, precision, names[i], asked[i], maker, tally);
}

// Both networks as they train, and the generator as it samples.
static void build_networks(const char *preset, const struct config *config, int batch,
                           const struct precision_case *precision,
                           struct plan_maker *maker, struct tally *tally)
{
    int channels = config->channels ? config->channels : config->resolution == 28 ? 1 : 3;
    struct case_net c = {.preset = preset,
                         .sizes = {.resolution = config->resolution,
                                   .channels = channels,
                                   .latent = config->latent,
                                   .g_width = config->g.width,
                                   .d_width = config->d.width},
                         .batch = batch,
                         .dtype = precision->dtype};
    build_net(&c, precision, maker, tally);
    c.options = NET_INPUT_GRAD;
    build_net(&c, precision, maker, tally);
    c.is_generator = 1;
    c.options = 0;
    build_net(&c, precision, maker, tally);
    c.options = NET_INFERENCE;
    build_net(&c, precision, maker, tally);
}

static void build_everything(int is_deterministic)
{
    struct tally tally = {0};
    char folder[] = PLAN_CACHE_FOR_TEST;
    mkdir(folder, 0777);
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
        struct plan_maker maker = maker_for_h200(folder);
        maker.is_deterministic = is_deterministic;
        maker.allows_tf32 = precisions[p].allows_tf32;
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            struct config config;
            for (int i = 0; i < embedded_preset_count; i++) {
                config_default(&config);
                assert_int_equal(config_apply_preset(&config, embedded_presets[i].name),
                                 STATUS_OK);
                build_networks(embedded_presets[i].name, &config, batches[b],
                               &precisions[p], &maker, &tally);
            }
            config_default(&config);
            config.resolution = 128;
            build_networks("(128 px)", &config, batches[b], &precisions[p], &maker,
                           &tally);
        }
        printf("%s%s: %d plans built, %d from the cache\n", precisions[p].name,
               is_deterministic ? ", deterministic" : "", maker.built, maker.reloaded);
    }
    printf("%d plans, %d fused, %d with an epilogue kernel of ours, %d faults\n",
           tally.plans, tally.fused, tally.unfused, tally.faults);
    assert_true(tally.plans > 500);
    assert_true(tally.fused > 20);
    assert_int_equal(tally.faults, 0);
}

static void test_every_preset_has_its_plans_on_an_h200(void **state)
{
    (void)state;
    build_everything(0);
}

static void test_every_plan_of_deterministic_mode_gives_the_same_bits(void **state)
{
    (void)state;
    build_everything(1);
}

/* ---- the cache ------------------------------------------------------------------- */

// A small layer: conv_desc of a discriminator's first convolution.
static const struct conv_desc small_layer = {.x = {16, 16, 16, 3},
                                             .y = {16, 8, 8, 16},
                                             .kernel = 4,
                                             .stride = 2,
                                             .pad = 1,
                                             .dtype = DTYPE_F16,
                                             .out_dtype = DTYPE_F16,
                                             .activation = ACTIVATION_LEAKY_RELU,
                                             .slope = 0.2f};

static struct plan_desc small_graph(void)
{
    struct plan_desc graph;
    conv_plans_describe(&small_layer, CHANNEL_MULTIPLE, CONV_OWN_PLAIN, &graph);
    return graph;
}

static void test_a_second_start_compiles_nothing(void **state)
{
    (void)state;
    char folder[256];
    snprintf(folder, sizeof folder, "%s", make_folder("plans"));
    struct plan_maker first = maker_for_h200(folder), second = maker_for_h200(folder);
    struct conv_plans before, after;
    assert_int_equal(conv_plans_build(&first, &small_layer, CHANNEL_MULTIPLE, &before),
                     STATUS_OK);
    assert_int_equal(conv_plans_build(&second, &small_layer, CHANNEL_MULTIPLE, &after),
                     STATUS_OK);
    assert_int_equal(first.built, 4); // plain, with its activation, dgrad, wgrad
    assert_int_equal(first.reloaded, 0);
    assert_int_equal(second.built, 0);
    assert_int_equal(second.reloaded, 4);
    assert_true(plan_is_compiled_at_run_time(&before.plans[CONV_OWN]));
    for (int use = 0; use < CONV_USES; use++) {
        const struct cuda_plan *a = &before.plans[use], *b = &after.plans[use];
        assert_int_equal(!a->plan, !b->plan);
        assert_int_equal(a->engine, b->engine);
        assert_int_equal(a->numerical_notes, b->numerical_notes);
        assert_int_equal(a->behavior_notes, b->behavior_notes);
        assert_int_equal(a->workspace_bytes, b->workspace_bytes);
        assert_int_equal(b->is_reloaded, !!b->plan);
    }
    conv_plans_release(&before);
    conv_plans_release(&after);
    remove_folder(folder);
}

/* Builds the small graph: 1 if it came from the folder. It has to be there either way. */
static int comes_from_cache(const char *folder)
{
    struct plan_maker maker = maker_for_h200(folder);
    struct plan_desc graph = small_graph();
    struct cuda_plan plan;
    assert_int_equal(plan_build(&maker, &graph, 1, &plan), 1);
    assert_non_null(plan.plan);
    assert_int_equal(maker.built + maker.reloaded, 1);
    plan_release(&plan);
    return maker.reloaded;
}

static char *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    *bytes = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

static void write_whole(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

static void test_a_damaged_plan_file_is_built_anew(void **state)
{
    (void)state;
    char folder[256], path[PLAN_CACHE_PATH];
    snprintf(folder, sizeof folder, "%s", make_folder("plans"));
    struct plan_maker maker = maker_for_h200(folder);
    struct plan_desc graph = small_graph();
    plan_cache_path(&maker, &graph, 1, path);
    assert_false(comes_from_cache(folder));
    assert_true(comes_from_cache(folder));
    size_t bytes;
    char *good = read_whole(path, &bytes);
    char *bad = malloc(bytes);
    for (size_t cut = 0; cut < bytes; cut += cut < 400 ? 7 : bytes / 9) {
        write_whole(path, good, cut); // cut short
        assert_false(comes_from_cache(folder));
        assert_true(comes_from_cache(folder)); // and was replaced
    }
    for (size_t at = 0; at < bytes; at += at < 400 ? 11 : bytes / 9) {
        memcpy(bad, good, bytes);
        bad[at] ^= 0x20; // altered
        write_whole(path, bad, bytes);
        assert_false(comes_from_cache(folder));
    }
    free(bad);
    free(good);
    remove_folder(folder);
}

static void test_a_plan_file_of_another_graph_or_device_is_not_taken(void **state)
{
    (void)state;
    char folder[256], mine[PLAN_CACHE_PATH], other[PLAN_CACHE_PATH];
    snprintf(folder, sizeof folder, "%s", make_folder("plans"));
    struct plan_maker maker = maker_for_h200(folder);
    struct plan_desc graph = small_graph(), larger = graph;
    larger.x.n = larger.y.n = 32;
    struct cuda_plan plan;
    assert_int_equal(plan_build(&maker, &larger, 1, &plan), 1);
    plan_release(&plan);
    plan_cache_path(&maker, &graph, 1, mine);
    plan_cache_path(&maker, &larger, 1, other);
    assert_string_not_equal(mine, other);
    assert_int_equal(rename(other, mine), 0);
    assert_false(comes_from_cache(folder));
    remove_folder(folder);
}

static void test_every_filter_and_device_has_its_own_plan_file(void **state)
{
    (void)state;
    struct plan_maker makers[6];
    struct plan_desc graph = small_graph();
    for (size_t i = 0; i < 6; i++)
        makers[i] = maker_for_h200("/plans");
    makers[1].is_deterministic = 1;
    makers[2].allows_tf32 = 1;
    makers[3].tunes = 1;
    makers[4].workspace_max = 1;
    snprintf(makers[5].device, sizeof makers[5].device, "NVIDIA A100 8.0");
    char paths[6][PLAN_CACHE_PATH];
    for (size_t i = 0; i < 6; i++) {
        plan_cache_path(&makers[i], &graph, 1, paths[i]);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(paths[i], paths[j]);
    }
    char without_cores[PLAN_CACHE_PATH];
    plan_cache_path(&makers[0], &graph, 0, without_cores);
    assert_string_not_equal(paths[0], without_cores);
}

static void test_a_folder_in_the_place_of_a_plan_file_does_no_harm(void **state)
{
    (void)state;
    char folder[256], path[PLAN_CACHE_PATH];
    snprintf(folder, sizeof folder, "%s", make_folder("plans"));
    struct plan_maker maker = maker_for_h200(folder);
    struct plan_desc graph = small_graph();
    assert_int_equal(mkdir(plan_cache_path(&maker, &graph, 1, path), 0777), 0);
    assert_false(comes_from_cache(folder));
    assert_false(comes_from_cache(folder));
    remove_folder(folder);
}

static void test_without_a_cache_folder_plans_are_built_every_time(void **state)
{
    (void)state;
    assert_false(comes_from_cache(NULL));
    assert_false(comes_from_cache(NULL));
    assert_false(comes_from_cache("/dev/null/plans")); // a folder that cannot be
}

static void test_the_cache_lies_where_xdg_says(void **state)
{
    (void)state;
    char base[256], path[512], want[512];
    snprintf(base, sizeof base, "%s", make_folder("home"));
    setenv("HOME", base, 1);
    setenv("XDG_CACHE_HOME", "relative/is/no/place", 1);
    snprintf(want, sizeof want, "%s/.cache/twinscale/plans", base);
    assert_string_equal(plan_cache_folder(path, sizeof path), want);
    assert_int_equal(access(want, W_OK), 0);
    snprintf(want, sizeof want, "%s/xdg", base);
    setenv("XDG_CACHE_HOME", want, 1);
    snprintf(want, sizeof want, "%s/xdg/twinscale/plans", base);
    assert_string_equal(plan_cache_folder(path, sizeof path), want);
    assert_string_equal(plan_cache_folder(path, sizeof path), want); // there already
    setenv("XDG_CACHE_HOME", "/dev/null/no", 1);
    assert_null(plan_cache_folder(path, sizeof path));
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_null(plan_cache_folder(path, sizeof path));
    remove_folder(base);
}

/* ---- refusals -------------------------------------------------------------------- */

static void test_a_convolution_without_a_plan_is_refused_in_a_sentence(void **state)
{
    (void)state;
    struct plan_maker maker = maker_for_h200(NULL);
    struct conv_plans plans;
    maker.workspace_max = -1; // nothing fits
    assert_int_equal(conv_plans_build(&maker, &small_layer, CHANNEL_MULTIPLE, &plans),
                     STATUS_FAILED);
    const char *facts[] = {"16x16x16x8 to 16x8x8x16", "NVIDIA H200", "bytes of workspace",
                           "smaller batch"};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        assert_non_null(strstr(status_message(), facts[i]));
    for (int use = 0; use < CONV_USES; use++)
        assert_null(plans.plans[use].plan);
}

static void test_f32_keeps_away_from_tensor_cores_unless_tf32_is_allowed(void **state)
{
    (void)state;
    struct plan_desc graph = small_graph();
    graph.dtype = graph.out_dtype = DTYPE_F32;
    for (int allows_tf32 = 0; allows_tf32 < 2; allows_tf32++) {
        struct plan_maker maker = maker_for_h200(NULL);
        struct cuda_plan plan;
        maker.allows_tf32 = allows_tf32;
        assert_int_equal(plan_build(&maker, &graph, 0, &plan), 1);
        assert_int_equal(plan_uses_tensor_cores(&plan), allows_tf32);
        plan_release(&plan);
    }
}

static void test_text_that_describes_no_device_is_refused(void **state)
{
    (void)state;
    assert_null(plan_devprop("{\"deviceName\": 1", 16));
    assert_null(plan_devprop("", 0));
}

static void test_an_inference_layer_has_no_gradients_and_no_fused_sums(void **state)
{
    (void)state;
    struct conv_desc desc = small_layer;
    struct plan_desc graph;
    desc.is_inference = desc.makes_sums = 1;
    desc.input_activation = ACTIVATION_LEAKY_RELU;
    for (int use = 0; use < CONV_USES; use++)
        assert_int_equal(
            conv_plans_describe(&desc, CHANNEL_MULTIPLE, (enum conv_use)use, &graph),
            use == CONV_OWN);
    desc.is_inference = 0;
    for (int use = 0; use < CONV_USES; use++)
        assert_int_equal(
            conv_plans_describe(&desc, CHANNEL_MULTIPLE, (enum conv_use)use, &graph), 1);
}

static void test_gradients_of_relu_and_tanh_are_left_to_our_own_kernel(void **state)
{
    (void)state;
    const enum activation left[] = {ACTIVATION_RELU, ACTIVATION_TANH};
    for (size_t i = 0; i < 2; i++) {
        struct plan_maker maker = maker_for_h200(NULL);
        struct conv_desc desc = small_layer;
        struct conv_plans plans;
        desc.activation = ACTIVATION_NONE;
        desc.input_activation = left[i];
        assert_int_equal(conv_plans_build(&maker, &desc, CHANNEL_MULTIPLE, &plans),
                         STATUS_OK);
        assert_ptr_equal(conv_plans_find(&plans, CONV_OTHER_UNDO),
                         &plans.plans[CONV_OTHER]);
        conv_plans_release(&plans);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_second_start_compiles_nothing),
        cmocka_unit_test(test_a_damaged_plan_file_is_built_anew),
        cmocka_unit_test(test_a_plan_file_of_another_graph_or_device_is_not_taken),
        cmocka_unit_test(test_every_filter_and_device_has_its_own_plan_file),
        cmocka_unit_test(test_a_folder_in_the_place_of_a_plan_file_does_no_harm),
        cmocka_unit_test(test_without_a_cache_folder_plans_are_built_every_time),
        cmocka_unit_test(test_the_cache_lies_where_xdg_says),
        cmocka_unit_test(test_a_convolution_without_a_plan_is_refused_in_a_sentence),
        cmocka_unit_test(test_f32_keeps_away_from_tensor_cores_unless_tf32_is_allowed),
        cmocka_unit_test(test_text_that_describes_no_device_is_refused),
        cmocka_unit_test(test_an_inference_layer_has_no_gradients_and_no_fused_sums),
        cmocka_unit_test(test_gradients_of_relu_and_tanh_are_left_to_our_own_kernel),
        cmocka_unit_test(test_every_preset_has_its_plans_on_an_h200),
        cmocka_unit_test(test_every_plan_of_deterministic_mode_gives_the_same_bits),
    };
    is_everything_wanted = argc > 1 && strcmp(argv[1], "--all") == 0;
    return cmocka_run_group_tests(tests, describe_h200, forget_h200);
}
