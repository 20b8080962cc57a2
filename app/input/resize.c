#include "app/input/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Weights are fixed point. The weights of one output add up to 1 and their absolute
// values to less than 1.6, so that a sum over bytes stays under 255 * 1.6 * 2^22 < 2^31.
#define WEIGHT_BITS 22

/* For each of `outputs` positions: the first input, how many, and their weights. */
struct taps {
    int outputs, room; // room: the most inputs one output has
    int *first, *count;
    int32_t *weights; // [outputs, room]
};

static double sinc(double x)
{
    return x == 0 ? 1 : sin(x * M_PI) / (x * M_PI);
}

static double filter_value(enum resize_filter filter, double x)
{
    if (filter == RESIZE_AREA)
        return x > -0.5 && x <= 0.5;
    return fabs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static void taps_release(struct taps *taps)
{
    free(taps->first);
    free(taps->count);
    free(taps->weights);
    *taps = (struct taps){0};
}

/* Fills the weights of one output, centred at `centre`, `stretch` inputs to a filter
 * unit. */
static void taps_fill(struct taps *taps, int output, int inputs, double centre,
                      double stretch, enum resize_filter filter, double *values)
{
    double reach = stretch * (filter == RESIZE_AREA ? 0.5 : 3);
    int first = (int)fmax(centre - reach + 0.5, 0);
    int end = (int)fmin(centre + reach + 0.5, inputs);
    if (end <= first) { // rounding at the very border
        first = first < inputs ? first : inputs - 1;
        end = first + 1;
    }
    double total = 0;
    for (int i = first; i < end; i++)
        total += values[i - first] =
            filter_value(filter, (i - centre + 0.5) * (1 / stretch));
    if (total == 0)
        total = values[0] = 1;

    int32_t *weights = taps->weights + (size_t)output * (size_t)taps->room;
    for (int i = 0; i < end - first; i++)
        weights[i] = (int32_t)lround(values[i] * (1 / total) * (1 << WEIGHT_BITS));
    taps->first[output] = first;
    taps->count[output] = end - first;
}

/* The part [start, start + length) of `inputs` samples spread over `outputs`. */
static enum status taps_create(struct taps *taps, int inputs, double start, double length,
                               int outputs, enum resize_filter filter)
{
    double ratio = length / outputs;
    double stretch = fmax(ratio, 1);
    int room = (int)ceil(stretch * 3) * 2 + 2;
    *taps = (struct taps){.outputs = outputs, .room = room};
    taps->first = calloc((size_t)outputs, sizeof *taps->first);
    taps->count = calloc((size_t)outputs, sizeof *taps->count);
    taps->weights = calloc((size_t)outputs * (size_t)room, sizeof *taps->weights);
    double *values = calloc((size_t)room, sizeof *values);
    if (!taps->first || !taps->count || !taps->weights || !values) {
        taps_release(taps);
        free(values);
        return status_fail(STATUS_FAILED, "no memory to resize an image");
    }
    for (int j = 0; j < outputs; j++)
        taps_fill(taps, j, inputs, start + (j + 0.5) * ratio, stretch, filter, values);
    free(values);
    return STATUS_OK;
}

static uint8_t to_byte(int32_t sum)
{
    int32_t value = sum >> WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* One row, with the number of channels known to the compiler. */
static inline __attribute__((always_inline)) void
resize_row(const uint8_t *from, const struct taps *taps, uint8_t *to, const int channels)
{
    for (int x = 0; x < taps->outputs; x++) {
        const int32_t *weights = taps->weights + (size_t)x * (size_t)taps->room;
        const uint8_t *input = from + (size_t)taps->first[x] * (size_t)channels;
        int32_t sums[4];
        for (int c = 0; c < channels; c++)
            sums[c] = 1 << (WEIGHT_BITS - 1);
        for (int i = 0; i < taps->count[x]; i++)
            for (int c = 0; c < channels; c++)
                sums[c] += weights[i] * input[i * channels + c];
        for (int c = 0; c < channels; c++)
            *to++ = to_byte(sums[c]);
    }
}

static void resize_rows(const struct picture *from, const struct taps *taps,
                        int first_row, struct picture *to)
{
    size_t from_row = (size_t)from->width * (size_t)from->channels;
    size_t to_row = (size_t)to->width * (size_t)to->channels;
    for (int y = 0; y < to->height; y++) {
        const uint8_t *input = from->pixels + (size_t)(first_row + y) * from_row;
        uint8_t *output = to->pixels + (size_t)y * to_row;
        switch (from->channels) {
        case 1: resize_row(input, taps, output, 1); break;
        case 2: resize_row(input, taps, output, 2); break;
        case 3: resize_row(input, taps, output, 3); break;
        default: resize_row(input, taps, output, 4);
        }
    }
}

/* `from` begins at row `first_row` of the picture that the taps speak of. */
static void resize_columns(const struct picture *from, const struct taps *taps,
                           int first_row, int32_t *sums, struct picture *to)
{
    size_t row = (size_t)to->width * (size_t)to->channels;
    for (int y = 0; y < taps->outputs; y++) {
        const int32_t *weights = taps->weights + (size_t)y * (size_t)taps->room;
        for (size_t i = 0; i < row; i++)
            sums[i] = 1 << (WEIGHT_BITS - 1);
        for (int k = 0; k < taps->count[y]; k++) {
            const uint8_t *input =
                from->pixels + (size_t)(taps->first[y] - first_row + k) * row;
            for (size_t i = 0; i < row; i++)
                sums[i] += weights[k] * input[i];
        }
        for (size_t i = 0; i < row; i++)
            to->pixels[(size_t)y * row + i] = to_byte(sums[i]);
    }
}

/* Colours times alpha, so that the colour of a clear pixel weighs nothing. */
static enum status premultiplied(const struct picture *from, struct picture *to)
{
    TRY(picture_create(to, from->width, from->height, from->channels));
    size_t channels = (size_t)from->channels;
    for (size_t i = 0; i < picture_bytes(from); i += channels) {
        uint8_t alpha = from->pixels[i + channels - 1];
        for (size_t c = 0; c + 1 < channels; c++)
            to->pixels[i + c] = scale_by_alpha(from->pixels[i + c], alpha);
        to->pixels[i + channels - 1] = alpha;
    }
    return STATUS_OK;
}

static void divide_by_alpha(struct picture *picture)
{
    size_t channels = (size_t)picture->channels;
    for (size_t i = 0; i < picture_bytes(picture); i += channels) {
        unsigned alpha = picture->pixels[i + channels - 1];
        if (alpha == 0 || alpha == 255)
            continue;
        for (size_t c = 0; c + 1 < channels; c++) {
            unsigned value = 255u * picture->pixels[i + c] / alpha;
            picture->pixels[i + c] = (uint8_t)(value > 255 ? 255 : value);
        }
    }
}

/* The two passes. Only the rows that the second one reads are made by the first. */
static enum status resample(const struct picture *from, struct resize_box box,
                            enum resize_filter filter, struct picture *to)
{
    struct taps across = {0}, down = {0};
    struct picture middle = {0};
    int32_t *sums = NULL;
    enum status status =
        taps_create(&across, from->width, box.x, box.width, to->width, filter);
    if (status == STATUS_OK)
        status = taps_create(&down, from->height, box.y, box.height, to->height, filter);
    if (status != STATUS_OK)
        goto done;

    int first_row = down.first[0];
    int end_row = down.first[to->height - 1] + down.count[to->height - 1];
    status = picture_create(&middle, to->width, end_row - first_row, to->channels);
    if (status != STATUS_OK)
        goto done;
    sums = malloc((size_t)to->width * (size_t)to->channels * sizeof *sums);
    if (!sums) {
        status = status_fail(STATUS_FAILED, "no memory to resize an image");
        goto done;
    }
    resize_rows(from, &across, first_row, &middle);
    resize_columns(&middle, &down, first_row, sums, to);
done:
    free(sums);
    picture_release(&middle);
    taps_release(&down);
    taps_release(&across);
    return status;
}

enum status resize_picture(const struct picture *from, struct resize_box box,
                           enum resize_filter filter, struct picture *to)
{
    CHECK(from->channels == to->channels, "%d and %d", from->channels, to->channels);
    CHECK(box.x >= 0 && box.y >= 0 && box.width > 0 && box.height > 0 &&
              box.x + box.width <= from->width && box.y + box.height <= from->height,
          "%g,%g %gx%g of %dx%d", box.x, box.y, box.width, box.height, from->width,
          from->height);
    if (from->channels % 2 == 1)
        return resample(from, box, filter, to);

    struct picture weighted;
    TRY(premultiplied(from, &weighted));
    enum status status = resample(&weighted, box, filter, to);
    picture_release(&weighted);
    if (status == STATUS_OK)
        divide_by_alpha(to);
    return status;
}

/* The middle square of the picture. It begins at a whole pixel, so that a picture whose
 * short side has the wanted size already is cut, not blurred. */
static struct resize_box middle_box(const struct picture *picture)
{
    int side = picture->width < picture->height ? picture->width : picture->height;
    return (struct resize_box){(picture->width - side) / 2, (picture->height - side) / 2,
                               side, side};
}

/* Scales the long side and puts the result in the middle of a black square. */
static enum status pad(const struct picture *from, int resolution,
                       enum resize_filter filter, uint8_t *square)
{
    double side = fmax(from->width, from->height);
    int width = (int)fmax(rint(from->width / side * resolution), 1);
    int height = (int)fmax(rint(from->height / side * resolution), 1);
    int left = (int)rint((resolution - width) * 0.5);
    int top = (int)rint((resolution - height) * 0.5);

    struct picture scaled;
    TRY(picture_create(&scaled, width, height, from->channels));
    struct resize_box whole = {0, 0, from->width, from->height};
    enum status status = STATUS_OK;
    if (width == from->width && height == from->height)
        memcpy(scaled.pixels, from->pixels, picture_bytes(from));
    else
        status = resize_picture(from, whole, filter, &scaled);

    size_t channels = (size_t)from->channels, row = (size_t)resolution * channels;
    memset(square, 0, row * (size_t)resolution);
    for (int y = 0; y < height; y++)
        memcpy(square + (size_t)(top + y) * row + (size_t)left * channels,
               scaled.pixels + (size_t)(y * width) * channels, (size_t)width * channels);
    picture_release(&scaled);
    return status;
}

enum status resize_to_square(const struct picture *from, int resolution, enum fit fit,
                             enum resize_filter filter, uint8_t *square)
{
    if (from->width == resolution && from->height == resolution) {
        memcpy(square, from->pixels, picture_bytes(from));
        return STATUS_OK;
    }
    if (fit == FIT_PAD)
        return pad(from, resolution, filter, square);

    struct resize_box whole = {0, 0, from->width, from->height};
    struct resize_box box = fit == FIT_CROP ? middle_box(from) : whole;
    struct picture to = {resolution, resolution, from->channels, square};
    return resize_picture(from, box, filter, &to);
}
