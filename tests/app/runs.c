#include "tests/app/runs.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/support.h"

static int run_list(char *text, size_t bytes, const char *format, va_list arguments)
{
    char line[2048];
    vsnprintf(line, sizeof line, format, arguments);
    return run_command(text, bytes, "'%s' %s", TWINSCALE_PROGRAM, line);
}

int twinscale(char *text, size_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int code = run_list(text, bytes, format, arguments);
    va_end(arguments);
    return code;
}

void twinscale_must(const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int code = run_list(text, sizeof text, format, arguments);
    va_end(arguments);
    if (code != 0)
        fail_msg("exit %d: %s", code, text);
}

const char *run_in(const char *out)
{
    static char path[1024];
    DIR *directory = opendir(out);
    assert_non_null(directory);
    int found = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", out, entry->d_name);
        found++;
    }
    closedir(directory);
    assert_int_equal(found, 1);
    return path;
}

void digest_of(const char *source, char text[32])
{
    char output[256];
    int code = twinscale(output, sizeof output, "info '%s' --digest", source);
    if (code != 0)
        fail_msg("%s", output);
    assert_int_equal(strspn(output, "0123456789abcdef"), 16);
    memcpy(text, output, 16);
    text[16] = '\0';
}

double mean_of(const char *run, const char *key, int first)
{
    char path[1100], line[8192];
    snprintf(path, sizeof path, "%s/stats.jsonl", run);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    double sum = 0;
    int count = 0, number = 0;
    while (fgets(line, sizeof line, file)) {
        if (number++ < first)
            continue;
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        json_t *mean = json_object_get(json_object_get(object, key), "mean");
        if (!json_is_number(mean))
            fail_msg("%s has no number %s in line %d", path, key, number);
        sum += json_number_value(mean);
        count++;
        json_decref(object);
    }
    fclose(file);
    assert_true(count > 0);
    return sum / count;
}
