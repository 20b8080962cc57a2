/* nearest.h - the known word that a mistyped one most likely meant.
 * Flow:  unknown setting, preset or choice -> [nearest_word] -> "did you mean ...?"
 * Owns:  nothing. */
#ifndef APP_CONFIG_NEAREST_H
#define APP_CONFIG_NEAREST_H

/* Edits from `a` to `b`: inserting, deleting or replacing a byte, or swapping two
 * neighbours. Letters' case and '-' against '_' cost nothing. Words beyond 63 bytes count
 * as far from everything (INT_MAX). Source: Damerau 1964, CACM 7(3); the restricted form,
 * where no swapped pair is edited again. */
int edit_distance(const char *a, const char *b);

/* The nearest of words[0..count), or NULL when even that one is too far to be meant: more
 * than a third of the longer word (but one edit always counts, and so does a beginning of
 * three letters). Ties go to the earlier word. */
const char *nearest_word(const char *word, const char *const *words, int count);

#endif
