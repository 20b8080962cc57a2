/* cpu.h - the fast CPU backend: ref, overridden where this code is faster.
 * Flow:  device_open("cpu") -> [cpu_open] -> device->ops.
 * Owns:  device->backend: the op table, the scratch of each thread, one workspace.
 *
 * The vector code is chosen at run time: AVX-512 with dot products of bf16, AVX-512,
 * AVX2 with FMA, or plain C. The environment variable
 * TWINSCALE_ISA = avx512-bf16 | avx512 | avx2 | c lowers the choice.
 *
 * A pass of a convolution goes by one of several algorithms: pass_choice.h. The
 * environment variable TWINSCALE_CONV = auto | direct | winograd, read by cpu_open(),
 * decides for the plans that are prepared: the cheaper one by estimate, never Winograd,
 * or Winograd wherever the shape allows it. */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "kernels/device.h"

/* Fills device->ops, ->backend, ->description, ->channel_multiple, and ->threads where it
 * is 0 (one per core that this process may use). STATUS_USAGE names an unknown
 * TWINSCALE_ISA or TWINSCALE_CONV, STATUS_FAILED the bytes that were wanted. */
enum status cpu_open(struct device *device);

/* Releases device->backend; a device that never opened is fine. */
void cpu_close(struct device *device);

#endif
