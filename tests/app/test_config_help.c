/* `twinscale train --help`, as a new user reads it. */
#include <stdlib.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/input/readers.h"
#include "tests/support/support.h"

/* The whole text; the caller frees. */
static char *help_text(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    config_print_help(stream);
    fclose(stream);
    return text;
}

static void test_help_fits_90_columns_and_has_no_trailing_blanks(void **state)
{
    (void)state;
    char *text = help_text(), *rest = text;
    int lines = 0;
    for (char *line; (line = strsep(&rest, "\n")); lines++) {
        size_t length = strlen(line);
        if (length > 90 || (length && line[length - 1] == ' '))
            fail_msg("line %d has %zu columns: %s", lines + 1, length, line);
    }
    assert_true(lines > 50);
    free(text);
}

/* Lines that were wrapped, put together again. */
static char *unwrapped(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        size_t blanks = strspn(from, " \n");
        if (blanks > 0)
            *to++ = ' ';
        else
            *to++ = *from;
        from += blanks > 0 ? blanks : 1;
    }
    *to = '\0';
    return text;
}

static void test_help_tells_defaults_limits_and_presets(void **state)
{
    (void)state;
    char *text = unwrapped(help_text());
    static const char *const words[] = {
        "--label-smoothing A D's target",
        "(1 to 8192) [64]",
        "(above 0 and at most 1e8) [2; fmnist-quick 10]",
        "smaller maps have multiples of it (1 to 1024) [64; fmnist-quick 24]",
        "[2e-4; fmnist-quick G 0.0016 D 0.0008]",
        "[none; fmnist-quick fashion-mnist]",
        "[auto; fmnist-quick 28, dcgan28 28, dcgan32 32, dcgan64 64]",
        "--data (where the same images are now)",
        "a word without a flag is the data set",
        "{\"preset\": \"dcgan64\", \"batch\": 32, \"g_lr\": 1e-4}",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(text, words[i]))
            fail_msg("\"%s\" is missing", words[i]);
    free(text);
}

static void test_help_names_every_format_of_pictures(void **state)
{
    (void)state;
    char *text = unwrapped(help_text()), list[128] = "(any of ";
    const char *names = reader_names(); // "PNG or PNM"
    for (const char *end; (end = strstr(names, " or ")); names = end + 4)
        strncat(strncat(list, names, (size_t)(end - names)), ", ", 3);
    strncat(list, names, 32);
    assert_non_null(strstr(text, strcat(list, ")")));
    free(text);
}

static void test_help_names_every_setting_preset_and_default(void **state)
{
    (void)state;
    char *text = help_text();
    for (int i = 0; i < setting_count; i++) {
        char flag[SETTING_FLAG];
        setting_flag(&settings[i], flag);
        // Switches are printed as --[no-]mirror.
        const char *shown = settings[i].kind == SETTING_SWITCH ? flag + 2 : flag;
        if (!strstr(text, shown))
            fail_msg("%s is missing", flag);
    }
    for (int i = 0; i < embedded_preset_count; i++)
        assert_non_null(strstr(text, embedded_presets[i].name));
    assert_non_null(strstr(text, "--g-lr, --d-lr RATE"));
    assert_non_null(strstr(text, "[0.5]"));
    assert_non_null(strstr(text, "--[no-]mirror"));
    assert_non_null(strstr(text, "--precision fp16|bf16|fp32"));
    assert_non_null(strstr(text, "--d-hysteresis-refill growth|step\n"));
    assert_null(strstr(text, "(null)"));
    assert_non_null(strstr(text, "[on]")); // the step is recorded unless --no-graph
    free(text);
}

static void test_help_begins_with_usage_and_commands_that_work(void **state)
{
    (void)state;
    char *text = help_text();
    assert_memory_equal(text, "usage: twinscale train ", 23);
    static const char *const sections[] = {
        "\n  twinscale train --preset fmnist-quick ",
        "\nPRESETS\n",
        "\nWHAT TO TRAIN ON\n",
        "\nLOSS SCALING\n",
        "\nEACH NETWORK ",
        "\nRESUME\n",
        "\nKEYS AND SIGNALS\n",
        "\nFILES ",
        "\nEXIT CODES\n",
    };
    const char *place = text;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        place = strstr(place, sections[i]);
        if (!place)
            fail_msg("%s is missing, or out of order", sections[i]);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_fits_90_columns_and_has_no_trailing_blanks),
        cmocka_unit_test(test_help_tells_defaults_limits_and_presets),
        cmocka_unit_test(test_help_names_every_format_of_pictures),
        cmocka_unit_test(test_help_names_every_setting_preset_and_default),
        cmocka_unit_test(test_help_begins_with_usage_and_commands_that_work),
    };
    return cmocka_run_group_tests_name("config_help", tests, NULL, NULL);
}
