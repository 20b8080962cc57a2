#include "app/record/run_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/files/file_name.h"
#include "app/files/atomic_file.h"
#include "app/files/json_lines.h"
#include "app/record/sinks.h"
#include "app/record/run_folder_follow.h"
#include "app/files/regular_file.h"
#include "app/files/terminal.h"

/* ---- its name -------------------------------------------------------------------- */

static void append_text(char *name, size_t bytes, const char *text)
{
    size_t length = strlen(name);
    snprintf(name + length, bytes - length, "%s", text);
}

/* "fashion-mnist-dcgan28-b64-desc", fit for a file name whatever the settings hold. */
static void run_name(const struct config *config, const char *data_name, char *name,
                     size_t bytes)
{
    char number[32];
    const char *slash = strrchr(config->preset, '/');
    char preset[sizeof config->preset];
    snprintf(preset, sizeof preset, "%s", slash ? slash + 1 : config->preset);
    char *ending = strstr(preset, ".json");
    if (ending)
        *ending = '\0';
    name[0] = '\0';
    file_name_append(name, bytes, data_name, 64);
    append_text(name, bytes, name[0] ? "-" : "data-");
    snprintf(number, sizeof number, "%dpx", config->resolution);
    file_name_append(name, bytes, preset[0] ? preset : number, 48);
    snprintf(number, sizeof number, "-b%d", config->batch);
    append_text(name, bytes, number);
    if (config->desc[0]) {
        append_text(name, bytes, "-");
        file_name_append(name, bytes, config->desc, 64);
    }
}

/* The number after the largest that is taken: "00012-..." or a bare "00012". */
static int next_number(const char *out)
{
    int next = 0;
    DIR *directory = opendir(out);
    if (!directory)
        return next;
    for (struct dirent *entry; (entry = readdir(directory));) {
        int number, used = 0;
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            sscanf(entry->d_name, "%9d%n", &number, &used) != 1 || used < 5 ||
            (entry->d_name[used] != '-' && entry->d_name[used] != '\0'))
            continue;
        if (number >= next)
            next = number + 1;
    }
    closedir(directory);
    return next;
}

/* ---- creating -------------------------------------------------------------------- */

static enum status make_parents(const char *out)
{
    char path[CONFIG_TEXT];
    if (!out[0])
        return status_fail(STATUS_USAGE, "--out is empty; give the folder for runs");
    snprintf(path, sizeof path, "%s", out);
    for (char *end = path + 1;; end++) {
        char was = *end;
        if (was != '/' && was != '\0')
            continue;
        *end = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return status_fail(
                STATUS_FAILED,
                "%s: the folder for runs cannot be made: %s; choose another "
                "with --out",
                path, strerror(errno));
        *end = was;
        if (was == '\0')
            return STATUS_OK;
    }
}

static enum status make_numbered(struct run_folder *folder, const char *out,
                                 const char *name)
{
    TRY(make_parents(out));
    int descriptor = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return status_fail(
            STATUS_FAILED,
            "%s: cannot be opened as the folder for runs: %s; choose another "
            "with --out",
            out, strerror(errno));
    // Until the lock goes with the descriptor, no other process counts. Where there are
    // no locks, mkdir still decides between equal names.
    flock(descriptor, LOCK_EX);
    int failed, number = next_number(out), length = (int)strlen(out);
    while (length > 0 && out[length - 1] == '/')
        length--;
    do {
        snprintf(folder->path, sizeof folder->path, "%.*s/%05d-%s", length, out, number++,
                 name);
        failed = mkdir(folder->path, 0777) != 0;
    } while (failed && errno == EEXIST);
    int reason = errno;
    fsync(descriptor);
    close(descriptor);
    if (failed)
        return status_fail(
            STATUS_FAILED,
            "%s: the run folder cannot be made: %s; choose another place with "
            "--out",
            folder->path, strerror(reason));
    return STATUS_OK;
}

static enum status write_options(const struct run_folder *folder,
                                 const struct config *config)
{
    char path[1024];
    struct atomic_file file;
    run_folder_file(folder, path, sizeof path, "%s", "options.json");
    char *json = config_to_json(config);
    TRY_MEMORY(json, "%s", path);
    enum status status = atomic_open(&file, path);
    if (status == STATUS_OK) {
        fprintf(file.stream, "%s\n", json);
        status = atomic_commit(&file);
    }
    free(json);
    return status;
}

static const struct {
    const char *file;
    line_stays *stays; // NULL: every line
} logs[RUN_LOG_COUNT] = {
#define X(name, file, stays) [RUN_LOG_##name] = {file, stays},
    RUN_LOGS(X)
#undef X
};

static enum status open_logs(struct run_folder *folder)
{
    char path[1024], reason[REGULAR_REASON];
    for (int i = 0; i < RUN_LOG_COUNT; i++) {
        run_folder_file(folder, path, sizeof path, "%s", logs[i].file);
        folder->logs[i] = regular_open(path, "a", "a log", reason);
        if (!folder->logs[i])
            return status_fail(STATUS_FAILED, "%s: %s; check the folder", path, reason);
    }
    return STATUS_OK;
}

static enum status fill_new_folder(struct run_folder *folder, const struct config *config)
{
    TRY(run_folder_lock(folder)); // who has it may change everything in the folder
    TRY(write_options(folder, config));
    return open_logs(folder);
}

enum status run_folder_create(struct run_folder *folder, const struct config *config,
                              const char *data_name)
{
    memset(folder, 0, sizeof *folder);
    char name[256];
    run_name(config, data_name, name, sizeof name);
    TRY(make_numbered(folder, config->out, name));
    enum status status = fill_new_folder(folder, config);
    if (status != STATUS_OK) {
        char path[1024];
        unlink(run_folder_file(folder, path, sizeof path, "options.json"));
        for (int i = 0; i < RUN_LOG_COUNT; i++)
            unlink(run_folder_file(folder, path, sizeof path, "%s", logs[i].file));
        rmdir(folder->path);
        run_folder_close(folder);
    }
    return status;
}

/* ---- resuming -------------------------------------------------------------------- */

static enum status continue_logs(struct run_folder *folder, double kimg, int rollbacks)
{
    TRY(run_folder_lock(folder)); // who has it may change everything in the folder
    atomic_remove_leftovers(folder->path);
    const struct log_end end = {kimg, rollbacks};
    char path[1024];
    for (int i = 0; i < RUN_LOG_COUNT; i++)
        if (logs[i].stays)
            TRY(lines_cut(run_folder_file(folder, path, sizeof path, "%s", logs[i].file),
                          &end, logs[i].stays));
    return open_logs(folder);
}

enum status run_folder_reopen(struct run_folder *folder, const char *path, double kimg,
                              int rollbacks)
{
    struct run_folder opened = {0};
    struct stat facts;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    enum status status;
    if (stat(path, &facts) != 0)
        status =
            status_fail(STATUS_DATA, "%s: cannot be resumed in: %s; give a run folder",
                        path, strerror(errno));
    else if (!S_ISDIR(facts.st_mode))
        status = status_fail(STATUS_DATA, "%s: is not a folder; give a run folder", path);
    else if (length >= sizeof opened.path)
        status =
            status_fail(STATUS_DATA,
                        "%.80s...: the path has %zu characters, at most %zu can be used; "
                        "move the run folder",
                        path, length, sizeof opened.path - 1);
    else {
        snprintf(opened.path, sizeof opened.path, "%.*s", (int)length, path);
        status = continue_logs(&opened, kimg, rollbacks);
    }
    if (status != STATUS_OK)
        run_folder_close(&opened);
    *folder = opened;
    return status;
}

void run_folder_close(struct run_folder *folder)
{
    for (int i = 0; i < RUN_LOG_COUNT; i++) {
        if (folder->logs[i])
            fclose(folder->logs[i]);
        folder->logs[i] = NULL;
    }
    if (folder->opened)
        closedir(folder->opened);
    folder->opened = NULL;
}

/* ---- writing --------------------------------------------------------------------- */

const char *run_folder_file(const struct run_folder *folder, char *text, size_t bytes,
                            const char *format, ...)
{
    int used = snprintf(text, bytes, "%s/", folder->path);
    CHECK((size_t)used < bytes, "%s does not fit %zu", folder->path, bytes);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + used, bytes - (size_t)used, format, arguments);
    va_end(arguments);
    CHECK(length >= 0 && (size_t)(used + length) < bytes, "%s does not fit %zu", text,
          bytes);
    return text;
}

/* A log that cannot be written must not end a run that can still save its work. */
void run_folder_line(struct run_folder *folder, enum run_log log, const char *line)
{
    CHECK(log == RUN_LOG_TEXT || !strchr(line, '\n'), "%s", line);
    FILE **stream = &folder->logs[log];
    if (!*stream)
        return;
    run_folder_follow(folder);
    run_folder_follow_log(folder, logs[log].file, stream);
    int reason = line_append(fileno(*stream), line);
    if (reason == 0 || folder->had_write_error)
        return;
    folder->had_write_error = 1;
    progress_clear();
    fprintf(
        stderr,
        "warning: %s/%s: a line could not be written: %s; training goes on, lines may be "
        "missing from the logs until that is mended (this warning is not repeated)\n",
        folder->path, logs[log].file, strerror(reason));
}

void run_folder_log(struct run_folder *folder, const char *format, ...)
{
    char *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (length >= 0)
        run_folder_line(folder, RUN_LOG_TEXT, line);
    free(line);
}

void run_folder_print(struct run_folder *folder, const char *format, va_list arguments)
{
    char line[1024];
    vsnprintf(line, sizeof line, format, arguments);
    progress_clear();
    fprintf(stderr, "%s\n", line);
    if (folder)
        run_folder_log(folder, "%s", line);
}

int run_folder_is_empty(const struct run_folder *folder, enum run_log log)
{
    struct stat facts;
    return folder->logs[log] && fstat(fileno(folder->logs[log]), &facts) == 0 &&
           facts.st_size == 0;
}

void run_folder_remove_empty(const struct run_folder *folder)
{
    char path[1024];
    for (int i = 0; i < RUN_LOG_COUNT; i++)
        if (run_folder_is_empty(folder, (enum run_log)i))
            unlink(run_folder_file(folder, path, sizeof path, "%s", logs[i].file));
}
