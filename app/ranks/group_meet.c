/* group_meet.c - ranks that others have started meet by TCP, where rank 0 listens. */
#include "app/ranks/group_parts.h"
#include "kernels/base/process.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEET_SEC 300.0
#define HELLO_SEC 2.0 // for who connects to say who it is
#define TRY_SEC 0.2   // between two looks
#define QUIET_SEC 5.0 // before rank 0 says whom it waits for

/* ---- both sides ------------------------------------------------------------------ */

// Small messages go at once, and a machine that lost its power is noticed within seconds.
static void prepare_socket(int fd)
{
    int on = 1, idle_sec = 5, between_sec = 2, probes = 4, unanswered_ms = 15000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_sec, sizeof idle_sec);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_sec, sizeof between_sec);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

static int look_up(const struct group_place *place, struct addrinfo **found)
{
    char port[16];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    snprintf(port, sizeof port, "%d", place->port);
    return getaddrinfo(place->address, port, &hints, found);
}

static enum status check_stopped(const struct group_start *start)
{
    if (start->is_stopped && start->is_stopped(start->context))
        return status_fail(STATUS_INTERRUPTED,
                           "stopped while the %d ranks were waiting for each other",
                           start->world);
    return STATUS_OK;
}

static double meet_sec(const struct group_start *start)
{
    return start->meet_sec > 0.0 ? start->meet_sec : MEET_SEC;
}

/* ---- rank 0 ---------------------------------------------------------------------- */

// The address may be one that leads here without being this machine's: then any will do.
static int bind_to(int fd, const struct addrinfo *where)
{
    struct sockaddr_storage any = {0};
    if (bind(fd, where->ai_addr, where->ai_addrlen) == 0)
        return 1;
    if (errno != EADDRNOTAVAIL)
        return 0;
    memcpy(&any, where->ai_addr, where->ai_addrlen);
    if (any.ss_family == AF_INET)
        ((struct sockaddr_in *)&any)->sin_addr.s_addr = htonl(INADDR_ANY);
    else
        ((struct sockaddr_in6 *)&any)->sin6_addr = in6addr_any;
    return bind(fd, (struct sockaddr *)&any, where->ai_addrlen) == 0;
}

// -1, and errno, when that is not possible.
static int listen_at(const struct addrinfo *where)
{
    int on = 1, fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind_to(fd, where) && listen(fd, GROUP_WORLD_MAX) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static enum status open_port(const struct group_place *place, int *listener)
{
    struct addrinfo *found;
    int error = look_up(place, &found);
    *listener = -1;
    if (error)
        return status_fail(STATUS_USAGE,
                           "MASTER_ADDR: \"%s\": %s; give the name or address of the "
                           "machine that runs rank 0",
                           place->address, gai_strerror(error));
    for (struct addrinfo *where = found; where && *listener < 0; where = where->ai_next) {
        *listener = listen_at(where);
        error = errno;
    }
    freeaddrinfo(found);
    if (*listener >= 0)
        return STATUS_OK;
    return status_fail(STATUS_ENVIRONMENT,
                       "rank 0 cannot listen at %s, port %d: %s; give all ranks another "
                       "MASTER_PORT",
                       place->address, place->port, strerror(error));
}

static enum status check_hello(const struct group *group, const struct wire_hello *hello)
{
    if (strncmp(hello->version, TWINSCALE_VERSION, sizeof hello->version) != 0)
        return status_fail(
            STATUS_USAGE,
            "rank %d on %s is twinscale %s and rank 0 is %s; start the same "
            "program everywhere",
            hello->rank, hello->host, hello->version, TWINSCALE_VERSION);
    if (hello->world != group->world)
        return status_fail(STATUS_USAGE,
                           "rank %d on %s is one of %d ranks and rank 0 one of %d; all "
                           "have to be given the same number",
                           hello->rank, hello->host, hello->world, group->world);
    if (hello->rank < 1 || hello->rank >= group->world)
        return status_fail(STATUS_USAGE, "%s says that it is rank %d of %d", hello->host,
                           hello->rank, group->world);
    if (group->peers[hello->rank].fd >= 0)
        return status_fail(STATUS_USAGE,
                           "rank %d came twice, the second time from %s (process %d); "
                           "every process needs a rank of its own",
                           hello->rank, hello->host, hello->process);
    return STATUS_OK;
}

/* Whoever does not speak this language is not one of us and is let go. */
static enum status welcome(struct group *group, int fd, int *joined)
{
    struct wire_message message;
    struct wire_hello hello;
    prepare_socket(fd);
    wire_set_limit(fd, HELLO_SEC);
    if (!wire_receive(fd, &message) || message.kind != WIRE_HELLO) {
        close(fd);
        return STATUS_OK;
    }
    memcpy(&hello, message.data, sizeof hello);
    hello.version[sizeof hello.version - 1] = hello.host[sizeof hello.host - 1] = '\0';
    enum status status = check_hello(group, &hello);
    if (status != STATUS_OK) {
        wire_send_failure(fd, (int)status, status_message());
        close(fd);
        return status;
    }
    struct group_peer *peer = &group->peers[hello.rank];
    peer->fd = fd;
    snprintf(peer->name, sizeof peer->name, "rank %d (%s, process %d)", hello.rank,
             hello.host, hello.process);
    wire_send(fd, WIRE_WELCOME, NULL, 0);
    *joined += 1;
    return STATUS_OK;
}

static enum status fail_missing(const struct group *group,
                                const struct group_start *start, int joined)
{
    int rank = 1;
    while (group->peers[rank].fd >= 0)
        rank++;
    return status_fail(
        STATUS_FAILED,
        "%d of %d ranks came to %s, port %d, within %.0f s; rank %d is the "
        "first that is missing: look at what it printed, and whether it "
        "can reach this machine",
        joined, group->world, start->place->address, start->place->port, meet_sec(start),
        rank);
}

static enum status receive_ranks(struct group *group, const struct group_start *start,
                                 int listener)
{
    double quiet = now_seconds() + QUIET_SEC, until = now_seconds() + meet_sec(start);
    for (int joined = 1; joined < group->world;) {
        struct pollfd polled = {.fd = listener, .events = POLLIN};
        TRY(check_stopped(start));
        if (now_seconds() > until)
            return fail_missing(group, start, joined);
        if (quiet > 0.0 && now_seconds() > quiet) {
            fprintf(stderr,
                    "ranks   %d of %d are here; waiting for the others at %s, "
                    "port %d\n",
                    joined, group->world, start->place->address, start->place->port);
            quiet = 0.0;
        }
        if (poll(&polled, 1, (int)(TRY_SEC * 1000.0)) <= 0)
            continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            TRY(welcome(group, fd, &joined));
    }
    return STATUS_OK;
}

/* ---- the others ------------------------------------------------------------------ */

static int connect_to(const struct addrinfo *where, double seconds)
{
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    wire_set_limit(fd, seconds); // of connect(), too
    if (connect(fd, where->ai_addr, where->ai_addrlen) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* A connection; -1 and what went wrong. */
static int call_rank_0(const struct group_place *place, char *error, size_t error_bytes)
{
    struct addrinfo *found;
    int code = look_up(place, &found), fd = -1;
    if (code) {
        snprintf(error, error_bytes, "%s", gai_strerror(code));
        return -1;
    }
    for (struct addrinfo *where = found; where && fd < 0; where = where->ai_next)
        fd = connect_to(where, HELLO_SEC);
    if (fd < 0)
        snprintf(error, error_bytes, "%s", strerror(errno));
    freeaddrinfo(found);
    return fd;
}

/* True when rank 0 took this rank or said why not; else it was somebody else. */
static int introduce(struct group *group, int fd, struct wire_message *answer)
{
    struct wire_hello hello = {
        .rank = group->rank, .world = group->world, .process = (int32_t)getpid()};
    snprintf(hello.version, sizeof hello.version, "%s", TWINSCALE_VERSION);
    gethostname(hello.host, sizeof hello.host - 1);
    prepare_socket(fd);
    wire_set_limit(fd, HELLO_SEC * GROUP_WORLD_MAX); // rank 0 hears one after the other
    return wire_send(fd, WIRE_HELLO, &hello, sizeof hello) && wire_receive(fd, answer) &&
           (answer->kind == WIRE_WELCOME || answer->kind == WIRE_FAILED);
}

static enum status accept_answer(struct group *group, int fd, const char *address,
                                 const struct wire_message *answer)
{
    struct wire_failure failure;
    memcpy(&failure, answer->data, sizeof failure);
    if (answer->kind == WIRE_FAILED) {
        close(fd);
        return status_fail((enum status)failure.status, "rank 0 refuses: %.*s",
                           (int)sizeof failure.reason, failure.reason);
    }
    group->peers[0].fd = fd;
    snprintf(group->peers[0].name, sizeof group->peers[0].name, "rank 0 (%.80s)",
             address);
    return STATUS_OK;
}

static enum status find_rank_0(struct group *group, const struct group_start *start)
{
    const struct group_place *place = start->place;
    char error[128] = "no answer";
    for (double until = now_seconds() + meet_sec(start); now_seconds() < until;) {
        struct wire_message answer;
        TRY(check_stopped(start));
        int fd = call_rank_0(place, error, sizeof error);
        if (fd >= 0 && introduce(group, fd, &answer))
            return accept_answer(group, fd, place->address, &answer);
        if (fd >= 0) {
            close(fd);
            snprintf(error, sizeof error, "something else answers there");
        }
        usleep((useconds_t)(TRY_SEC * 1e6));
    }
    return status_fail(STATUS_FAILED,
                       "rank %d of %d did not find rank 0 at %s, port %d, within %.0f s: "
                       "%s; look whether rank 0 runs, and at MASTER_ADDR and MASTER_PORT",
                       group->rank, group->world, place->address, place->port,
                       meet_sec(start), error);
}

enum status group_meet(struct group *group, const struct group_start *start)
{
    group->rank = start->place->rank;
    if (group->rank != 0)
        return find_rank_0(group, start);
    int listener;
    TRY(open_port(start->place, &listener));
    enum status status = receive_ranks(group, start, listener);
    close(listener);
    return status;
}
