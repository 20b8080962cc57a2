#include "app/signals.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/view/monitor.h"
#include "app/files/terminal.h"

#define WORDS_BYTES 1536

static const struct {
    int number, request;
    const char *name;
} rows[] = {
#define X(number, name, request, help) {number, REQUEST_##request, name},
    SIGNALS_TABLE(X)
#undef X
};
#define ROW_COUNT ((int)(sizeof rows / sizeof *rows))

static struct {
    pthread_t thread;
    sem_t has_begun; // posted by the thread
    sigset_t waited_for, before;
    atomic_int is_ignoring, is_closing; // the rest is under the lock
    pthread_mutex_t lock;
    struct monitor *monitor;
    const char *answer;
    int interrupts, ends; // how often Ctrl-C came, and any that asks for the end
    void (*leave)(void *context, const char *reason);
    void *context;
    char snapshot[1024];
    double saved, trained; // kimg
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- ending the program ---------------------------------------------------------- */

static void end_program(const char *reason)
{
    if (state.leave)
        state.leave(state.context, reason);
    progress_clear();
    fprintf(stderr, "twinscale: %s\n", reason);
    _exit(status_exit_code(STATUS_INTERRUPTED));
}

static void end_set_up(const char *name)
{
    char reason[128];
    snprintf(reason, sizeof reason, "ended by %s during set-up; nothing was written",
             name);
    end_program(reason);
}

static void end_unsaved(void)
{
    char reason[WORDS_BYTES];
    double lost = state.trained - state.saved;
    if (state.snapshot[0])
        snprintf(reason, sizeof reason,
                 "ended without saving: %.3f kimg since the newest snapshot are lost; go "
                 "on from it with: twinscale train --resume %s",
                 lost > 0.0 ? lost : 0.0, state.snapshot);
    else
        snprintf(reason, sizeof reason, "ended at once; nothing was saved");
    end_program(reason);
}

/* ---- the thread ------------------------------------------------------------------ */

static void print_answer(int number, const char *name)
{
    progress_clear();
    fprintf(stderr, "%s: %s%s\n", name, state.answer,
            number == SIGINT ? "; Ctrl-C again ends at once, without saving" : "");
}

// The request first: a terminal that takes no output must not keep the run from saving.
static void serve_end(int number, const char *name)
{
    int is_first = state.ends++ == 0;
    if (!state.answer)
        end_set_up(name);
    monitor_request(state.monitor, REQUEST_QUIT);
    if (number == SIGINT && ++state.interrupts > 1)
        end_unsaved();
    if (is_first || number == SIGINT)
        print_answer(number, name);
}

static void serve(int number)
{
    pthread_mutex_lock(&state.lock);
    for (int i = 0; i < ROW_COUNT; i++) {
        if (rows[i].number != number)
            continue;
        if (rows[i].request == REQUEST_QUIT)
            serve_end(number, rows[i].name);
        else
            monitor_request(state.monitor, rows[i].request);
    }
    pthread_mutex_unlock(&state.lock);
}

static void *wait_for_signals(void *unused)
{
    int number;
    sem_post(&state.has_begun);
    while (!atomic_load(&state.is_closing))
        if (sigwait(&state.waited_for, &number) == 0 && !atomic_load(&state.is_closing) &&
            !atomic_load(&state.is_ignoring))
            serve(number);
    return unused;
}

/* ---- the others' ----------------------------------------------------------------- */

// A closed terminal or a lost connection is nothing to a run under nohup.
static int is_left_out(int number)
{
    struct sigaction now;
    return number == SIGHUP && sigaction(number, NULL, &now) == 0 &&
           now.sa_handler == SIG_IGN;
}

/* A thread that is still starting may hold locks of the allocator, and a fork (--gpus)
 * would hand them on, held, to a process that has no thread to release them:
 * AddressSanitizer's are of that kind. */
static void await_begin(void)
{
    while (sem_wait(&state.has_begun) != 0 && errno == EINTR)
        ;
    sem_destroy(&state.has_begun);
}

enum status signals_open(struct monitor *monitor)
{
    state.monitor = monitor;
    state.answer = NULL;
    sigemptyset(&state.waited_for);
    for (int i = 0; i < ROW_COUNT; i++) {
        if (is_left_out(rows[i].number))
            continue;
        sigaddset(&state.waited_for, rows[i].number);
        // A shell has commands in the background ignore Ctrl-C: what is waited for is
        // not.
        signal(rows[i].number, SIG_DFL);
    }
    signal(SIGPIPE, SIG_IGN);
    // Blocked here and so in every thread to come, they are left for the one that waits.
    pthread_sigmask(SIG_BLOCK, &state.waited_for, &state.before);
    sem_init(&state.has_begun, 0, 0);
    int error = pthread_create(&state.thread, NULL, wait_for_signals, NULL);
    if (error == 0) {
        await_begin();
        return STATUS_OK;
    }
    pthread_sigmask(SIG_SETMASK, &state.before, NULL);
    return status_fail(STATUS_FAILED, "no thread to wait for signals: %s",
                       strerror(error));
}

void signals_close(void)
{
    atomic_store(&state.is_closing, 1);
    pthread_kill(state.thread, SIGUSR1); // waits in the thread until it is taken
    pthread_join(state.thread, NULL);
    atomic_store(&state.is_closing, 0);
    pthread_sigmask(SIG_SETMASK, &state.before, NULL);
}

void signals_answer(const char *words)
{
    pthread_mutex_lock(&state.lock);
    state.answer = words;
    if (!words && state.ends > 0)
        end_set_up("a signal");
    pthread_mutex_unlock(&state.lock);
}

void signals_ignore(void)
{
    atomic_store(&state.is_ignoring, 1);
}

void signals_on_end(void (*leave)(void *context, const char *reason), void *context)
{
    pthread_mutex_lock(&state.lock);
    state.leave = leave;
    state.context = context;
    pthread_mutex_unlock(&state.lock);
}

void signals_note_saved(const char *snapshot, double kimg)
{
    pthread_mutex_lock(&state.lock);
    snprintf(state.snapshot, sizeof state.snapshot, "%s", snapshot);
    state.saved = kimg;
    pthread_mutex_unlock(&state.lock);
}

void signals_note_trained(double kimg)
{
    pthread_mutex_lock(&state.lock);
    state.trained = kimg;
    pthread_mutex_unlock(&state.lock);
}
