/* line_trip.h - how far apart two cores are: what a cache line takes from one to the
 * other and back.
 *
 * Some 50 to 100 ns on one die, several times that on two, and then a step of small ops,
 * each of which reads what another core wrote, takes up to twice as long. A virtual
 * machine may be moved from one to the other within a minute: who compares times needs to
 * know. */
#ifndef TESTS_BENCH_LINE_TRIP_H
#define TESTS_BENCH_LINE_TRIP_H

/* Nanoseconds, the median of a hundred groups of trips; 0 where there is only one core,
 * or the two threads did not run at the same time. */
double line_trip_ns(void);

#endif
