/* group_wire.h - one message over one socket, whole or not at all.
 * Flow:  group.c -> [wire_send] -> socket -> [wire_receive] -> group_watch.c.
 * Owns:  nothing; sockets belong to their group. For the group_*.c files only. */
#ifndef APP_RANKS_GROUP_WIRE_H
#define APP_RANKS_GROUP_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_BYTES 1024 // the most that a message carries

enum wire_kind {
    WIRE_HELLO,   // a rank to rank 0: struct wire_hello
    WIRE_WELCOME, // the answer
    WIRE_ORDER,   // rank 0: an enum group_order
    WIRE_SHARED,  // rank 0: bytes that all need
    WIRE_TEXT,    // to rank 0: what all must have alike
    WIRE_FAILED,  // struct wire_failure: the sender's last words
};

struct wire_message {
    uint32_t magic, kind, bytes;
    char data[WIRE_BYTES];
};

struct wire_hello {
    int32_t rank, world, process;
    char version[32], host[64];
};

struct wire_failure {
    int32_t status; // enum status
    char reason[WIRE_BYTES - 4];
};

/* Seconds that one message may take once it has begun, either way; 0 = for ever. */
void wire_set_limit(int fd, double seconds);

/* 0 when the other end is gone, does not take the bytes in time, or (receiving) speaks
 * another language. Never raises SIGPIPE. */
int wire_send(int fd, enum wire_kind kind, const void *data, size_t bytes);
int wire_receive(int fd, struct wire_message *message);

/* `reason` is cut to what fits. */
int wire_send_failure(int fd, int status, const char *reason);

#endif
