/* run_control.c - what ctl and the window's keys ask of a run, between two steps. */
#include <stdio.h>
#include <string.h>

#include "app/live/change.h"
#include "app/live/control.h"
#include "app/ranks/group_wire.h"
#include "app/report_events.h"
#include "app/run.h"

#define CONTROL_WORDS "pause", "resume", "save", "stop"
// Who asks for a change; a key is "key [" and its like.
#define BY_SET_AT "--set-at"
#define BY_CTL "ctl"

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
    report_print(&run->report, "step %lld: %s%s", (long long)run->trainer.progress.step,
                 change->text, by_text(by, text));
    if (strcmp(change->before, change->after) == 0)
        return;
    event_change(&run->report, change, by);
    if (change->network != CHANGE_OF_RUN)
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
    return trainer_change(&run->trainer, request, &changes);
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
static enum status scale_by(struct run *run, int network, double factor, const char *key)
{
    char request[64];
    struct reply reply;
    const struct grad_scaler *scaler = &run->trainer.scaler[network];
    snprintf(request, sizeof request, "%c.scale=%.9g", network == ROLE_G ? 'g' : 'd',
             (double)grad_scaler_read(scaler).scale * factor);
    TRY(change(run, request, key, &reply));
    if (reply.status != STATUS_OK)
        report_print(&run->report, "not changed: %s", reply.text);
    return STATUS_OK;
}

/* ---- words without a value --------------------------------------------------------- */

// Fails where a rank was lost, as change() does.
static enum status save_now(struct run *run, struct reply *reply)
{
    TRY(run_save_now(run));
    reply->status = run->save_failed ? STATUS_FAILED : STATUS_OK;
    snprintf(reply->text, sizeof reply->text, "%s%s",
             run->save_failed ? "not saved: " : "saved ",
             run->save_failed ? status_message() : run->last_snapshot);
    return STATUS_OK;
}

static void pause_or_go_on(struct run *run, int is_paused, struct reply *reply)
{
    int was_paused = monitor_is_paused(run->monitor);
    double kimg = trainer_kimg(&run->trainer);
    if (is_paused != was_paused)
        monitor_request(run->monitor, REQUEST_PAUSE); // toggles
    snprintf(reply->text, sizeof reply->text, "%s at %.3f kimg%s",
             is_paused == was_paused ? (is_paused ? "already paused" : "not paused")
             : is_paused             ? "paused"
                                     : "training goes on",
             kimg, is_paused ? "; `twinscale ctl RUN resume` goes on" : "");
}

/* One of CONTROL_WORDS. *requests gains what the loop does after the answer is sent. */
static enum status obey(struct run *run, const char *word, int *requests,
                        struct reply *reply)
{
    if (strcmp(word, "save") == 0)
        return save_now(run, reply);
    if (strcmp(word, "stop") == 0) {
        *requests |= REQUEST_QUIT;
        snprintf(
            reply->text, sizeof reply->text,
            "stops at %.3f kimg, with a snapshot; `twinscale train --resume RUN` goes "
            "on from there",
            trainer_kimg(&run->trainer));
    } else
        pause_or_go_on(run, strcmp(word, "pause") == 0, reply);
    return STATUS_OK;
}

// "pause\n": the word of a request that is one word of CONTROL_WORDS; else "".
static const char *single_word(const char *request, char word[16])
{
    static const char *const words[] = {CONTROL_WORDS};
    size_t length = strcspn(request, "\n");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && strncmp(words[i], request, length) == 0 &&
            (request[length] == '\0' || request[length + 1] == '\0')) {
            snprintf(word, 16, "%s", words[i]);
            return word;
        }
    return "";
}

static void list_settable(const struct run *run, struct reply *reply)
{
    const struct progress *progress = &run->trainer.progress;
    int used = snprintf(reply->text, sizeof reply->text, "%s at step %lld, %.3f kimg\n",
                        monitor_is_paused(run->monitor) ? "paused" : "training",
                        (long long)progress->step, trainer_kimg(&run->trainer));
    trainer_settable(&run->trainer, reply->text + used,
                     sizeof reply->text - (size_t)used);
}

static enum status answer_ctl(struct run *run, int *requests)
{
    struct reply reply = {.status = STATUS_OK};
    const char *request = control_take(run->control);
    char word[16];
    if (!request)
        return STATUS_OK;
    if (strcmp(request, "?") == 0)
        list_settable(run, &reply);
    else if (single_word(request, word)[0])
        TRY(obey(run, word, requests, &reply));
    else
        TRY(change(run, request, BY_CTL, &reply));
    control_answer(run->control, reply.status, reply.text);
    return STATUS_OK;
}

/* ---- --set-at ---------------------------------------------------------------------- */

// What was checked at the start may be refused now, if ctl has changed other settings
// since.
static enum status change_as_planned(struct run *run, const char *request, const char *by,
                                     struct reply *reply)
{
    char text[64], words[CONFIG_TEXT];
    TRY(change(run, request, by, reply));
    if (reply->status != STATUS_OK)
        report_print(&run->report, "warning: %s is not set%s: %s",
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

enum status run_serve_control(struct run *run, int *requests)
{
    static const struct {
        int bit, network;
        double factor;
        const char *name;
    } keys[] = {{REQUEST_HALVE_G, ROLE_G, 0.5, "key {"},
                {REQUEST_DOUBLE_G, ROLE_G, 2.0, "key }"},
                {REQUEST_HALVE_D, ROLE_D, 0.5, "key ["},
                {REQUEST_DOUBLE_D, ROLE_D, 2.0, "key ]"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (*requests & keys[i].bit)
            TRY(scale_by(run, keys[i].network, keys[i].factor, keys[i].name));
    return *requests & REQUEST_CONTROL ? answer_ctl(run, requests) : STATUS_OK;
}
