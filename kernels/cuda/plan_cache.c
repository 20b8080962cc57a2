/* plan_cache.c - a file is one JSON object: a head of ours, then cuDNN's own JSON of the
 * plan.
 *
 *     {"twinscale_plan": 1,
 *     "key": "cudnn 91900; NVIDIA H200 9.0; forward 64x...",
 *     "engine": 7, "numerical_notes": 1, "behavior_notes": 9, "bytes": 273412,
 *     "checksum": "0123456789abcdef",
 *     "plan": {...}}
 *
 * cuDNN loads what it is given, compiled code included, so a file is handed to it only
 * when the key, the length and the checksum are right. */
#include "kernels/cuda/plan_cache.h"
#include "kernels/base/digest.h"

#include <cudnn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_TEXT 512
#define FILE_BYTES_MAX (64 << 20)

/* ---- where ----------------------------------------------------------------------- */

// Makes every missing folder of an absolute path; 1 if it is there in the end.
static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed)
            return 0;
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

const char *plan_cache_folder(char *path, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    // The XDG rule: a path that is not absolute counts as unset.
    if (cache && cache[0] == '/')
        length = snprintf(path, bytes, "%s/twinscale/plans", cache);
    else if (home && home[0] == '/')
        length = snprintf(path, bytes, "%s/.cache/twinscale/plans", home);
    if (length < 0 || (size_t)length >= bytes || !make_folders(path))
        return NULL;
    return path;
}

// Everything that decides which plan is right. No character of it needs JSON's escapes.
static void make_key(const struct plan_maker *maker, const struct plan_desc *desc,
                     int wants_tensor_cores, char key[KEY_TEXT])
{
    char graph[PLAN_TEXT];
    snprintf(key, KEY_TEXT,
             "cudnn %zu; %s; %s; tensor cores %d, deterministic %d, tf32 %d, tuned %d, "
             "workspace %" PRId64,
             cudnnGetVersion(), maker->device, plan_text(desc, graph), wants_tensor_cores,
             maker->is_deterministic, maker->allows_tf32, maker->tunes,
             maker->workspace_max);
    for (char *c = key; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            *c = '_';
}

const char *plan_cache_path(const struct plan_maker *maker, const struct plan_desc *desc,
                            int wants_tensor_cores, char path[PLAN_CACHE_PATH])
{
    char key[KEY_TEXT];
    make_key(maker, desc, wants_tensor_cores, key);
    snprintf(path, PLAN_CACHE_PATH, "%s/%016" PRIx64 ".json", maker->cache_folder,
             digest_bytes(DIGEST_START, key, strlen(key)));
    return path;
}

/* ---- reading --------------------------------------------------------------------- */

// The whole file with a zero behind it, on the heap; NULL if it cannot be had.
static char *read_file(const char *path, size_t *bytes)
{
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // waits for no FIFO
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "rb") : NULL;
    struct stat facts;
    char *text = NULL;
    if (file && fstat(fileno(file), &facts) == 0 && S_ISREG(facts.st_mode) &&
        facts.st_size > 0 && facts.st_size <= FILE_BYTES_MAX)
        text = calloc((size_t)facts.st_size + 1, 1);
    if (text) {
        *bytes = (size_t)facts.st_size;
        if (fread(text, 1, *bytes, file) != *bytes) {
            free(text);
            text = NULL;
        }
    }
    if (file)
        fclose(file);
    return text;
}

#define HEAD "{\"twinscale_plan\": 1,\n\"key\": \"%s\",\n"
#define FACTS                                                           \
    "\"engine\": %d, \"numerical_notes\": %u, \"behavior_notes\": %u, " \
    "\"bytes\": %zu,\n"
#define CHECKSUM "\"checksum\": \"%016" PRIx64 "\",\n\"plan\": "
#define CHECKSUM_READ "\"checksum\": \"%16" SCNx64 "\",\n\"plan\": %n"
#define TAIL "}\n"

/* Finds cuDNN's JSON in a file's text: 1 if every part of the head is as it must be. */
static int parse(const char *text, size_t bytes, const char *key, struct cuda_plan *plan,
                 const char **json, size_t *json_bytes)
{
    char head[KEY_TEXT + 64];
    int head_bytes = snprintf(head, sizeof head, HEAD, key), facts_bytes = 0;
    uint64_t checksum = 0;
    if (strncmp(text, head, (size_t)head_bytes) != 0)
        return 0;
    if (sscanf(text + head_bytes, FACTS CHECKSUM_READ, &plan->engine,
               &plan->numerical_notes, &plan->behavior_notes, json_bytes, &checksum,
               &facts_bytes) != 5 ||
        facts_bytes == 0)
        return 0;
    size_t start = (size_t)head_bytes + (size_t)facts_bytes;
    *json = text + start;
    return *json_bytes <= bytes && start + *json_bytes + strlen(TAIL) == bytes &&
           strcmp(*json + *json_bytes, TAIL) == 0 &&
           digest_bytes(DIGEST_START, *json, *json_bytes) == checksum;
}

int plan_cache_load(struct plan_maker *maker, const struct plan_desc *desc,
                    int wants_tensor_cores, struct cuda_plan *plan)
{
    char path[PLAN_CACHE_PATH], key[KEY_TEXT];
    if (!maker->cache_folder)
        return 0;
    size_t bytes = 0, json_bytes = 0;
    char *text =
        read_file(plan_cache_path(maker, desc, wants_tensor_cores, path), &bytes);
    if (!text)
        return 0;
    make_key(maker, desc, wants_tensor_cores, key);
    struct cuda_plan found = {.desc = *desc, .is_reloaded = 1};
    const char *json;
    int is_good = parse(text, bytes, key, &found, &json, &json_bytes) &&
                  plan_from_json(maker, json, json_bytes, &found);
    free(text);
    if (is_good)
        *plan = found;
    return is_good;
}

/* ---- writing --------------------------------------------------------------------- */

static int write_file(FILE *file, const char *key, const struct cuda_plan *plan,
                      const char *json, size_t bytes)
{
    return fprintf(file, HEAD, key) > 0 &&
           fprintf(file, FACTS CHECKSUM, plan->engine, plan->numerical_notes,
                   plan->behavior_notes, bytes,
                   digest_bytes(DIGEST_START, json, bytes)) > 0 &&
           fwrite(json, 1, bytes, file) == bytes && fputs(TAIL, file) >= 0;
}

void plan_cache_save(const struct plan_maker *maker, int wants_tensor_cores,
                     const struct cuda_plan *plan)
{
    char path[PLAN_CACHE_PATH], temporary[PLAN_CACHE_PATH + 16], key[KEY_TEXT];
    size_t bytes = 0;
    char *json = maker->cache_folder ? plan_to_json(plan, &bytes) : NULL;
    if (!json)
        return;
    make_key(maker, &plan->desc, wants_tensor_cores, key);
    plan_cache_path(maker, &plan->desc, wants_tensor_cores, path);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int descriptor = mkstemp(temporary);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (file) {
        int is_written = write_file(file, key, plan, json, bytes);
        is_written = fclose(file) == 0 && is_written;
        if (!is_written || rename(temporary, path) != 0)
            unlink(temporary);
    } else if (descriptor >= 0) {
        close(descriptor);
        unlink(temporary);
    }
    free(json);
}
