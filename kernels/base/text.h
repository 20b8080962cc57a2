/* text.h - quantities as people read them.
 * Owns:  nothing: each writes into `text` and returns it. */
#ifndef KERNELS_BASE_TEXT_H
#define KERNELS_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* "45s", "2m 03s", "1h 38m 21s", "3d 04h"; "?" for a NaN, an infinity or a negative. */
const char *duration_text(double seconds, char *text, size_t bytes);
/* "2^16" for a power of two, else "%.4g". */
const char *scale_text(float scale, char *text, size_t bytes);
/* "1,234,567". */
const char *count_text(int64_t count, char *text, size_t bytes);
/* Images per second: "1,234", below 100 one decimal; "?" unless finite. */
const char *rate_text(double rate, char *text, size_t bytes);

#endif
