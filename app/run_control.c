/* run_control.c - what ctl and the window's keys ask of a run, between two steps. */
#include <stdio.h>
#include <string.h>

#include "app/change.h"
#include "app/control.h"
#include "app/group_wire.h"
#include "app/report_events.h"
#include "app/run.h"

#define BY_SET_AT "--set-at" // who asks for it; "" is ctl, or a key

// " (--set-at)", for the end of a line.
static const char *by_text(const char *by, char text[64])
{
    snprintf(text, 64, "%s%s%s", by[0] ? " (" : "", by, by[0] ? ")" : "");
    return text;
}

// Everything that is kept of a change besides the checkpoint.
static void note_change(struct run *run, const struct change *change, const char *by)
{
    char text[64];
    report_say(&run->report, "step %lld: %s%s", (long long)run->trainer.progress.step,
               change->text, by_text(by, text));
    if (strcmp(change->before, change->after) == 0)
        return;
    event_change(&run->report, change, by);
    history_mark(monitor_history(run->monitor), change->network);
}

/* ---- on all ranks ----------------------------------------------------------------- */

// What rank 0 has accepted, all others accept: they are where it is.
static enum status order_change(struct run *run, const char *request)
{
    char shared[CHANGE_REQUEST];
    _Static_assert(CHANGE_REQUEST <= WIRE_BYTES, "a request is one message");
    if (!run->group)
        return STATUS_OK;
    memset(shared, 0, sizeof shared);
    snprintf(shared, sizeof shared, "%s", request);
    TRY(group_order(run->group, ORDER_CHANGE));
    return group_share(run->group, shared, sizeof shared);
}

enum status run_follow_change(struct run *run)
{
    char request[CHANGE_REQUEST];
    struct changes changes;
    TRY(group_share(run->group, request, sizeof request));
    TRY(trainer_change(&run->trainer, request, &changes));
    run->config.g = run->trainer.config.g;
    run->config.d = run->trainer.config.d;
    return STATUS_OK;
}

/* ---- a request -------------------------------------------------------------------- */

/* What `request` came to: STATUS_OK and a sentence a line, or the reason of a refusal. */
struct reply {
    enum status status;
    char text[CONTROL_BYTES];
    struct changes changes;
};

// Fails where a rank was lost.
static enum status change(struct run *run, const char *request, const char *by,
                          struct reply *reply)
{
    const struct changes *changes = &reply->changes;
    size_t used = 0;
    reply->status = trainer_change(&run->trainer, request, &reply->changes);
    reply->text[0] = '\0';
    if (reply->status != STATUS_OK) {
        snprintf(reply->text, sizeof reply->text, "%s", status_message());
        return STATUS_OK;
    }
    TRY(order_change(run, request));
    run->config.g = run->trainer.config.g;
    run->config.d = run->trainer.config.d;
    run->saved_at = -1; // a snapshot of this step does not hold it yet
    for (int i = 0; i < changes->count; i++) {
        note_change(run, &changes->of[i], by);
        if (used < sizeof reply->text)
            used += (size_t)snprintf(reply->text + used, sizeof reply->text - used,
                                     "%s%s", used ? "\n" : "", changes->of[i].text);
    }
    report_watch_follow(&run->report);
    report_publish(&run->report, NULL);
    return STATUS_OK;
}

// A key's factor on the scale that the network has now.
static enum status scale_by(struct run *run, int network, double factor)
{
    char request[64];
    struct reply reply;
    const struct grad_scaler *scaler = &run->trainer.player[network].scaler;
    snprintf(request, sizeof request, "%c.scale=%.9g", network == NETWORK_G ? 'g' : 'd',
             (double)grad_scaler_read(scaler).scale * factor);
    TRY(change(run, request, "", &reply));
    if (reply.status != STATUS_OK)
        report_say(&run->report, "not changed: %s", reply.text);
    return STATUS_OK;
}

static enum status answer_ctl(struct run *run)
{
    struct reply reply = {.status = STATUS_OK};
    const char *request = control_take(run->control);
    if (!request)
        return STATUS_OK;
    if (strcmp(request, "?") == 0)
        trainer_settable(&run->trainer, reply.text, sizeof reply.text);
    else
        TRY(change(run, request, "", &reply));
    control_answer(run->control, reply.status, reply.text);
    return STATUS_OK;
}

/* ---- --set-at ---------------------------------------------------------------------- */

// What was checked at the start may be refused now, if ctl has changed other settings since.
static enum status change_as_planned(struct run *run, const char *request, const char *by,
                                     struct reply *reply)
{
    char text[64], words[CONFIG_TEXT];
    TRY(change(run, request, by, reply));
    if (reply->status != STATUS_OK)
        report_say(&run->report, "warning: %s is not set%s: %s",
                   set_at_words(request, words), by_text(by, text), reply->text);
    return STATUS_OK;
}

enum status run_serve_set_at(struct run *run)
{
    struct set_at *set_at = &run->set_at;
    int64_t images = run->trainer.progress.images;
    struct reply reply;
    for (int i = -1; (i = set_at_next(set_at, images, i)) >= 0;) {
        TRY(change_as_planned(run, set_at->change[i].request, BY_SET_AT, &reply));
        if (reply.status == STATUS_OK)
            set_at_made(set_at, &reply.changes, images);
    }
    return STATUS_OK;
}

enum status run_take_back_set_at(struct run *run, int64_t images)
{
    struct reply reply;
    for (const char *undo; (undo = set_at_undo(&run->set_at, images));)
        TRY(change_as_planned(run, undo, BY_SET_AT ", taken back by the rollback",
                              &reply));
    return STATUS_OK;
}

/* ---- ctl and keys ------------------------------------------------------------------ */

enum status run_serve_control(struct run *run, int requests)
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
            TRY(scale_by(run, keys[i].network, keys[i].factor));
    return requests & REQUEST_CONTROL ? answer_ctl(run) : STATUS_OK;
}
