/* test_atomic_file.c - whole or not at all: under the name there is never a part. */
#include "tests/support/support.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/files/atomic_file.h"
#include "tests/app/disk.h"

/* This program's fsync(): the call counted down to 0 fails with `fsync_error`. */
static int fsync_countdown = -1, fsync_error;

int fsync(int descriptor)
{
    if (fsync_countdown >= 0 && fsync_countdown-- == 0) {
        errno = fsync_error;
        return -1;
    }
    return (int)syscall(SYS_fsync, descriptor);
}

static char folder[512];

static int open_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", make_folder("atomic"));
    fsync_countdown = -1;
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    remove_folder(folder);
    return 0;
}

static enum status save_text(const char *path, const char *text)
{
    struct atomic_file file;
    TRY(atomic_open(&file, path));
    fputs(text, file.stream);
    return atomic_commit(&file);
}

static void assert_file(const char *path, const char *want)
{
    char *text = read_text(path, NULL);
    assert_string_equal(text, want);
    free(text);
}

static void test_a_file_appears_only_at_the_commit(void **state)
{
    (void)state;
    struct atomic_file file;
    const char *path = in_folder(folder, "new.txt");
    assert_int_equal(atomic_open(&file, path), STATUS_OK);
    fputs("whole", file.stream);
    fflush(file.stream);
    assert_false(path_exists(path));
    assert_int_equal(atomic_commit(&file), STATUS_OK);
    assert_file(path, "whole");
    assert_int_equal(count_entries(folder), 1);
    atomic_discard(&file); // harmless after a commit
    assert_file(path, "whole");
}

static void test_a_commit_replaces_and_a_discard_keeps_the_older_file(void **state)
{
    (void)state;
    const char *path = in_folder(folder, "f");
    assert_int_equal(save_text(path, "first"), STATUS_OK);
    assert_int_equal(save_text(path, "second"), STATUS_OK);
    assert_file(path, "second");

    struct atomic_file file;
    assert_int_equal(atomic_open(&file, path), STATUS_OK);
    fputs("third", file.stream);
    atomic_discard(&file);
    atomic_discard(&file);
    assert_file(path, "second");
    assert_int_equal(count_entries(folder), 1);
}

static void test_a_synced_file_can_be_read_back_before_the_commit(void **state)
{
    (void)state;
    struct atomic_file file;
    assert_int_equal(atomic_open(&file, in_folder(folder, "f")), STATUS_OK);
    fputs("to be verified", file.stream);
    assert_int_equal(atomic_sync(&file), STATUS_OK);
    assert_file(file.temporary, "to be verified");
    assert_false(path_exists(in_folder(folder, "f")));
    assert_int_equal(atomic_commit(&file), STATUS_OK);
    assert_file(in_folder(folder, "f"), "to be verified");
}

/* Begins `path`, writes half of it and is killed, in a child. */
static void kill_a_writer_of(const char *path)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct atomic_file file;
        if (atomic_open(&file, path) == STATUS_OK) {
            fputs("a long half of something that was cut", file.stream);
            fflush(file.stream);
        }
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void test_what_a_killed_writer_left_is_taken_over(void **state)
{
    (void)state;
    kill_a_writer_of(in_folder(folder, "f"));
    assert_int_equal(count_entries(folder), 1);
    assert_true(path_exists(in_folder(folder, ".f.0.twinscale-part")));
    assert_int_equal(save_text(in_folder(folder, "f"), "short"), STATUS_OK);
    assert_file(in_folder(folder, "f"), "short");
    assert_int_equal(count_entries(folder), 1);
}

static void test_leftovers_are_removed_and_files_in_use_are_not(void **state)
{
    (void)state;
    struct atomic_file file;
    kill_a_writer_of(in_folder(folder, "f"));
    kill_a_writer_of(in_folder(folder, "g"));
    assert_int_equal(atomic_open(&file, in_folder(folder, "f")), STATUS_OK);
    atomic_remove_leftovers(folder);
    assert_int_equal(count_entries(folder), 1);
    assert_true(path_exists(file.temporary));
    fputs("whole", file.stream);
    assert_int_equal(atomic_commit(&file), STATUS_OK);
    assert_file(in_folder(folder, "f"), "whole");
    atomic_remove_leftovers(in_folder(folder, "no such folder"));
}

/* Names that a user may give, as near to ours as they come. */
static void test_no_file_of_another_name_is_touched(void **state)
{
    (void)state;
    static const char *const names[] = {"f.tmp",
                                        ".tmp",
                                        "f.0.twinscale-part",
                                        ".twinscale-part",
                                        ".0.twinscale-part",
                                        ".f.twinscale-part",
                                        ".f..twinscale-part",
                                        ".f.0.twinscale-part.txt",
                                        "f~"};
    enum { NAMES = sizeof names / sizeof *names };
    for (int i = 0; i < NAMES; i++) {
        write_text(in_folder(folder, names[i]), "precious");
        assert_false(atomic_is_temporary(names[i]));
    }
    assert_true(atomic_is_temporary(".f.0.twinscale-part"));
    assert_true(atomic_is_temporary(".f.17.twinscale-part"));
    assert_int_equal(save_text(in_folder(folder, "f"), "new"), STATUS_OK);
    atomic_remove_leftovers(folder);
    assert_int_equal(count_entries(folder), NAMES + 1);
    for (int i = 0; i < NAMES; i++)
        assert_file(in_folder(folder, names[i]), "precious");
}

static void test_an_empty_name_is_refused(void **state)
{
    (void)state;
    struct atomic_file file;
    assert_int_equal(atomic_open(&file, ""), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "the name of a file to write is empty"));
    atomic_discard(&file);
}

static void test_two_writers_of_one_name_do_not_mix(void **state)
{
    (void)state;
    struct atomic_file first, second;
    assert_int_equal(atomic_open(&first, in_folder(folder, "f")), STATUS_OK);
    fputs("first", first.stream);
    assert_int_equal(atomic_open(&second, in_folder(folder, "f")), STATUS_OK);
    fputs("the second", second.stream);
    assert_int_equal(atomic_commit(&first), STATUS_OK);
    assert_file(in_folder(folder, "f"), "first");
    assert_int_equal(atomic_commit(&second), STATUS_OK);
    assert_file(in_folder(folder, "f"), "the second");
    assert_int_equal(count_entries(folder), 1);
}

static void test_a_file_that_must_be_new_replaces_none(void **state)
{
    (void)state;
    struct atomic_file file;
    assert_int_equal(atomic_open(&file, in_folder(folder, "f")), STATUS_OK);
    file.must_be_new = 1;
    write_text(in_folder(folder, "f"), "somebody was quicker");
    assert_int_equal(atomic_commit(&file), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "File exists"));
    assert_file(in_folder(folder, "f"), "somebody was quicker");
    assert_int_equal(count_entries(folder), 1);
}

static enum status save_keeping(const char *text, char kept[PATH_MAX])
{
    struct atomic_file file;
    TRY(atomic_open(&file, in_folder(folder, "f")));
    fputs(text, file.stream);
    return atomic_commit_keeping(&file, kept, PATH_MAX);
}

static void test_every_older_file_is_kept_unless_it_is_the_same(void **state)
{
    (void)state;
    char kept[PATH_MAX];
    assert_int_equal(save_keeping("one", kept), STATUS_OK);
    assert_string_equal(kept, "");
    assert_int_equal(save_keeping("one", kept), STATUS_OK);
    assert_string_equal(kept, "");
    assert_int_equal(count_entries(folder), 1);
    assert_int_equal(save_keeping("two", kept), STATUS_OK);
    assert_string_equal(kept, in_folder(folder, "f.bak"));
    assert_int_equal(save_keeping("three", kept), STATUS_OK);
    assert_string_equal(kept, in_folder(folder, "f.bak2"));
    assert_int_equal(save_keeping("thre", kept),
                     STATUS_OK); // a beginning is not the same
    assert_string_equal(kept, in_folder(folder, "f.bak3"));
    assert_file(in_folder(folder, "f"), "thre");
    assert_file(in_folder(folder, "f.bak"), "one");
    assert_file(in_folder(folder, "f.bak2"), "two");
    assert_file(in_folder(folder, "f.bak3"), "three");
    assert_int_equal(count_entries(folder), 4);
}

static void test_folders_and_devices_are_not_replaced(void **state)
{
    (void)state;
    struct atomic_file file;
    assert_int_equal(atomic_open(&file, folder), STATUS_FAILED);
    assert_non_null(
        strstr(status_message(), "is a folder, a file to write was expected"));
    assert_int_equal(atomic_open(&file, "/dev/null"), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "is not a regular file"));
    struct stat facts;
    assert_int_equal(stat("/dev/null", &facts), 0);
    assert_true(S_ISCHR(facts.st_mode));
}

static void test_a_link_stays_a_link(void **state)
{
    (void)state;
    write_text(in_folder(folder, "target"), "old");
    assert_int_equal(symlink("target", in_folder(folder, "link")), 0);
    assert_int_equal(save_text(in_folder(folder, "link"), "new"), STATUS_OK);
    assert_file(in_folder(folder, "target"), "new");
    struct stat facts;
    assert_int_equal(lstat(in_folder(folder, "link"), &facts), 0);
    assert_true(S_ISLNK(facts.st_mode));
}

static void test_a_missing_folder_is_told_with_the_reason(void **state)
{
    (void)state;
    struct atomic_file file;
    assert_int_equal(atomic_open(&file, in_folder(folder, "no/such/f")), STATUS_FAILED);
    assert_non_null(
        strstr(status_message(), "no/such/f: cannot be created: No such file"));
}

static void test_a_path_that_is_too_long_is_refused(void **state)
{
    (void)state;
    char path[PATH_MAX + 100];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct atomic_file file;
    assert_int_equal(atomic_open(&file, path), STATUS_FAILED);
    assert_non_null(
        strstr(status_message(), "the path has 4195 characters, at most 4076"));
}

static void test_a_relative_name_lands_in_the_working_folder(void **state)
{
    (void)state;
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    enum status status = save_text("plain", "here");
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, STATUS_OK);
    assert_file(in_folder(folder, "plain"), "here");
}

/* ---- failures -------------------------------------------------------------------- */

static int write_too_much(const char *place)
{
    static char block[1 << 16];
    const char *path = in_folder(place, "big");
    EXPECT(save_text(path, "older") == STATUS_OK);
    struct atomic_file file;
    EXPECT(atomic_open(&file, path) == STATUS_OK);
    file.bytes_expected = 64 * sizeof block;
    for (int i = 0; i < 64; i++)
        fwrite(block, 1, sizeof block, file.stream);
    EXPECT(atomic_commit(&file) == STATUS_FAILED);
    EXPECT(strstr(status_message(), "/big: could not be written, "));
    EXPECT(strstr(status_message(), " of 4194304 bytes went to the disk: "));
    EXPECT(strstr(status_message(), "(the older file is untouched)"));
    EXPECT(count_entries(place) == 1);
    char *text = read_text(path, NULL);
    EXPECT(strcmp(text, "older") == 0);
    free(text);
    return 0;
}

static int disk_is_full(const char *place)
{
    int failed = write_too_much(place);
    EXPECT(failed ||
           strstr(status_message(), "No space left on device; free some space"));
    return failed;
}

static int limit_is_reached(const char *place)
{
    int failed = write_too_much(place);
    EXPECT(failed || strstr(status_message(), "File too large; raise the limit"));
    return failed;
}

static void test_a_full_disk_leaves_the_older_file_and_no_temporary(void **state)
{
    (void)state;
    int answer = with_small_disk(folder, 1024, disk_is_full);
    if (answer == CHILD_SKIPS)
        skip_because(NO_SMALL_DISK);
    assert_int_equal(answer, 0);
}

static void test_a_file_limit_leaves_the_older_file_and_no_temporary(void **state)
{
    (void)state;
    assert_int_equal(with_file_limit(folder, 1 << 20, limit_is_reached), 0);
}

static void test_a_failed_fsync_is_a_failed_write(void **state)
{
    (void)state;
    const char *path = in_folder(folder, "f");
    assert_int_equal(save_text(path, "older"), STATUS_OK);
    fsync_error = EIO;
    fsync_countdown = 0;
    assert_int_equal(save_text(path, "newer"), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "Input/output error; check the disk"));
    assert_file(path, "older");
    assert_int_equal(count_entries(folder), 1);
}

static void test_a_file_system_without_fsync_is_good_enough(void **state)
{
    (void)state;
    fsync_error = EINVAL;
    fsync_countdown = 0;
    assert_int_equal(save_text(in_folder(folder, "f"), "newer"), STATUS_OK);
    assert_file(in_folder(folder, "f"), "newer");
}

static void test_a_folder_that_cannot_be_synced_is_told(void **state)
{
    (void)state;
    fsync_error = EIO;
    fsync_countdown = 1; // the second: the folder's
    assert_int_equal(save_text(in_folder(folder, "f"), "newer"), STATUS_FAILED);
    assert_non_null(
        strstr(status_message(), "its folder could not be brought to the disk"));
    assert_file(in_folder(folder, "f"), "newer");
    assert_int_equal(count_entries(folder), 1);
}

static void test_a_failed_rename_leaves_no_temporary(void **state)
{
    (void)state;
    struct atomic_file file;
    const char *path = in_folder(folder, "f");
    assert_int_equal(atomic_open(&file, path), STATUS_OK);
    fputs("text", file.stream);
    assert_int_equal(mkdir(path, 0777), 0); // somebody was quicker
    assert_int_equal(atomic_commit(&file), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "Is a directory"));
    assert_int_equal(count_entries(folder), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_folder, close_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_file_appears_only_at_the_commit),
        TEST(test_a_commit_replaces_and_a_discard_keeps_the_older_file),
        TEST(test_a_synced_file_can_be_read_back_before_the_commit),
        TEST(test_what_a_killed_writer_left_is_taken_over),
        TEST(test_leftovers_are_removed_and_files_in_use_are_not),
        TEST(test_no_file_of_another_name_is_touched),
        TEST(test_an_empty_name_is_refused),
        TEST(test_two_writers_of_one_name_do_not_mix),
        TEST(test_a_file_that_must_be_new_replaces_none),
        TEST(test_every_older_file_is_kept_unless_it_is_the_same),
        TEST(test_folders_and_devices_are_not_replaced),
        TEST(test_a_link_stays_a_link),
        TEST(test_a_missing_folder_is_told_with_the_reason),
        TEST(test_a_path_that_is_too_long_is_refused),
        TEST(test_a_relative_name_lands_in_the_working_folder),
        TEST(test_a_full_disk_leaves_the_older_file_and_no_temporary),
        TEST(test_a_file_limit_leaves_the_older_file_and_no_temporary),
        TEST(test_a_failed_fsync_is_a_failed_write),
        TEST(test_a_file_system_without_fsync_is_good_enough),
        TEST(test_a_folder_that_cannot_be_synced_is_told),
        TEST(test_a_failed_rename_leaves_no_temporary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
