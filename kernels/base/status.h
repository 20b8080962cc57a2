/* status.h - how a function says that the world failed.
 * Flow:  the place that knows the facts calls status_fail() once; callers pass the code
 *        up unchanged with TRY(); main() prints the sentence and exits with the code.
 * Owns:  one message per thread.
 *
 *     if (found != CHECKPOINT_VERSION)
 *         return status_fail(STATUS_DATA, "%s: format version %u, ...", path, found);
 *     TRY(dataset_open(path, &options, &dataset));
 */
#ifndef KERNELS_BASE_STATUS_H
#define KERNELS_BASE_STATUS_H

// One row per code: name, exit code of the program, word for a person.
#define STATUS_TABLE(X)                                             \
    X(OK, 0, "done")                                                \
    X(FAILED, 1, "failed while running")                            \
    X(USAGE, 2, "wrong use")                                        \
    X(ENVIRONMENT, 3, "something asked for is not on this machine") \
    X(DATA, 4, "unusable data or file")                             \
    X(DIVERGED, 5, "training diverged")                             \
    X(INTERRUPTED, 130, "interrupted")

enum status {
#define X(name, exit_code, word) STATUS_##name,
    STATUS_TABLE(X)
#undef X
};

/* Keeps a sentence (what, where, found, expected, what to do) for this thread and
 * returns `code`, so that a caller can write `return status_fail(...)`. */
enum status status_fail(enum status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The sentence of the last status_fail() on this thread; "" if there was none.
 * Valid until the next status_fail() on the same thread. */
const char *status_message(void);

/* The exit code of the program for `code`. */
int status_exit_code(enum status code);

/* Returns from the enclosing function when `call` did not succeed. */
#define TRY(call)                         \
    do {                                  \
        enum status try_status_ = (call); \
        if (try_status_ != STATUS_OK)     \
            return try_status_;           \
    } while (0)

/* What makes a word of a message a plural: "1 image", "2 images". */
#define PLURAL(count) ((count) == 1 ? "" : "s")

/* Our own mistakes (shapes that disagree, NULL): prints place and values, then aborts.
 * Always compiled in; never for what a user can cause. The format is optional:
 *     CHECK(a == b, "a %d, b %d", a, b); */
#define CHECK(claim, ...)                                              \
    do {                                                               \
        if (!(claim))                                                  \
            check_failed(__FILE__, __LINE__, #claim, " " __VA_ARGS__); \
    } while (0)

/* Small memory that a function without a status cannot do without: ends the program with
 * exit code 1 and "out of memory for ...". Snapshots are whole at any moment. Large
 * blocks, and whatever saves or checks a snapshot, return a status instead.
 *     CHECK_MEMORY(list, "%zu names", count); */
#define CHECK_MEMORY(pointer, ...)      \
    do {                                \
        if (!(pointer))                 \
            memory_failed(__VA_ARGS__); \
    } while (0)

/* The same where a caller can do without, or try again later: returns STATUS_FAILED. */
#define TRY_MEMORY(pointer, ...)                \
    do {                                        \
        if (!(pointer))                         \
            return memory_missing(__VA_ARGS__); \
    } while (0)

enum status memory_missing(const char *format, ...) __attribute__((format(printf, 1, 2)));
void memory_failed(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

void check_failed(const char *file, int line, const char *claim, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

#endif
