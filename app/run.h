/* run.h - one run of `twinscale train`, from the command line to its last picture.
 * Flow:  run.c sets it up (or resume.c brings it back), run_loop.c trains on a worker
 *        thread and run_end.c ends it there; the main thread owns the window, if there is
 *        one, and else just waits. On several GPUs run_group.c makes one process into
 *        many, and is what the others do.
 * Owns:  everything in struct run. */
#ifndef APP_RUN_H
#define APP_RUN_H

#include "app/config/config.h"
#include "app/ranks/group.h"
#include "app/recovery/init_scale.h"
#include "app/input/data_notes.h"
#include "app/view/monitor.h"
#include "app/record/run_folder.h"
#include "app/view/window.h"
#include "app/report.h"
#include "app/live/set_at.h"
#include "app/train/trainer.h"

struct run {
    struct trainer trainer;        // and the settings
    struct config_origins origins; // of their values
    struct data_asked asked;       // of the data, before it was read
    int asked_resolution;
    struct group_place place; // what a launcher says
    struct group *group;      // NULL: alone
    struct run_folder folder;
    struct monitor *monitor;
    struct control *control; // NULL: ctl cannot reach the run
    struct window *window;
    struct report report;
    struct found_scales found; // by init-scale auto, at the start
    double forecast_sec;       // an image, before the first step
    char last_snapshot[1024];  // "" before the first
    char last_grid[1024];
    char good_snapshot[1024]; // the last one from outside of an overflow storm
    int in_storm[ROLES];      // which has been told
    int64_t saved_at;         // images at the last snapshot, -1 before
    int save_failed;          // the newest attempt did
    enum status save_status;  // of that attempt
    int is_paused, is_resumed;
    int was_stopped;      // by a key, a signal or ctl, before its end
    double saved_kimg;    // the length in the settings of the checkpoint that is resumed
    struct set_at set_at; // changes to come
    char changes[2048];   // settings that a resume changed; "" for none
    enum status status;
    char message[1024]; // the worker's, for the main thread; "" once it is printed
};

/* What the first Ctrl-C comes to from the moment on that a run has a folder. */
#define RUN_ANSWER "stopping after this step, then saving"

/* run_loop.c: trains to the end, or to a fault, or until asked to stop; keeps the outcome
 * in run->status and run->message. The body of the worker thread. */
void run_loop(struct run *run);

/* run_loop.c: writes a snapshot, unless there is one of this step already. `kimg` names
 * the file: the mark that was just crossed, or where the run is. */
enum status run_save(struct run *run, double kimg);

/* run_loop.c: the same at once, whatever the marks. A snapshot that could not be written
 * sets run->save_failed, and its reason is status_message(); fails where ranks no longer
 * agree. */
enum status run_save_now(struct run *run);

/* run_loop.c: draws the samples and writes fakes<kimg>.png. */
void run_save_fakes(struct run *run, double kimg);

/* run_end.c, on the worker thread, after run_loop(): prints the paths of what was made,
 * then keeps the window open until it is closed, unless the run was stopped, or
 * --exit-when-done. Nothing else of the run is open then: another program may resume
 * it. */
void run_end(struct run *run);

/* run.c: ctl reaches the run no more. */
void run_close_control(struct run *run);

/* run.c: precision.json in the run folder, the types that its layers have now. */
enum status run_write_layer_types(const struct run *run);

/* run_control.c: does what ctl and keys ask of the settings; no step is on its way.
 * `requests` gains what ctl asks of the loop itself. */
enum status run_serve_control(struct run *run, int *requests);
/* Before a step, after all else that is done between two: the changes of --set-at that
 * are due. No step is on its way. */
enum status run_serve_set_at(struct run *run);
/* Before a rollback to the snapshot of `images`, whose scales belong to the settings that
 * it had: takes back those that were made after it. */
enum status run_take_back_set_at(struct run *run, int64_t images);
/* The same change on a rank above 0. */
enum status run_follow_change(struct run *run);

/* run_settings.c. Before the data is read: keeps what was asked of it. After: takes what
 * it has into the settings, where that was left to it. */
void run_begin_data(struct run *run);
void run_follow_data(struct run *run, const struct dataset *dataset);
/* run_settings.c: --show-config; reads the data, if there is any, and trains nothing. */
enum status run_show_config(struct run *run);

/* resume.c: finds the checkpoint that run->trainer.config.resume names, applies the flags
 * over its settings, and goes on in its folder. */
enum status resume_run(struct run *run, int argc, char **argv);

/* run_group.c. Sets config.gpus where it is 0 (no flag), and refuses a number that is not
 * a launcher's; `otherwise` is for a run without one. */
enum status run_settle_gpus(struct run *run, int otherwise);

/* Becomes config.gpus processes, and creates the trainer in each. `images` is where the
 * run begins. */
enum status run_create(struct run *run, int64_t images);

/* True in the process that writes and prints: rank 0's. */
int run_is_first(const struct run *run);

/* All ranks together: STATUS_FAILED where one's counters or scalers differ from rank
 * 0's. */
enum status run_compare_scalers(struct run *run);

/* For signals_on_end(): the other ranks end too; and, while the run can be reached, it
 * can be reached no more. */
void run_tell_ranks(void *run, const char *reason);
void run_leave_at_once(void *run, const char *reason);

/* The whole run on ranks above 0. */
enum status run_follow(struct run *run);

/* A snapshot of the run that is there at this moment: the last one written, or the newest
 * that verifies. False when there is none. */
int run_newest_snapshot(const struct run *run, char path[1024]);
/* Where to go on from, if anywhere. */
void run_print_last_snapshot(struct run *run);

/* run.c: the steps that a new and a resumed run share. run_prepare() does all that can
 * fail before anything is written; run_train() does the rest in run->folder. */
enum status run_prepare(struct run *run);
enum status run_train(struct run *run);
/* --dry-run: really steps, reports memory and time, writes nothing. */
enum status run_dry(struct run *run);

#endif
