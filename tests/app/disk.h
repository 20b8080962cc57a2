/* disk.h - files and full disks for tests of what is written.
 * Owns:  nothing between calls.
 *
 * What must end with a process (a mount, a limit, a kill) runs in a child: its body
 * returns 0 when all went well, and EXPECT() returns 1 from it after telling which claim
 * failed. */
#ifndef TESTS_APP_DISK_H
#define TESTS_APP_DISK_H

#include <stddef.h>

/* A file's bytes with a 0 behind them; fails the test if it cannot be read. free() it. */
char *read_text(const char *path, size_t *bytes);
void write_bytes(const char *path, const void *data, size_t bytes);
void write_text(const char *path, const char *text);
int path_exists(const char *path);
/* Entries of a folder, without "." and "..". */
int count_entries(const char *folder);
/* "<folder>/<name>" in one of eight static buffers, used in turn. */
const char *in_folder(const char *folder, const char *name);

#define EXPECT(claim)                                                            \
    do {                                                                         \
        if (!(claim)) {                                                          \
            fprintf(stderr, "%s:%d: not true in the child: %s (%s)\n", __FILE__, \
                    __LINE__, #claim, status_message());                         \
            return 1;                                                            \
        }                                                                        \
    } while (0)

/* What a child answers that may not mount. */
#define CHILD_SKIPS 77
#define NO_SMALL_DISK "this machine does not let a test mount a small disk"

/* Runs body(folder) in a child where `folder` is a disk of `kib` KiB of its own. Returns
 * what the body returned, or CHILD_SKIPS where mounting is not permitted. */
int with_small_disk(const char *folder, int kib, int (*body)(const char *folder));

/* Runs body(folder) in a child that may not write files beyond `bytes`. */
int with_file_limit(const char *folder, size_t bytes, int (*body)(const char *folder));

/* Runs body(folder) in a child with its stderr in `text`; returns its exit status, or 128
 * + the signal that ended it. */
int with_stderr(char *text, size_t bytes, const char *folder,
                int (*body)(const char *folder));

/* Fills the disk that `folder` is on with one file, to the last byte; 0 on success. */
int fill_disk(const char *folder);

#endif
