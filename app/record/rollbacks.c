#include "app/record/rollbacks.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "app/files/json_lines.h"

struct rollback {
    double number, step;
};

static void add(void *context, json_t *line)
{
    struct rollbacks *rollbacks = context;
    const char *word = json_string_value(json_object_get(line, "event"));
    struct rollback found = {json_line_number(line, "rollbacks"),
                             json_line_number(line, "step")};
    if (!word || strcmp(word, "rollback") != 0 || !(found.number >= 1.0) ||
        !(found.step >= 0.0))
        return;
    rollbacks->list =
        realloc(rollbacks->list, (rollbacks->count + 1) * sizeof *rollbacks->list);
    CHECK_MEMORY(rollbacks->list, "%zu rollbacks", rollbacks->count);
    rollbacks->list[rollbacks->count++] = found;
}

void rollbacks_read(struct rollbacks *rollbacks, const char *events_path)
{
    *rollbacks = (struct rollbacks){0};
    json_lines_read(events_path, add, rollbacks);
}

void rollbacks_release(struct rollbacks *rollbacks)
{
    free(rollbacks->list);
    *rollbacks = (struct rollbacks){0};
}

int rollbacks_gave_up(const struct rollbacks *rollbacks, json_t *line)
{
    double number = json_line_number(line, "rollbacks");
    double step = json_line_number(line, "step");
    for (size_t i = 0; i < rollbacks->count; i++)
        if (!(number >= rollbacks->list[i].number) && step > rollbacks->list[i].step)
            return 1;
    return 0;
}
