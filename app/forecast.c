#include "app/forecast.h"

#include <math.h>

#include "kernels/base/process.h"
#include "app/train/rehearsal.h"

#define SURE_SEC 0.5 // of a step: what warms up is little beside it

// When the passes of each network had ended.
struct ends {
    double of[ROLES];
};

static void note_end(struct trainer *trainer, int network, void *context)
{
    struct ends *ends = context;
    trainer->device->ops->memory.wait(trainer->device);
    ends->of[network] = now_seconds();
}

// Of a whole step: one of D's turns is like the others.
static double time_rehearsal(struct rehearsal *rehearsal)
{
    struct trainer *trainer = rehearsal->trainer;
    struct ends ends;
    trainer->device->ops->memory.wait(trainer->device);
    double started = now_seconds();
    rehearsal_take(rehearsal, 1, note_end, &ends);
    return trainer->config.n_dis * (ends.of[ROLE_D] - started) + ends.of[ROLE_G] -
           ends.of[ROLE_D];
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
    *sec_per_image = 0.0;
    if (forecast_rest(trainer, 1.0) == 0.0)
        return STATUS_OK;
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
