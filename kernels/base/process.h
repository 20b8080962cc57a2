/* process.h - time, and the memory of this process.
 * Owns:  nothing. */
#ifndef KERNELS_BASE_PROCESS_H
#define KERNELS_BASE_PROCESS_H

/* Monotonic. */
double now_seconds(void);

/* The largest resident size so far, in GB (10^9 bytes). NaN where the system does not
 * say. */
double peak_memory_gb(void);

#endif
