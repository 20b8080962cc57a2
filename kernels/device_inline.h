/* device_inline.h - functions that a CPU and a GPU kernel share, word for word. */
#ifndef KERNELS_DEVICE_INLINE_H
#define KERNELS_DEVICE_INLINE_H

#ifdef __CUDACC__
#define DEVICE_INLINE static __host__ __device__ __forceinline__
#else
#define DEVICE_INLINE static inline
#endif

#endif
