/* conv_check.h - whether the sizes of a convolution agree, asked by every backend's
 * prepare(); and the work that they make. */
#ifndef KERNELS_CONV_CHECK_H
#define KERNELS_CONV_CHECK_H

#include "kernels/ops.h"

/* STATUS_FAILED with the shapes where a size is not positive, where x, kernel, stride and
 * padding do not give y, or where a dtype is not one that convolutions take. */
enum status conv_check(const struct conv_desc *desc);

/* N*P*Q * K * R*R*C: the multiply-adds of any of the three passes by its definition. */
double conv_macs(const struct conv_desc *desc);

#endif
