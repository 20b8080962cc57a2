/* support.h - what every test needs: cmocka, seeded fills, tolerant comparison, folders.
 * Owns:  nothing between calls. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

// cmocka wants these four before its own header.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/tensor.h"

/* How a tensor is filled. EDGE mixes 0, -0, largest finite, subnormal, inf, NaN, +-1
 * among random values; RANDOM is uniform in [-1, 1); SMALL_INTEGERS is exact in every
 * dtype. */
enum fill { FILL_RANDOM, FILL_EDGE, FILL_SMALL_INTEGERS, FILL_ONES };

/* Fills as a function of (seed, element), rounded to the tensor's dtype. */
void fill_tensor(struct tensor *tensor, enum fill fill, uint64_t seed);
void fill_f32(float *values, size_t n, enum fill fill, uint64_t seed);

/* A tensor on the heap (aligned to 256 bytes), zeroed; free(tensor.data). */
struct tensor heap_tensor(enum dtype dtype, struct shape shape);

/* Fails the test unless |got - want| <= absolute + relative*|want| for every element,
 * where inf equals inf of the same sign and NaN equals NaN. Prints op, shape, first
 * index, got, want, seed. compare_tensors_quietly() returns 1 when all agree and prints
 * nothing. */
void assert_tensors_close(const char *op, const struct tensor *got,
                          const struct tensor *want, double absolute, double relative,
                          uint64_t seed);
int compare_tensors_quietly(const struct tensor *got, const struct tensor *want,
                            double absolute, double relative);
void assert_f32_close(const char *what, const float *got, const float *want, size_t n,
                      double absolute, double relative, uint64_t seed);

/* A fresh empty folder under the build's temporary place; removed by remove_folder(). The
 * text is valid until the next call. */
const char *make_folder(const char *name);
void remove_folder(const char *path);

/* cmocka's fixtures for tests that need one folder: it is there from the one to the
 * other. */
extern char test_folder[];
int open_test_folder(void **state);
int close_test_folder(void **state);

/* Leaves the test out, which the last lines of tests/run.sh say with the reason. */
#define skip_because(...)                       \
    do {                                        \
        print_message("SKIPPED: " __VA_ARGS__); \
        print_message("\n");                    \
        skip();                                 \
    } while (0)

/* Runs a command line with the shell; output (stdout and stderr) into `text`; returns the
 * exit status, or 128 + signal. */
int run_command(char *text, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
