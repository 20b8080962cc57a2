/* report_pictures.c - the PNG files of a run, and the samples that they and the window
 * show. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/input/batch.h"
#include "app/view/grid.h"
#include "app/report.h"
#include "kernels/base/process.h"

static void picture_failed(struct report *report)
{
    if (!report->had_picture_error)
        report_print(report,
                     "warning: %s (training goes on; this warning is not repeated)",
                     status_message());
    report->had_picture_error = 1;
}

void report_start_samples(struct report *report)
{
    struct trainer *trainer = report->trainer;
    struct sampler *sampler = &trainer->sampler;
    if (sampler->drawing)
        return;
    report->drawing_since = now_seconds();
    report->drawing_kimg = trainer_kimg(trainer);
    sampler_load(sampler, trainer->device, trainer->ema.average);
    sampler_start(sampler, report->seeds, report->tile_count);
    if (sampler_is_done(sampler))
        report_take_samples(report);
}

void report_take_samples(struct report *report)
{
    if (!report->trainer->sampler.drawing)
        return;
    if (sampler_finish(&report->trainer->sampler, report->tiles) != STATUS_OK)
        picture_failed(report);
    report->tiles_kimg = report->drawing_kimg;
    report->last_samples = now_seconds();
    report->sample_cost = report->last_samples - report->drawing_since;
    report_publish(report, report->tiles);
}

void report_draw_samples(struct report *report)
{
    report_take_samples(report); // of weights that are not the newest any more
    report_start_samples(report);
    report_take_samples(report);
}

static struct grid grid_of(const struct report *report, const uint8_t *pixels, int count)
{
    const struct trainer *trainer = report->trainer;
    return (struct grid){.pixels = pixels,
                         .count = count,
                         .h = trainer->config.resolution,
                         .w = trainer->config.resolution,
                         .channels = trainer->dataset->channels,
                         .columns = trainer->config.grid_columns};
}

void report_write_reals(struct report *report)
{
    const struct trainer *trainer = report->trainer;
    const struct dataset *dataset = trainer->dataset;
    size_t count = (size_t)report->tile_count < dataset->count
                       ? (size_t)report->tile_count
                       : dataset->count;
    size_t image_bytes = tensor_bytes(&trainer->sampler.pixels) / SAMPLER_BATCH;
    uint8_t *pixels = malloc(count * image_bytes);
    if (!pixels) {
        (void)memory_missing("reals.png: %zu images", count);
        picture_failed(report);
        return;
    }
    // What D sees first.
    enum status status =
        batch_first_images(dataset, (uint64_t)trainer->config.seed, count, pixels);
    char path[1024];
    struct grid grid = grid_of(report, pixels, (int)count);
    run_folder_file(report->folder, path, sizeof path, "reals.png");
    if (status == STATUS_OK)
        status = grid_write(&grid, path, 1);
    if (status != STATUS_OK)
        picture_failed(report);
    free(pixels);
}

enum status report_write_images(struct report *report, const size_t *images, size_t count,
                                const char *name)
{
    const struct dataset *dataset = report->trainer->dataset;
    size_t image = (size_t)dataset->resolution * (size_t)dataset->resolution *
                   (size_t)dataset->channels;
    uint8_t *pixels = malloc(count * image);
    char path[1024];
    if (!pixels)
        return status_fail(STATUS_FAILED, "%s: no memory for %zu images", name, count);
    for (size_t i = 0; i < count; i++)
        memcpy(pixels + i * image, dataset->pixels + images[i] * image, image);
    struct grid grid = grid_of(report, pixels, (int)count);
    enum status status = grid_write(
        &grid, run_folder_file(report->folder, path, sizeof path, "%s", name), 1);
    free(pixels);
    return status;
}

void report_write_samples(struct report *report, const char *name, char *path,
                          size_t bytes)
{
    char file[1024], kimg[32], seeds[32], kept[1100] = "";
    run_folder_file(report->folder, file, sizeof file, "%s", name);
    snprintf(kimg, sizeof kimg, "%.3f", report->tiles_kimg);
    snprintf(seeds, sizeof seeds, "0-%d", report->tile_count - 1);
    const struct png_text texts[] = {{"Software", "twinscale " TWINSCALE_VERSION},
                                     {"twinscale:kimg", kimg},
                                     {"twinscale:seeds", seeds}};
    struct grid grid = grid_of(report, report->tiles, report->tile_count);
    grid.texts = texts;
    grid.text_count = 3;
    if (grid_write_keeping(&grid, file, kept, sizeof kept) != STATUS_OK)
        picture_failed(report);
    else if (path)
        snprintf(path, bytes, "%s", file);
    if (kept[0])
        report_print(report, "%s is drawn again: the older one is kept as %s", name,
                     strrchr(kept, '/') + 1);
}

void report_write_pictures(struct report *report)
{
    char path[1024];
    struct monitor_view view = {0};
    monitor_read(report->monitor, &view);
    view.dashboard.hover_x = view.dashboard.hover_y = -1;
    enum status status = dashboard_write_scales(
        &view.dashboard,
        run_folder_file(report->folder, path, sizeof path, "scales.png"));
    if (status == STATUS_OK && view.layers.column_count + view.layers.skip_count > 0)
        status = dashboard_write_layers(
            &view.dashboard,
            run_folder_file(report->folder, path, sizeof path, "stats.png"));
    if (status == STATUS_OK && report_draws_preview(report))
        status = dashboard_write_png(
            &view.dashboard,
            run_folder_file(report->folder, path, sizeof path, "preview.png"));
    if (status != STATUS_OK)
        picture_failed(report);
    monitor_view_release(&view);
}
