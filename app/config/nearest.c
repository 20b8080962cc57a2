#include "app/config/nearest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#define WORD_MAX 63

static int folded(char letter)
{
    return letter == '_' ? '-' : tolower((unsigned char)letter);
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

int edit_distance(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > WORD_MAX || b_length > WORD_MAX)
        return INT_MAX;

    // cost[i][j]: edits from the first i letters of a to the first j letters of b.
    int cost[WORD_MAX + 1][WORD_MAX + 1];
    for (size_t i = 0; i <= a_length; i++)
        cost[i][0] = (int)i;
    for (size_t j = 0; j <= b_length; j++)
        cost[0][j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        for (size_t j = 1; j <= b_length; j++) {
            int differs = folded(a[i - 1]) != folded(b[j - 1]);
            int best = smaller(cost[i - 1][j], cost[i][j - 1]) + 1;
            best = smaller(best, cost[i - 1][j - 1] + differs);
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1]))
                best = smaller(best, cost[i - 2][j - 2] + 1);
            cost[i][j] = best;
        }
    }
    return cost[a_length][b_length];
}

/* "res" for "resume", "outdir" for "out": one is the beginning of the other. */
static int is_beginning(const char *a, const char *b)
{
    size_t length = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    return length >= 3 && strncasecmp(a, b, length) == 0;
}

const char *nearest_word(const char *word, const char *const *words, int count)
{
    const char *nearest = NULL;
    int least = INT_MAX;
    for (int i = 0; i < count; i++) {
        int distance = edit_distance(word, words[i]);
        size_t longer = strlen(word) > strlen(words[i]) ? strlen(word) : strlen(words[i]);
        int allowed = longer / 3 > 1 ? (int)(longer / 3) : 1;
        int is_near = distance <= allowed || is_beginning(word, words[i]);
        if (is_near && distance < least) {
            least = distance;
            nearest = words[i];
        }
    }
    return nearest;
}
