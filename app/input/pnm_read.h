/* pnm_read.h - a PBM, PGM or PPM file in memory becomes a picture.
 * Flow:  bytes of a file -> [pnm_read] -> picture.
 * Owns:  nothing between calls; may be called from several threads at once.
 *
 * P1 to P6: black and white, grey or RGB, in text or bytes, of up to 16 bit. A value v of
 * a file with maximum m becomes 255 v / m, rounded. Of several pictures in a file the
 * first counts. Source: the man pages pbm(5), pgm(5) and ppm(5) of Netpbm. */
#ifndef APP_INPUT_PNM_READ_H
#define APP_INPUT_PNM_READ_H

#include "app/input/picture.h"

/* True when the bytes begin with P1 to P6 and then a number, maybe after comments. */
int is_pnm(const uint8_t *bytes, size_t size);

/* As picture_from_png(). */
enum status picture_from_pnm(const uint8_t *bytes, size_t size, struct picture *picture);

#endif
