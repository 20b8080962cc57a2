#include "kernels/base/digest.h"

uint64_t digest_bytes(uint64_t digest, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ byte[i]) * 0x100000001b3u;
    return digest;
}
