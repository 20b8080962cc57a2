/* run_control.c - what ctl and the window's keys ask of a run, between two steps. */
#include <stdio.h>
#include <string.h>

#include "app/change.h"
#include "app/control.h"
#include "app/report_events.h"
#include "app/run.h"

// Everything that is kept of a change besides the checkpoint.
static void note_change(struct run *run, const struct change *change)
{
    report_say(&run->report, "step %lld: %s", (long long)run->trainer.progress.step,
               change->text);
    if (strcmp(change->before, change->after) == 0)
        return;
    event_change(&run->report, change);
    history_mark(monitor_history(run->monitor), change->network);
}

/* `answer` receives a sentence a line, or the reason of a refusal. */
static enum status change(struct run *run, const char *request,
                          char answer[CONTROL_BYTES])
{
    struct changes changes;
    size_t used = 0;
    enum status status = trainer_change(&run->trainer, request, &changes);
    if (status != STATUS_OK) {
        snprintf(answer, CONTROL_BYTES, "%s", status_message());
        return status;
    }
    run->config.g = run->trainer.config.g;
    run->config.d = run->trainer.config.d;
    run->saved_at = -1; // a snapshot of this step does not hold it yet
    answer[0] = '\0';
    for (int i = 0; i < changes.count; i++) {
        note_change(run, &changes.of[i]);
        if (used < CONTROL_BYTES)
            used += (size_t)snprintf(answer + used, CONTROL_BYTES - used, "%s%s",
                                     used ? "\n" : "", changes.of[i].text);
    }
    report_publish(&run->report, NULL);
    return STATUS_OK;
}

// A key's factor on the scale that the network has now.
static void scale_by(struct run *run, int network, double factor)
{
    char request[64], answer[CONTROL_BYTES];
    double scale = (double)run->trainer.player[network].record.scale_after;
    if (scale == 0.0) // before the first step
        scale = (double)grad_scaler_read(&run->trainer.player[network].scaler).scale;
    snprintf(request, sizeof request, "%c.scale=%.9g", network == NETWORK_G ? 'g' : 'd',
             scale * factor);
    if (change(run, request, answer) != STATUS_OK)
        report_say(&run->report, "not changed: %s", answer);
}

void run_serve_control(struct run *run, int requests)
{
    static const struct {
        int bit, network;
        double factor;
    } keys[] = {{REQUEST_HALVE_G, NETWORK_G, 0.5},
                {REQUEST_DOUBLE_G, NETWORK_G, 2.0},
                {REQUEST_HALVE_D, NETWORK_D, 0.5},
                {REQUEST_DOUBLE_D, NETWORK_D, 2.0}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (requests & keys[i].bit)
            scale_by(run, keys[i].network, keys[i].factor);
    if (!(requests & REQUEST_CONTROL))
        return;
    char answer[CONTROL_BYTES];
    const char *request = control_take(run->control);
    enum status status = STATUS_OK;
    if (!request)
        return;
    if (strcmp(request, "?") == 0)
        trainer_settable(&run->trainer, answer, sizeof answer);
    else
        status = change(run, request, answer);
    control_answer(run->control, status, answer);
}
