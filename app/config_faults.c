/* config_faults.c - reads --inject: faults to plant. */
#include <stdint.h>
#include <string.h>

#include "app/config.h"
#include "app/number.h"

/* Reads digits at *text and moves it past them. */
static int read_step(const char **text, int64_t *step)
{
    char digits[20];
    size_t length = strspn(*text, "0123456789");
    if (length == 0 || length >= sizeof digits)
        return 0;
    memcpy(digits, *text, length);
    digits[length] = '\0';
    *text += length;
    return number_read_whole(digits, step) == NUMBER_OK;
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

static int read_fault(const char *text, struct planted_fault *fault)
{
    if ((text[0] != 'g' && text[0] != 'd') || text[1] != ':')
        return 0;
    fault->is_in_d = text[0] == 'd';
    text += 2;
    if (!read_step(&text, &fault->first))
        return 0;
    fault->last = fault->first;
    if (*text == '-') {
        text++;
        fault->last = INT64_MAX;
        if (*text != ':' && !read_step(&text, &fault->last))
            return 0;
    }
    return *text == ':' && read_kind(text + 1, &fault->kind) && fault->first >= 1 &&
           fault->last >= fault->first;
}

int config_read_faults(const char *text, struct planted_fault faults[FAULTS_MAX])
{
    char words[sizeof((struct config *)0)->inject];
    size_t length = strnlen(text, sizeof words - 1);
    memcpy(words, text, length);
    words[length] = '\0';
    char *rest = words;
    int count = 0;
    for (char *word; (word = strsep(&rest, ","));)
        if (count == FAULTS_MAX || !read_fault(word, &faults[count++]))
            return 0;
    return count;
}
