/* The table of settings and the command line: what is set, what is refused, in which
 * words. */
#include "app/config/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/config/config_table.h"
#include "scaler/grad_scaler.h"
#include "tests/support/support.h"

/* Parses a command line that is split at blanks. */
static enum status parse(struct config *config, const char *line)
{
    char copy[1024];
    char *arguments[64], *rest = copy;
    int count = 0, wants_help;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; (word = strsep(&rest, " "));)
        if (*word)
            arguments[count++] = word;
    return config_parse(config, count, arguments, &wants_help, NULL);
}

static struct config parsed(const char *line)
{
    struct config config;
    config_default(&config);
    if (parse(&config, line) != STATUS_OK)
        fail_msg("%s: %s", line, status_message());
    return config;
}

/* The line, then config_check(), fail with `code` and a sentence that holds `words`. */
static void assert_refused(const char *line, enum status code, const char *words)
{
    struct config config;
    config_default(&config);
    enum status status = parse(&config, line);
    if (status == STATUS_OK)
        status = config_check(&config);
    if (status != code || !strstr(status_message(), words))
        fail_msg("%s: status %d, \"%s\"; want %d with \"%s\"", line, (int)status,
                 status ? status_message() : "", (int)code, words);
}

/* ---- the table ------------------------------------------------------------------- */

static void test_defaults_are_those_of_dcgan_at_64_pixels(void **state)
{
    (void)state;
    struct config config;
    memset(&config, 0xff, sizeof config);
    config_default(&config);
    assert_int_equal(config.resolution, 0); // auto: 64, but for smaller images
    assert_int_equal(config.batch, 64);
    assert_int_equal(config.latent, 100);
    assert_int_equal(config.precision, PRECISION_FP16);
    assert_string_equal(config.out, "outputs");
    assert_string_equal(config.device, "auto");
    assert_string_equal(config.data, "");
    assert_int_equal(config.grid_columns, 8);
    assert_int_equal(config.grid_rows, 8);
    for (int i = 0; i < 2; i++) {
        struct network_config network = i ? config.d : config.g;
        assert_int_equal(network.width, 64);
        assert_true(network.lr == 2e-4 && network.beta1 == 0.5 && network.beta2 == 0.999);
        assert_true(network.init_scale == 65536.0 && network.growth_factor == 2.0);
        assert_true(network.backoff_factor == 0.5 && network.growth_interval == 2000);
        // Nothing beyond PyTorch's rule.
        assert_true(network.min_scale == 0.0 && network.max_scale == 0.0);
        assert_true(network.hysteresis == 1 && network.overflow_tolerance == 0.0);
        assert_true(network.hysteresis_refill == REFILL_ON_GROWTH);
        assert_int_equal(network.growth_delay, 0);
        assert_true(network.clip_norm == 0.0 && network.accum == 1);
    }
}

static void test_the_table_covers_every_byte_of_the_config_in_order(void **state)
{
    (void)state;
    size_t end = 0;
    for (int i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        size_t bytes =
            setting->kind == SETTING_GRID ? 2 * setting->bytes : setting->bytes;
        // A hole of more than padding is a field that no row sets.
        if (setting->offset < end || setting->offset - end >= 8)
            fail_msg("%s is at %zu, and the row before it ends at %zu", setting->name,
                     setting->offset, end);
        end = setting->offset + bytes;
    }
    assert_true(sizeof(struct config) - end < 8);
}

static void
test_every_setting_has_a_flag_a_sentence_and_a_value_that_it_reads_back(void **state)
{
    (void)state;
    struct config config, copy;
    config_default(&config);
    config_default(&copy);
    for (int i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        char flag[SETTING_FLAG], text[CONFIG_TEXT];
        assert_non_null(setting->help);
        assert_ptr_equal(setting_find(setting->name), setting); // no name twice
        assert_ptr_equal(setting_find(setting_flag(setting, flag) + 2), setting);
        assert_true(setting->kind == SETTING_SWITCH || setting->choices || setting->unit);
        setting_text(setting, &config, text);
        assert_int_equal(setting_parse(setting, &copy, text, flag), STATUS_OK);
    }
    assert_memory_equal(&config, &copy, sizeof config);
}

/* The value nearest to an end of the range that the table lets through. */
static double end_of(const char *name, int is_max)
{
    const struct setting *setting = setting_find(name);
    if (is_max)
        return setting->max;
    return setting->is_min_open ? nextafter(setting->min, HUGE_VAL) : setting->min;
}

// Numbers that no step rounds to f32.
static int stays_f64(const char *name)
{
    static const char *const names[] = {"kimg",
                                        "tick",
                                        "snap",
                                        "img_snap",
                                        "ema_kimg",
                                        "ema_rampup",
                                        "g_overflow_tolerance",
                                        "d_overflow_tolerance"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

static void test_no_number_that_is_allowed_turns_into_another_one_in_f32(void **state)
{
    (void)state;
    int seen = 0;
    for (int i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->kind != SETTING_DOUBLE || stays_f64(setting->name))
            continue;
        seen++;
        float least = (float)end_of(setting->name, 0),
              most = (float)end_of(setting->name, 1);
        if (!(least > 0.0f) || !isfinite(most))
            fail_msg("%s: %g is %g in f32, %g is %g", setting->name, setting->min,
                     (double)least, setting->max, (double)most);
        // A share stays below 1, and a factor above it.
        if ((setting->max < 1.0 && !(most < 1.0f)) ||
            (setting->min > 1.0 && !(least > 1.0f)))
            fail_msg("%s becomes 1 in f32", setting->name);
    }
    assert_int_equal(seen, 21);
    assert_true(1.0f - (float)end_of("label_smoothing", 0) < 1.0f);
    struct config config = parsed("photos --d-clip-norm 0.0 --g-clip-norm -0");
    assert_true(config.d.clip_norm == 0.0 && !signbit(config.g.clip_norm));
    assert_refused("photos --d-clip-norm 1e-46", STATUS_USAGE,
                   "--d-clip-norm: \"1e-46\" is out of range; give 0 or a number from "
                   "1e-37 to 1e37");
    assert_refused("photos --g-backoff-factor 0.99999999", STATUS_USAGE,
                   "is out of range; give a number from 1e-37 to 0.999999");
    assert_refused(
        "photos --ema-kimg 1e6 --batch 2", STATUS_USAGE,
        "--ema-kimg: with a half-life of 1e6 kimg and 2 images a step, the decay "
        "rounds to 1 in f32 and the average would never move; give at most 40000");
    config = parsed("photos --ema-kimg 40000 --batch 2");
    assert_int_equal(config_check(&config), STATUS_OK);
}

static void test_a_loss_scaler_takes_all_that_the_table_allows(void **state)
{
    (void)state;
    for (int ends = 0; ends < 16; ends++) {
        struct grad_scaler_config scaler = {
            .enabled = 1,
            .init_scale = end_of("g_init_scale", ends & 1),
            .growth_factor = end_of("g_growth_factor", ends >> 1 & 1),
            .backoff_factor = end_of("g_backoff_factor", ends >> 2 & 1),
            .growth_interval = (int64_t)end_of("g_growth_interval", ends >> 3 & 1),
            .hysteresis = 1,
        };
        if (grad_scaler_check_config(&scaler, "g") != STATUS_OK)
            fail_msg("%s", status_message());
    }
}

static void
test_a_loss_scaler_takes_all_that_the_table_allows_beyond_pytorch(void **state)
{
    (void)state;
    for (int ends = 0; ends < 32; ends++) {
        struct grad_scaler_config scaler = grad_scaler_default_config();
        scaler.min_scale = end_of("g_min_scale", ends & 1);
        scaler.max_scale = end_of("g_max_scale", (ends >> 1 & 1) | (ends & 1));
        scaler.init_scale = end_of("g_init_scale", ends & 1);
        if (ends >> 2 & 1)
            scaler.hysteresis = (int)end_of("g_hysteresis", ends >> 3 & 1);
        else
            scaler.overflow_tolerance = end_of("g_overflow_tolerance", ends >> 3 & 1);
        scaler.growth_delay = (int)end_of("g_growth_delay", ends >> 4 & 1);
        if (grad_scaler_check_config(&scaler, "g") != STATUS_OK)
            fail_msg("%s", status_message());
    }
}

static void test_each_networks_scaler_has_its_own_rule(void **state)
{
    (void)state;
    struct config config = parsed(
        "photos --g-init-scale 512 --g-min-scale 1 --g-max-scale 1024 --g-hysteresis 2 "
        "--g-hysteresis-refill step --d-overflow-tolerance 0.25 --d-growth-delay 1");
    assert_int_equal(config_check(&config), STATUS_OK);
    struct grad_scaler_config g = config_scaler(&config, &config.g);
    struct grad_scaler_config d = config_scaler(&config, &config.d);
    assert_true(g.init_scale == 512.0 && g.min_scale == 1.0 && g.max_scale == 1024.0);
    assert_true(g.hysteresis == 2 && g.hysteresis_refill == REFILL_ON_STEP);
    assert_true(g.overflow_tolerance == 0.0 && g.growth_delay == 0 && !g.is_static);
    assert_true(d.init_scale == 65536.0 && d.min_scale == 0.0 && d.max_scale == 0.0);
    assert_true(d.hysteresis == 1 && d.hysteresis_refill == REFILL_ON_GROWTH);
    assert_true(d.overflow_tolerance == 0.25 && d.growth_delay == 1);

    config = parsed("photos --scaler static --d-init-scale 1024");
    assert_int_equal(config_check(&config), STATUS_OK);
    d = config_scaler(&config, &config.d);
    assert_true(d.is_static && d.init_scale == 1024.0);
}

static void test_a_scale_that_is_to_be_found_begins_within_its_limits(void **state)
{
    (void)state;
    struct config config = parsed("photos --g-init-scale auto --g-max-scale 1000 "
                                  "--d-init-scale=auto --d-min-scale 1e5");
    assert_int_equal(config_check(&config), STATUS_OK);
    assert_true(config.g.init_scale == 0.0 && config.d.init_scale == 0.0);
    assert_true(config_scaler(&config, &config.g).init_scale == 1000.0);
    assert_true(config_scaler(&config, &config.d).init_scale == 1e5);
    config.d.min_scale = 0.0;
    assert_true(config_init_scale(&config.d) == 65536.0);
    char text[CONFIG_TEXT];
    assert_string_equal(setting_text(setting_find("g_init_scale"), &config, text),
                        "auto");
    config = parsed("photos --scaler static:auto");
    assert_true(config.scaler == SCALER_STATIC && config.g.init_scale == 0.0 &&
                config.d.init_scale == 0.0);
    assert_refused("photos --g-init-scale aut", STATUS_USAGE,
                   "--g-init-scale: \"aut\" is not a number; give auto or a number from "
                   "1e-37 to 1.7e38");
    assert_refused("photos --g-lr auto", STATUS_USAGE, "\"auto\" is not a number");
    assert_refused("photos --scaler shared --g-init-scale auto", STATUS_USAGE,
                   "--g-init-scale: G has auto and D 65536");
    assert_refused("photos --init-margin 65", STATUS_USAGE,
                   "\"65\" is out of range; give a whole number from 0 to 64");
}

static void test_changes_at_a_kimg_are_read_or_refused(void **state)
{
    (void)state;
    struct timed_change changes[SET_AT_MAX];
    int count;
    assert_int_equal(config_read_set_at("", changes, &count), STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(
        config_read_set_at("0:g.lr=1e-3,d.scale=64,0.3:d.lr=1e-4", changes, &count),
        STATUS_OK);
    assert_int_equal(count, 2);
    assert_true(changes[0].kimg == 0.0 && changes[0].images == 0);
    assert_string_equal(changes[0].request, "g.lr=1e-3\nd.scale=64");
    assert_int_equal(changes[1].images, 300); // 0.3 * 1000 is a little more in binary
    assert_string_equal(changes[1].request, "d.lr=1e-4");
    static const char *const rows[][2] = {
        {"50g.lr=1",
         "--set-at: \"50g.lr=1\" cannot be read; give a kimg and what changes"},
        {"g.lr=1", "\"g.lr=1\" cannot be read"},
        {"5:g.lr", "\"5:g.lr\" cannot be read"},
        {"5:=1", "cannot be read"},
        {"5:g.lr=1,", "\"\" cannot be read"},
        {"soon:g.lr=1", "the kimg \"soon\" is not a number; give a number from 0"},
        {"-1:g.lr=1", "the kimg \"-1\" is out of range"},
        {"1e9:g.lr=1", "the kimg \"1e9\" is out of range"},
        {"2:g.lr=1,2:d.lr=1", "2 kimg comes after 2; give each kimg once"},
        {"1000:g.lr=1", "no step begins at 1000 kimg or later, because the run ends at "
                        "1000; give less, or a larger --kimg"},
        {"999.99:g.lr=1", "no step begins at 999.99 kimg or later"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[128];
        snprintf(line, sizeof line, "photos --set-at %s", rows[i][0]);
        assert_refused(line, STATUS_USAGE, rows[i][1]);
    }
    char many[CONFIG_TEXT] = "";
    for (int i = 0; i <= SET_AT_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%s%d:g.lr=1",
                 i ? "," : "", i);
    assert_int_equal(config_read_set_at(many, changes, &count), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "has more than 32 times"));
}

static void test_a_static_scale_may_be_given_with_its_value(void **state)
{
    (void)state;
    struct config config = parsed("photos --scaler static:512");
    assert_int_equal(config.scaler, SCALER_STATIC);
    assert_true(config.g.init_scale == 512.0 && config.d.init_scale == 512.0);
    // Flags count in their order: a later one wins.
    config = parsed("photos --scaler=static:512 --d-init-scale 64");
    assert_true(config.g.init_scale == 512.0 && config.d.init_scale == 64.0);
    assert_int_equal(config.scaler, SCALER_STATIC);
    // Without a value the scale is looked for, unless one is given elsewhere.
    config = parsed("photos --scaler static");
    assert_true(config.g.init_scale == 0.0 && config.d.init_scale == 0.0);
    config = parsed("photos --d-init-scale 64 --scaler static");
    assert_true(config.g.init_scale == 0.0 && config.d.init_scale == 64.0);
    config = parsed("photos --scaler static:512");
    // What is saved says the same without it.
    char text[CONFIG_TEXT];
    assert_string_equal(setting_text(setting_find("scaler"), &config, text), "static");
    assert_refused("photos --scaler static:", STATUS_USAGE, "--scaler: \"\" is");
    assert_refused("photos --scaler static:big", STATUS_USAGE,
                   "--scaler: \"big\" is not");
    assert_refused("photos --scaler static:0", STATUS_USAGE,
                   "--scaler: \"0\" is out of range; give auto or a number from 1e-37");
    assert_refused("photos --scaler shared:512", STATUS_USAGE,
                   "--scaler: \"shared:512\" is not one of the choices");
    assert_refused("photos --scaler static:512 --g-max-scale 256", STATUS_USAGE,
                   "--g-init-scale: 512 is above --g-max-scale 256");
}

static void test_one_scale_for_both_takes_one_rule_and_one_step_of_each(void **state)
{
    (void)state;
    assert_int_equal(parsed("photos --scaler shared").scaler, SCALER_SHARED);
    assert_int_equal(parsed("photos --scaler per-loss --n-dis 3").scaler,
                     SCALER_PER_LOSS);
    struct config config = parsed("photos --scaler shared-per-step --n-dis 2");
    assert_int_equal(config_check(&config), STATUS_OK);
    assert_refused("photos --scaler shared --n-dis 2", STATUS_USAGE,
                   "--scaler: shared moves the scale once after one step of each "
                   "network, and --n-dis is 2; give --n-dis 1, or shared-per-step");
    assert_refused("photos --scaler shared --g-growth-interval 500", STATUS_USAGE,
                   "--g-growth-interval: G has 500 and D 2000, but with --scaler shared "
                   "they have one scale between them; give both the same");
    assert_refused("photos --scaler shared-per-step --d-hysteresis-refill step",
                   STATUS_USAGE, "--g-hysteresis-refill: G has growth and D step");
    // Every setting of a rule is asked for.
    static const char *const settings_of_a_rule[] = {
        "init-scale 3",   "growth-factor 3",   "backoff-factor 0.3",
        "min-scale 3",    "max-scale 1e6",     "hysteresis 3",
        "growth-delay 3", "growth-interval 3", "overflow-tolerance 0.3"};
    for (size_t i = 0; i < sizeof settings_of_a_rule / sizeof *settings_of_a_rule; i++) {
        char line[128];
        snprintf(line, sizeof line, "photos --scaler shared --d-%s",
                 settings_of_a_rule[i]);
        assert_refused(line, STATUS_USAGE, "but with --scaler shared");
    }
}

static void test_the_defaults_of_a_scaler_are_pytorchs_here_and_there(void **state)
{
    (void)state;
    struct config config;
    config_default(&config);
    struct grad_scaler_config want = grad_scaler_default_config();
    struct grad_scaler_config got = config_scaler(&config, &config.g);
    got.enabled = 1;
    assert_true(got.init_scale == want.init_scale && got.is_static == want.is_static);
    assert_true(got.growth_factor == want.growth_factor);
    assert_true(got.backoff_factor == want.backoff_factor);
    assert_true(got.growth_interval == want.growth_interval);
    assert_true(got.min_scale == want.min_scale && got.max_scale == want.max_scale);
    assert_true(got.hysteresis == want.hysteresis);
    assert_true(got.hysteresis_refill == want.hysteresis_refill);
    assert_true(got.overflow_tolerance == want.overflow_tolerance);
    assert_true(got.growth_delay == want.growth_delay);
}

/* ---- the command line ------------------------------------------------------------ */

static void test_values_follow_after_a_blank_or_an_equals_sign(void **state)
{
    (void)state;
    struct config config =
        parsed("--data photos --batch=32 --g-lr 1e-4 --d_lr=3e-4 --seed 2e5 "
               "--grid 4x2 --precision bf16 --kimg=0.5 --resolution 28 "
               "--d-growth-interval 100 --device cuda:1");
    assert_string_equal(config.data, "photos");
    assert_int_equal(config.batch, 32);
    assert_true(config.g.lr == 1e-4 && config.d.lr == 3e-4);
    assert_int_equal(config.seed, 200000);
    assert_int_equal(config.grid_columns, 4);
    assert_int_equal(config.grid_rows, 2);
    assert_int_equal(config.precision, PRECISION_BF16);
    assert_true(config.kimg == 0.5);
    assert_int_equal(config.resolution, 28);
    assert_int_equal(config.d.growth_interval, 100);
    assert_int_equal(config.g.growth_interval, 2000);
    assert_string_equal(config.device, "cuda:1");
}

static void test_switches_take_no_value_or_a_plain_one(void **state)
{
    (void)state;
    assert_int_equal(parsed("--mirror").mirror, 1);
    assert_int_equal(parsed("--mirror --no-mirror").mirror, 0);
    assert_int_equal(parsed("--mirror=yes").mirror, 1);
    assert_int_equal(parsed("--mirror=1 --mirror=off").mirror, 0);
    assert_int_equal(parsed("--mirror 1").mirror, 1);
    assert_int_equal(parsed("--mirror 0").mirror, 0);
    assert_int_equal(parsed("-n").dry_run, 1);
    // What follows a switch is a data set, not its value.
    struct config config = parsed("--mirror photos");
    assert_int_equal(config.mirror, 1);
    assert_string_equal(config.data, "photos");
}

static void test_a_preset_is_applied_before_the_flags_wherever_it_stands(void **state)
{
    (void)state;
    struct config config = parsed("--batch 16 --preset fmnist-quick --latent 8");
    assert_int_equal(config.batch, 16);
    assert_int_equal(config.latent, 8);
    assert_int_equal(config.resolution, 28);
    assert_int_equal(config.channels, 0); // those of its data
    assert_int_equal(config.g.width, 24);
    assert_string_equal(config.data, "fashion-mnist");
    assert_string_equal(config.preset, "fmnist-quick");
    assert_int_equal(config_check(&config), STATUS_OK);
    // A script's own flags come first, its caller's win.
    assert_int_equal(parsed("--preset fmnist-quick --preset dcgan32").resolution, 32);
    assert_int_equal(parsed("--batch 16 --batch 8").batch, 8);
}

static void test_every_preset_is_a_run_that_can_begin(void **state)
{
    (void)state;
    static const int resolutions[] = {28, 28, 32, 64};
    assert_int_equal(embedded_preset_count, 4);
    for (int i = 0; i < embedded_preset_count; i++) {
        struct config config;
        config_default(&config);
        const char *name = embedded_presets[i].name;
        assert_int_equal(config_apply_preset(&config, name), STATUS_OK);
        assert_int_equal(config.resolution, resolutions[i]);
        if (!config.data[0])
            assert_int_equal(config_set(&config, "data", "photos", "--data"), STATUS_OK);
        assert_int_equal(config_check(&config), STATUS_OK);
        char *about = config_json_about(embedded_presets[i].json);
        assert_non_null(about);
        free(about);
    }
}

static struct config parsed_with(const char *line, struct config_origins *origins)
{
    struct config config;
    char copy[1024], *arguments[64], *rest = copy;
    int count = 0, wants_help;
    config_default(&config);
    config_origins_begin(origins, ORIGIN_DEFAULT);
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; (word = strsep(&rest, " "));)
        arguments[count++] = word;
    if (config_parse(&config, count, arguments, &wants_help, origins) != STATUS_OK)
        fail_msg("%s: %s", line, status_message());
    return config;
}

static void test_every_setting_has_an_origin(void **state)
{
    (void)state;
    struct config_origins origins;
    struct config config =
        parsed_with("--preset fmnist-quick --batch=32 --no-mirror", &origins);
    assert_string_equal(config_origin(&origins, "batch"), "command line");
    assert_string_equal(config_origin(&origins, "mirror"), "command line");
    assert_string_equal(config_origin(&origins, "preset"), "command line");
    assert_string_equal(config_origin(&origins, "latent"), "preset fmnist-quick");
    assert_string_equal(config_origin(&origins, "g_beta1"), "default");
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    // All but --dry-run and --show-config.
    assert_int_equal(config_print_origins(stream, &config, &origins, 0),
                     setting_count - 2);
    fflush(stream);
    assert_non_null(strstr(text, "  --batch                32                       "
                                 "command line\n"));
    assert_non_null(strstr(text, "  --g-beta1              0.5                      "
                                 "default\n"));
    rewind(stream);
    config_print_origins(stream, &config, &origins, 1);
    fclose(stream);
    assert_null(strstr(text, "--g-beta1"));
    assert_non_null(
        strstr(text, "--latent               64                       preset"));
    free(text);

    parsed_with("photos --scaler static:512", &origins);
    assert_string_equal(config_origin(&origins, "data"), "command line");
    assert_string_equal(config_origin(&origins, "d_init_scale"), "command line");
}

static void test_a_presets_name_without_its_flag_is_recognised(void **state)
{
    (void)state;
    assert_refused("fmnist-quick", STATUS_USAGE, "did you mean --preset fmnist-quick?");
    assert_refused("--batch 8 dcgan46", STATUS_USAGE, "did you mean --preset dcgan64?");
    assert_string_equal(parsed("fashion-mnist").data, "fashion-mnist");
    assert_string_equal(parsed("photos").data, "photos");
}

static void
test_after_two_dashes_a_word_is_a_data_set_whatever_it_looks_like(void **state)
{
    (void)state;
    assert_string_equal(parsed("--batch 8 -- --photos").data, "--photos");
    assert_string_equal(parsed("--data=--photos --").data, "--photos");
    assert_string_equal(parsed("-").data, "-");
}

static void test_help_is_told_whatever_else_is_wrong(void **state)
{
    (void)state;
    char *arguments[] = {"--bogus", "--batch", "-h"};
    struct config config;
    int wants_help = 0;
    config_default(&config);
    assert_int_equal(config_parse(&config, 3, arguments, &wants_help, NULL), STATUS_OK);
    assert_int_equal(wants_help, 1);
    assert_int_equal(config_parse(&config, 0, arguments, &wants_help, NULL), STATUS_OK);
    assert_int_equal(wants_help, 0);
}

/* ---- what is refused ------------------------------------------------------------- */

static void test_an_unknown_setting_is_refused_with_the_one_that_was_meant(void **state)
{
    (void)state;
    assert_refused("--kimgs 3", STATUS_USAGE,
                   "--kimgs: there is no such setting; did you "
                   "mean --kimg?");
    assert_refused("--g-ls 1", STATUS_USAGE, "did you mean --g-lr?");
    assert_refused("--bacth 1", STATUS_USAGE, "did you mean --batch?");
    assert_refused("--outdir x", STATUS_USAGE, "did you mean --out?");
    assert_refused("--dlr 1", STATUS_USAGE, "did you mean --d-lr?");
    assert_refused("--batchSize 1", STATUS_USAGE, "did you mean --batch?");
    assert_refused("--lr 1", STATUS_USAGE,
                   "give --g-lr for the generator, --d-lr for the");
    assert_refused("--growth-interval=9", STATUS_USAGE, "give --g-growth-interval for");
    assert_refused("--zebra 1", STATUS_USAGE,
                   "--zebra: there is no such setting; `twinscale");
    assert_refused("--no-batch", STATUS_USAGE, "--no-batch: there is no such setting");
    assert_refused("-x", STATUS_USAGE, "-x: there is no such short flag");
}

static void test_a_missing_or_superfluous_value_is_named(void **state)
{
    (void)state;
    assert_refused("--batch", STATUS_USAGE,
                   "--batch: its value is missing; give a whole number from 1 to 8192");
    assert_refused("--out --seed 3", STATUS_USAGE, "--out: its value is missing");
    assert_refused("--no-mirror=1", STATUS_USAGE, "--no-mirror: takes no value");
    assert_refused(
        "a b", STATUS_USAGE,
        "b: a word without a flag is the data set, which is \"a\" already; give one");
    assert_refused("--data a b", STATUS_USAGE, "which is \"a\" already");
}

static void test_a_value_out_of_range_is_refused_with_the_range(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"--batch 0",
         "--batch: \"0\" is out of range; give a whole number from 1 to 8192"},
        {"--batch 2.5", "\"2.5\" is not a whole number"},
        {"--batch 12abc", "\"12abc\" is not a number"},
        {"--kimg 0", "\"0\" is out of range; give a number above 0 and at most 1e8"},
        {"--tick 0", "--tick: \"0\" is out of range"},
        {"--snap -1", "--snap: \"-1\" is out of range"},
        {"--img-snap nan", "--img-snap: \"nan\" is not a number"},
        {"--seed 99999999999999999999", "\"99999999999999999999\" is out of range"},
        {"--seed -1", "--seed: \"-1\" is out of range; give a whole number from 0 to"},
        {"--threads 0x10", "\"0x10\" is not a number"},
        {"--g-init-scale 0", "--g-init-scale: \"0\" is out of range"},
        {"--d-init-scale inf", "--d-init-scale: \"inf\" is not a number"},
        {"--d-init-scale 1e39", "--d-init-scale: \"1e39\" is out of range"},
        {"--g-growth-factor 1",
         "\"1\" is out of range; give a number from 1.000001 to 65536"},
        {"--g-backoff-factor 1",
         "\"1\" is out of range; give a number from 1e-37 to 0.999999"},
        {"--d-backoff-factor 0", "--d-backoff-factor: \"0\" is out of range"},
        {"--d-backoff-factor -0.5", "--d-backoff-factor: \"-0.5\" is out of range"},
        {"--d-growth-interval 0", "--d-growth-interval: \"0\" is out of range"},
        {"--d-growth-interval 2147483648", "give a whole number from 1 to 2147483647"},
        {"--g-min-scale -1", "--g-min-scale: \"-1\" is out of range"},
        {"--g-max-scale 1e39", "--g-max-scale: \"1e39\" is out of range"},
        {"--d-hysteresis 0",
         "--d-hysteresis: \"0\" is out of range; give a whole number from 1 to 100"},
        {"--g-hysteresis-refill never", "give growth or step"},
        {"--d-overflow-tolerance 1",
         "\"1\" is out of range; give a number from 0 to 0.9"},
        {"--g-growth-delay -1", "--g-growth-delay: \"-1\" is out of range"},
        {"--scaler fixed",
         "give auto, per-network, shared, shared-per-step, per-loss, static or off"},
        {"--g-beta2 1",
         "--g-beta2: \"1\" is out of range; give 0 or a number from 1e-37 to 0.999999"},
        {"--g-eps 0", "--g-eps: \"0\" is out of range"},
        {"--g-lr 1e-50", "--g-lr: \"1e-50\" is out of range"},
        {"--ema-rampup 2",
         "--ema-rampup: \"2\" is out of range; give a number from 0 to 1"},
        {"--resolution 65",
         "--resolution: \"65\" is not possible; give auto, 28, 32, 64 or 128"},
        {"--grid 8", "--grid: \"8\" is not a grid; give columns x rows, such as 8x8"},
        {"--grid 8xa", "\"8xa\" is not a grid"},
        {"--grid 0x8", "\"0x8\" is out of range"},
        {"--grid 65x1", "\"65x1\" is out of range"},
        {"--precision fp8", "is not one of the choices; give fp16, bf16 or fp32"},
        {"--preview windw", "(did you mean window?); give auto, window, png or off"},
        {"--mirror=maybe", "--mirror: \"maybe\" is neither on nor off"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(rows[i][0], STATUS_USAGE, rows[i][1]);
}

static void test_text_that_a_json_file_cannot_hold_is_refused(void **state)
{
    (void)state;
    char line[700] = "--data ";
    memset(line + 7, 'a', 600);
    assert_refused(line, STATUS_USAGE, "--data: the value has 600 bytes and at most 511");
    line[7 + 512] = '\0';
    assert_refused(line, STATUS_USAGE, "--data: the value has 512 bytes and at most 511");
    line[7 + 511] = '\0';
    assert_int_equal(strlen(parsed(line).data), 511);
    assert_refused("--data b\xe9t\xe9", STATUS_USAGE,
                   "--data: byte 2 of the value is not "
                   "UTF-8");
    assert_refused("--data a\xc0\xaf", STATUS_USAGE, "byte 2");     // overlong
    assert_refused("--data a\xed\xa0\x80", STATUS_USAGE, "byte 2"); // a surrogate
    assert_string_equal(parsed("--data b\xc3\xa9t\xc3\xa9/\xf0\x9f\x90\x88").data,
                        "b\xc3\xa9t\xc3\xa9/\xf0\x9f\x90\x88");
}

static void test_settings_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    assert_refused("", STATUS_USAGE, "--data: missing; give a folder of pictures");
    assert_refused("photos --batch 1", STATUS_USAGE,
                   "--batch: 1 image cannot be normalised");
    assert_refused("photos --kimg 0.01", STATUS_USAGE,
                   "--kimg: 0.01 kimg is less than one batch of 64 images; give at least "
                   "0.064");
    assert_refused("photos --out=", STATUS_USAGE, "--out: is empty");
    assert_refused("photos --desc a/b", STATUS_USAGE, "--desc: \"a/b\" has a character");
    assert_refused("photos --g-min-scale 8 --g-init-scale 4", STATUS_USAGE,
                   "--g-init-scale: 4 is below --g-min-scale 8; give a scale from");
    assert_refused(
        "photos --d-max-scale 1024", STATUS_USAGE,
        "--d-init-scale: 65536 is above --d-max-scale 1024; give a scale from");
    assert_refused("photos --d-min-scale 64 --d-max-scale 32", STATUS_USAGE,
                   "--d-min-scale: 64 is above --d-max-scale 32; give a minimum");
    assert_refused("photos --d-min-scale 1e-40", STATUS_USAGE,
                   "--d-min-scale: \"1e-40\" is out of range; give 0 or a number");
    assert_refused("photos --g-hysteresis 2 --g-overflow-tolerance 0.5", STATUS_USAGE,
                   "--g-overflow-tolerance: 0.5 is given beside --g-hysteresis 2");
    assert_refused("photos --d-hysteresis 25", STATUS_USAGE,
                   "--d-hysteresis: 25 overflows in a row would lower the scale, and "
                   "--max-skips ends the run after 25; give less");
    assert_refused("photos --inject x:1:inf", STATUS_USAGE,
                   "--inject: \"x:1:inf\" is not a "
                   "fault");
    assert_refused("photos --gpus 2 --on-overflow-storm rollback", STATUS_USAGE,
                   "--on-overflow-storm: rollback is for one GPU, and --gpus is 2");
    assert_refused("photos --gpus 2 --on-overflow-storm fp32-layer", STATUS_USAGE,
                   "--on-overflow-storm: fp32-layer is for one GPU, and --gpus is 2");
    assert_refused("photos --on-overflow-storm bf16-layer", STATUS_USAGE,
                   "--on-overflow-storm");
}

static void assert_accepted(const char *line)
{
    struct config config = parsed(line);
    if (config_check(&config) != STATUS_OK)
        fail_msg("%s: %s", line, status_message());
}

static void test_settings_at_the_edge_of_a_contradiction_are_none(void **state)
{
    (void)state;
    assert_accepted("photos --batch 2");
    assert_accepted("photos --kimg 0.064");
    assert_accepted("photos --d-hysteresis 24");
    assert_accepted("photos --g-min-scale 8 --g-init-scale 8 --g-max-scale 8");
    assert_accepted("photos --gpus 2 --batch 4");
    assert_refused("photos --gpus 2 --batch 2", STATUS_USAGE, "are one for each");
    assert_accepted("photos --gpus 2 --batch 2 --sync-bn");
    assert_refused("photos --gpus 3", STATUS_USAGE, "cannot be shared evenly by 3 GPUs");
    assert_accepted("photos --gpus 2 --on-overflow-storm warn");
}

static void test_an_initial_scale_that_is_found_later_lies_within_the_limits(void **state)
{
    (void)state;
    struct config config = parsed("photos --g-init-scale auto --d-init-scale 512");
    assert_true(config_init_scale(&config.g) == 65536.0);
    assert_true(config_init_scale(&config.d) == 512.0);
    config = parsed("photos --g-init-scale auto --g-max-scale 1024");
    assert_true(config_init_scale(&config.g) == 1024.0);
    config = parsed("photos --g-init-scale auto --g-min-scale 131072");
    assert_true(config_init_scale(&config.g) == 131072.0);
}

static void test_a_change_at_a_kimg_comes_at_that_image(void **state)
{
    (void)state;
    struct timed_change changes[SET_AT_MAX];
    int count;
    // A ten millionth of an image more is no other image.
    assert_int_equal(config_read_set_at("0.0700000001:g.lr=1e-3,d.lr=1e-3,0.5:g.lr=1e-4",
                                        changes, &count),
                     STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(changes[0].images, 70);
    assert_string_equal(changes[0].request, "g.lr=1e-3\nd.lr=1e-3");
    assert_int_equal(changes[1].images, 500);
    assert_int_equal(config_read_set_at("1:g.lr=1,1:d.lr=1", changes, &count),
                     STATUS_USAGE);
    assert_non_null(strstr(status_message(), "give each kimg once, in rising order"));
}

static void test_one_scale_takes_one_rule(void **state)
{
    (void)state;
    static const char *const own[] = {"init-scale 64",       "growth-factor 4",
                                      "backoff-factor 0.25", "growth-interval 7",
                                      "min-scale 2",         "max-scale 131072",
                                      "hysteresis 2",        "hysteresis-refill step",
                                      "growth-delay 3",      "overflow-tolerance 0.25"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        char line[160];
        snprintf(line, sizeof line, "photos --d-%s", own[i]);
        assert_accepted(line);
        snprintf(line, sizeof line, "photos --scaler shared --d-%s", own[i]);
        assert_refused(line, STATUS_USAGE, "one scale between them; give both the same");
        snprintf(line, sizeof line, "photos --scaler shared-per-step --g-%s --d-%s",
                 own[i], own[i]);
        assert_accepted(line);
    }
    assert_refused("photos --scaler shared --n-dis 2", STATUS_USAGE, "--n-dis is 2");
    assert_accepted("photos --scaler shared-per-step --n-dis 2");
}

static void test_check_also_sees_values_that_did_not_come_from_text(void **state)
{
    (void)state;
    struct config config = parsed("photos");
    assert_int_equal(config_check(&config), STATUS_OK);
    config.resolution = 96;
    assert_int_equal(config_check(&config), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "--resolution: \"96\""));
    config = parsed("photos");
    config.tick = 0.0 / 0.0;
    assert_int_equal(config_check(&config), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "--tick: \"inf or NaN\""));
}

static int read_faults(const char *text, struct planted_fault faults[FAULTS_MAX])
{
    int count;
    return config_read_faults(text, faults, &count) == STATUS_OK ? count : -1;
}

static void test_a_fault_to_plant_is_read_or_refused(void **state)
{
    (void)state;
    struct planted_fault faults[FAULTS_MAX], *fault = &faults[0];
    assert_int_equal(read_faults("", faults), 0);
    assert_int_equal(read_faults("d:10-40:inf", faults), 1);
    assert_true(fault->is_in_d && fault->kind == FAULT_INF);
    assert_true(fault->first == 10 && fault->last == 40);
    assert_int_equal(read_faults("g:5:nan", faults), 1);
    assert_true(!fault->is_in_d && fault->kind == FAULT_NAN);
    assert_true(fault->first == 5 && fault->last == 5);
    assert_int_equal(read_faults("d:1-:nan", faults), 1);
    assert_true(fault->first == 1 && fault->last == INT64_MAX);

    static const char *const wrong[][2] = {
        {"d", "--inject: \"d\" is not a fault"},
        {"d:", "is not a fault"},
        {"d:5", "is not a fault"},
        {"d:5:", "is not a fault"},
        {"d:5:inf ", "is not a fault"},
        {"x:5:inf", "is not a fault"},
        {"d:-3:inf", "is not a fault"},
        {"d:5:zero", "is not a fault"},
        {"d: 5:inf", "is not a fault"},
        {"d:+5:inf", "is not a fault"},
        {"D:5:inf", "is not a fault"},
        {"d:5-6-7:inf", "is not a fault"},
        {"d:5:inf,", "\"\" is not a fault"},
        {",d:5:inf", "\"\" is not a fault"},
        {"d:5:inf,x", "\"x\" is not a fault"},
        {"d:5:nan-forwards", "is not a fault"},
        {"d:9-3:inf", "\"d:9-3:inf\": its steps run backwards"},
        {"d:0:inf", "the step 0 is out of range; steps are 1 to 9223372036854775806"},
        {"d:1-99999999999999999999:inf", "the step 99999999999999999999 is out of range"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (read_faults(wrong[i][0], faults) >= 0 ||
            !strstr(status_message(), wrong[i][1]))
            fail_msg("%s: %s, want %s", wrong[i][0], status_message(), wrong[i][1]);
}

static void test_several_faults_are_read_in_order_up_to_a_limit(void **state)
{
    (void)state;
    struct planted_fault faults[FAULTS_MAX];
    assert_int_equal(read_faults("d:1:nan-forward,g:2-3:huge-activation,"
                                 "d:4-:bad-weight",
                                 faults),
                     3);
    assert_true(faults[0].is_in_d && faults[0].kind == FAULT_NAN_FORWARD);
    assert_true(!faults[1].is_in_d && faults[1].kind == FAULT_HUGE_ACTIVATION);
    assert_true(faults[2].kind == FAULT_BAD_WEIGHT && faults[2].first == 4);
    assert_int_equal(read_faults("d:1:inf,d:2:inf,d:3:inf,d:4:inf,d:5:inf,"
                                 "d:6:inf,d:7:inf,d:8:inf",
                                 faults),
                     8);
    assert_int_equal(read_faults("d:1:inf,d:2:inf,d:3:inf,d:4:inf,d:5:inf,"
                                 "d:6:inf,d:7:inf,d:8:inf,d:9:inf",
                                 faults),
                     -1);
    assert_non_null(strstr(status_message(), "more than 8 faults"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_those_of_dcgan_at_64_pixels),
        cmocka_unit_test(test_the_table_covers_every_byte_of_the_config_in_order),
        cmocka_unit_test(
            test_every_setting_has_a_flag_a_sentence_and_a_value_that_it_reads_back),
        cmocka_unit_test(test_no_number_that_is_allowed_turns_into_another_one_in_f32),
        cmocka_unit_test(test_a_loss_scaler_takes_all_that_the_table_allows),
        cmocka_unit_test(
            test_a_loss_scaler_takes_all_that_the_table_allows_beyond_pytorch),
        cmocka_unit_test(test_each_networks_scaler_has_its_own_rule),
        cmocka_unit_test(test_a_scale_that_is_to_be_found_begins_within_its_limits),
        cmocka_unit_test(test_changes_at_a_kimg_are_read_or_refused),
        cmocka_unit_test(test_a_static_scale_may_be_given_with_its_value),
        cmocka_unit_test(test_one_scale_for_both_takes_one_rule_and_one_step_of_each),
        cmocka_unit_test(test_the_defaults_of_a_scaler_are_pytorchs_here_and_there),
        cmocka_unit_test(test_values_follow_after_a_blank_or_an_equals_sign),
        cmocka_unit_test(test_switches_take_no_value_or_a_plain_one),
        cmocka_unit_test(test_a_preset_is_applied_before_the_flags_wherever_it_stands),
        cmocka_unit_test(test_every_preset_is_a_run_that_can_begin),
        cmocka_unit_test(test_every_setting_has_an_origin),
        cmocka_unit_test(test_a_presets_name_without_its_flag_is_recognised),
        cmocka_unit_test(
            test_after_two_dashes_a_word_is_a_data_set_whatever_it_looks_like),
        cmocka_unit_test(test_help_is_told_whatever_else_is_wrong),
        cmocka_unit_test(test_an_unknown_setting_is_refused_with_the_one_that_was_meant),
        cmocka_unit_test(test_a_missing_or_superfluous_value_is_named),
        cmocka_unit_test(test_a_value_out_of_range_is_refused_with_the_range),
        cmocka_unit_test(test_text_that_a_json_file_cannot_hold_is_refused),
        cmocka_unit_test(test_settings_that_contradict_each_other_are_refused),
        cmocka_unit_test(test_settings_at_the_edge_of_a_contradiction_are_none),
        cmocka_unit_test(
            test_an_initial_scale_that_is_found_later_lies_within_the_limits),
        cmocka_unit_test(test_a_change_at_a_kimg_comes_at_that_image),
        cmocka_unit_test(test_one_scale_takes_one_rule),
        cmocka_unit_test(test_check_also_sees_values_that_did_not_come_from_text),
        cmocka_unit_test(test_several_faults_are_read_in_order_up_to_a_limit),
        cmocka_unit_test(test_a_fault_to_plant_is_read_or_refused),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
