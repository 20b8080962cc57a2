/* inject.h - plants a fault, so that a run can show what an overflow does.
 * Flow:  backward -> [inject_fault] -> scaler's check.
 *
 * `--inject d:10-40:inf` puts an inf (or nan) into the first gradient of D in steps 10 to 40
 * (the first step is 1; "d:10-:nan" has no end). */
#ifndef APP_INJECT_H
#define APP_INJECT_H

#include "app/trainer.h"

/* Plants the fault that config.inject asks for, if it asks for this network and step. */
void inject_fault(struct trainer *trainer, int network);

#endif
