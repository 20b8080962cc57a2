/* atomic_file.h - a file that appears whole or not at all.
 * Flow:  every writer of a named file (checkpoint, grid, preview, options) ->
 * [atomic_file]. Owns:  the open temporary file NAME.tmp beside the target, until commit
 * or discard.
 *
 *     struct atomic_file file;
 *     TRY(atomic_open(&file, path));
 *     ... write to file.stream; write errors are remembered, no call needs checking ...
 *     return atomic_commit(&file);     or atomic_discard(&file) to give up
 *
 * A crash at any moment leaves the old file or the new one under the name, and at most a
 * NAME.tmp that the next write of that name takes over. Two programs that write one name
 * at the same time do not mix: the second is refused. A link is followed; devices and
 * folders are refused, since renaming would replace them. */
#ifndef APP_OUTPUT_ATOMIC_FILE_H
#define APP_OUTPUT_ATOMIC_FILE_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/status.h"

/* Must stay at its address from open to commit or discard: the stream points to it. */
struct atomic_file {
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    FILE *stream;            // where to write; it has no fileno()
    uint64_t bytes_expected; // may be set after open: told when a write fails
    // Private.
    int descriptor;
    int error; // errno of the first write that failed, 0 if none
    uint64_t bytes_written;
};

/* Opens NAME.tmp. STATUS_FAILED with path and the system's reason. */
enum status atomic_open(struct atomic_file *file, const char *path);

/* Flushes and fsyncs the temporary file, so that it can be read back before the commit.
 * On failure STATUS_FAILED with path, bytes and reason, and the file is discarded. */
enum status atomic_sync(struct atomic_file *file);

/* atomic_sync() unless that was done, then rename, then fsync of the folder. Whatever it
 * returns, the file is closed; on failure no temporary is left and an older file of that
 * name is untouched. */
enum status atomic_commit(struct atomic_file *file);

/* Closes and removes the temporary file. Harmless after a commit or a failed open. */
void atomic_discard(struct atomic_file *file);

#endif
