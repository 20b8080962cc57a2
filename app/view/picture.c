#include "app/view/picture.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "app/view/grid.h"

/* What cairo, FreeType and Fontconfig take at most for a picture, with the fonts that the
 * first one loads. They crash where they get no memory, and a picture is not worth a run:
 * so it is looked for before they are called. */
#define DRAWING_BYTES ((size_t)64 << 20)

static int has_room_to_draw(void)
{
    void *room = mmap(NULL, DRAWING_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room != MAP_FAILED && munmap(room, DRAWING_BYTES) == 0;
}

enum status picture_pixels(const char *path, int width, int height, uint32_t **pixels)
{
    *pixels = NULL;
    if (has_room_to_draw())
        *pixels = malloc(sizeof **pixels * (size_t)width * (size_t)height);
    if (!*pixels)
        return status_fail(STATUS_FAILED,
                           "%s: not drawn: out of memory for a picture of %dx%d pixels",
                           path, width, height);
    return STATUS_OK;
}

void picture_open(struct canvas *canvas, uint32_t *pixels, int width, int height,
                  int stride, double scale)
{
    cairo_surface_t *surface = cairo_image_surface_create_for_data(
        (unsigned char *)pixels, CAIRO_FORMAT_RGB24, width, height, stride);
    canvas->cairo = cairo_create(surface);
    cairo_surface_destroy(surface); // cairo keeps it
    canvas->scale = scale;
    canvas->width = width / scale;
    canvas->height = height / scale;
    // Letters keep their widths at every scale, so that a layout holds for all sizes.
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_SLIGHT);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(canvas->cairo, options);
    cairo_font_options_destroy(options);
    cairo_scale(canvas->cairo, scale, scale);
    canvas_fill(canvas, (struct area){0.0, 0.0, canvas->width, canvas->height},
                INK_BACKGROUND);
}

void picture_close(struct canvas *canvas)
{
    cairo_surface_flush(cairo_get_target(canvas->cairo));
    cairo_destroy(canvas->cairo);
    canvas->cairo = NULL;
}

enum status picture_write(const char *path, const uint32_t *pixels, int width, int height)
{
    const size_t count = (size_t)width * (size_t)height;
    uint8_t *rgb = malloc(3 * count);
    if (!rgb)
        return status_fail(STATUS_FAILED, "%s: no memory for a picture of %dx%d pixels",
                           path, width, height);
    for (size_t i = 0; i < count; i++) {
        rgb[3 * i] = (uint8_t)(pixels[i] >> 16 & 255);
        rgb[3 * i + 1] = (uint8_t)(pixels[i] >> 8 & 255);
        rgb[3 * i + 2] = (uint8_t)(pixels[i] & 255);
    }
    const struct png_text text = {"Software", "twinscale " TWINSCALE_VERSION};
    const enum status status = png_write(path, rgb, width, height, 3, &text, 1);
    free(rgb);
    return status;
}
