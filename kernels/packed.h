/* packed.h - f32 tensors of a device without their padding, on the host.
 * Flow:  device tensor -> [packed_download] -> files, checks; and back.
 * Owns:  nothing. */
#ifndef KERNELS_PACKED_H
#define KERNELS_PACKED_H

#include "kernels/base/status.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

/* Copies a device tensor into `packed` [elements]; `stored` is room for tensor_bytes() of
 * it. Waits for the device. */
void packed_download(struct device *device, const struct tensor *tensor, float *stored,
                     float *packed);

/* The other way; what is stored beyond the shape becomes zero. STATUS_FAILED without
 * memory. */
enum status packed_upload(struct device *device, const struct tensor *tensor,
                          const float *packed);

#endif
