/* readers.h - the formats of pictures that are read.
 * Flow:  the first bytes of a file -> [reader_of] -> its reader -> picture.
 * Owns:  nothing.
 *
 * A new format is a file with its two functions and a row here: folders, single files,
 * --help and messages go through the list. */
#ifndef APP_INPUT_READERS_H
#define APP_INPUT_READERS_H

#include "app/input/png_read.h"
#include "app/input/pnm_read.h"

/* X(name, begins, read); a file is of the first format that its bytes begin as. */
#define READERS(X)                   \
    X(PNG, is_png, picture_from_png) \
    X(PNM, is_pnm, picture_from_pnm)

struct reader {
    const char *name;
    int (*begins)(const uint8_t *bytes, size_t size);
    /* STATUS_DATA with the reason alone, without a path. */
    enum status (*read)(const uint8_t *bytes, size_t size, struct picture *picture);
};

/* NULL where the bytes begin as no format that is read. */
const struct reader *reader_of(const uint8_t *head, size_t size);

/* "PNG or PNM". */
const char *reader_names(void);

#endif
