/* test_published.c - the settings that grad_scaler.h gives for other trainers' scalers
 * make the scales that those scalers make. Two patterns of overflows, growth interval 3,
 * scale 64 at the start; each row was written down from a run of the rule in the sources
 * that grad_scaler.h names, PyTorch's from torch._amp_update_scale_. */
#include <stdlib.h>

#include "tests/scaler/toy.h"
#include "tests/support/support.h"

static const char first_pattern[] = "000000010000111000000";
static const char second_pattern[] =
    "0001010001101011110111100000000001001000100010111110";

struct published {
    const char *name;
    struct grad_scaler_config rule; // of it, what is not PyTorch's default
    const char *first, *second;     // the scale after each step
};

#define PYTORCH_FIRST \
    "64 64 128 128 128 256 256 128 128 128 256 256 128 64 32 32 32 64 64 64 128"
#define PYTORCH_SECOND                                                          \
    "64 64 128 64 64 32 32 32 64 32 16 16 8 8 4 2 1 0.5 0.5 0.25 0.125 0.0625 " \
    "0.03125 0.03125 0.03125 0.0625 0.0625 0.0625 0.125 0.125 0.125 0.25 0.25 " \
    "0.125 0.125 0.125 0.0625 0.0625 0.0625 0.125 0.0625 0.0625 0.0625 0.125 "  \
    "0.0625 0.0625 0.03125 0.015625 0.0078125 0.00390625 0.001953125 0.001953125"
#define FLOOR_SECOND                                                                \
    "64 64 128 64 64 32 32 32 64 32 16 16 8 8 4 2 1 1 1 1 1 1 1 1 1 2 2 2 4 4 4 8 " \
    "8 4 4 4 2 2 2 4 2 2 2 4 2 2 1 1 1 1 1 1"
#define HYSTERESIS_FIRST \
    "64 64 128 128 128 256 256 256 256 256 512 512 512 256 128 128 128 256 256 256 512"
#define FORGIVEN_THREE_FIRST \
    "64 64 128 128 128 256 256 256 256 256 512 512 512 512 256 256 256 512 512 512 1024"
#define MEGATRON_SECOND                                                              \
    "64 64 128 128 128 64 64 64 128 128 64 64 32 32 16 8 4 2 2 1 1 1 1 1 1 2 2 2 4 " \
    "4 4 8 8 8 8 8 4 4 4 8 8 8 8 16 16 16 8 4 2 1 1 1"
#define APEX_HYSTERESIS_SECOND                                                        \
    "64 64 128 128 128 128 128 128 256 256 128 128 128 128 128 64 32 16 16 16 8 4 2 " \
    "2 2 4 4 4 8 8 8 16 16 16 16 16 16 16 16 32 32 32 32 64 64 64 64 32 16 8 4 4"

static const struct published rows[] = {
    {"PyTorch", {0}, PYTORCH_FIRST, PYTORCH_SECOND},
    {"apex amp", {.max_scale = 0x1p24}, PYTORCH_FIRST, PYTORCH_SECOND},
    {"apex amp with a ceiling of 128",
     {.max_scale = 128.0},
     "64 64 128 128 128 128 128 64 64 64 128 128 64 32 16 16 16 32 32 32 64",
     PYTORCH_SECOND},
    {"apex fp16_utils, tf-keras, MindSpore, DeepSpeed with hysteresis 1",
     {.min_scale = 1.0},
     PYTORCH_FIRST,
     FLOOR_SECOND},
    {"DeepSpeed with fused Adam",
     {.min_scale = 1.0, .growth_delay = 1},
     "64 64 64 128 128 128 256 128 128 128 128 256 128 64 32 32 32 32 64 64 64",
     "64 64 64 32 32 16 16 16 16 8 4 4 2 2 1 1 1 1 1 1 1 1 1 1 1 1 2 2 2 4 4 4 8 4 4 4 "
     "2 2 2 2 1 1 1 1 1 1 1 1 1 1 1 1"},
    {"Megatron, DeepSpeed with hysteresis 2",
     {.min_scale = 1.0, .hysteresis = 2},
     HYSTERESIS_FIRST,
     MEGATRON_SECOND},
    {"newer DeepSpeed with hysteresis 2",
     {.min_scale = 1.0, .hysteresis = 2, .growth_delay = 1},
     "64 64 64 128 128 128 256 256 256 256 256 512 512 256 128 128 128 128 256 256 256",
     "64 64 64 64 64 32 32 32 32 16 8 8 4 4 2 1 1 1 1 1 1 1 1 1 1 1 2 2 2 4 4 4 8 8 8 8 "
     "4 4 4 4 2 2 2 2 1 1 1 1 1 1 1 1"},
    {"Megatron with hysteresis 3 and a floor of 32",
     {.min_scale = 32.0, .hysteresis = 3},
     FORGIVEN_THREE_FIRST,
     "64 64 128 128 128 128 128 128 256 256 256 256 128 128 64 32 32 32 32 32 32 32 32 "
     "32 32 64 64 64 128 128 128 256 256 256 256 256 256 256 256 512 512 512 512 1024 "
     "1024 1024 1024 512 256 128 64 64"},
    {"apex hysteresis 2",
     {.hysteresis = 2, .hysteresis_refill = REFILL_ON_STEP},
     HYSTERESIS_FIRST,
     APEX_HYSTERESIS_SECOND},
    {"DeepSpeed with consecutive hysteresis 2",
     {.min_scale = 1.0, .hysteresis = 2, .hysteresis_refill = REFILL_ON_STEP},
     HYSTERESIS_FIRST,
     APEX_HYSTERESIS_SECOND},
    {"apex hysteresis 3",
     {.hysteresis = 3, .hysteresis_refill = REFILL_ON_STEP},
     FORGIVEN_THREE_FIRST,
     "64 64 128 128 128 128 128 128 256 256 256 256 256 256 256 256 128 64 64 64 64 32 "
     "16 16 16 32 32 32 64 64 64 128 128 128 128 128 128 128 128 256 256 256 256 512 "
     "512 512 512 512 256 128 64 64"},
    {"fairseq", {.min_scale = 0x1p-13}, PYTORCH_FIRST, PYTORCH_SECOND},
    {"fairseq with tolerance 0.4",
     {.min_scale = 0x1p-13, .overflow_tolerance = 0.4},
     PYTORCH_FIRST,
     "64 64 128 64 64 32 32 32 64 32 16 16 8 8 4 2 1 0.5 0.5 0.25 0.125 0.0625 0.03125 "
     "0.03125 0.03125 0.0625 0.0625 0.0625 0.125 0.125 0.125 0.25 0.25 0.125 0.125 0.125 "
     "0.125 0.125 0.125 0.25 0.125 0.125 0.125 0.25 0.125 0.125 0.0625 0.03125 0.015625 "
     "0.0078125 0.00390625 0.00390625"},
    {"fairseq with tolerance 0.7",
     {.min_scale = 0x1p-13, .overflow_tolerance = 0.7},
     "64 64 128 128 128 256 256 256 256 256 512 512 256 128 64 64 64 128 128 128 256",
     "64 64 128 64 64 64 64 64 128 64 32 32 32 32 32 32 32 16 16 16 16 8 4 4 4 8 8 8 16 "
     "16 16 32 32 32 32 32 32 32 32 64 32 32 32 64 32 32 32 32 16 8 4 4"},
};
#define ROWS (sizeof rows / sizeof *rows)

static struct grad_scaler_config config_of(const struct published *row)
{
    struct grad_scaler_config config = row->rule;
    config.enabled = 1;
    config.init_scale = 64.0;
    config.growth_factor = 2.0;
    config.backoff_factor = 0.5;
    config.growth_interval = 3;
    if (config.hysteresis == 0)
        config.hysteresis = 1;
    return config;
}

static void replay(const struct published *row, struct device *device,
                   const char *pattern, const char *scales)
{
    struct grad_scaler_config config = config_of(row);
    struct toy toy;
    toy_open(&toy, device, 5, &config);
    char *rest = (char *)scales;
    for (int i = 0; pattern[i]; i++) {
        toy_iterate(&toy, pattern[i] == '1' ? float_of_bits(0x7fc00000u) : 0.0f);
        double want = strtod(rest, &rest);
        if ((double)toy_scale(&toy) != want)
            fail_msg("%s, step %d: scale %g, published %g", row->name, i + 1,
                     (double)toy_scale(&toy), want);
        assert_int_equal(grad_scaler_record(&toy.scaler).was_skipped, pattern[i] == '1');
    }
    assert_string_equal(rest, ""); // a scale for every step
    toy_close(&toy);
}

static void replay_all(const char *device_name)
{
    struct device *device;
    assert_int_equal(device_open(device_name, 1, &device), STATUS_OK);
    for (size_t r = 0; r < ROWS; r++) {
        replay(&rows[r], device, first_pattern, rows[r].first);
        replay(&rows[r], device, second_pattern, rows[r].second);
    }
    assert_int_equal(device_fault(device), STATUS_OK);
    device_close(device);
}

static void every_published_rule_makes_its_own_scales_on_ref(void **state)
{
    (void)state;
    replay_all("ref");
}

static void every_published_rule_makes_its_own_scales_on_cpu(void **state)
{
    (void)state;
    replay_all("cpu");
}

static void fairseqs_end_of_a_run_is_told_as_at_floor(void **state)
{
    (void)state;
    struct published row = {.rule = {.min_scale = 0x1p-13}};
    struct grad_scaler_config config = config_of(&row);
    config.init_scale = 0x1p-8;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    for (int i = 1; i <= 5; i++) {
        toy_bad_steps(&toy, 1);
        assert_int_equal(grad_scaler_record(&toy.scaler).at_floor, 0);
    }
    assert_toy_scale(&toy, 0x1p-13f, 0);
    toy_bad_steps(&toy, 1); // fairseq raises its FloatingPointError here
    assert_int_equal(grad_scaler_record(&toy.scaler).at_floor, 1);
    assert_toy_scale(&toy, 0x1p-13f, 0);
    assert_int_equal(grad_scaler_read(&toy.scaler).backoffs, 5);
    toy_good_steps(&toy, 1);
    assert_int_equal(grad_scaler_record(&toy.scaler).at_floor, 0);
    toy_close(&toy);
}

static void deepspeeds_end_of_a_run_is_told_only_where_hysteresis_is_used_up(void **state)
{
    (void)state;
    struct published row = {.rule = {.min_scale = 64.0, .hysteresis = 3}};
    struct grad_scaler_config config = config_of(&row);
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    for (int i = 1; i <= 4; i++) {
        toy_bad_steps(&toy, 1);
        struct step_record record = grad_scaler_record(&toy.scaler);
        assert_int_equal(record.at_floor, i >= 3);
        assert_int_equal(record.hysteresis_used, i < 3 ? i : 3);
    }
    assert_toy_scale(&toy, 64.0f, 0);
    toy_close(&toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_published_rule_makes_its_own_scales_on_ref),
        cmocka_unit_test(every_published_rule_makes_its_own_scales_on_cpu),
        cmocka_unit_test(fairseqs_end_of_a_run_is_told_as_at_floor),
        cmocka_unit_test(
            deepspeeds_end_of_a_run_is_told_only_where_hysteresis_is_used_up),
    };
    return cmocka_run_group_tests(tests, toy_open_device, toy_close_device);
}
