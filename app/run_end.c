/* run_end.c - what a run prints when it has ended, and the window that stays. */
#include <stdio.h>
#include <unistd.h>

#include "app/run.h"
#include "app/signals.h"
#include "app/files/terminal.h"

// On stdout, for scripts, and in log.txt. Files that are not there any more are no
// result.
static void print_result(struct run *run, const char *what, const char *path)
{
    if (!path[0] || access(path, R_OK) != 0)
        return;
    printf("%s: %s\n", what, path);
    run_folder_log(&run->folder, "%s: %s", what, path);
}

static void print_results(struct run *run)
{
    char path[1024];
    print_result(run, "grid", run->last_grid);
    print_result(run, "scales",
                 run_folder_file(&run->folder, path, sizeof path, "scales.png"));
    if (run_newest_snapshot(run, path))
        print_result(run, "checkpoint", path);
    else if (run->last_snapshot[0])
        report_print(&run->report, "checkpoint: none; no snapshot of this run is in %s",
                     run->folder.path);
}

// Who wants to see how a run went looks after its end; who ended it has seen enough.
static int keeps_window(struct run *run)
{
    return atomic_load(&run->report.has_window) && !run->was_stopped &&
           !run->trainer.config.exit_when_done;
}

// They end, and their GPUs are free, while rank 0 waits for a person.
static void end_other_ranks(struct run *run)
{
    signals_on_end(NULL, NULL);
    if (run->status != STATUS_OK) // the reason that they are given
        (void)status_fail(run->status, "%s", run->message);
    (void)group_leave(run->group, run->status);
    group_close(run->group, run->status);
    run->group = NULL;
}

static void keep_window(struct run *run)
{
    end_other_ranks(run);
    if (run->status != STATUS_OK)
        fprintf(stderr, "twinscale: %s\n", run->message);
    run->message[0] = '\0'; // main() has nothing to add
    fprintf(stderr,
            "the window stays open: press q in it, close it, or press Ctrl-C here "
            "(--exit-when-done closes it at once)\n");
    while (atomic_load(&run->report.has_window)) {
        int requests = monitor_take_requests(run->monitor);
        if (requests & REQUEST_QUIT)
            return;
        if (requests & REQUEST_EXPORT)
            run_save_fakes(run, trainer_kimg(&run->trainer));
        monitor_wait_for_request(run->monitor);
    }
}

void run_end(struct run *run)
{
    signals_answer("the run has ended");
    print_results(run);
    run_folder_close(&run->folder);
    fflush(stdout);
    progress_clear();
    if (keeps_window(run))
        keep_window(run);
}
