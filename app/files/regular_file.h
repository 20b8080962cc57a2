/* regular_file.h - opens files that may be anything, without waiting for what never
 * comes.
 * Flow:  presets, checkpoints, logs -> [regular_open].
 * Owns:  nothing.
 *
 * open() of a FIFO waits for its other end, and of some devices acts on them; so the kind
 * of a file is looked at before it is opened, and once more after. */
#ifndef APP_FILES_REGULAR_FILE_H
#define APP_FILES_REGULAR_FILE_H

#include <stdio.h>

/* A stream of the regular file `path`, in a mode of fopen(), with close-on-exec. NULL,
 * and `reason` is why, as it stands after "PATH: ": "is not a regular file, a checkpoint
 * was expected", "cannot be opened: Permission denied". errno is the system's, or 0 where
 * the file is no regular one. `what` names what was expected. */
#define REGULAR_REASON 256
FILE *regular_open(const char *path, const char *mode, const char *what,
                   char reason[REGULAR_REASON]);

#endif
