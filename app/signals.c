#include "app/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "kernels/status.h"

static struct monitor *_Atomic listener;
static volatile sig_atomic_t interrupts;

static void on_signal(int number)
{
    if (number == SIGINT && ++interrupts > 1)
        _exit(status_exit_code(STATUS_INTERRUPTED));
    struct monitor *monitor = atomic_load(&listener);
    if (monitor)
        monitor_request_in_handler(monitor,
                                   number == SIGUSR1 ? REQUEST_SNAPSHOT : REQUEST_QUIT);
}

void signals_ignore(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], SIG_IGN);
}

void signals_install(struct monitor *monitor)
{
    atomic_store(&listener, monitor);
    if (!monitor)
        return;
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
