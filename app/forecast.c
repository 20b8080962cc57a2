#include "app/forecast.h"

#include <math.h>

#include "app/output/progress.h"
#include "app/rehearsal.h"

#define SURE_SEC 2.0 // of a step: what warms up is little beside it

static void check_nothing(struct trainer *trainer, int network, void *context)
{
    (void)trainer, (void)network, (void)context;
}

static double time_rehearsal(struct rehearsal *rehearsal)
{
    struct device *device = rehearsal->trainer->device;
    device->ops->memory.wait(device);
    double started = now_seconds();
    rehearsal_take(rehearsal, check_nothing, NULL);
    device->ops->memory.wait(device);
    return now_seconds() - started;
}

double forecast_rest(const struct trainer *trainer, double sec_per_image)
{
    double images = trainer->config.kimg * 1000.0 - (double)trainer->progress.images;
    return fmax(images, 0.0) * sec_per_image;
}

enum status forecast(struct trainer *trainer, double *sec_per_image)
{
    struct rehearsal rehearsal;
    double images = (double)config_step_images(&trainer->config);
    enum status status = rehearsal_open(&rehearsal, trainer);
    if (status != STATUS_OK) {
        rehearsal_close(&rehearsal);
        return status;
    }
    double sec = time_rehearsal(&rehearsal);
    // Ranks have to agree, whatever each has measured.
    int is_short = forecast_rest(trainer, sec / images) < FORECAST_LONG_SEC;
    if (trainer->device->world > 1 || (!is_short && sec < SURE_SEC))
        sec = fmin(sec, time_rehearsal(&rehearsal));
    *sec_per_image = sec / images;
    return rehearsal_close(&rehearsal);
}
