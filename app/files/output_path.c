#include "app/files/output_path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "app/files/safetensors.h"

static int ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), bytes = strlen(ending);
    return length > bytes && strcasecmp(text + length - bytes, ending) == 0;
}

static enum status check_place(const struct output_path *output)
{
    const char *path = output->path, *slash = strrchr(path, '/');
    struct stat facts;
    if (!path[0])
        return status_fail(STATUS_USAGE, "%s: is empty; give the name of the %s to write",
                           output->flag, output->ending);
    if ((slash && !slash[1]) || (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)))
        return status_fail(
            STATUS_USAGE, "%s %s: is a folder; give a file in it, such as %s%sout%s",
            output->flag, path, path, slash && !slash[1] ? "" : "/", output->ending);
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return status_fail(
            STATUS_FAILED,
            "%s %s: is not a regular file, and is not replaced; give another "
            "name",
            output->flag, path);
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 0, path);
    if (folder[0] && (stat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode)))
        return status_fail(
            STATUS_FAILED,
            "%s %s: there is not a folder %s; make it first, or give another "
            "place",
            output->flag, path, folder);
    return STATUS_OK;
}

static enum status check_name(const struct output_path *output)
{
    if (ends_with(output->path, output->ending))
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "%s %s: a %s file is written; give a name that ends in %s",
                       output->flag, output->path, output->ending, output->ending);
}

static enum status check_inputs(const struct output_path *output,
                                const struct stat *target)
{
    for (int i = 0; i < output->input_count; i++) {
        struct stat facts;
        const char *word = output->inputs[i], *value = strchr(word, '=');
        int is_read = stat(word, &facts) == 0;
        if (!is_read && value)
            is_read = stat(value + 1, &facts) == 0;
        if (is_read && facts.st_dev == target->st_dev && facts.st_ino == target->st_ino)
            return status_fail(
                STATUS_USAGE,
                "%s %s: is the same file as %s, which is read; give another",
                output->flag, output->path, word);
    }
    return STATUS_OK;
}

/* Through links, and under whatever name. */
static enum status check_is_no_checkpoint(const struct output_path *output)
{
    char *resolved = realpath(output->path, NULL);
    struct safetensors_file *file = NULL;
    int is_checkpoint = resolved && (ends_with(resolved, ".safetensors") ||
                                     safetensors_open(resolved, &file) == STATUS_OK);
    safetensors_close(file);
    enum status status = STATUS_OK;
    if (is_checkpoint)
        status = status_fail(STATUS_USAGE,
                             "%s %s: is a safetensors file (%s), which is not replaced; "
                             "give another name",
                             output->flag, output->path, resolved);
    free(resolved);
    return status;
}

enum status output_path_check(const struct output_path *output)
{
    struct stat facts;
    TRY(check_place(output));
    if (stat(output->path, &facts) == 0) {
        TRY(check_inputs(output, &facts));
        TRY(check_is_no_checkpoint(output));
    }
    return check_name(output);
}
