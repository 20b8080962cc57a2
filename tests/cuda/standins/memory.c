/* memory.c - device and pinned memory of the stand-in for the CUDA runtime.
 *
 * Every block has pages of its own. It ends against a page that nobody may touch, is
 * filled with NaN, and its address is never given out again, so that a read past the end,
 * a read of what nobody wrote and a use after free are all seen. Device memory is closed
 * to host code but while queued work runs. */
#include "tests/cuda/standins/runtime.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define ALIGNMENT ((size_t)256)
#define POISON 0xff
#define H200_BYTES 150754820096u

static struct block *blocks;
static int block_count, is_open;
static const char *running = "";

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

struct block *block_of(const void *address)
{
    const char *at = address;
    for (struct block *block = blocks; block; block = block->next)
        if (block->is_live && at >= block->start && at < block->start + block->bytes)
            return block;
    return NULL;
}

static void protect_all(int protection)
{
    for (struct block *block = blocks; block; block = block->next)
        if (block->is_live && block->is_device)
            mprotect(block->base, block->span, protection);
}

void memory_open(const char *for_what)
{
    running = for_what;
    if (is_open++ == 0)
        protect_all(PROT_READ | PROT_WRITE);
}

void memory_close(void)
{
    if (--is_open == 0) {
        protect_all(PROT_NONE);
        running = "";
    }
}

size_t memory_taken(int *count)
{
    size_t bytes = 0;
    *count = 0;
    for (struct block *block = blocks; block; block = block->next)
        if (block->is_live && block->is_device) {
            bytes += block->bytes;
            *count += 1;
        }
    return bytes;
}

int memory_has_been_taken(void)
{
    return block_count > 0;
}

/* ---- faults --------------------------------------------------------------------- */

static const char *fault_sentence(const struct block *block)
{
    if (!block->is_live)
        return "freed memory is used";
    if (block->is_device && !is_open)
        return "host code touches device memory";
    return "out of bounds of a block";
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    const char *at = info->si_addr, *sentence = "an unknown address is touched";
    char text[320];
    long offset = 0;
    int number = -1;
    (void)context;
    for (struct block *block = blocks; block; block = block->next)
        if (at >= block->base - PAGE && at < block->base + block->span + PAGE) {
            sentence = fault_sentence(block);
            number = block->number;
            offset = at - block->start;
        }
    int length =
        snprintf(text, sizeof text,
                 "standin FATAL: %s: signal %d at %p, block #%d, offset %ld, %s %s\n",
                 sentence, signal_number, (const void *)at, number, offset,
                 is_open ? "while this ran:" : "in host code", running);
    if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
        length = 0; // nobody can be told
    syscall(SYS_exit_group, STANDIN_EXIT_FATAL);
}

__attribute__((constructor)) static void catch_faults(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

/* ---- taking and giving back ----------------------------------------------------- */

static size_t card_bytes(void)
{
    const char *megabytes = getenv("STANDIN_MEMORY_MB");
    return megabytes ? (size_t)strtoull(megabytes, NULL, 10) << 20 : H200_BYTES;
}

static void *take(size_t bytes, int is_device)
{
    size_t padded = round_up(bytes, ALIGNMENT), span = round_up(padded, PAGE);
    struct block *block = calloc(1, sizeof *block);
    char *pages = mmap(NULL, span + 2 * PAGE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!block || pages == MAP_FAILED) {
        free(block);
        return NULL;
    }
    block->base = pages + PAGE;
    block->span = span;
    block->bytes = bytes;
    block->start = block->base + span - padded;
    block->is_device = is_device;
    block->is_live = 1;
    block->number = block_count++;
    mprotect(block->base, span, PROT_READ | PROT_WRITE);
    memset(block->base, POISON, span);
    if (is_device && !is_open)
        mprotect(block->base, span, PROT_NONE);
    block->next = blocks;
    blocks = block;
    return block->start;
}

/* The bytes around a block on its own pages, which nobody should have written. */
static void check_edges(const struct block *block)
{
    const char *end = block->base + block->span;
    mprotect(block->base, block->span, PROT_READ);
    for (const char *at = block->base; at < end; at++) {
        if (at == block->start)
            at += block->bytes;
        if (at < end && (unsigned char)*at != POISON) {
            standin_complain(
                "block #%d of %zu bytes: something wrote outside, at offset %ld",
                block->number, block->bytes, (long)(at - block->start));
            break;
        }
    }
    mprotect(block->base, block->span,
             block->is_device && !is_open ? PROT_NONE : PROT_READ | PROT_WRITE);
}

void memory_check_edges(void)
{
    for (struct block *block = blocks; block; block = block->next)
        if (block->is_live)
            check_edges(block);
}

static cudaError_t give_back(void *pointer, int is_device, const char *call)
{
    struct block *block = block_of(pointer);
    if (!block || block->start != pointer || block->is_device != is_device) {
        standin_complain("%s(%p): that is no live %s block", call, pointer,
                         is_device ? "device" : "pinned");
        return keep_error(cudaErrorInvalidValue);
    }
    if (is_in_use(block))
        standin_complain("%s: block #%d is freed while queued work still uses it", call,
                         block->number);
    run_everything();
    check_edges(block);
    block->is_live = 0;
    mprotect(block->base, block->span, PROT_NONE);
    madvise(block->base, block->span, MADV_DONTNEED);
    return cudaSuccess;
}

static cudaError_t alloc(void **pointer, size_t bytes, int is_device, const char *call)
{
    int count;
    cudaError_t error = forbid_in_capture(call);
    if (error)
        return keep_error(error);
    *pointer = NULL;
    if (!standin_has_device())
        return keep_error(cudaErrorNoDevice);
    if (is_device && memory_taken(&count) + bytes > card_bytes())
        return keep_error(cudaErrorMemoryAllocation);
    if (bytes)
        *pointer = take(bytes, is_device);
    return *pointer || !bytes ? cudaSuccess : keep_error(cudaErrorMemoryAllocation);
}

EXPORT cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    lock();
    cudaError_t error = alloc(pointer, bytes, 1, "cudaMalloc");
    unlock();
    return error;
}

EXPORT cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    lock();
    cudaError_t error = alloc(pointer, bytes, 0, "cudaHostAlloc");
    unlock();
    return error;
}

EXPORT cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, 0);
}

static cudaError_t free_block(void *pointer, int is_device, const char *call)
{
    if (!pointer)
        return cudaSuccess;
    lock();
    cudaError_t error = forbid_in_capture(call);
    error = error ? keep_error(error) : give_back(pointer, is_device, call);
    unlock();
    return error;
}

EXPORT cudaError_t cudaFree(void *pointer)
{
    return free_block(pointer, 1, "cudaFree");
}

EXPORT cudaError_t cudaFreeHost(void *pointer)
{
    return free_block(pointer, 0, "cudaFreeHost");
}

EXPORT cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    int count;
    lock();
    *total_bytes = card_bytes();
    *free_bytes = *total_bytes - memory_taken(&count);
    unlock();
    return standin_has_device() ? cudaSuccess : keep_error(cudaErrorNoDevice);
}

EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                            const void *pointer)
{
    lock();
    struct block *block = block_of(pointer);
    memset(attributes, 0, sizeof *attributes);
    attributes->type = !block             ? cudaMemoryTypeUnregistered
                       : block->is_device ? cudaMemoryTypeDevice
                                          : cudaMemoryTypeHost;
    attributes->device = block ? 0 : -2;
    attributes->devicePointer = block ? (void *)(uintptr_t)pointer : NULL;
    attributes->hostPointer =
        block && !block->is_device ? (void *)(uintptr_t)pointer : NULL;
    unlock();
    return cudaSuccess;
}

EXPORT int standin_is_device(const void *pointer, size_t bytes, const char *what)
{
    lock();
    struct block *block = block_of(pointer);
    int is_right = 0;
    if (!block || !block->is_device)
        standin_complain("%s: %p is no live device memory", what, pointer);
    else if ((const char *)pointer + bytes > block->start + block->bytes)
        standin_complain("%s: %zu bytes at %p run past the end of block #%d of %zu bytes",
                         what, bytes, pointer, block->number, block->bytes);
    else
        is_right = 1;
    unlock();
    return is_right;
}
