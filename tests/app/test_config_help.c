/* `twinscale train --help`, as a new user reads it. */
#include <stdlib.h>
#include <string.h>

#include "app/config_table.h"
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
    assert_non_null(strstr(text, "[2e-4]"));
    // Where a preset has another value, it stands behind the default.
    assert_non_null(strstr(text, "[64; fmnist-quick 24]"));
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
        cmocka_unit_test(test_help_names_every_setting_preset_and_default),
        cmocka_unit_test(test_help_begins_with_usage_and_commands_that_work),
    };
    return cmocka_run_group_tests_name("config_help", tests, NULL, NULL);
}
