#include "kernels/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Thread_local char message[1024];

enum status status_fail(enum status code, const char *format, ...)
{
    // Formatted beside the old message first, so that it may be one of the arguments.
    char fresh[sizeof message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fresh, sizeof fresh, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "%s", fresh);
    return code;
}

const char *status_message(void)
{
    return message;
}

int status_exit_code(enum status code)
{
    static const int exit_codes[] = {
#define X(name, exit_code, word) exit_code,
        STATUS_TABLE(X)
#undef X
    };
    return exit_codes[code];
}

enum status memory_missing(const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return status_fail(STATUS_FAILED,
                       "out of memory for %s; free some, or raise the limit (ulimit -v)",
                       what);
}

void memory_failed(const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    fprintf(stderr,
            "twinscale: out of memory for %s; free some, or raise the limit (ulimit -v); "
            "every snapshot that was saved is good\n",
            what);
    _exit(status_exit_code(STATUS_FAILED));
}

void check_failed(const char *file, int line, const char *claim, const char *format, ...)
{
    fprintf(stderr, "%s:%d: not true: %s", file, line, claim);
    if (format[1]) { // CHECK puts a space first, since the format is optional
        va_list arguments;
        va_start(arguments, format);
        fputs(" (", stderr);
        vfprintf(stderr, format + 1, arguments);
        fputs(")", stderr);
        va_end(arguments);
    }
    fputs("\n", stderr);
    abort();
}
