/* runtime.h - the inside of the stand-in for the CUDA runtime.
 * Flow:  call -> op -> queue of a stream (or node of a graph that is captured) -> a wait
 * of the host -> run_through() -> op's effect.
 *
 * Nothing runs before the host waits for it, and then only what that wait needs: a
 * forgotten wait or event leaves stale data, every time. Everything is guarded by one
 * lock. */
#ifndef TESTS_CUDA_RUNTIME_H
#define TESTS_CUDA_RUNTIME_H

#include "tests/cuda/standins/standin.h"

/* ---- blocks of memory (memory.c) ------------------------------------------------ */

struct block {
    char *start; // what the caller has
    size_t bytes;
    char *base; // the pages around it
    size_t span;
    int is_device, is_live, number;
    struct block *next;
};

/* The live block that holds the address, or NULL. */
struct block *block_of(const void *address);

/* Host code may touch device memory while this counts above 0. */
void memory_open(const char *for_what);
void memory_close(void);

/* Bytes of device memory that are taken; how many blocks. */
size_t memory_taken(int *blocks);
int memory_has_been_taken(void);
void memory_check_edges(void);

/* ---- work (queue.c) ------------------------------------------------------------- */

enum op_kind { OP_LAUNCH, OP_COPY, OP_SET, OP_CALL, OP_RECORD, OP_WAIT, OP_GRAPH };

struct kernel;

struct op {
    enum op_kind kind;
    const char *what;

    const struct kernel *kernel; // LAUNCH
    dim3 grid, thread_block;
    size_t shared_bytes;

    void (*run)(void *); // CALL

    // LAUNCH: the arguments; CALL: its data; COPY from pageable memory: what was staged.
    void *data;
    size_t data_bytes;

    void *to; // COPY, SET
    const void *from;
    size_t bytes;
    int value;

    cudaEvent_t event;  // RECORD
    cudaStream_t other; // WAIT: for `other` up to `until`
    uint64_t until;

    cudaGraphExec_t graph; // GRAPH

    uint64_t sequence;
    struct op *next;
};

struct CUstream_st {
    struct op *first, *last;
    uint64_t running; // the op that a thread is in the middle of; 0: none
    int is_blocking, is_legacy, priority;
    int device;
    // While capturing: the graph, and the nodes that the next one depends on.
    struct CUgraph_st *capture;
    int is_origin;
    int frontier[64];
    int frontier_count;
    struct CUstream_st *next;
};

struct CUevent_st {
    cudaStream_t stream; // where it was recorded last; NULL: never
    uint64_t sequence, done;
    int is_timed;
    double seconds; // when it was passed
    struct CUgraph_st *capture;
    int frontier[64];
    int frontier_count;
};

extern struct CUstream_st *all_streams;

void lock(void);
void unlock(void);

/* Remembers the error for cudaGetLastError() and returns it. */
cudaError_t keep_error(cudaError_t error);

/* The stream behind a handle, the legacy one for NULL; complains and gives NULL for what
 * is no stream. */
cudaStream_t stream_of(cudaStream_t stream, const char *call);

/* Takes the op with its data, into the queue or the graph that is captured. */
cudaError_t queue_op(cudaStream_t stream, struct op op);

/* Runs what is queued on the stream up to `sequence`, and what that waits for. */
void run_through(cudaStream_t stream, uint64_t sequence);
void run_everything(void);
void run_op(struct op *op);

/* 1 if queued work, or that of a graph which is not destroyed, holds an address in it. */
int is_in_use(const struct block *block);
int op_touches(const struct op *op, const struct block *block);

/* ---- capture and graphs (graph.c) ----------------------------------------------- */

/* For calls that a capture of this thread forbids, or a global one of any: complains,
 * spoils the capture, and returns the error to give back. cudaSuccess if no capture
 * minds. */
cudaError_t forbid_in_capture(const char *call);
/* The same for a wait for the whole device, which minds every thread's captures. */
cudaError_t forbid_in_any_capture(const char *call);
void spoil_captures(void);

cudaError_t capture_op(cudaStream_t stream, struct op op);
cudaError_t capture_wait(cudaStream_t stream, cudaEvent_t event);
void graph_run(cudaGraphExec_t graph);
int graphs_touch(const struct block *block);

/* ---- launches, counts ----------------------------------------------------------- */

void kernel_run(struct op *op);
void count_launch(void);
void count_wait(void);
void count_graph(void);

#define EXPORT __attribute__((visibility("default")))

#endif
