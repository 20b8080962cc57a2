/* output_path.h - whether a file may be written where the user says, before hours of
 * work.
 * Flow:  sample -o, bench --json -> [output_path_check] -> grid_write, atomic_open.
 * Owns:  nothing. */
#ifndef APP_FILES_OUTPUT_PATH_H
#define APP_FILES_OUTPUT_PATH_H

#include "kernels/base/status.h"

struct output_path {
    const char *path, *flag; // as given; "-o"
    const char *ending;      // ".png": what is written, by its name
    int input_count;         // words that may be the names of files that are read
    const char *const *inputs;
};

/* Refuses, whatever --force says: an empty path, a folder, a path whose folder is not
 * there, a name with another ending, a file that is read (the same device and inode,
 * through whatever links; an input may also be written FLAG=PATH), and any safetensors
 * file. */
enum status output_path_check(const struct output_path *output);

#endif
