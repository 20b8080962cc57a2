#include "app/signals.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "app/output/monitor.h"
#include "kernels/status.h"

static volatile sig_atomic_t quit_asked, snapshot_asked, interrupts;

static void on_signal(int number)
{
    if (number == SIGUSR1) {
        snapshot_asked = 1;
        return;
    }
    if (number == SIGINT && ++interrupts > 1)
        _exit(status_exit_code(STATUS_INTERRUPTED));
    quit_asked = 1;
}

void signals_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    // A closed terminal or a lost connection ends a run as SIGTERM does, but not under nohup.
    struct sigaction hangup;
    sigaction(SIGHUP, NULL, &hangup);
    if (hangup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    // A file over the limit of `ulimit -f` is then an error with a sentence, not a death.
    sigaction(SIGXFSZ, &action, NULL);
}

int signals_take(void)
{
    int requests = 0;
    // A flag is cleared only when it was seen: what comes in between stays for next time.
    if (quit_asked) {
        quit_asked = 0;
        requests |= REQUEST_QUIT;
    }
    if (snapshot_asked) {
        snapshot_asked = 0;
        requests |= REQUEST_SNAPSHOT;
    }
    return requests;
}
