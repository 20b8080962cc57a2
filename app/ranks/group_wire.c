#include "app/ranks/group_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "kernels/base/status.h"

// Differs when the other side counts its bytes the other way round, too.
#define WIRE_MAGIC 0x54574731u
#define HEADER_BYTES offsetof(struct wire_message, data)

void wire_set_limit(int fd, double seconds)
{
    struct timeval limit = {.tv_sec = (time_t)seconds,
                            .tv_usec =
                                (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

int wire_send(int fd, enum wire_kind kind, const void *data, size_t bytes)
{
    CHECK(bytes <= WIRE_BYTES, "%zu bytes", bytes);
    struct wire_message message = {
        .magic = WIRE_MAGIC, .kind = (uint32_t)kind, .bytes = (uint32_t)bytes};
    if (bytes)
        memcpy(message.data, data, bytes);
    const char *next = (const char *)&message;
    for (size_t left = HEADER_BYTES + bytes; left > 0;) {
        ssize_t sent = send(fd, next, left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return 0;
        next += sent;
        left -= (size_t)sent;
    }
    return 1;
}

static int receive_all(int fd, void *data, size_t bytes)
{
    for (char *next = data; bytes > 0;) {
        ssize_t received = recv(fd, next, bytes, 0);
        if (received < 0 && errno == EINTR)
            continue;
        if (received <= 0)
            return 0;
        next += received;
        bytes -= (size_t)received;
    }
    return 1;
}

int wire_receive(int fd, struct wire_message *message)
{
    memset(message, 0, sizeof *message); // texts end with 0 whatever was sent
    return receive_all(fd, message, HEADER_BYTES) && message->magic == WIRE_MAGIC &&
           message->bytes <= WIRE_BYTES && receive_all(fd, message->data, message->bytes);
}

int wire_send_failure(int fd, int status, const char *reason)
{
    struct wire_failure failure = {.status = status};
    snprintf(failure.reason, sizeof failure.reason, "%s", reason);
    return wire_send(fd, WIRE_FAILED, &failure, sizeof failure);
}
