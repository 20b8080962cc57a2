/* group_fork.c - the ranks of one machine, which the program starts itself.
 *
 * They are forked, not started anew: no device exists yet, and no thread but the one that
 * waits for signals, which ranks above 0 do without, so a fork is a whole, clean copy,
 * and what the first process has read (settings, the snapshot to resume, the program
 * itself) cannot be another for the others. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "app/ranks/group_parts.h"

// In the new process: only its own socket stays open, so that an end is seen by all.
static void become(struct group *group, int rank, int fd, pid_t parent)
{
    for (int other = 1; other < rank; other++)
        close(group->peers[other].fd);
    memset(group->peers, 0, (size_t)group->world * sizeof *group->peers);
    for (int other = 1; other < group->world; other++)
        group->peers[other].fd = -1;
    group->peers[0].fd = fd;
    snprintf(group->peers[0].name, sizeof group->peers[0].name, "rank 0 (process %d)",
             (int)parent);
    group->rank = rank;
    group->is_child = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(status_exit_code(STATUS_FAILED)); // it ended in between
}

enum status group_fork(struct group *group)
{
    pid_t parent = getpid();
    fflush(NULL); // or both would write what is in the buffers
    for (int rank = 1; rank < group->world; rank++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            return status_fail(STATUS_FAILED, "--gpus %d: no socket for rank %d: %s",
                               group->world, rank, strerror(errno));
        pid_t pid = fork();
        if (pid == 0) {
            close(pair[0]);
            become(group, rank, pair[1], parent);
            return STATUS_OK;
        }
        int error = errno;
        close(pair[1]);
        struct group_peer *peer = &group->peers[rank];
        peer->fd = pair[0];
        if (pid < 0)
            return status_fail(STATUS_FAILED, "--gpus %d: no process for rank %d: %s",
                               group->world, rank, strerror(error));
        peer->pid = pid;
        snprintf(peer->name, sizeof peer->name, "rank %d (process %d)", rank, (int)pid);
    }
    return STATUS_OK;
}
