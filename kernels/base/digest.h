/* digest.h - FNV-1a, 64 bit: a number that two runs of bytes rarely share.
 * Owns:  nothing.  Source: Fowler, Noll, Vo; draft-eastlake-fnv. */
#ifndef KERNELS_BASE_DIGEST_H
#define KERNELS_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_START 0xcbf29ce484222325u

/* `digest` with more bytes; the first begins with DIGEST_START. */
uint64_t digest_bytes(uint64_t digest, const void *data, size_t bytes);

#endif
