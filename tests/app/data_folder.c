#include "tests/app/data_folder.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/app/make_png.h"

char folder[256];

int data_folder_begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", make_folder("dataset"));
    return 0;
}

int data_folder_end(void **state)
{
    (void)state;
    remove_folder(folder);
    return 0;
}

const char *in(const char *name)
{
    static char paths[8][PATH_MAX];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, name);
    return paths[turn];
}

struct dataset_options options_of(int resolution, int channels)
{
    return (struct dataset_options){.resolution = resolution, .channels = channels};
}

struct dataset *opened(const char *path, struct dataset_options options)
{
    struct dataset *dataset;
    if (dataset_open(path, &options, &dataset) != STATUS_OK)
        fail_msg("%s", status_message());
    return dataset;
}

void expect_error_of(const char *path, struct dataset_options options, enum status code,
                     const char *part)
{
    struct dataset *dataset;
    assert_int_equal(dataset_open(path, &options, &dataset), code);
    assert_null(dataset);
    if (!strstr(status_message(), part) || !strstr(status_message(), path))
        fail_msg("\"%s\" does not say \"%s\" or not \"%s\"", status_message(), path,
                 part);
}

void expect_data_error(const char *path, const char *part)
{
    expect_error_of(path, options_of(28, 0), STATUS_DATA, part);
}

void shell(const char *command, const char *path)
{
    char text[400];
    if (run_command(text, sizeof text, "set -- '%s' '%s'\n%s", path, folder, command) !=
        0)
        fail_msg("%s: %s", command, text);
}

unsigned grey_40(int x, int y, int c)
{
    (void)x, (void)y, (void)c;
    return 40;
}

unsigned grey_80(int x, int y, int c)
{
    (void)x, (void)y, (void)c;
    return 80;
}

unsigned index_1(int x, int y, int c)
{
    (void)x, (void)y, (void)c;
    return 1;
}

unsigned colours(int x, int y, int c)
{
    return (unsigned)(x * 5 + y * 3 + c * 60) & 255;
}

unsigned half_clear(int x, int y, int c)
{
    return c == 3 ? 128 : (unsigned)(x + y + c * 50);
}

void fill_folder(void)
{
    assert_int_equal(mkdir(in("b"), 0700), 0);
    assert_int_equal(mkdir(in("b/deep"), 0700), 0);
    assert_int_equal(mkdir(in(".hidden"), 0700), 0);
    write_png(in("c.PNG"), 28, 28, 0, grey_80);
    write_png(in("b/one.png"), 28, 28, 2, colours);
    write_png(in("b/deep/two.Png"), 20, 40, 6, half_clear);
    write_png(in("b.no_extension"), 28, 28, 0, grey_40);
    write_png(in(".hidden/x.png"), 28, 28, 0, grey_40);
    write_png(in("._c.PNG"), 28, 28, 0, grey_40);
    write_file(in("a.jpg"), "\xff\xd8\xff\xe0 and so on", 15);
    write_file(in("b/page.png"), "<html>not found</html>", 22);
    write_file(in("b/photo"), "RIFF\0\0\0\0WEBPVP8 ", 16);
    write_file(in("empty.png"), "", 0);
    write_file(in("labels.txt"), "1 2 3", 5);
    assert_int_equal(symlink("nowhere", in("z-link.png")), 0);
    assert_int_equal(symlink("nowhere", in("z-link.txt")), 0);
    assert_int_equal(symlink("..", in("b/deep/up")), 0);
    assert_int_equal(symlink(folder, in("b/top")), 0);
}
