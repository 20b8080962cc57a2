/* data_folder.h - what the tests of data sets share: a fresh folder for each test,
 * pictures to put in it, and the opening of data sets that must or must not succeed.
 * Owns:  the folder, between data_folder_begin() and data_folder_end(). */
#ifndef TESTS_APP_DATA_FOLDER_H
#define TESTS_APP_DATA_FOLDER_H

#include "tests/support/support.h"

#include "app/input/dataset.h"

extern char folder[256];

int data_folder_begin(void **state);
int data_folder_end(void **state);
#define DATA_TEST(test) \
    cmocka_unit_test_setup_teardown(test, data_folder_begin, data_folder_end)

/* A path in the folder; the text is valid for eight calls. */
const char *in(const char *name);

/* Runs a command with the path as $1 and the folder as $2. */
void shell(const char *command, const char *path);

struct dataset_options options_of(int resolution, int channels);
struct dataset *opened(const char *path, struct dataset_options options);

/* The opening must fail with `code` and a sentence that holds `path` and `part`. */
void expect_error_of(const char *path, struct dataset_options options, enum status code,
                     const char *part);
void expect_data_error(const char *path, const char *part);

// Samplers of pictures for write_png().
unsigned grey_40(int x, int y, int c);
unsigned grey_80(int x, int y, int c);
unsigned index_1(int x, int y, int c);
unsigned colours(int x, int y, int c);
unsigned half_clear(int x, int y, int c); // alpha 128, colour x + y + 50 c

/* Images in subfolders, names that begin with a dot, other formats, texts, links that
 * lead nowhere or in a circle. */
void fill_folder(void);

#endif
