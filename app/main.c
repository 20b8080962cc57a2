/* main.c - names the commands, prints the one sentence of a failure, exits with its
 * code. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "app/commands.h"
#include "kernels/base/status.h"

static const struct command {
    const char *name, *arguments, *help;
    enum status (*run)(int argc, char **argv);
} commands[] = {
#define X(name, arguments, help) {#name, arguments, help, name##_command},
    COMMANDS(X)
#undef X
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static void print_usage(FILE *stream)
{
    fprintf(stream,
            "twinscale %s - trains image GANs in mixed precision, one loss scaler per "
            "network\n\nusage: twinscale COMMAND ...\n\n",
            TWINSCALE_VERSION);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(stream, "  %-7s %-37s %s\n", commands[i].name, commands[i].arguments,
                commands[i].help);
    fprintf(stream,
            "\n`twinscale COMMAND --help` explains each. A first run, with no data of "
            "your own:\n  twinscale train --preset fmnist-quick\n");
}

// "train, sample and info"
static enum status fail_unknown(const char *name)
{
    char names[128] = "";
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s",
                 i == 0                   ? ""
                 : i + 1 == COMMAND_COUNT ? " and "
                                          : ", ",
                 commands[i].name);
    }
    return status_fail(STATUS_USAGE, "%s: no such command; the commands are %s", name,
                       names);
}

static enum status dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return status_fail(STATUS_USAGE, "no command given");
    }
    if (argc > 2 && !strcmp(argv[1], "help")) {
        char *help[] = {argv[0], argv[2], "--help"};
        return dispatch(3, help);
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
        !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return STATUS_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("twinscale %s\n", TWINSCALE_VERSION);
        return STATUS_OK;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 2, argv + 2);
    return fail_unknown(argv[1]);
}

/* Where standard input, output or error is closed, the next file that is opened would
 * take its number, and what is printed would go into a log or a checkpoint. What is
 * opened here in its place cannot be used, which is an error as before. */
static void keep_standard_numbers(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int number = 0; number < 3; number++)
        if (fcntl(number, F_GETFD) < 0)
            (void)open("/dev/null", modes[number]);
}

// What was printed may still be in a buffer: whether it arrived is known only now.
static enum status close_standard_output(void)
{
    int failed = ferror(stdout);
    errno = 0;
    failed |= fclose(stdout) != 0;
    if (!failed)
        return STATUS_OK;
    return status_fail(
        STATUS_FAILED,
        "standard output: could not be written%s%s; what was printed there "
        "is lost or incomplete",
        errno ? ": " : "", errno ? strerror(errno) : "");
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, ""); // for the progress bar; numbers stay in the C locale
    // A file over the limit of `ulimit -f` is then an error with a sentence, not a death.
    signal(SIGXFSZ, SIG_IGN);
    keep_standard_numbers();
    enum status status = dispatch(argc, argv);
    if (status == STATUS_OK)
        status = close_standard_output();
    if (status != STATUS_OK && status_message()[0]) // "": it was printed before
        fprintf(stderr, "twinscale: %s\n", status_message());
    return status_exit_code(status);
}
