#include "tests/diagnosis/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/status.h"

#define RIGHT 0.95

static const char *const causes[] = {"scale",   "outlier", "gradients", "weight",
                                     "forward", "invalid", "elsewhere", "unknown"};
#define CAUSES (int)(sizeof causes / sizeof *causes)

json_t *table_read(const char *path)
{
    json_t *lines = json_array();
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    while (file && getline(&line, &room, file) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        if (object)
            json_array_append_new(lines, object);
    }
    free(line);
    if (file)
        fclose(file);
    return lines;
}

static int index_of(const char *cause, size_t length)
{
    for (int i = 0; i < CAUSES; i++)
        if (strlen(causes[i]) == length && strncmp(causes[i], cause, length) == 0)
            return i;
    CHECK(0, "no cause %s", cause);
    return 0;
}

int table_print(json_t *lines, int is_planted)
{
    long long table[CAUSES][CAUSES] = {{0}}, skips = 0;
    json_t *line, *count;
    const char *key;
    size_t i;
    int is_right = 1;
    json_array_foreach(lines, i, line)
    {
        if (json_is_true(json_object_get(line, "planted")) != is_planted)
            continue;
        json_object_foreach(json_object_get(line, "pairs"), key, count)
        {
            const char *slash = strchr(key, '/');
            int truth = index_of(key, (size_t)(slash - key));
            table[truth][index_of(slash + 1, strlen(slash + 1))] +=
                json_integer_value(count);
            skips += json_integer_value(count);
        }
    }
    printf("\n%lld %s skips\n\n| cause | true | said | right | precision | recall |\n"
           "|---|---|---|---|---|---|\n",
           skips, is_planted ? "planted" : "natural");
    for (int c = 0; c < CAUSES; c++) {
        long long said = 0, truth = 0, right = table[c][c];
        for (int k = 0; k < CAUSES; k++) {
            said += table[k][c];
            truth += table[c][k];
        }
        if (said + truth == 0)
            continue;
        int is_silent = strcmp(causes[c], "unknown") == 0;
        printf("| %s | %lld | %lld | %lld |", causes[c], truth, said, right);
        if (said && !is_silent)
            printf(" %.1f %% |", 100.0 * (double)right / (double)said);
        else
            printf(" |");
        if (truth)
            printf(" %.1f %% |\n", 100.0 * (double)right / (double)truth);
        else
            printf(" |\n");
        is_right &= is_silent || (double)right >= RIGHT * (double)said;
        for (int k = 0; k < CAUSES; k++)
            if (k != c && table[k][c])
                fprintf(stderr, "said %s, was %s: %lld\n", causes[c], causes[k],
                        table[k][c]);
    }
    return is_right && skips > 0;
}
