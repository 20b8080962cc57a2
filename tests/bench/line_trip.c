#include "tests/bench/line_trip.h"

#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/base/process.h"

enum {
    GROUPS = 100,
    TRIPS = 50,       // of a group, which is timed together
    LOOKS = 10000000, // tens of milliseconds: the other thread has no core
};

struct line {
    alignas(64) atomic_int turn; // even: ours, odd: the other's
    alignas(64) atomic_int is_over;
};

/* Waits for the turn; 0 when it does not come, because the other thread does not run. */
static int wait_for(struct line *line, int turn)
{
    for (int look = 0; look < LOOKS && !atomic_load(&line->is_over); look++)
        if (atomic_load(&line->turn) == turn)
            return 1;
    return 0;
}

static void *answer(void *argument)
{
    struct line *line = argument;
    int turn = 1;
    while (!atomic_load(&line->is_over))
        if (wait_for(line, turn)) {
            atomic_store(&line->turn, turn + 1);
            turn += 2;
        }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* There and back, so often; 0 when the other thread does not answer. */
static int make_trips(struct line *line, int *turn, int trips)
{
    for (int i = 0; i < trips; i++, *turn += 2) {
        atomic_store(&line->turn, *turn + 1);
        if (!wait_for(line, *turn + 2))
            return 0;
    }
    return 1;
}

double line_trip_ns(void)
{
    static double trip[GROUPS];
    static struct line line;
    cpu_set_t cores;
    pthread_t other;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) < 2)
        return 0.0;
    atomic_store(&line.turn, 0);
    atomic_store(&line.is_over, 0);
    if (pthread_create(&other, NULL, answer, &line) != 0)
        return 0.0;
    int turn = 0, answers = make_trips(&line, &turn, 1); // the thread runs
    for (int group = 0; answers && group < GROUPS; group++) {
        double begin = now_seconds();
        answers = make_trips(&line, &turn, TRIPS);
        trip[group] = 1e9 * (now_seconds() - begin) / (double)TRIPS;
    }
    atomic_store(&line.is_over, 1);
    pthread_join(other, NULL);
    qsort(trip, GROUPS, sizeof *trip, by_value);
    return answers ? trip[GROUPS / 2] : 0.0;
}
