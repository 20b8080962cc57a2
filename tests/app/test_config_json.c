/* The config as JSON: presets, options.json, checkpoints; and what --resume may change.
 */
#include "app/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "app/config/config_table.h"
#include "tests/support/support.h"

static struct config default_config(void)
{
    struct config config;
    config_default(&config);
    return config;
}

static void set(struct config *config, const char *name, const char *value)
{
    if (config_set(config, name, value, "--test") != STATUS_OK)
        fail_msg("%s", status_message());
}

/* ---- there and back -------------------------------------------------------------- */

static void test_a_config_comes_back_from_json_as_it_went(void **state)
{
    (void)state;
    static const char *const values[][2] = {
        {"data", "b\xc3\xa9t\xc3\xa9/\"quoted\"\\back\nline"},
        {"kimg", "0.1234567890123456789"},
        {"g_lr", "1.1e-7"},
        {"seed", "9007199254740992"},
        {"d_init_scale", "1.6999999e38"},
        {"g_init_scale", "auto"},
        {"mirror", "1"},
        {"fit", "stretch"},
        {"grid", "3x17"},
        {"precision", "fp32"},
        {"inject", "d:10-40:inf"},
    };
    struct config config = default_config();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        set(&config, values[i][0], values[i][1]);
    char *json = config_to_json(&config);
    struct config back = default_config();
    assert_int_equal(config_from_json(&back, json, "test"), STATUS_OK);
    free(json);
    assert_memory_equal(&back, &config, sizeof config);
}

static void test_json_lists_every_setting_in_the_order_of_the_table(void **state)
{
    (void)state;
    struct config config = default_config();
    char *json = config_to_json(&config);
    const char *place = json;
    for (int i = 0; i < setting_count; i++) {
        char key[64];
        snprintf(key, sizeof key, "\n  \"%s\": ", settings[i].name);
        place = strstr(place, key);
        if (!place)
            fail_msg("%s is missing, or out of order", settings[i].name);
    }
    free(json);
}

static void test_json_is_written_as_a_person_would_write_it(void **state)
{
    (void)state;
    struct config config = default_config();
    char *json = config_to_json(&config);
    assert_non_null(strstr(json, "\"g_lr\": 0.0002,"));
    assert_non_null(strstr(json, "\"d_eps\": 1e-8,"));
    assert_non_null(strstr(json, "\"mirror\": false,"));
    assert_non_null(strstr(json, "\"grid\": \"8x8\","));
    free(json);
}

static void test_missing_keys_keep_their_value_and_notes_are_passed_over(void **state)
{
    (void)state;
    struct config config = default_config();
    set(&config, "batch", "12");
    assert_int_equal(config_from_json(&config,
                                      "{\"_about\": [1], \"g-lr\": 1e-3, "
                                      "\"seed\": 2e5, \"latent\": 64.0}",
                                      "test"),
                     STATUS_OK);
    assert_int_equal(config.batch, 12);
    assert_true(config.g.lr == 1e-3);
    assert_int_equal(config.seed, 200000);
    assert_int_equal(config.latent, 64);
}

static void test_wrong_json_is_refused_by_place_or_name_and_changes_nothing(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{\n  \"batch\": 64,\n  \"seed\" 3\n}", "my run: line 3, column 10: not JSON"},
        {"", "my run: line 1, column 0: not JSON"},
        {"{\"batch\": 1, \"batch\": 2}", "duplicate object key"},
        {"[1]", "my run: holds a list, expected an object of settings"},
        {"{\"batch\": 8, \"bacth\": 64}",
         "my run: \"bacth\": there is no such setting; did "
         "you mean \"batch\"?"},
        {"{\"lr\": 1}",
         "give \"g_lr\" for the generator, \"d_lr\" for the discriminator"},
        {"{\"batch\": \"64\"}", "my run: \"batch\" is a string, expected a number"},
        {"{\"batch\": null}", "\"batch\" is null, expected a number"},
        {"{\"mirror\": 1}", "\"mirror\" is a number, expected true or false"},
        {"{\"out\": 3}", "\"out\" is a number, expected a string"},
        {"{\"data\": {}}", "\"data\" is an object, expected a string"},
        {"{\"batch\": 0}",
         "my run: \"batch\": \"0\" is out of range; give a whole number "
         "from 1 to 8192"},
        {"{\"batch\": 2.5}", "\"2.5\" is not a whole number"},
        {"{\"g_backoff_factor\": 1}", "give a number from 1e-37 to 0.999999"},
        {"{\"precision\": \"fp8\"}", "give fp16, bf16 or fp32"},
        {"{\"resolution\": 96}", "give auto, 28, 32, 64 or 128"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config config = default_config(), before = config;
        enum status status = config_from_json(&config, rows[i][0], "my run");
        if (status != STATUS_DATA || !strstr(status_message(), rows[i][1]))
            fail_msg("%s: status %d, \"%s\"; want \"%s\"", rows[i][0], (int)status,
                     status ? status_message() : "", rows[i][1]);
        assert_memory_equal(&config, &before, sizeof config);
    }
}

/* ---- presets --------------------------------------------------------------------- */

static void write_text(const char *folder, const char *name, const char *text, char *path)
{
    snprintf(path, 512, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_a_preset_may_be_a_file_and_gives_the_run_its_name(void **state)
{
    (void)state;
    char path[512];
    const char *folder = make_folder("preset");
    struct config config = default_config();
    write_text(folder, "my cats.json", "{\"batch\": 16, \"mirror\": true}", path);
    assert_int_equal(config_apply_preset(&config, path), STATUS_OK);
    assert_int_equal(config.batch, 16);
    assert_int_equal(config.mirror, 1);
    assert_string_equal(config.preset, "my cats");
    remove_folder(folder);
}

static void
test_the_options_of_a_run_are_a_preset_that_neither_resumes_nor_tries(void **state)
{
    (void)state;
    char path[512];
    const char *folder = make_folder("preset");
    struct config saved = default_config(), config = default_config();
    assert_int_equal(config_apply_preset(&saved, "fmnist-quick"), STATUS_OK);
    set(&saved, "seed", "7");
    set(&saved, "resume", "outputs/00003-x");
    set(&saved, "dry_run", "1");
    char *json = config_to_json(&saved);
    write_text(folder, "options.json", json, path);
    free(json);

    assert_int_equal(config_apply_preset(&config, path), STATUS_OK);
    assert_int_equal(config.seed, 7);
    assert_string_equal(config.preset, "fmnist-quick");
    assert_string_equal(config.resume, "");
    assert_int_equal(config.dry_run, 0);
    remove_folder(folder);
}

static void test_a_preset_begins_with_the_one_that_it_names(void **state)
{
    (void)state;
    char path[512];
    const char *folder = make_folder("preset");
    struct config config = default_config();
    write_text(folder, "base.json", "{\"preset\": \"fmnist-quick\", \"latent\": 32}",
               path);
    write_text(folder, "mine.json", "{\"batch\": 16, \"preset\": \"base.json\"}", path);
    assert_int_equal(config_apply_preset(&config, path), STATUS_OK);
    assert_int_equal(config.batch, 16);         // its own
    assert_int_equal(config.latent, 32);        // of base.json, which lies beside it
    assert_int_equal(config.g.width, 24);       // of fmnist-quick
    assert_string_equal(config.preset, "mine"); // the run's name

    struct config_origins origins;
    config = default_config();
    config_origins_begin(&origins, ORIGIN_DEFAULT);
    assert_int_equal(preset_apply(&config, path, &origins), STATUS_OK);
    assert_non_null(strstr(config_origin(&origins, "batch"), "mine.json"));
    assert_non_null(strstr(config_origin(&origins, "latent"), ", the base of mine.json"));
    assert_string_equal(config_origin(&origins, "g_width"),
                        "preset fmnist-quick, the base of base.json");
    remove_folder(folder);
}

static void test_a_base_that_is_missing_or_leads_back_is_named(void **state)
{
    (void)state;
    char path[512], words[600];
    const char *folder = make_folder("preset");
    struct config config = default_config(), before = config;
    write_text(folder, "b.json", "{\"preset\": \"a.json\"}", path);
    write_text(folder, "a.json", "{\"preset\": \"b.json\"}", path);
    assert_int_equal(config_apply_preset(&config, path), STATUS_DATA);
    snprintf(words, sizeof words, "b.json: \"preset\" leads back to %s", path);
    assert_non_null(strstr(status_message(), words));
    write_text(folder, "c.json", "{\"preset\": \"dcgan46\"}", path);
    assert_int_equal(config_apply_preset(&config, path), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "c.json: \"preset\": there is no preset "
                                             "\"dcgan46\" (did you mean dcgan64?)"));
    write_text(folder, "d.json", "{\"preset\": \"none.json\"}", path);
    assert_int_equal(config_apply_preset(&config, path), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "d.json: \"preset\": "));
    // A way around the same files is too long at some point.
    write_text(folder, "e.json", "{\"preset\": \"./e.json\"}", path);
    assert_int_equal(config_apply_preset(&config, path), STATUS_DATA);
    assert_non_null(strstr(status_message(), "at most 7 are read"));
    write_text(folder, "f.json", "{\"preset\": 64}", path);
    assert_int_equal(config_apply_preset(&config, path), STATUS_DATA);
    assert_non_null(
        strstr(status_message(), "\"preset\" is a number, expected a string"));
    assert_memory_equal(&config, &before, sizeof config);
    remove_folder(folder);
}

static void test_a_presets_channels_are_for_its_own_data(void **state)
{
    (void)state;
    char path[512];
    const char *folder = make_folder("preset");
    int wants_help;
    struct config_origins origins;
    write_text(folder, "grey.json", "{\"channels\": 1, \"data\": \"photos\"}", path);
    char *lines[][4] = {{"--preset", path, "--batch", "8"},
                        {"--preset", path, "--data", "others"},
                        {"--preset", path, "--data=others", "--channels=1"}};
    static const int channels[] = {1, 0, 1}, of_preset[] = {0, 1, 0};
    for (int i = 0; i < 3; i++) {
        struct config config = default_config();
        config_origins_begin(&origins, ORIGIN_DEFAULT);
        assert_int_equal(config_parse(&config, 4, lines[i], &wants_help, &origins),
                         STATUS_OK);
        assert_int_equal(config.channels, channels[i]);
        assert_int_equal(origins.preset_channels, of_preset[i]);
    }
    assert_string_equal(config_origin(&origins, "channels"), "command line");
    remove_folder(folder);
}

static void test_a_preset_that_cannot_be_used_is_refused(void **state)
{
    (void)state;
    char path[512];
    const char *folder = make_folder("preset");
    struct config config = default_config(), before = config;
    assert_int_equal(config_apply_preset(&config, "fmist-quick"), STATUS_USAGE);
    assert_non_null(
        strstr(status_message(),
               "--preset: there is no preset \"fmist-quick\" (did you mean "
               "fmnist-quick?); the presets are fmnist-quick, dcgan28, dcgan32, "
               "dcgan64"));
    assert_int_equal(config_apply_preset(&config, "zebra"), STATUS_USAGE);
    assert_non_null(
        strstr(status_message(), "there is no preset \"zebra\"; the presets are"));
    assert_int_equal(config_apply_preset(&config, "absent/x.json"), STATUS_USAGE);
    assert_non_null(
        strstr(status_message(), "absent/x.json: cannot be opened: No such file"));

    write_text(folder, "broken.json", "{\n\"batch\": 64,\n}", path);
    assert_int_equal(config_apply_preset(&config, path), STATUS_DATA);
    assert_non_null(strstr(status_message(), "broken.json: line 3, column 1: not JSON"));

    snprintf(path, sizeof path, "%s/folder.json", folder);
    char text[16];
    assert_int_equal(run_command(text, sizeof text, "mkdir '%s'", path), 0);
    assert_int_equal(config_apply_preset(&config, path), STATUS_DATA);
    assert_non_null(strstr(status_message(),
                           "folder.json: is a folder, a file of settings was expected"));

    char *large = malloc(70001);
    assert_non_null(large);
    memset(large, ' ', 70000);
    large[70000] = '\0';
    write_text(folder, "large.json", large, path);
    free(large);
    assert_int_equal(config_apply_preset(&config, path), STATUS_DATA);
    assert_non_null(strstr(status_message(), "more than 65536 bytes"));
    assert_memory_equal(&config, &before, sizeof config);
    remove_folder(folder);
}

/* ---- resume ---------------------------------------------------------------------- */

static void test_resume_tells_the_changes_that_it_allows(void **state)
{
    (void)state;
    char changes[512] = "old";
    struct config saved = default_config(), now = saved;
    set(&now, "resume", "outputs/00003-x");
    assert_int_equal(config_check_resume(&saved, &now, changes, sizeof changes),
                     STATUS_OK);
    assert_string_equal(changes, "");
    set(&now, "kimg", "2000");
    set(&now, "d_lr", "1e-4");
    assert_int_equal(config_check_resume(&saved, &now, changes, sizeof changes),
                     STATUS_OK);
    assert_string_equal(changes, "--kimg: \"1000\" is now \"2000\"; "
                                 "--d-lr: \"0.0002\" is now \"0.0001\"");
    // A list that does not fit is cut, not overrun.
    char few[12] = "";
    assert_int_equal(config_check_resume(&saved, &now, few, sizeof few), STATUS_OK);
    assert_string_equal(few, "--kimg: \"10");
}

static void test_resume_refuses_what_the_saved_state_depends_on(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"g_width", "32"},    {"batch", "32"},       {"seed", "1"},
        {"latent", "8"},      {"n_dis", "2"},        {"precision", "fp32"},
        {"resolution", "32"}, {"channels", "3"},     {"mirror", "1"},
        {"scaler", "off"},    {"d_init_scale", "8"}, {"out", "x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char changes[64], words[128], flag[SETTING_FLAG];
        struct config saved = default_config(), now = saved;
        set(&now, rows[i][0], rows[i][1]);
        snprintf(words, sizeof words, "%s: the run has \"",
                 setting_flag(setting_find(rows[i][0]), flag));
        assert_int_equal(config_check_resume(&saved, &now, changes, sizeof changes),
                         STATUS_USAGE);
        assert_non_null(strstr(status_message(), words));
        snprintf(words, sizeof words, "cannot change it to \"%s\"", rows[i][1]);
        assert_non_null(strstr(status_message(), words));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_config_comes_back_from_json_as_it_went),
        cmocka_unit_test(test_json_lists_every_setting_in_the_order_of_the_table),
        cmocka_unit_test(test_json_is_written_as_a_person_would_write_it),
        cmocka_unit_test(test_missing_keys_keep_their_value_and_notes_are_passed_over),
        cmocka_unit_test(test_wrong_json_is_refused_by_place_or_name_and_changes_nothing),
        cmocka_unit_test(test_a_preset_may_be_a_file_and_gives_the_run_its_name),
        cmocka_unit_test(
            test_the_options_of_a_run_are_a_preset_that_neither_resumes_nor_tries),
        cmocka_unit_test(test_a_preset_begins_with_the_one_that_it_names),
        cmocka_unit_test(test_a_base_that_is_missing_or_leads_back_is_named),
        cmocka_unit_test(test_a_presets_channels_are_for_its_own_data),
        cmocka_unit_test(test_a_preset_that_cannot_be_used_is_refused),
        cmocka_unit_test(test_resume_tells_the_changes_that_it_allows),
        cmocka_unit_test(test_resume_refuses_what_the_saved_state_depends_on),
    };
    return cmocka_run_group_tests_name("config_json", tests, NULL, NULL);
}
