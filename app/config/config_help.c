/* config_help.c - `twinscale train --help`: what to type first, presets, every setting
 * with its default, keys, files, exit codes. All of it fits 90 columns. */
#include <stdlib.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/config/signals_table.h"

#define HELP_WIDTH 90
#define HELP_COLUMN 27 // where descriptions begin
#define DEFAULT_TEXT 256
#define VALUE_TEXT (2 * CONFIG_TEXT + 8)

/* Ends a line that is `column` wide so far with words, wrapped at HELP_WIDTH and indented
 * to `indent`. */
static void print_wrapped(FILE *stream, size_t column, size_t indent, const char *text)
{
    while (*text) {
        size_t word = strcspn(text, " ");
        int is_first = column <= indent;
        if (!is_first && column + 1 + word > HELP_WIDTH) {
            fputs("\n", stream);
            column = 0;
            is_first = 1;
        }
        if (column < indent) {
            fprintf(stream, "%*s", (int)(indent - column), "");
            column = indent;
        }
        fprintf(stream, "%s%.*s", is_first ? "" : " ", (int)word, text);
        column += word + !is_first;
        text += word;
        text += strspn(text, " ");
    }
    fputs("\n", stream);
}

static void print_entry(FILE *stream, const char *left, const char *text)
{
    int length = fprintf(stream, "  %s", left);
    size_t column = length < 0 ? 0 : (size_t)length;
    if (column + 2 > HELP_COLUMN) { // no room for two blanks
        fputs("\n", stream);
        column = 0;
    }
    print_wrapped(stream, column, HELP_COLUMN, text);
}

/* ---- settings -------------------------------------------------------------------- */

/* The default configuration, and what each preset makes of it. */
struct defaults {
    struct config plain, *of_preset; // [embedded_preset_count], owned
};

static struct defaults read_defaults(void)
{
    struct defaults defaults;
    config_default(&defaults.plain);
    defaults.of_preset =
        calloc((size_t)embedded_preset_count, sizeof *defaults.of_preset);
    CHECK_MEMORY(defaults.of_preset, "the settings of a preset");
    for (int i = 0; i < embedded_preset_count; i++) {
        defaults.of_preset[i] = defaults.plain;
        enum status status =
            config_apply_preset(&defaults.of_preset[i], embedded_presets[i].name);
        CHECK(status == STATUS_OK, "%s", status_message());
    }
    return defaults;
}

// The setting's value; "G 0.0016 D 0.0008" where it is not the same for both networks.
static void value_text(const struct setting *setting, const struct config *config,
                       char text[VALUE_TEXT])
{
    char value[CONFIG_TEXT], name[SETTING_FLAG], second[CONFIG_TEXT];
    setting_text(setting, config, value);
    snprintf(text, VALUE_TEXT, "%s", value);
    if (setting->group != GROUP_NETWORK)
        return;
    snprintf(name, sizeof name, "d%s", setting->name + 1);
    setting_text(setting_find(name), config, second);
    if (strcmp(value, second) != 0)
        snprintf(text, VALUE_TEXT, "G %s D %s", value, second);
}

// " [1000; fmnist-quick 500, dcgan28 1500]"; "" where neither has a value.
static void describe_default(const struct setting *setting,
                             const struct defaults *defaults, char text[DEFAULT_TEXT])
{
    const char *plain = setting->fallback;
    if (setting->kind == SETTING_SWITCH)
        plain = setting->fallback[0] == '1' ? "on" : "off";
    size_t used = (size_t)snprintf(text, DEFAULT_TEXT, " [%s", plain[0] ? plain : "none");
    int is_first = 1;
    for (int i = 0; i < embedded_preset_count; i++) {
        char before[VALUE_TEXT], after[VALUE_TEXT];
        value_text(setting, &defaults->plain, before);
        value_text(setting, &defaults->of_preset[i], after);
        if (setting->on_resume == RESUME_OWN || strcmp(before, after) == 0)
            continue;
        used += (size_t)snprintf(text + used, DEFAULT_TEXT - used, "%s %s %s",
                                 is_first ? ";" : ",", embedded_presets[i].name, after);
        CHECK(used + 2 < DEFAULT_TEXT, "too many presets to list");
        is_first = 0;
    }
    snprintf(text + used, DEFAULT_TEXT - used, "]");
    if (!plain[0] && is_first)
        text[0] = '\0';
}

/* "--g-lr, --d-lr RATE", "--[no-]mirror", "--fit crop|pad|stretch" */
static void describe_flag(const struct setting *setting, char *text, size_t bytes)
{
    char flag[SETTING_FLAG];
    setting_flag(setting, flag);
    if (setting->kind == SETTING_SWITCH)
        snprintf(text, bytes, "%s%s",
                 setting->on_resume != RESUME_OWN        ? "--[no-]"
                 : strcmp(setting->name, "dry_run") == 0 ? "-n, --"
                                                         : "--",
                 flag + 2);
    else if (setting->group == GROUP_NETWORK)
        snprintf(text, bytes, "--g-%s, --d-%s %s", flag + 4, flag + 4, setting->unit);
    else
        snprintf(text, bytes, "%s %s", flag,
                 setting->unit ? setting->unit : setting->choices);
}

static void print_group(FILE *stream, enum setting_group group,
                        const struct defaults *defaults)
{
    for (int i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        // The generator's row stands for both networks.
        int is_second = group == GROUP_NETWORK && setting->name[0] == 'd';
        if (setting->group != group || is_second)
            continue;
        char flag[128], fallback[DEFAULT_TEXT], range[ALLOWED_TEXT];
        char text[640 + DEFAULT_TEXT + ALLOWED_TEXT];
        describe_flag(setting, flag, sizeof flag);
        describe_default(setting, defaults, fallback);
        setting_range(setting, range);
        snprintf(text, sizeof text, "%s%s%s%s%s", setting->help, range[0] ? " (" : "",
                 range, range[0] ? ")" : "", fallback);
        print_entry(stream, flag, text);
    }
}

static void print_settings(FILE *stream)
{
    static const char *const titles[GROUP_COUNT] = {
        [GROUP_DATA] = "WHAT TO TRAIN ON",
        [GROUP_OUTPUT] = "WHERE IT GOES",
        [GROUP_DURATION] = "HOW LONG, HOW OFTEN (in kimg: thousands of real images, "
                           "fractions allowed)",
        [GROUP_MACHINE] = "MACHINE",
        [GROUP_TRAINING] = "TRAINING",
        [GROUP_SCALER] = "LOSS SCALING",
        [GROUP_NETWORK] = "EACH NETWORK (--g-... is the generator, --d-... the "
                          "discriminator)",
    };
    struct defaults defaults = read_defaults();
    for (int group = 0; group < GROUP_COUNT; group++) {
        fprintf(stream, "\n%s\n", titles[group]);
        print_group(stream, (enum setting_group)group, &defaults);
    }
    free(defaults.of_preset);
}

static void print_resume(FILE *stream)
{
    char list[1024] = "May change with --resume:";
    size_t used = strlen(list);
    for (int i = 0; i < setting_count; i++) {
        char flag[SETTING_FLAG];
        if (settings[i].on_resume != RESUME_FREE || settings[i].group == GROUP_NETWORK)
            continue;
        // Other images would be another run, and are refused.
        int is_data = strcmp(settings[i].name, "data") == 0;
        used += (size_t)snprintf(list + used, sizeof list - used, " %s%s",
                                 setting_flag(&settings[i], flag),
                                 is_data ? " (where the same images are now)" : "");
        CHECK(used < sizeof list, "too many settings to list");
    }
    fputs("\nRESUME\n", stream);
    print_wrapped(stream, 0, 2, list);
    print_wrapped(
        stream, 0, 2,
        "and each network's settings but width, init-scale, accum and precision; any "
        "other "
        "change is refused by name. A run that was killed, or lost its power, goes on "
        "from its last snapshot as if nothing had happened.");
}

/* ---- the rest -------------------------------------------------------------------- */

static void print_presets(FILE *stream)
{
    fputs("\nPRESETS\n", stream);
    for (int i = 0; i < embedded_preset_count; i++) {
        char *about = config_json_about(embedded_presets[i].json);
        print_entry(stream, embedded_presets[i].name, about ? about : "");
        free(about);
    }
    print_entry(
        stream, "FILE.json",
        "a preset of your own: settings as JSON, by the names of their flags with _ "
        "for -; \"preset\" names another to begin with, as in {\"preset\": "
        "\"dcgan64\", \"batch\": 32, \"g_lr\": 1e-4}");
}

static void print_surroundings(FILE *stream)
{
    fputs("\nKEYS AND SIGNALS\n", stream);
    print_entry(stream, "space", "in the window: pauses and goes on");
    print_entry(stream, "s, e",
                "in the window: saves a snapshot; writes the sample grid");
    print_entry(
        stream, "l",
        "in the window: statistics of layers in the place of the curves, and back");
    print_entry(stream, "pointer",
                "over the curves: the values at that step, and what its marks stand for");
    print_entry(stream, "[ ], { }",
                "in the window: halve and double the loss scale of D, of G; `twinscale "
                "ctl RUN` changes other settings of a run that goes on");
    print_entry(stream, "q",
                "in the window: saves and ends; closing the window leaves the "
                "run alive. After the last step the window stays until q or until it is "
                "closed (see --exit-when-done)");
#define X(number, name, request, help) print_entry(stream, name, help);
    SIGNALS_TABLE(X)
#undef X

    fputs("\nFILES in OUT/00000-DATA-PRESET-bBATCH/\n", stream);
    print_entry(stream, "snapshot-000020.*",
                "safetensors: networks, averages, optimizers, "
                "loss scales, settings. Named after the kimg mark that was passed, as "
                "StyleGAN's are, in whole kimg or to 0.001; where the run was then, up "
                "to a batch later, is in `twinscale info` and log.txt");
    print_entry(stream, "fakes000010.png",
                "samples at that mark, pixel for pixel in the rows of --grid; "
                "fakes_init.png before the first step, reals.png for comparison");
    print_entry(
        stream, "scales.png",
        "every loss scale; skipped and held-back steps, changes and rollbacks are "
        "marked");
    print_entry(stream, "preview.png",
                "the window's picture, when there is no window; drawn at ticks, in 1 % "
                "of the time");
    print_entry(
        stream, "stats.jsonl",
        "one JSON object a tick, in StyleGAN's form: means over the tick of what is "
        "finite, with the number of NaN and inf where there were any");
    print_entry(stream, "stats.csv",
                "the means of those for a spreadsheet: a heading, a row a tick");
    print_entry(
        stream, "layers.jsonl",
        "what every layer's tensors held: an object for each skipped step, and for "
        "each step of --grad-stats");
    print_entry(
        stream, "events.jsonl",
        "an object for each skip, change of a scale or setting, rollback, and for "
        "how the run ended");
    print_entry(
        stream, "log.txt",
        "what the terminal shows from the line \"run\" on, and besides a line for "
        "every skip, every move of a loss scale and every snapshot");
    print_entry(
        stream, "batch-step000.png",
        "a batch with an image unlike the others, that one first; of the first 16");
    print_entry(stream, "post-mortem/",
                "after an overflow storm: reason, settings, last batch, layers, events");
    print_entry(stream, "control", "a socket for `twinscale ctl`, while the run goes on");
    print_entry(stream, "options.json", "all settings; good as a --preset again");
    print_entry(stream, "precision.json", "the type of every layer's tensors");
}

static void print_exit_codes(FILE *stream)
{
    static const struct {
        int code;
        const char *word;
    } rows[] = {
#define X(name, exit_code, word) {exit_code, word},
        STATUS_TABLE(X)
#undef X
    };
    fputs("\nEXIT CODES\n", stream);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char code[16];
        snprintf(code, sizeof code, "%d", rows[i].code);
        print_entry(stream, code, rows[i].word);
    }
}

void config_print_help(FILE *stream)
{
    fputs(
        "usage: twinscale train [--preset NAME] [--data PATH] [SETTING ...]\n"
        "       twinscale train --resume RUN [--kimg KIMG] [SETTING ...]\n"
        "\n"
        "  twinscale train --preset fmnist-quick        garments, in a few minutes\n"
        "  twinscale train --preset dcgan64 --data photos/ --kimg 500\n"
        "\n"
        "A value follows after a blank or \"=\"; a word without a flag is the data set, "
        "as with\n"
        "--data. [Brackets] hold the default, and after it what each preset has "
        "instead.\n",
        stream);
    print_presets(stream);
    print_settings(stream);
    print_resume(stream);
    print_surroundings(stream);
    print_exit_codes(stream);
}
