#include "kernels/base/process.h"

#include <math.h>
#include <sys/resource.h>
#include <time.h>

double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double peak_memory_gb(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return (double)NAN;
    return (double)usage.ru_maxrss * 1024.0 / 1e9; // Linux counts in KiB
}
