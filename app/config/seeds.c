#include "app/config/seeds.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/config/number.h"

static enum status fail_at(const char *text, const char *where)
{
    return status_fail(
        STATUS_USAGE,
        "--seeds %s: cannot be read at \"%s\"; expected numbers and ranges "
        "like 0,1,4-6",
        text, where);
}

// The digits at *cursor, which moves behind them.
static enum status read_seed(const char *text, const char **cursor, uint64_t *seed)
{
    if (!isdigit((unsigned char)**cursor))
        return fail_at(text, *cursor);
    int digits = (int)strspn(*cursor, "0123456789");
    errno = 0;
    *seed = strtoull(*cursor, NULL, 10);
    if (errno != 0 || *seed > SEED_MAX)
        return status_fail(
            STATUS_USAGE,
            "--seeds %s: the seed %.*s is out of range; seeds are at most %" PRIu64, text,
            digits, *cursor, SEED_MAX);
    *cursor += digits;
    return STATUS_OK;
}

static enum status add_range(const char *text, uint64_t first, uint64_t last,
                             uint64_t *list, int *count)
{
    if (last < first)
        return status_fail(STATUS_USAGE,
                           "--seeds %s: the range %" PRIu64 "-%" PRIu64 " runs backwards",
                           text, first, last);
    if (last - first >= (uint64_t)(SEEDS_MAX - *count))
        return status_fail(STATUS_USAGE,
                           "--seeds %s: names more than %d seeds; draw them in "
                           "several calls",
                           text, SEEDS_MAX);
    for (uint64_t seed = first; seed <= last; seed++)
        list[(*count)++] = seed;
    return STATUS_OK;
}

static enum status read_list(const char *text, uint64_t *list, int *count)
{
    const char *cursor = text;
    for (;;) {
        uint64_t first, last;
        TRY(read_seed(text, &cursor, &first));
        last = first;
        if (*cursor == '-') {
            cursor++;
            TRY(read_seed(text, &cursor, &last));
        }
        TRY(add_range(text, first, last, list, count));
        if (!*cursor)
            return STATUS_OK;
        if (*cursor++ != ',')
            return fail_at(text, cursor - 1);
    }
}

enum status seeds_parse(const char *text, uint64_t **seeds, int *count)
{
    uint64_t *list = malloc(SEEDS_MAX * sizeof *list);
    CHECK_MEMORY(list, "the seeds");
    *count = 0;
    enum status status = read_list(text, list, count);
    if (status != STATUS_OK) {
        free(list);
        return status;
    }
    *seeds = list;
    return STATUS_OK;
}

enum status grid_parse(const char *text, int *columns, int *rows)
{
    int64_t sides[2] = {0, 0};
    enum number_error error = number_read_grid(text, sides);
    int is_in_range = error == NUMBER_OK && sides[0] >= 1 && sides[0] <= GRID_SIDE_MAX &&
                      sides[1] >= 1 && sides[1] <= GRID_SIDE_MAX;
    if (!is_in_range)
        return status_fail(
            STATUS_USAGE,
            "--grid %s: %s; expected COLUMNSxROWS with 1 to %d of each, "
            "like 8x8",
            text, error == NUMBER_NOT_A_NUMBER ? "is not a grid" : "is out of range",
            GRID_SIDE_MAX);
    *columns = (int)sides[0];
    *rows = (int)sides[1];
    return STATUS_OK;
}
