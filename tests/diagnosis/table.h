/* table.h - precision and recall of each cause, from lines of results.
 * Flow:  measure.c counts pairs -> RESULTS.jsonl -> [table_print] -> README.md, exit
 * code.
 * Owns:  nothing. */
#ifndef TESTS_DIAGNOSIS_TABLE_H
#define TESTS_DIAGNOSIS_TABLE_H

#include <jansson.h>

/* The objects of a file of JSON lines; an empty array where there is no file. The caller
 * frees. */
json_t *table_read(const char *path);

/* Prints the table of planted or of natural skips. True when all that is said is right in
 * at least 95 % of the cases. */
int table_print(json_t *lines, int is_planted);

#endif
