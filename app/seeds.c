#include "app/seeds.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SEED_MAX (((uint64_t)1 << 43) - 1) // row of a latent: row*2^20 must fit 64 bits

static enum status fail_at(const char *text, const char *where)
{
    return status_fail(
        STATUS_USAGE,
        "--seeds %s: cannot be read at \"%s\"; expected numbers and ranges "
        "like 0,1,4-6",
        text, where);
}

static int read_number(const char **cursor, uint64_t *number)
{
    if (!isdigit((unsigned char)**cursor))
        return 0;
    char *end;
    errno = 0;
    *number = strtoull(*cursor, &end, 10);
    *cursor = end;
    return errno == 0 && *number <= SEED_MAX;
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
        const char *start = cursor;
        if (!read_number(&cursor, &first))
            return fail_at(text, start);
        last = first;
        if (*cursor == '-') {
            start = ++cursor;
            if (!read_number(&cursor, &last))
                return fail_at(text, start);
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
    CHECK(list);
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
    int used = 0;
    if (sscanf(text, "%dx%d%n", columns, rows, &used) != 2 || text[used] ||
        *columns < 1 || *rows < 1 || *columns > 256 || *rows > 256)
        return status_fail(STATUS_USAGE,
                           "--grid %s: expected COLUMNSxROWS with 1 to 256 of "
                           "each, like 8x8",
                           text);
    return STATUS_OK;
}
