/* norm_sums.h - where a batch norm reads the sums of its input, for the kind that makes
 * them. */
#ifndef NETS_LAYERS_NORM_SUMS_H
#define NETS_LAYERS_NORM_SUMS_H

#include "nets/net.h"

/* Of x and x^2, over n,h,w; [stored channels] f32, overwritten. */
void norm_sums(struct node *norm, float **sum, float **sumsq);

#endif
