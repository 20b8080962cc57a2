/* test_regular_file.c - what is not a regular file is refused at once, and never waited
 * for. */
#include "tests/support/support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/files/regular_file.h"
#include "tests/app/disk.h"

#define ENDS_A_HANG_SEC 600

static char folder[512], reason[REGULAR_REASON];

static int open_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", make_folder("regular"));
    alarm(ENDS_A_HANG_SEC);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    alarm(0);
    remove_folder(folder);
    return 0;
}

static void assert_refused(const char *path, const char *mode, const char *want)
{
    assert_null(regular_open(path, mode, "a log", reason));
    assert_string_equal(reason, want);
}

static void test_a_fifo_is_refused_for_reading_and_for_appending(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(in_folder(folder, "f"), 0666), 0);
    assert_refused(in_folder(folder, "f"), "r",
                   "is not a regular file, a log was expected");
    assert_int_equal(errno, 0);
    assert_refused(in_folder(folder, "f"), "a",
                   "is not a regular file, a log was expected");
    assert_int_equal(symlink("f", in_folder(folder, "link")), 0);
    assert_refused(in_folder(folder, "link"), "r",
                   "is not a regular file, a log was expected");
}

static void test_folders_devices_and_sockets_are_refused(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int bytes = snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_refused(folder, "r", "is a folder, a log was expected");
    assert_refused("/dev/zero", "r", "is not a regular file, a log was expected");
    assert_true(bytes < (int)sizeof address.sun_path);
    assert_int_equal(bind(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    assert_refused(address.sun_path, "r", "is not a regular file, a log was expected");
    close(descriptor);
}

static void test_the_systems_reason_is_told(void **state)
{
    (void)state;
    assert_null(regular_open(in_folder(folder, "no"), "r", "a log", reason));
    assert_int_equal(errno, ENOENT);
    assert_string_equal(reason, "cannot be opened: No such file or directory");
}

static void test_regular_files_are_read_and_appended_to(void **state)
{
    (void)state;
    char line[32];
    for (int i = 0; i < 2; i++) {
        FILE *stream = regular_open(in_folder(folder, "f"), "a", "a log", reason);
        assert_non_null(stream);
        fputs("line\n", stream);
        assert_int_equal(fclose(stream), 0);
    }
    FILE *stream = regular_open(in_folder(folder, "f"), "r", "a log", reason);
    assert_non_null(stream);
    assert_int_equal(fread(line, 1, sizeof line, stream), 10);
    assert_memory_equal(line, "line\nline\n", 10);
    fclose(stream);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_folder, close_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_fifo_is_refused_for_reading_and_for_appending),
        TEST(test_folders_devices_and_sockets_are_refused),
        TEST(test_the_systems_reason_is_told),
        TEST(test_regular_files_are_read_and_appended_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
