/* sink_csv.c - stats.csv, for spreadsheets: a heading, then a row a tick. Its columns are
 * the means of stats.jsonl under the same names; a cell is empty where there is none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/record/sinks.h"

#define ROW_BYTES (32 * (TICK_VALUES + 1))

static void heading(char row[ROW_BYTES])
{
    struct tick none = {0};
    struct tick_value values[TICK_VALUES];
    int count = tick_values(&none, values), used = 0;
    for (int i = 0; i < count; i++)
        used += snprintf(row + used, (size_t)(ROW_BYTES - used), "%s,", values[i].key);
    snprintf(row + used, (size_t)(ROW_BYTES - used), "timestamp");
}

// 15 digits, as in stats.jsonl.
static int append_number(char *row, size_t bytes, double number)
{
    return isfinite(number) ? snprintf(row, bytes, "%.15g", number) : 0;
}

void sink_csv(struct run_folder *folder, const struct tick *tick, double timestamp)
{
    char row[ROW_BYTES];
    struct tick_value values[TICK_VALUES];
    int count = tick_values(tick, values), used = 0;
    if (run_folder_is_empty(folder, RUN_LOG_CSV)) {
        heading(row);
        run_folder_line(folder, RUN_LOG_CSV, row);
    }
    for (int i = 0; i < count; i++) {
        used += append_number(row + used, (size_t)(ROW_BYTES - used),
                              statistic_mean(&values[i].of));
        row[used++] = ',';
    }
    row[used] = '\0';
    append_number(row + used, (size_t)(ROW_BYTES - used), timestamp);
    run_folder_line(folder, RUN_LOG_CSV, row);
}

/* ---- resuming -------------------------------------------------------------------- */

static int columns(const char *row, size_t length)
{
    int count = 1;
    for (size_t i = 0; i < length; i++)
        count += row[i] == ',';
    return count;
}

int csv_line_stays(const char *line, size_t length, const struct log_end *end)
{
    char head[ROW_BYTES];
    heading(head);
    if (line[length - 1] != '\n' || columns(line, length) != columns(head, strlen(head)))
        return 0;
    if (length - 1 == strlen(head) && memcmp(line, head, length - 1) == 0)
        return 1;
    // Progress/tick, kimg, step, epoch, rollbacks.
    double number[5];
    const char *at = line;
    for (int i = 0; i < 5; i++) {
        char *after;
        number[i] = strtod(at, &after);
        if (after == at || *after != ',')
            return 0;
        at = after + 1;
    }
    return number[1] <= end->kimg + HALF_AN_IMAGE && number[4] <= (double)end->rollbacks;
}
