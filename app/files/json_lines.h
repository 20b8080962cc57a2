/* json_lines.h - files of one JSON object a line: appended whole, cut for a resume, read.
 * Flow:  run_folder -> [json_lines] -> stats.jsonl, layers.jsonl, events.jsonl (and
 *        log.txt's lines)
 *        -> [json_lines_read] -> history_recall, layers_recall, report_watch_recall.
 * Owns:  nothing between calls. */
#ifndef APP_FILES_JSON_LINES_H
#define APP_FILES_JSON_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

/* Appends `line` and a newline to a file opened for appending. Returns 0, or errno after
 * taking back what was written of it, so that a full disk leaves no half line. */
int line_append(int descriptor, const char *line);

/* Where a log is cut: a run goes on from there. */
struct log_end {
    double kimg;
    int rollbacks;
};
#define HALF_AN_IMAGE 5e-4 // in kimg: two counts that differ by less are one

/* Whether a line, with its newline where it has one, may stay. */
typedef int line_stays(const char *line, size_t length, const struct log_end *end);

/* A line of JSON: not one beyond end->kimg, one after more than end->rollbacks rollbacks,
 * or one that is no whole object; a line without these numbers stays. So does one at
 * end->kimg, unless it is a change "by" --set-at: a run that begins there makes it. */
line_stays json_line_stays;

/* Moves the lines that may not stay to the end of PATH.bak. A file that is not there is
 * fine. STATUS_FAILED with path and reason; PATH is then as it was. */
enum status lines_cut(const char *path, const struct log_end *end, line_stays *stays);

struct json_t;

/* Hands over each line that is JSON, in order; a file that is not there has none. */
void json_lines_read(const char *path, void (*add)(void *context, struct json_t *line),
                     void *context);

/* The number that a line has as "kimg", or as the mean of "Progress/kimg"; NaN
 * without. */
double json_line_number(struct json_t *line, const char *key);

/* The whole number of a step or a tick; 0 for what cannot be one, in logs that were
 * edited: NaN, less than 0, or 2^53 and more. */
int64_t json_whole_number(double number);

#endif
