#include "app/input/picture.h"

#include <stdlib.h>

enum status picture_create(struct picture *picture, int width, int height, int channels)
{
    CHECK(width > 0 && height > 0 && channels >= 1 && channels <= 4, "%d x %d x %d",
          width, height, channels);
    *picture = (struct picture){.width = width, .height = height, .channels = channels};
    picture->pixels = calloc(picture_bytes(picture), 1);
    if (!picture->pixels)
        return status_fail(STATUS_FAILED, "no memory for an image of %d x %d pixels",
                           width, height);
    return STATUS_OK;
}

void picture_release(struct picture *picture)
{
    free(picture->pixels);
    *picture = (struct picture){0};
}

size_t picture_bytes(const struct picture *picture)
{
    return (size_t)picture->width * (size_t)picture->height * (size_t)picture->channels;
}

/* One pixel from `from_channels` to `to_channels`. */
static void convert_pixel(const uint8_t *from, int from_channels, uint8_t *to,
                          int to_channels)
{
    int from_is_colour = from_channels >= 3, to_is_colour = to_channels >= 3;
    int from_has_alpha = from_channels % 2 == 0, to_has_alpha = to_channels % 2 == 0;

    uint8_t colour[3];
    for (int c = 0; c < 3; c++)
        colour[c] = from[from_is_colour ? c : 0];
    uint8_t alpha = from_has_alpha ? from[from_channels - 1] : 255;
    if (from_has_alpha && !to_has_alpha)
        for (int c = 0; c < 3; c++)
            colour[c] = scale_by_alpha(colour[c], alpha);

    if (to_is_colour)
        for (int c = 0; c < 3; c++)
            to[c] = colour[c];
    else if (from_is_colour)
        to[0] = (uint8_t)((19595u * colour[0] + 38470u * colour[1] + 7471u * colour[2] +
                           32768u) >>
                          16);
    else
        to[0] = colour[0];
    if (to_has_alpha)
        to[to_channels - 1] = alpha;
}

enum status picture_set_channels(struct picture *picture, int channels)
{
    if (picture->channels == channels)
        return STATUS_OK;
    struct picture changed;
    TRY(picture_create(&changed, picture->width, picture->height, channels));
    size_t pixels = (size_t)picture->width * (size_t)picture->height;
    for (size_t i = 0; i < pixels; i++)
        convert_pixel(picture->pixels + i * (size_t)picture->channels, picture->channels,
                      changed.pixels + i * (size_t)channels, channels);
    picture_release(picture);
    *picture = changed;
    return STATUS_OK;
}
