#include "app/input/pnm_read.h"

#include <ctype.h>
#include <string.h>

#define SIDE_MAX (1 << 20)

struct pnm {
    const uint8_t *at, *end;
    int is_text, is_bitmap, channels;
    int width, height, max;
};

// White space, and comments: from # to the end of the line.
static void skip_space(struct pnm *file)
{
    while (file->at < file->end && (isspace(*file->at) || *file->at == '#')) {
        if (*file->at == '#')
            while (file->at < file->end && *file->at != '\n' && *file->at != '\r')
                file->at++;
        else
            file->at++;
    }
}

static int begins(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
           (isspace(bytes[2]) || bytes[2] == '#');
}

int is_pnm(const uint8_t *bytes, size_t size)
{
    if (!begins(bytes, size))
        return 0;
    struct pnm file = {.at = bytes + 2, .end = bytes + size};
    skip_space(&file);
    // A comment may be longer than what was read of the file.
    return file.at == file.end || isdigit(*file.at);
}

// A number from 1 to `max`; 0 where there is none.
static int take_size(struct pnm *file, int max)
{
    int number = 0;
    skip_space(file);
    while (file->at < file->end && isdigit(*file->at) && number <= max)
        number = 10 * number + (*file->at++ - '0');
    return number <= max ? number : 0;
}

static enum status take_header(struct pnm *file)
{
    int kind = file->at[1] - '1';
    file->at += 2;
    file->is_text = kind < 3;
    file->is_bitmap = kind % 3 == 0;
    file->channels = kind % 3 == 2 ? 3 : 1;
    file->width = take_size(file, SIDE_MAX);
    file->height = take_size(file, SIDE_MAX);
    file->max = file->is_bitmap ? 1 : take_size(file, 65535);
    if (!file->width || !file->height || !file->max)
        return status_fail(STATUS_DATA,
                           "damaged PNM (width, height and maximum have to be 1 to %d, 1 "
                           "to %d and 1 to 65535)",
                           SIDE_MAX, SIDE_MAX);
    if (file->at < file->end)
        file->at++; // one white space; what follows is pixels
    size_t samples = (size_t)file->width * (size_t)file->channels;
    if (samples > PICTURE_BYTES_MAX / (size_t)file->height)
        return status_fail(STATUS_DATA, "%d x %d pixels need more than %zu MB",
                           file->width, file->height, PICTURE_BYTES_MAX >> 20);
    return STATUS_OK;
}

/* ---- samples --------------------------------------------------------------------- */

// Each returns the next sample, or -1 where the file ends.

static int next_in_text(struct pnm *file)
{
    int value = 0;
    skip_space(file);
    if (file->at == file->end || !isdigit(*file->at))
        return -1;
    if (file->is_bitmap) // digits may stand without space between them
        return *file->at++ - '0';
    while (file->at < file->end && isdigit(*file->at) && value <= file->max)
        value = 10 * value + (*file->at++ - '0');
    return value;
}

static int next_in_bytes(struct pnm *file)
{
    size_t bytes = file->max > 255 ? 2 : 1;
    if ((size_t)(file->end - file->at) < bytes)
        return -1;
    int value = file->at[0];
    if (bytes == 2)
        value = value << 8 | file->at[1];
    file->at += bytes;
    return value;
}

// Bit x of a row that begins at `at`.
static int next_bit(struct pnm *file, int x)
{
    if (file->at == file->end)
        return -1;
    int bit = *file->at >> (7 - x % 8) & 1;
    if (x % 8 == 7 || x == file->width - 1)
        file->at++;
    return bit;
}

static int next_sample(struct pnm *file, int x)
{
    if (file->is_text)
        return next_in_text(file);
    return file->is_bitmap ? next_bit(file, x) : next_in_bytes(file);
}

static enum status take_pixels(struct pnm *file, struct picture *picture)
{
    uint8_t *to = picture->pixels;
    int samples = file->width * file->channels;
    for (int y = 0; y < file->height; y++)
        for (int x = 0; x < samples; x++) {
            int value = next_sample(file, x);
            if (value < 0)
                return status_fail(STATUS_DATA, "damaged PNM (the file ends early)");
            if (value > file->max)
                return status_fail(STATUS_DATA,
                                   "damaged PNM (a value above its maximum, %d)",
                                   file->max);
            int shade = (255 * value + file->max / 2) / file->max;
            *to++ = (uint8_t)(file->is_bitmap ? 255 - shade : shade); // 1 is black
        }
    return STATUS_OK;
}

enum status picture_from_pnm(const uint8_t *bytes, size_t size, struct picture *picture)
{
    *picture = (struct picture){0};
    if (!begins(bytes, size))
        return status_fail(STATUS_DATA, "not a PNM: it does not begin with P1 to P6");
    struct pnm file = {.at = bytes, .end = bytes + size};
    TRY(take_header(&file));
    TRY(picture_create(picture, file.width, file.height, file.channels));
    enum status status = take_pixels(&file, picture);
    if (status != STATUS_OK)
        picture_release(picture);
    return status;
}
