/* cases.h - what the programs that test the stand-ins share: each is an ordinary program
 * of CUDA, runs the case that its first argument names, and exits with 1 when something
 * is not as the case says.
 *
 * Cases named after a fault plant it; test_standins.c looks for the complaint. */
#ifndef TESTS_CUDA_CASES_H
#define TESTS_CUDA_CASES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

/* Ends the case unless the claim holds. */
#define EXPECT(claim)                                                  \
    do {                                                               \
        if (!(claim)) {                                                \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #claim); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

#define MUST(call) EXPECT((call) == cudaSuccess)

struct named_case {
    const char *name;
    void (*run)(void);
};

static inline int run_case(const struct named_case *cases, size_t count, int argc,
                           char **argv)
{
    for (size_t i = 0; i < count && argc > 1; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            printf("ended: %s\n", cases[i].name);
            return 0;
        }
    printf("no such case\n");
    return 2;
}

static inline cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline void *device_block(size_t bytes)
{
    void *block;
    MUST(cudaMalloc(&block, bytes));
    return block;
}

static inline void *pinned_block(size_t bytes)
{
    void *block;
    MUST(cudaHostAlloc(&block, bytes, cudaHostAllocDefault));
    return block;
}

#endif
