/* test_run_folder.c - numbered folders, logs without half lines, and which snapshot to
 * take. */
#include "tests/support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/files/json_lines.h"
#include "app/record/run_folder.h"
#include "app/record/sinks.h"
#include "app/files/safetensors.h"
#include "tests/app/disk.h"
#include "app/record/tick.h"

static char out[500];

static int open_out(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("runs"));
    return 0;
}

static int close_out(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

static struct config config_for(const char *place)
{
    struct config config;
    config_default(&config);
    snprintf(config.out, sizeof config.out, "%s", place);
    snprintf(config.preset, sizeof config.preset, "dcgan28");
    config.desc[0] = '\0';
    config.batch = 64;
    return config;
}

static void assert_text(const char *path, const char *want)
{
    char *text = read_text(path, NULL);
    assert_string_equal(text, want);
    free(text);
}

/* The folder's last part, of a run that is made and closed. */
static void assert_run_is_named(const struct config *config, const char *data,
                                const char *want)
{
    struct run_folder folder;
    if (run_folder_create(&folder, config, data) != STATUS_OK)
        fail_msg("%s", status_message());
    run_folder_close(&folder);
    assert_string_equal(strrchr(folder.path, '/') + 1, want);
}

/* ---- names ----------------------------------------------------------------------- */

static void test_a_run_takes_the_number_after_the_largest(void **state)
{
    (void)state;
    struct config config = config_for(out);
    assert_run_is_named(&config, "fashion-mnist", "00000-fashion-mnist-dcgan28-b64");
    assert_run_is_named(&config, "fashion-mnist", "00001-fashion-mnist-dcgan28-b64");
    assert_int_equal(mkdir(in_folder(out, "00041-of-another-program"), 0777), 0);
    assert_int_equal(mkdir(in_folder(out, "123-too-few-digits"), 0777), 0);
    assert_int_equal(mkdir(in_folder(out, "90000x"), 0777), 0);
    assert_int_equal(mkdir(in_folder(out, "notes"), 0777), 0);
    assert_run_is_named(&config, "shapes", "00042-shapes-dcgan28-b64");
    write_text(in_folder(out, "00050"), "a file takes a number too");
    assert_run_is_named(&config, "shapes", "00051-shapes-dcgan28-b64");
    assert_int_equal(mkdir(in_folder(out, "99999-last-of-five-digits"), 0777), 0);
    assert_run_is_named(&config, "shapes", "100000-shapes-dcgan28-b64");
    assert_run_is_named(&config, "shapes", "100001-shapes-dcgan28-b64");
}

static void test_names_are_fit_for_a_file_name(void **state)
{
    (void)state;
    struct config config = config_for(out);
    assert_run_is_named(&config, "../my photos/h\xc3\xa4user!",
                        "00000-..-my-photos-h\xc3\xa4user-dcgan28-b64");
    snprintf(config.preset, sizeof config.preset, "some/where/my own.json");
    snprintf(config.desc, sizeof config.desc, "second try; $(rm)");
    assert_run_is_named(&config, "", "00001-data-my-own-b64-second-try-rm");
    config.preset[0] = '\0';
    config.resolution = 32;
    config.desc[0] = '\0';
    assert_run_is_named(&config, "x", "00002-x-32px-b64");
}

static void test_a_new_run_holds_its_options_and_empty_logs(void **state)
{
    (void)state;
    struct config config = config_for(in_folder(out, "made//on/the/way/"));
    config.kimg = 123.5;
    struct run_folder folder;
    assert_int_equal(run_folder_create(&folder, &config, "shapes"), STATUS_OK);
    assert_string_equal(folder.path,
                        in_folder(out, "made//on/the/way/00000-shapes-dcgan28-b64"));
    assert_int_equal(count_entries(folder.path), 6);
    assert_text(in_folder(folder.path, "log.txt"), "");
    assert_text(in_folder(folder.path, "stats.jsonl"), "");
    assert_text(in_folder(folder.path, "layers.jsonl"), "");
    assert_text(in_folder(folder.path, "events.jsonl"), "");
    char *json = read_text(in_folder(folder.path, "options.json"), NULL);
    struct config loaded;
    config_default(&loaded);
    assert_int_equal(config_from_json(&loaded, json, "options.json"), STATUS_OK);
    assert_true(loaded.kimg == 123.5);
    assert_string_equal(loaded.out, config.out);
    free(json);
    run_folder_close(&folder);
    run_folder_close(&folder); // harmless
}

static void test_runs_started_at_once_get_a_number_each(void **state)
{
    (void)state;
    enum { RUNS = 8 };
    static const char *const names[2] = {"same", "other"};
    pid_t children[RUNS];
    fflush(NULL);
    for (int i = 0; i < RUNS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            struct config config = config_for(out);
            struct run_folder folder;
            _exit(run_folder_create(&folder, &config, names[i % 2]) == STATUS_OK ? 0 : 1);
        }
    }
    for (int i = 0; i < RUNS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_entries(out), RUNS);
    for (int i = 0; i < RUNS; i++) {
        int found = 0;
        for (int k = 0; k < 2; k++) {
            char name[64];
            snprintf(name, sizeof name, "%05d-%s-dcgan28-b64", i, names[k]);
            found += path_exists(in_folder(out, name));
        }
        assert_int_equal(found, 1);
    }
}

static void test_a_place_where_no_folder_can_be_is_told(void **state)
{
    (void)state;
    write_text(in_folder(out, "file"), "in the way");
    struct config config = config_for(in_folder(out, "file/runs"));
    struct run_folder folder;
    assert_int_equal(run_folder_create(&folder, &config, "x"), STATUS_FAILED);
    assert_non_null(
        strstr(status_message(), "the folder for runs cannot be made: Not a dir"));
    assert_non_null(strstr(status_message(), "--out"));
    run_folder_close(&folder);
    config = config_for(in_folder(out, "file"));
    assert_int_equal(run_folder_create(&folder, &config, "x"), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "cannot be opened as the folder for runs"));
    config = config_for("");
    assert_int_equal(run_folder_create(&folder, &config, "x"), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "--out is empty"));
}

static int create_on_full_disk(const char *place)
{
    EXPECT(fill_disk(place) == 0);
    struct config config = config_for(place);
    struct run_folder folder;
    EXPECT(run_folder_create(&folder, &config, "x") == STATUS_FAILED);
    EXPECT(strstr(status_message(), "No space left on device"));
    EXPECT(count_entries(place) == 1); // the filler alone
    return 0;
}

static void test_a_full_disk_leaves_no_half_run_folder(void **state)
{
    (void)state;
    int answer = with_small_disk(out, 256, create_on_full_disk);
    if (answer == CHILD_SKIPS)
        skip_because(NO_SMALL_DISK);
    assert_int_equal(answer, 0);
}

static int create_without_a_byte(const char *place)
{
    struct config config = config_for(place);
    struct run_folder folder;
    EXPECT(run_folder_create(&folder, &config, "x") == STATUS_FAILED);
    EXPECT(strstr(status_message(), "options.json: could not be written"));
    EXPECT(count_entries(place) == 0);
    return 0;
}

static void test_options_that_cannot_be_written_leave_no_run_folder(void **state)
{
    (void)state;
    assert_int_equal(with_file_limit(out, 16, create_without_a_byte), 0);
}

static int name_too_long(const char *place)
{
    (void)place;
    struct run_folder folder = {.path = "outputs/00003-x"};
    char text[20];
    return run_folder_file(&folder, text, sizeof text, "fakes.png") == NULL;
}

static void test_a_file_is_named_in_the_folder_or_aborts(void **state)
{
    (void)state;
    struct run_folder folder = {.path = "outputs/00003-x"};
    char text[64], told[512];
    assert_string_equal(
        run_folder_file(&folder, text, sizeof text, "fakes%06.0f.png", 200.0),
        "outputs/00003-x/fakes000200.png");
    assert_int_equal(with_stderr(told, sizeof told, out, name_too_long), 128 + SIGABRT);
    assert_non_null(strstr(told, "does not fit 20"));
}

/* ---- lines ----------------------------------------------------------------------- */

static void test_lines_are_there_as_soon_as_they_are_told(void **state)
{
    (void)state;
    struct config config = config_for(out);
    struct run_folder folder;
    assert_int_equal(run_folder_create(&folder, &config, "x"), STATUS_OK);
    run_folder_log(&folder, "step %d of %s", 7, "many");
    run_folder_log(&folder, "%s", "");
    run_folder_line(&folder, RUN_LOG_STATS, "{\"a\":1}");
    run_folder_line(&folder, RUN_LOG_EVENTS, "{\"b\":2}");
    run_folder_line(&folder, RUN_LOG_EVENTS, "{\"b\":3}");
    assert_text(in_folder(folder.path, "log.txt"), "step 7 of many\n\n");
    assert_text(in_folder(folder.path, "stats.jsonl"), "{\"a\":1}\n");
    assert_text(in_folder(folder.path, "events.jsonl"), "{\"b\":2}\n{\"b\":3}\n");
    assert_int_equal(folder.had_write_error, 0);
    run_folder_close(&folder);
}

/* Fills the disk under an open run, goes on logging, then makes room again. */
static int log_on_full_disk(const char *place)
{
    struct config config = config_for(place);
    struct run_folder folder;
    EXPECT(run_folder_create(&folder, &config, "x") == STATUS_OK);
    run_folder_line(&folder, RUN_LOG_STATS, "{\"kimg\":1}");
    EXPECT(fill_disk(place) == 0);
    char line[8192];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    for (int i = 0; i < 3; i++) {
        run_folder_line(&folder, RUN_LOG_STATS, line);
        run_folder_log(&folder, "%s", line);
    }
    EXPECT(folder.had_write_error);
    EXPECT(unlink(in_folder(place, "filler")) == 0);
    run_folder_line(&folder, RUN_LOG_STATS, "{\"kimg\":2}");
    char *text = read_text(in_folder(folder.path, "stats.jsonl"), NULL);
    EXPECT(strcmp(text, "{\"kimg\":1}\n{\"kimg\":2}\n") == 0);
    free(text);
    run_folder_close(&folder);
    return 0;
}

static int in_a_small_disk(const char *place)
{
    return with_small_disk(place, 256, log_on_full_disk);
}

static void test_a_log_on_a_full_disk_is_told_once_and_never_half_written(void **state)
{
    (void)state;
    char text[4096];
    int answer = with_stderr(text, sizeof text, out, in_a_small_disk);
    if (answer == CHILD_SKIPS)
        skip_because(NO_SMALL_DISK);
    if (answer != 0)
        fail_msg("%s", text);
    char *told = strstr(text, "stats.jsonl: a line could not be written: No space left");
    assert_non_null(told);
    assert_non_null(strstr(told, "training goes on"));
    assert_null(
        strstr(told + strlen("stats.jsonl: a line could not"), "a line could not"));
}

static int log_beyond_the_limit(const char *place)
{
    int descriptor = open(in_folder(place, "log"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    char line[300];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    EXPECT(line_append(descriptor, line) == 0);
    EXPECT(line_append(descriptor, line) != 0); // 512 bytes: half of it would fit
    EXPECT(line_append(descriptor, "short") == 0);
    close(descriptor);
    char *text = read_text(in_folder(place, "log"), NULL);
    EXPECT(strlen(text) == 300 + 6);
    EXPECT(strcmp(text + 300, "short\n") == 0);
    free(text);
    return 0;
}

static void test_half_a_line_is_taken_back(void **state)
{
    (void)state;
    assert_int_equal(with_file_limit(out, 512, log_beyond_the_limit), 0);
}

/* ---- resuming -------------------------------------------------------------------- */

static void make_run(struct run_folder *folder)
{
    struct config config = config_for(out);
    assert_int_equal(run_folder_create(folder, &config, "x"), STATUS_OK);
    for (int i = 1; i <= 4; i++) {
        char line[128];
        snprintf(line, sizeof line,
                 "{\"Progress/kimg\":{\"num\":1,\"mean\":%d.128,\"std\":0}}", i);
        run_folder_line(folder, RUN_LOG_STATS, line);
        snprintf(line, sizeof line, "{\"layers\":[],\"kimg\":%d.128}", i);
        run_folder_line(folder, RUN_LOG_LAYERS, line);
        snprintf(line, sizeof line, "{\"event\":\"skip\",\"kimg\":%d.128}", i);
        run_folder_line(folder, RUN_LOG_EVENTS, line);
    }
    run_folder_log(folder, "stopped");
    run_folder_close(folder);
}

static enum status cut(const char *path, double kimg, int rollbacks)
{
    return lines_cut(path, &(struct log_end){kimg, rollbacks}, json_line_stays);
}

#define LOOK(n) "{\"layers\":[],\"kimg\":" n "}\n"
#define STAT(n) "{\"Progress/kimg\":{\"num\":1,\"mean\":" n ",\"std\":0}}\n"

static void test_a_resume_moves_later_lines_to_a_backup(void **state)
{
    (void)state;
    struct run_folder folder, again;
    make_run(&folder);
    assert_int_equal(run_folder_reopen(&again, folder.path, 2.128, 0), STATUS_OK);
    assert_string_equal(again.path, folder.path);
    run_folder_line(&again, RUN_LOG_STATS,
                    "{\"Progress/kimg\":{\"num\":1,\"mean\":3.5,\"std\":0}}");
    run_folder_log(&again, "resumed");
    run_folder_close(&again);
    assert_text(in_folder(folder.path, "stats.jsonl"),
                STAT("1.128") STAT("2.128") STAT("3.5"));
    assert_text(in_folder(folder.path, "stats.jsonl.bak"), STAT("3.128") STAT("4.128"));
    assert_text(
        in_folder(folder.path, "events.jsonl"),
        "{\"event\":\"skip\",\"kimg\":1.128}\n{\"event\":\"skip\",\"kimg\":2.128}\n");
    assert_text(in_folder(folder.path, "layers.jsonl"), LOOK("1.128") LOOK("2.128"));
    assert_text(in_folder(folder.path, "layers.jsonl.bak"), LOOK("3.128") LOOK("4.128"));
    assert_text(in_folder(folder.path, "log.txt"), "stopped\nresumed\n");

    // A second resume from an earlier point adds to the backup.
    char with_slash[800];
    snprintf(with_slash, sizeof with_slash, "%s//", folder.path);
    assert_int_equal(run_folder_reopen(&again, with_slash, 1.128, 0), STATUS_OK);
    assert_string_equal(again.path, folder.path);
    run_folder_close(&again);
    assert_text(in_folder(folder.path, "stats.jsonl"), STAT("1.128"));
    assert_text(in_folder(folder.path, "stats.jsonl.bak"),
                STAT("3.128") STAT("4.128") STAT("2.128") STAT("3.5"));
}

static void test_a_line_that_a_crash_cut_short_goes_to_the_backup(void **state)
{
    (void)state;
    const char *path = in_folder(out, "stats.jsonl");
    write_text(path, STAT("1") "\n{\"note\":\"has no kimg\"}\n[1]\n" STAT("2") "{\"Prog");
    assert_int_equal(cut(path, 5.0, 0), STATUS_OK);
    assert_text(path, STAT("1") "{\"note\":\"has no kimg\"}\n" STAT("2"));
    assert_text(in_folder(out, "stats.jsonl.bak"), "\n[1]\n{\"Prog\n");
    assert_int_equal(count_entries(out), 2);
}

/* A rollback is as of the step that it went back to: a resume from there, with a snapshot
 * from before it, would find it in the part that stays. */
static void test_lines_of_a_rollback_that_has_not_come_yet_go_to_the_backup(void **state)
{
    (void)state;
#define EVENT(kimg, rollbacks) "{\"kimg\":" kimg ",\"rollbacks\":" rollbacks "}\n"
#define TICK(n) "{\"Progress/rollbacks\":{\"num\":1,\"mean\":" n ",\"std\":0}}\n"
    const char *path = in_folder(out, "events.jsonl");
    write_text(path, EVENT("1", "0") EVENT("3", "0") EVENT("2", "1") TICK("0.0")
                         TICK("1.0") TICK("2.0"));
    assert_int_equal(cut(path, 2.0, 1), STATUS_OK);
    assert_text(path, EVENT("1", "0") EVENT("2", "1") TICK("0.0") TICK("1.0"));
    assert_int_equal(cut(path, 2.0, 0), STATUS_OK);
    assert_text(path, EVENT("1", "0") TICK("0.0"));
    assert_text(in_folder(out, "events.jsonl.bak"),
                EVENT("3", "0") TICK("2.0") EVENT("2", "1") TICK("1.0"));
}

/* ---- stats.csv ------------------------------------------------------------------- */

// A tick at `kimg`, after `rollbacks`, of which D's loss is known.
static void write_tick(struct run_folder *folder, double kimg, int rollbacks)
{
    struct tick tick = {.kimg = kimg, .rollbacks = rollbacks};
    statistic_add(&tick.loss[ROLE_D], 0.25);
    statistic_add(&tick.loss[ROLE_D], 0.75);
    sink_csv(folder, &tick, 1700000000.0);
}

// Line `line` of a file, from 0; freed by the caller.
static char *line_of_file(const char *path, int line)
{
    char *text = read_text(path, NULL), *rest = text, *found = NULL;
    for (int i = 0; i <= line; i++)
        found = rest ? strsep(&rest, "\n") : NULL;
    char *copy = strdup(found ? found : "");
    free(text);
    return copy;
}

// The cell of `line` under `heading`.
static void assert_cell(const char *path, int line, const char *heading, const char *want)
{
    char *head = line_of_file(path, 0), *row = line_of_file(path, line);
    char *names = head, *cells = row, *name, *cell;
    while ((name = strsep(&names, ",")) && (cell = strsep(&cells, ",")) &&
           strcmp(name, heading) != 0)
        ;
    assert_non_null(name);
    assert_string_equal(cell, want);
    free(head);
    free(row);
}

static void assert_no_line(const char *path, int line)
{
    char *text = line_of_file(path, line);
    assert_string_equal(text, "");
    free(text);
}

static void test_a_table_has_a_heading_and_a_row_a_tick(void **state)
{
    (void)state;
    struct run_folder folder, again;
    struct config config = config_for(out);
    assert_int_equal(run_folder_create(&folder, &config, "x"), STATUS_OK);
    write_tick(&folder, 1.5, 0);
    write_tick(&folder, 3.0, 0);
    run_folder_close(&folder);
    char path[900];
    snprintf(path, sizeof path, "%s", in_folder(folder.path, "stats.csv"));
    assert_cell(path, 1, "Progress/kimg", "1.5");
    assert_cell(path, 2, "Progress/kimg", "3");
    assert_cell(path, 1, "Loss/D/loss", "0.5");
    assert_cell(path, 1, "Loss/G/loss", ""); // no value is no number
    assert_cell(path, 1, "Grad/D_norm", "");
    assert_cell(path, 1, "timestamp", "1700000000");
    // Going on from 1.5 kimg: one heading, and the later row is in the backup.
    assert_int_equal(run_folder_reopen(&again, folder.path, 1.5, 0), STATUS_OK);
    write_tick(&again, 2.5, 0);
    write_tick(&again, 2.0, 1);
    run_folder_close(&again);
    assert_cell(path, 2, "Progress/kimg", "2.5");
    assert_cell(path, 3, "Progress/rollbacks", "1");
    char *backup = line_of_file(in_folder(folder.path, "stats.csv.bak"), 0);
    assert_non_null(strstr(backup, ",3,"));
    free(backup);
    // From there as of before the rollback: the row after it is given up.
    assert_int_equal(run_folder_reopen(&again, folder.path, 2.5, 0), STATUS_OK);
    run_folder_close(&again);
    assert_no_line(path, 3);
}

static void test_rows_that_do_not_fit_the_heading_go_to_the_backup(void **state)
{
    (void)state;
    struct run_folder folder, again;
    struct config config = config_for(out);
    assert_int_equal(run_folder_create(&folder, &config, "x"), STATUS_OK);
    write_tick(&folder, 1.0, 0);
    run_folder_line(&folder, RUN_LOG_CSV, "0,1,2,0.5,0");
    run_folder_close(&folder);
    char path[900];
    snprintf(path, sizeof path, "%s", in_folder(folder.path, "stats.csv"));
    FILE *file = fopen(path, "a");
    fputs("1,1,2", file); // cut short by a crash
    fclose(file);
    assert_int_equal(run_folder_reopen(&again, folder.path, 5.0, 0), STATUS_OK);
    run_folder_close(&again);
    assert_cell(path, 1, "Progress/kimg", "1");
    assert_no_line(path, 2);
    assert_text(in_folder(folder.path, "stats.csv.bak"), "0,1,2,0.5,0\n1,1,2\n");
}

static void test_a_log_without_later_lines_is_left_alone(void **state)
{
    (void)state;
    const char *path = in_folder(out, "stats.jsonl");
    write_text(path, STAT("1") STAT("2"));
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(cut(path, 2.0, 0), STATUS_OK);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_int_equal(count_entries(out), 1);
    assert_int_equal(cut(in_folder(out, "is not there"), 1.0, 0), STATUS_OK);
    assert_int_equal(count_entries(out), 1);
}

static void test_lines_that_cannot_be_moved_stay(void **state)
{
    (void)state;
    const char *path = in_folder(out, "stats.jsonl");
    write_text(path, STAT("1") STAT("2"));
    assert_int_equal(mkdir(in_folder(out, "stats.jsonl.bak"), 0777), 0);
    assert_int_equal(cut(path, 1.0, 0), STATUS_FAILED);
    assert_non_null(
        strstr(status_message(), "its later lines cannot be moved to a .bak file"));
    assert_text(path, STAT("1") STAT("2"));
    assert_int_equal(count_entries(out), 2);
}

static void test_a_resume_clears_away_what_a_kill_left(void **state)
{
    (void)state;
    struct run_folder folder, again;
    make_run(&folder);
    const char *left = ".snapshot-000003.safetensors.0.twinscale-part";
    write_text(in_folder(folder.path, left), "half");
    write_text(in_folder(folder.path, "notes.tmp"), "kept");
    assert_int_equal(run_folder_reopen(&again, folder.path, 10.0, 0), STATUS_OK);
    run_folder_close(&again);
    assert_false(path_exists(in_folder(folder.path, left)));
    assert_text(in_folder(folder.path, "notes.tmp"), "kept");
}

static void test_two_programs_do_not_train_in_one_folder(void **state)
{
    (void)state;
    struct run_folder folder, again;
    make_run(&folder);
    assert_int_equal(run_folder_reopen(&folder, folder.path, 10.0, 0), STATUS_OK);
    assert_int_equal(run_folder_reopen(&again, folder.path, 1.0, 0), STATUS_USAGE);
    assert_non_null(
        strstr(status_message(), "another program is training in this folder"));
    assert_false(path_exists(in_folder(folder.path, "stats.jsonl.bak")));
    run_folder_close(&folder);
    assert_int_equal(run_folder_reopen(&again, folder.path, 10.0, 0), STATUS_OK);
    run_folder_close(&again);
}

static void test_what_is_no_run_folder_is_refused(void **state)
{
    (void)state;
    struct run_folder folder;
    assert_int_equal(run_folder_reopen(&folder, in_folder(out, "nowhere"), 1.0, 0),
                     STATUS_DATA);
    assert_non_null(
        strstr(status_message(), "nowhere: cannot be resumed in: No such file"));
    write_text(in_folder(out, "file"), "");
    assert_int_equal(run_folder_reopen(&folder, in_folder(out, "file"), 1.0, 0),
                     STATUS_DATA);
    assert_non_null(strstr(status_message(), "file: is not a folder; give a run folder"));
    char path[900];
    snprintf(path, sizeof path, "%s", out);
    while (strlen(path) < 800)
        strcat(path, "/.");
    assert_int_equal(run_folder_reopen(&folder, path, 1.0, 0), STATUS_DATA);
    assert_non_null(strstr(status_message(), "characters, at most 767 can be used"));
    run_folder_close(&folder);
}

static void test_logs_that_cannot_be_opened_are_told(void **state)
{
    (void)state;
    struct run_folder folder;
    assert_int_equal(mkdir(in_folder(out, "log.txt"), 0777), 0);
    assert_int_equal(run_folder_reopen(&folder, out, 1.0, 0), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "log.txt: is a folder, a log was expected"));
}

/* ---- snapshots ------------------------------------------------------------------- */

static void make_snapshot(const char *name)
{
    static const float value = 1.0f;
    const struct safetensor tensor = {
        .name = "w", .dtype = "F32", .rank = 0, .data = &value, .bytes = sizeof value};
    assert_int_equal(safetensors_write(in_folder(out, name), &tensor, 1, NULL, 0, NULL),
                     STATUS_OK);
}

static void cut_short(const char *name)
{
    assert_int_equal(truncate(in_folder(out, name), 100), 0);
}

static char found[1024], note[512];

static enum status find(const char *path)
{
    snprintf(note, sizeof note, "left from before");
    return run_folder_find_snapshot(path, found, sizeof found, note, sizeof note);
}

static void test_the_newest_snapshot_is_found_by_its_number(void **state)
{
    (void)state;
    make_snapshot("snapshot-000200.safetensors");
    make_snapshot("snapshot-000009.safetensors");
    make_snapshot("snapshot-000200.500.safetensors");
    make_snapshot("snapshot-000099.999.safetensors");
    make_snapshot("snapshot-000300.safetensors.bak");
    make_snapshot("snapshot-000400.safetensors.tmp");
    make_snapshot("snapshot-best.safetensors");
    make_snapshot("snapshot-1.2.3.safetensors");
    make_snapshot("snapshot-.safetensors");
    assert_int_equal(find(out), STATUS_OK);
    assert_string_equal(found, in_folder(out, "snapshot-000200.500.safetensors"));
    assert_string_equal(note, "");
    char with_slash[600];
    snprintf(with_slash, sizeof with_slash, "%s/", out);
    assert_int_equal(find(with_slash), STATUS_OK);
    assert_string_equal(found, in_folder(out, "snapshot-000200.500.safetensors"));
}

static void test_a_damaged_newest_snapshot_is_passed_over_with_a_note(void **state)
{
    (void)state;
    make_snapshot("snapshot-000100.safetensors");
    make_snapshot("snapshot-000200.safetensors");
    make_snapshot("snapshot-000300.safetensors");
    cut_short("snapshot-000300.safetensors");
    assert_int_equal(find(out), STATUS_OK);
    assert_string_equal(found, in_folder(out, "snapshot-000200.safetensors"));
    assert_non_null(strstr(note, "passed over a newer snapshot: "));
    assert_non_null(strstr(note, "snapshot-000300.safetensors: claims a header of"));
    cut_short("snapshot-000200.safetensors");
    assert_int_equal(find(out), STATUS_OK);
    assert_string_equal(found, in_folder(out, "snapshot-000100.safetensors"));
    assert_non_null(strstr(note, "passed over 2 newer snapshots; the newest: "));
    cut_short("snapshot-000100.safetensors");
    assert_int_equal(find(out), STATUS_DATA);
    assert_non_null(
        strstr(status_message(), "none of its 3 snapshots can be used; the newest"));
    assert_memory_equal(status_message(), out, strlen(out));
}

static void test_a_folder_without_snapshots_is_named(void **state)
{
    (void)state;
    assert_int_equal(find(out), STATUS_DATA);
    assert_memory_equal(status_message(), out, strlen(out));
    assert_non_null(
        strstr(status_message(), ": no snapshot-*.safetensors in this folder"));
    assert_int_equal(find(in_folder(out, "nowhere")), STATUS_DATA);
    assert_non_null(strstr(status_message(), "nowhere: cannot be read: No such file"));
}

static void test_a_path_too_long_for_a_snapshot_is_refused(void **state)
{
    (void)state;
    char path[1000];
    snprintf(path, sizeof path, "%s", out);
    while (strlen(path) < 900)
        strcat(path, "/.");
    assert_int_equal(find(path), STATUS_DATA);
    assert_non_null(
        strstr(status_message(), "characters, too many; move the run folder"));
}

static void test_a_file_is_taken_as_it_is(void **state)
{
    (void)state;
    make_snapshot("any name.safetensors");
    assert_int_equal(find(in_folder(out, "any name.safetensors")), STATUS_OK);
    assert_string_equal(found, in_folder(out, "any name.safetensors"));
    assert_string_equal(note, "");
}

static void make_five_snapshots(struct run_folder *folder)
{
    memset(folder, 0, sizeof *folder);
    snprintf(folder->path, sizeof folder->path, "%s", out);
    static const char *const names[] = {"000100", "000200", "000200.500", "000300",
                                        "001000"};
    for (int i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "snapshot-%s.safetensors", names[i]);
        write_text(in_folder(out, name), "");
    }
    write_text(in_folder(out, "log.txt"), "");
}

static void test_pruning_keeps_the_newest_and_what_it_must_not_touch(void **state)
{
    (void)state;
    struct run_folder folder;
    make_five_snapshots(&folder);
    run_folder_prune(&folder, 0, NULL);
    assert_int_equal(count_entries(out), 6);
    run_folder_prune(&folder, 3, NULL);
    assert_int_equal(count_entries(out), 4);
    assert_true(path_exists(in_folder(out, "snapshot-000200.500.safetensors")));
    assert_false(path_exists(in_folder(out, "snapshot-000200.safetensors")));
    run_folder_prune(&folder, 1, in_folder(out, "snapshot-000200.500.safetensors"));
    assert_int_equal(count_entries(out), 3);
    assert_true(path_exists(in_folder(out, "snapshot-000200.500.safetensors")));
    assert_true(path_exists(in_folder(out, "snapshot-001000.safetensors")));
    assert_true(path_exists(in_folder(out, "log.txt")));
}

static void test_no_snapshot_that_is_set_aside_replaces_an_older_one(void **state)
{
    (void)state;
    struct run_folder folder;
    make_five_snapshots(&folder);
    static const char *const future[] = {"first", "second", "third"};
    for (int i = 0; i < 3; i++) {
        write_text(in_folder(out, "snapshot-001000.safetensors"), future[i]);
        run_folder_set_aside(&folder, 300.0);
    }
    assert_false(path_exists(in_folder(out, "snapshot-001000.safetensors")));
    assert_text(in_folder(out, "snapshot-001000.safetensors.bak"), "first");
    assert_text(in_folder(out, "snapshot-001000.safetensors.bak2"), "second");
    assert_text(in_folder(out, "snapshot-001000.safetensors.bak3"), "third");
    assert_true(path_exists(in_folder(out, "snapshot-000300.safetensors")));
}

static void open_a_run(struct run_folder *folder)
{
    make_run(folder);
    assert_int_equal(run_folder_reopen(folder, folder->path, 10.0, 0), STATUS_OK);
}

static void test_the_lock_is_not_lost_with_any_file_of_the_folder(void **state)
{
    (void)state;
    struct run_folder folder, again;
    open_a_run(&folder);
    static const char *const names[] = {"log.txt", "stats.jsonl", "events.jsonl",
                                        "layers.jsonl", "options.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(folder.path, names[i]));
    assert_int_equal(run_folder_reopen(&again, folder.path, 10.0, 0), STATUS_USAGE);
    run_folder_close(&folder);
    assert_int_equal(run_folder_reopen(&again, folder.path, 10.0, 0), STATUS_OK);
    run_folder_close(&again);
}

static void test_a_log_that_was_removed_or_replaced_is_opened_anew(void **state)
{
    (void)state;
    struct run_folder folder;
    open_a_run(&folder);
    unlink(in_folder(folder.path, "events.jsonl"));
    unlink(in_folder(folder.path, "log.txt"));
    unlink(in_folder(folder.path, "layers.jsonl"));
    // As an editor does that saves a file.
    write_text(in_folder(folder.path, "edited"), "{\"mine\":1}\n");
    char edited[900], stats[900];
    snprintf(edited, sizeof edited, "%s", in_folder(folder.path, "edited"));
    snprintf(stats, sizeof stats, "%s", in_folder(folder.path, "stats.jsonl"));
    assert_int_equal(rename(edited, stats), 0);
    run_folder_log(&folder, "a line");
    run_folder_line(&folder, RUN_LOG_EVENTS, "{\"event\":1}");
    run_folder_line(&folder, RUN_LOG_LAYERS, "{\"layers\":1}");
    run_folder_line(&folder, RUN_LOG_STATS, "{\"tick\":1}");
    run_folder_line(&folder, RUN_LOG_STATS, "{\"tick\":2}");
    run_folder_close(&folder);
    assert_text(in_folder(folder.path, "log.txt"), "a line\n");
    assert_text(in_folder(folder.path, "events.jsonl"), "{\"event\":1}\n");
    assert_text(in_folder(folder.path, "layers.jsonl"), "{\"layers\":1}\n");
    assert_text(stats, "{\"mine\":1}\n{\"tick\":1}\n{\"tick\":2}\n");
}

static void test_a_run_goes_on_in_a_folder_that_was_moved(void **state)
{
    (void)state;
    struct run_folder folder, again;
    char moved[900];
    open_a_run(&folder);
    snprintf(moved, sizeof moved, "%s", in_folder(out, "elsewhere"));
    assert_int_equal(rename(folder.path, moved), 0);
    run_folder_line(&folder, RUN_LOG_EVENTS, "{\"event\":1}");
    char real[PATH_MAX];
    assert_non_null(realpath(moved, real));
    assert_string_equal(folder.path, real);
    char last[64];
    run_command(last, sizeof last, "tail -n 1 '%s/events.jsonl'", moved);
    assert_string_equal(last, "{\"event\":1}\n");
    assert_int_equal(run_folder_reopen(&again, moved, 10.0, 0), STATUS_USAGE);
    run_folder_close(&folder);
}

static void
test_a_folder_that_was_removed_ends_nothing_and_is_not_made_again(void **state)
{
    (void)state;
    struct run_folder folder;
    char text[64], path[900];
    open_a_run(&folder);
    snprintf(path, sizeof path, "%s", folder.path);
    run_command(text, sizeof text, "rm -r '%s'", path);
    run_folder_line(&folder, RUN_LOG_EVENTS, "{\"event\":1}");
    run_folder_log(&folder, "a line");
    assert_int_equal(folder.is_lost, 1);
    assert_false(path_exists(path));
    run_folder_close(&folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_out, close_out)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_run_takes_the_number_after_the_largest),
        TEST(test_names_are_fit_for_a_file_name),
        TEST(test_a_new_run_holds_its_options_and_empty_logs),
        TEST(test_runs_started_at_once_get_a_number_each),
        TEST(test_a_place_where_no_folder_can_be_is_told),
        TEST(test_a_full_disk_leaves_no_half_run_folder),
        TEST(test_options_that_cannot_be_written_leave_no_run_folder),
        TEST(test_a_file_is_named_in_the_folder_or_aborts),
        TEST(test_lines_are_there_as_soon_as_they_are_told),
        TEST(test_a_log_on_a_full_disk_is_told_once_and_never_half_written),
        TEST(test_half_a_line_is_taken_back),
        TEST(test_a_resume_moves_later_lines_to_a_backup),
        TEST(test_a_line_that_a_crash_cut_short_goes_to_the_backup),
        TEST(test_lines_of_a_rollback_that_has_not_come_yet_go_to_the_backup),
        TEST(test_a_table_has_a_heading_and_a_row_a_tick),
        TEST(test_rows_that_do_not_fit_the_heading_go_to_the_backup),
        TEST(test_a_log_without_later_lines_is_left_alone),
        TEST(test_lines_that_cannot_be_moved_stay),
        TEST(test_a_resume_clears_away_what_a_kill_left),
        TEST(test_two_programs_do_not_train_in_one_folder),
        TEST(test_the_lock_is_not_lost_with_any_file_of_the_folder),
        TEST(test_a_log_that_was_removed_or_replaced_is_opened_anew),
        TEST(test_a_run_goes_on_in_a_folder_that_was_moved),
        TEST(test_a_folder_that_was_removed_ends_nothing_and_is_not_made_again),
        TEST(test_what_is_no_run_folder_is_refused),
        TEST(test_logs_that_cannot_be_opened_are_told),
        TEST(test_the_newest_snapshot_is_found_by_its_number),
        TEST(test_a_damaged_newest_snapshot_is_passed_over_with_a_note),
        TEST(test_a_folder_without_snapshots_is_named),
        TEST(test_a_path_too_long_for_a_snapshot_is_refused),
        TEST(test_a_file_is_taken_as_it_is),
        TEST(test_no_snapshot_that_is_set_aside_replaces_an_older_one),
        TEST(test_pruning_keeps_the_newest_and_what_it_must_not_touch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
