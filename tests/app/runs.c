#include "tests/app/runs.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/record/run_folder.h"
#include "app/files/safetensors.h"
#include "tests/support/support.h"

struct config small_config(void)
{
    struct config config;
    config_default(&config);
    snprintf(config.data, sizeof config.data, "builtin:shapes");
    config.resolution = 32;
    config.g.width = config.d.width = 8;
    config.latent = 16;
    config.batch = 16;
    config.threads = 1;
    return config;
}

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

void twinscale_refuses(int code, const char *words, const char *arguments)
{
    char text[8192];
    int ended = twinscale(text, sizeof text, "%s", arguments);
    const char *end = strchr(text, '\n');
    if (ended != code || !strstr(text, words) || !end || end[1] != '\0')
        fail_msg("%s: exit %d, expected %d with \"%s\" as one line in:\n%s", arguments,
                 ended, code, words, text);
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
    char path[1100], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "%s/stats.jsonl", run);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    double sum = 0;
    int count = 0, number = 0;
    while (getline(&line, &room, file) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        int is_tick = json_object_get(object, "layers") == NULL;
        if (!is_tick || number++ < first) {
            json_decref(object);
            continue;
        }
        // Other lines tell of layers.
        json_t *mean = json_object_get(json_object_get(object, key), "mean");
        sum += json_number_value(mean);
        count += json_is_number(mean);
        json_decref(object);
    }
    free(line);
    fclose(file);
    if (count == 0)
        fail_msg("%s has no number %s from line %d on", path, key, first);
    return sum / count;
}

struct checkpoint_facts facts_of(const char *run)
{
    char path[1200], note[256];
    struct checkpoint *checkpoint;
    struct checkpoint_facts facts;
    assert_int_equal(run_folder_find_snapshot(run, path, sizeof path, note, sizeof note),
                     STATUS_OK);
    assert_int_equal(checkpoint_open(path, &checkpoint), STATUS_OK);
    assert_int_equal(checkpoint_facts(checkpoint, &facts), STATUS_OK);
    checkpoint_close(checkpoint);
    return facts;
}

static struct safetensors_file *newest_of(const char *run)
{
    char path[1200], note[256];
    struct safetensors_file *file;
    assert_int_equal(run_folder_find_snapshot(run, path, sizeof path, note, sizeof note),
                     STATUS_OK);
    assert_int_equal(safetensors_open(path, &file), STATUS_OK);
    return file;
}

static double tensor_difference(const struct safetensor *a, const struct safetensor *b)
{
    const float *x = a->data, *y = b->data;
    double size = 0.0, distance = 0.0;
    assert_int_equal(a->bytes, b->bytes);
    for (size_t i = 0; i < a->bytes / sizeof *x; i++) {
        distance = fmax(distance, fabs((double)x[i] - (double)y[i]));
        size = fmax(size, fabs((double)y[i]));
    }
    return size > 0.0 ? distance / size : distance;
}

double run_difference(const char *a, const char *b)
{
    struct safetensors_file *one = newest_of(a), *other = newest_of(b);
    double most = 0.0;
    assert_int_equal(safetensors_count(one), safetensors_count(other));
    assert_true(safetensors_count(one) > 20);
    for (size_t i = 0; i < safetensors_count(one); i++) {
        const struct safetensor *tensor = safetensors_at(one, i);
        const struct safetensor *same = safetensors_find(other, tensor->name);
        assert_non_null(same);
        most = fmax(most, tensor_difference(tensor, same));
    }
    safetensors_close(one);
    safetensors_close(other);
    return most;
}

int lines_with(const char *run, const char *file, const char *words)
{
    char text[64];
    run_command(text, sizeof text, "grep -cF -- '%s' '%s/%s'", words, run, file);
    return atoi(text);
}

const char *scale_events(const char *run, char *text, size_t bytes)
{
    char path[1100], line[8192];
    size_t used = 0;
    snprintf(path, sizeof path, "%s/events.jsonl", run);
    FILE *file = fopen(path, "r");
    text[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        const char *event, *net;
        json_int_t step;
        double before, after;
        json_t *object = json_loads(line, 0, NULL);
        if (json_unpack(object, "{s:s, s:s, s:I, s:F, s:F}", "event", &event, "net", &net,
                        "step", &step, "scale_before", &before, "scale_after",
                        &after) == 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s %s %lld %g %g\n",
                                     event, net, (long long)step, before, after);
        assert_true(used < bytes);
        json_decref(object);
    }
    if (file)
        fclose(file);
    return text;
}
