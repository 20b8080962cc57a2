/* json_lines.h - files of one JSON object a line: appended whole, cut for a resume.
 * Flow:  run_folder -> [json_lines] -> stats.jsonl, events.jsonl (and log.txt's lines).
 * Owns:  nothing between calls. */
#ifndef APP_OUTPUT_JSON_LINES_H
#define APP_OUTPUT_JSON_LINES_H

#include <jansson.h>

#include "kernels/status.h"

/* Appends `line` and a newline to a file opened for appending. Returns 0, or errno after
 * taking back what was written of it, so that a full disk leaves no half line. */
int line_append(int descriptor, const char *line);

/* Moves lines beyond `kimg`, and lines that are no JSON object, to the end of PATH.bak.
 * The kimg of a line is its "kimg", or the mean of its "Progress/kimg"; a line without
 * stays. A file that is not there is fine. STATUS_FAILED with path and reason; PATH is
 * then as it was. */
enum status json_lines_cut(const char *path, double kimg);

/* Hands every line to `take`, as an object that it may look at until it returns: NULL where
 * a line is none. A file that cannot be read has no lines. */
void json_lines_each(const char *path, void (*take)(void *context, json_t *object),
                     void *context);

#endif
