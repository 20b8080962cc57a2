/* run_folder.h - where a run lands: outputs/00003-fashion-mnist-dcgan28-b64/.
 * Flow:  config -> [run_folder_create] -> every output.
 * Owns:  the open log files, and the folder's lock: one program at a time trains here.
 *        Logs that others remove or replace, and a folder that they move, are followed
 *        (run_folder_follow.h).
 *
 * options.json, log.txt, stats.jsonl (one object a tick, nothing else), stats.csv (the
 * same for a spreadsheet), layers.jsonl (what layers held, report.h), events.jsonl,
 * reals.png, fakes_init.png, fakes000200.png, snapshot-000200.safetensors, scales.png,
 * preview.png, precision.json (the type of every layer); post-mortem/ (post_mortem.h)
 * where a run was given up. A new run takes the next number, never a folder that is
 * there; a resumed run continues in its own folder, and what its logs said after the
 * checkpoint moves to *.bak. */
#ifndef APP_RECORD_RUN_FOLDER_H
#define APP_RECORD_RUN_FOLDER_H

#include <dirent.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "app/config/config.h"

/* X(name, file, which lines stay when the run goes on from an earlier point). */
#define RUN_LOGS(X)                            \
    X(TEXT, "log.txt", NULL)                   \
    X(STATS, "stats.jsonl", json_line_stays)   \
    X(LAYERS, "layers.jsonl", json_line_stays) \
    X(EVENTS, "events.jsonl", json_line_stays) \
    X(CSV, "stats.csv", csv_line_stays)

enum run_log {
#define X(name, file, stays) RUN_LOG_##name,
    RUN_LOGS(X)
#undef X
        RUN_LOG_COUNT
};

/* All zero is a closed one. */
struct run_folder {
    char path[768];
    DIR *opened; // and locked
    FILE *logs[RUN_LOG_COUNT];
    int is_lost;         // the folder was removed: said once
    int had_write_error; // a log line could not be written (disk full): said once, run
                         // goes on
};

/* Makes `out`/NNNNN-<data>-<preset or resolution>-b<batch>[-desc] and opens the logs. Two
 * programs started at once get two numbers (`out` is locked meanwhile). Writes
 * options.json. STATUS_FAILED with folder and reason; then nothing new is left behind but
 * `out`. */
enum status run_folder_create(struct run_folder *folder, const struct config *config,
                              const char *data_name);

/* Opens an existing one for a resume at `kimg`, after `rollbacks` rollbacks: lines of
 * the logs of JSON and CSV beyond either, and lines cut short by a crash, go to
 * stats.jsonl.bak and its like (appended). STATUS_USAGE when another program trains
 * there now. */
enum status run_folder_reopen(struct run_folder *folder, const char *path, double kimg,
                              int rollbacks);
/* Harmless for a closed one. */
void run_folder_close(struct run_folder *folder);

/* Takes the folder's present path where it was moved; one that was removed is told
 * once. */
void run_folder_follow(struct run_folder *folder);

/* "<folder>/<name>", e.g. run_folder_file(f, buffer, size, "fakes%06.0f.png", kimg). */
const char *run_folder_file(const struct run_folder *folder, char *text, size_t bytes,
                            const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* One line to a log, flushed. It is written whole or not at all; one that fails is told
 * once on stderr. */
void run_folder_line(struct run_folder *folder, enum run_log log, const char *line);
/* To log.txt. */
void run_folder_log(struct run_folder *folder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, and on stderr, past the progress bar. Where no log is open, only there. */
void run_folder_print(struct run_folder *folder, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* True for a log without a line. */
int run_folder_is_empty(const struct run_folder *folder, enum run_log log);
/* Removes such logs: of a folder that is no run's. */
void run_folder_remove_empty(const struct run_folder *folder);

/* Newest snapshot file of a run folder that opens and verifies (a damaged newer one is
 * told in `note` and passed over), or `path` itself if it is a file. STATUS_DATA when
 * there is none, naming the folder. `checkpoint` receives the path. */
enum status run_folder_find_snapshot(const char *path, char *checkpoint, size_t bytes,
                                     char *note, size_t note_bytes);

/* Deletes all but the newest `keep` snapshots (0 = keep all), never `except`. */
void run_folder_prune(const struct run_folder *folder, int keep, const char *except);

/* Sets snapshots beyond `kimg` aside as NAME.bak, NAME.bak2 ... (set_aside.h) and says so
 * on stderr: a run that resumes from an older one trains that future anew, and must not
 * find the old one later. */
void run_folder_set_aside(const struct run_folder *folder, double kimg);

#endif
