/* number.h - numbers from text and to text, the same in every locale.
 * Flow:  flags and JSON -> [number_read] -> config;  config -> [number_text] -> JSON,
 * help. Owns:  nothing. */
#ifndef APP_CONFIG_NUMBER_H
#define APP_CONFIG_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* How text failed to be the number asked for. */
enum number_error { NUMBER_OK, NUMBER_NOT_A_NUMBER, NUMBER_NOT_WHOLE, NUMBER_TOO_LARGE };

/* Decimal text with '.', as a whole: "3", "-2.5", "1e-4". Refuses what strtod() also
 * takes: blanks, hexadecimal, inf, nan. */
enum number_error number_read(const char *text, double *value);

/* A whole number. Forms such as "2e5" are taken where they are exact (up to 2^53). */
enum number_error number_read_whole(const char *text, int64_t *value);

/* "8x4" as {8, 4}. NUMBER_NOT_A_NUMBER where it is not two whole numbers with an x. */
enum number_error number_read_grid(const char *text, int64_t sides[2]);

/* What went wrong in words, as they follow the text in a message: "is not a whole
 * number". Of NUMBER_OK, which a caller found outside of its range: "is out of range". */
const char *number_problem(enum number_error error);

/* The shortest text that number_read() turns back into `value`, which is finite:
 * "0.0002", "65536", "1e-8". Returns `text`. */
#define NUMBER_TEXT 32
const char *number_text(double value, char text[NUMBER_TEXT]);

#endif
