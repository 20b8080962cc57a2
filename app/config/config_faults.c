/* config_faults.c - reads --inject: faults to plant. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app/config/config.h"
#include "app/config/number.h"

static enum status refuse(const char *fault)
{
    return status_fail(
        STATUS_USAGE,
        "--inject: \"%s\" is not a fault; give network, steps (the first is 1) and one "
        "of inf, nan, nan-forward, huge-activation and bad-weight, such as d:10-40:inf "
        "or d:10-:nan; at most %d with commas between",
        fault, FAULTS_MAX);
}

/* Reads digits at *text and moves it past them. */
static enum status read_step(const char *fault, const char **text, int64_t *step)
{
    char digits[64];
    size_t length = strspn(*text, "0123456789");
    if (length == 0)
        return refuse(fault);
    snprintf(digits, sizeof digits, "%.*s", (int)length, *text);
    if (number_read_whole(digits, step) != NUMBER_OK || *step < 1 || *step == INT64_MAX)
        return status_fail(
            STATUS_USAGE,
            "--inject: \"%s\": the step %s is out of range; steps are 1 to "
            "%" PRId64,
            fault, digits, INT64_MAX - 1);
    *text += length;
    return STATUS_OK;
}

// The rest of a fault, after its last colon.
static int read_kind(const char *text, enum fault_kind *kind)
{
    static const char *const words[] = {[FAULT_INF] = "inf",
                                        [FAULT_NAN] = "nan",
                                        [FAULT_NAN_FORWARD] = "nan-forward",
                                        [FAULT_HUGE_ACTIVATION] = "huge-activation",
                                        [FAULT_BAD_WEIGHT] = "bad-weight"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) {
            *kind = (enum fault_kind)i;
            return 1;
        }
    return 0;
}

static enum status read_fault(const char *word, struct planted_fault *fault)
{
    const char *text = word;
    if ((text[0] != 'g' && text[0] != 'd') || text[1] != ':')
        return refuse(word);
    fault->is_in_d = text[0] == 'd';
    text += 2;
    TRY(read_step(word, &text, &fault->first));
    fault->last = fault->first;
    if (*text == '-') {
        text++;
        fault->last = INT64_MAX;
        if (*text != ':')
            TRY(read_step(word, &text, &fault->last));
    }
    if (*text != ':' || !read_kind(text + 1, &fault->kind))
        return refuse(word);
    if (fault->last < fault->first)
        return status_fail(STATUS_USAGE,
                           "--inject: \"%s\": its steps run backwards; give the smaller "
                           "first",
                           word);
    return STATUS_OK;
}

enum status config_read_faults(const char *text, struct planted_fault faults[FAULTS_MAX],
                               int *count)
{
    char words[sizeof((struct config *)0)->inject];
    *count = 0;
    snprintf(words, sizeof words, "%s", text);
    char *rest = text[0] ? words : NULL;
    for (char *word; (word = strsep(&rest, ","));) {
        if (*count == FAULTS_MAX)
            return status_fail(STATUS_USAGE, "--inject: more than %d faults; give fewer",
                               FAULTS_MAX);
        TRY(read_fault(word, &faults[*count]));
        *count += 1;
    }
    return STATUS_OK;
}
