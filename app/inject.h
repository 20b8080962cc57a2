/* inject.h - plants a fault, so that a run can show what an overflow does.
 * Flow:  [inject_prepare] -> backward -> [inject_fault] -> scaler's check.
 *
 * `--inject d:10-40:inf` adds an inf (or nan) to the first gradient of D in steps 10 to 40
 * (the first step is 1; "d:10-:nan" has no end); on several devices, on the last one only,
 * so that it shows how they agree. */
#ifndef APP_INJECT_H
#define APP_INJECT_H

#include "app/trainer.h"

/* Before a step: writes what this step plants, 0 or the fault, to the device. */
void inject_prepare(struct trainer *trainer);

/* In a step, the same op every time: adds it to the network's first gradient. */
void inject_fault(struct trainer *trainer, int network);

#endif
