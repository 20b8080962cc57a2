/* forecast.h - how long a run will take on this machine, before its first step.
 * Flow:  trainer_start_data() -> [forecast] -> the head of the log, the first tick's ETA.
 * Owns:  nothing. */
#ifndef APP_FORECAST_H
#define APP_FORECAST_H

#include "app/train/trainer.h"

#define FORECAST_LONG_SEC 3600.0 // a run that takes longer is told so at its head

/* Seconds for each image, from rehearsals of the next step (rehearsal.h): all but the
 * optimizers, which take few percent, and with one of D's turns for all. One where its
 * time is enough to know that the rest of the run is short, or is long in itself; else a
 * second one, since the first warms caches. 0 where nothing is left to train. On several
 * devices every rank has to call it. */
enum status forecast(struct trainer *trainer, double *sec_per_image);

/* Seconds for the images that are left. */
double forecast_rest(const struct trainer *trainer, double sec_per_image);

#endif
