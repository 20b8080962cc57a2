/* control.c - both ends of the socket. The thread waits for clients, so that a run that
 * is not asked anything pays nothing, and a client that says nothing holds up no step. */
#include "app/live/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "control"
#define READ_SEC 2    // for a client that has connected to say what it wants
#define ANSWER_SEC 60 // for a run to reach the end of a step
#define QUEUE 8       // clients that wait their turn

enum stage { STAGE_IDLE, STAGE_ASKED, STAGE_ANSWERED };

struct control {
    struct monitor *monitor;
    int folder, listener, wake; // descriptors
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum stage stage;
    int is_closing;
    char request[CONTROL_BYTES];
    char answer[CONTROL_BYTES + 1]; // begins with the word for its status
};

/* ---- the address ------------------------------------------------------------------ */

static int open_folder(const char *folder)
{
    return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static struct sockaddr_un address_in(int folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" SOCKET_NAME,
             folder);
    return address;
}

static void limit_wait(int client, int option, int seconds)
{
    struct timeval limit = {.tv_sec = seconds};
    setsockopt(client, SOL_SOCKET, option, &limit, sizeof limit);
}

/* ---- the run's end ---------------------------------------------------------------- */

// Hands the request to the training thread and waits for its answer.
static void ask_run(struct control *control)
{
    pthread_mutex_lock(&control->mutex);
    control->stage = STAGE_ASKED;
    pthread_mutex_unlock(&control->mutex);
    monitor_request(control->monitor, REQUEST_CONTROL);
    pthread_mutex_lock(&control->mutex);
    while (control->stage == STAGE_ASKED && !control->is_closing)
        pthread_cond_wait(&control->changed, &control->mutex);
    if (control->stage != STAGE_ANSWERED)
        snprintf(control->answer, sizeof control->answer,
                 "!the run has ended; nothing is changed");
    control->stage = STAGE_IDLE;
    pthread_mutex_unlock(&control->mutex);
}

static void serve_client(struct control *control, int client)
{
    limit_wait(client, SO_RCVTIMEO, READ_SEC);
    limit_wait(client, SO_SNDTIMEO, READ_SEC);
    ssize_t bytes = recv(client, control->request, sizeof control->request, MSG_TRUNC);
    if (bytes <= 0)
        return; // gone, or silent
    if ((size_t)bytes >= sizeof control->request)
        snprintf(
            control->answer, sizeof control->answer,
            "!the request has %zd bytes, at most %zu can be read; give fewer changes "
            "at once",
            bytes, sizeof control->request - 1);
    else {
        control->request[bytes] = '\0';
        ask_run(control);
    }
    (void)send(client, control->answer, strlen(control->answer), MSG_NOSIGNAL);
}

static void *listen_thread(void *argument)
{
    struct control *control = argument;
    sigset_t all;
    sigfillset(&all); // handlers run on the main thread, and no recv() here is cut short
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (;;) {
        struct pollfd polled[2] = {{.fd = control->listener, .events = POLLIN},
                                   {.fd = control->wake, .events = POLLIN}};
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (polled[1].revents)
            return NULL;
        if (!(polled[0].revents & POLLIN))
            continue;
        int client = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            continue;
        serve_client(control, client);
        close(client);
    }
}

static int bind_socket(struct control *control)
{
    struct sockaddr_un address = address_in(control->folder);
    struct stat facts;
    // A run that was killed has left its own; what is no socket is the user's.
    if (fstatat(control->folder, SOCKET_NAME, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISSOCK(facts.st_mode))
        unlinkat(control->folder, SOCKET_NAME, 0);
    return fchmod(control->listener, S_IRUSR | S_IWUSR) == 0 &&
           bind(control->listener, (struct sockaddr *)&address, sizeof address) == 0 &&
           listen(control->listener, QUEUE) == 0;
}

static void release(struct control *control)
{
    int descriptors[] = {control->folder, control->listener, control->wake};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    pthread_mutex_destroy(&control->mutex);
    pthread_cond_destroy(&control->changed);
    free(control);
}

enum status control_open(const char *folder, struct monitor *monitor,
                         struct control **control)
{
    struct control *opened = calloc(1, sizeof *opened);
    CHECK_MEMORY(opened, "the socket of ctl");
    opened->monitor = monitor;
    opened->folder = open_folder(folder);
    opened->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    opened->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&opened->mutex, NULL);
    pthread_cond_init(&opened->changed, NULL);
    int is_open = opened->folder >= 0 && opened->listener >= 0 && opened->wake >= 0 &&
                  bind_socket(opened);
    int error =
        is_open ? pthread_create(&opened->thread, NULL, listen_thread, opened) : errno;
    if (error == 0) {
        *control = opened;
        return STATUS_OK;
    }
    release(opened);
    return status_fail(STATUS_FAILED,
                       "%s/" SOCKET_NAME ": no socket can be made there (%s); the run "
                       "goes on, but `twinscale ctl` cannot reach it",
                       folder, strerror(error));
}

void control_remove(const struct control *control)
{
    if (control)
        unlinkat(control->folder, SOCKET_NAME, 0);
}

void control_close(struct control *control)
{
    if (!control)
        return;
    uint64_t one = 1;
    pthread_mutex_lock(&control->mutex);
    control->is_closing = 1;
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->mutex);
    CHECK(write(control->wake, &one, sizeof one) == sizeof one);
    pthread_join(control->thread, NULL);
    control_remove(control);
    release(control);
}

const char *control_take(struct control *control)
{
    if (!control)
        return NULL;
    pthread_mutex_lock(&control->mutex);
    int is_asked = control->stage == STAGE_ASKED;
    pthread_mutex_unlock(&control->mutex);
    return is_asked ? control->request : NULL;
}

void control_answer(struct control *control, enum status status, const char *text)
{
    pthread_mutex_lock(&control->mutex);
    snprintf(control->answer, sizeof control->answer, "%s%.*s",
             status == STATUS_OK ? "+" : "!", CONTROL_BYTES - 1, text);
    control->stage = STAGE_ANSWERED;
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->mutex);
}

/* ---- the other end ---------------------------------------------------------------- */

static enum status not_running(const char *folder)
{
    return status_fail(STATUS_USAGE,
                       "%s: no run is going on there; go on with it by `twinscale train "
                       "--resume %s`, which takes the same settings as flags",
                       folder, folder);
}

static enum status connect_to(const char *folder, int client)
{
    int directory = open_folder(folder);
    if (directory < 0)
        return status_fail(STATUS_USAGE,
                           "%s: %s; give the folder of a run that is going on", folder,
                           strerror(errno));
    struct sockaddr_un address = address_in(directory);
    int failed = connect(client, (struct sockaddr *)&address, sizeof address) != 0;
    int error = errno;
    close(directory);
    if (!failed)
        return STATUS_OK;
    if (error == ENOENT || error == ECONNREFUSED)
        return not_running(folder);
    return status_fail(STATUS_FAILED, "%s/" SOCKET_NAME ": cannot be reached: %s", folder,
                       strerror(error));
}

static enum status exchange(const char *folder, int client, const char *request,
                            char answer[CONTROL_BYTES])
{
    char packet[CONTROL_BYTES + 1];
    limit_wait(client, SO_SNDTIMEO, ANSWER_SEC); // also how long connect() waits
    limit_wait(client, SO_RCVTIMEO, ANSWER_SEC);
    TRY(connect_to(folder, client));
    if (send(client, request, strlen(request), MSG_NOSIGNAL) < 0)
        return status_fail(STATUS_FAILED, "%s: the request could not be sent: %s", folder,
                           strerror(errno));
    ssize_t bytes = recv(client, packet, sizeof packet - 1, 0);
    if (bytes < 0)
        return status_fail(STATUS_FAILED,
                           "%s: the run has not answered (%s); it is in a long step, or "
                           "stopped, and may still do what was asked: see its log.txt",
                           folder, strerror(errno));
    if (bytes == 0)
        return status_fail(STATUS_FAILED,
                           "%s: the run went away before it answered; what was asked is "
                           "lost unless its log.txt has it",
                           folder);
    packet[bytes] = '\0';
    if (packet[0] != '+')
        return status_fail(STATUS_USAGE, "%s", packet + 1);
    snprintf(answer, CONTROL_BYTES, "%s", packet + 1);
    return STATUS_OK;
}

enum status control_ask(const char *folder, const char *request,
                        char answer[CONTROL_BYTES])
{
    int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (client < 0)
        return status_fail(STATUS_FAILED, "no socket can be had: %s", strerror(errno));
    enum status status = exchange(folder, client, request, answer);
    close(client);
    return status;
}
