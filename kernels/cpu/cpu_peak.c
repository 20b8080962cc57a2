/* cpu_peak.c - the most that this CPU multiplies and adds on the backend's threads.
 *
 * A burst of all threads together lasts half a millisecond: long beside the waking of
 * threads, short beside the time for which a busy machine leaves them in peace. The
 * fastest of many counts. */
#include "kernels/cpu/backend.h"
#include "kernels/base/process.h"

enum { STEPS = 20000, PIECES_OF_THREAD = 8, BURSTS_LEAST = 5 };
#define SECONDS 0.02

struct peak_job {
    const struct isa *isa;
    volatile float sink; // nobody reads it, but it is written
};

static void peak_piece(void *job_pointer, size_t task, int thread)
{
    (void)task;
    (void)thread;
    struct peak_job *job = job_pointer;
    float total = job->isa->peak(STEPS);
    if (total == 0.0f) // never: what is computed must count
        job->sink = total;
}

double cpu_peak(struct device *device, enum dtype dtype)
{
    const struct cpu_backend *backend = cpu_backend(device);
    struct peak_job job = {.isa = isa_for(backend->isa, dtype, dtype, 0)};
    size_t pieces = PIECES_OF_THREAD * (size_t)backend->threads;
    double begin = now_seconds(), best = 0;
    for (int burst = 0; burst < BURSTS_LEAST || now_seconds() - begin < SECONDS;
         burst++) {
        double start = now_seconds();
        cpu_parallel(device, pieces, peak_piece, &job);
        double seconds = now_seconds() - start;
        if (burst == 0 || seconds < best)
            best = seconds;
    }
    return PEAK_CHAINS * (double)STEPS * job.isa->per_vector * (double)pieces / best;
}
