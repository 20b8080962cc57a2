/* fibers.cpp - runs the blocks of a kernel, one fiber per thread. */
#include "tests/cuda/fibers/fibers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cuda/fibers/switch.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

/* The stand-in for the CUDA runtime has it; a program without one has not. */
extern "C" __attribute__((weak, visibility("default"))) void standin_register_kernel(
    const char *name, int argument_count, const size_t *sizes, void (*thunk)(void **),
    void (*run)(const char *, void (*)(void **), dim3, dim3, size_t, void **));

/* The linker's bounds of all __shared__ arrays; null where there are none. */
extern "C" {
extern __attribute__((weak, visibility("hidden"))) char __start_fibers_shared[];
extern __attribute__((weak, visibility("hidden"))) char __stop_fibers_shared[];
}

namespace
{

enum { WARP = 32, THREADS_MAX = 1024, WARPS_MAX = THREADS_MAX / WARP };
constexpr size_t STACK_BYTES = 256 << 10;

enum state { READY, AT_BARRIER, IN_WARP, ENDED };

/* One thread of the running block. */
struct fiber {
    context place;
    char *stack; // null before it starts and after it ends
    uint3 thread;
    enum state state;
    // Of the barrier, vote or shuffle that it waits in:
    fibers::site at;
    unsigned mask;
    int source; // -1: a vote, of all lanes
    uint64_t given, result;
};

enum order { FORWARD, REVERSE, RANDOM };

std::mutex one_at_a_time;
fiber threads[THREADS_MAX];
fiber *current; // null outside of threads
int thread_count;
context scheduler;
std::vector<char *> free_stacks;
enum order order;
uint64_t random_state;

const char *kernel_name = "(none)";
void (*kernel_thunk)(void **);
void **kernel_args;

} // namespace

/* ---- the end --------------------------------------------------------------------- */

/* Prints where `thread` stands and why that ends the program. */
[[noreturn]] __attribute__((format(printf, 2, 3))) static void
stop_at(const fiber *thread, const char *format, ...)
{
    fflush(stdout);
    fprintf(stderr, "fibers: kernel %s, block (%u,%u,%u)", kernel_name, blockIdx.x,
            blockIdx.y, blockIdx.z);
    if (thread)
        fprintf(stderr, ", thread (%u,%u,%u)", thread->thread.x, thread->thread.y,
                thread->thread.z);
    fputs(": ", stderr);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _exit(FIBERS_EXIT);
}

void fibers::stop(const char *why, site at)
{
    stop_at(current, "%s at %s:%d", why, at.file, at.line);
}

/* ---- one thread ------------------------------------------------------------------ */

static char *take_stack()
{
    if (!free_stacks.empty()) {
        char *stack = free_stacks.back();
        free_stacks.pop_back();
        return stack;
    }
    void *room = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    // The lowest page is out of bounds: a stack that overflows ends the program.
    if (room == MAP_FAILED || mprotect(room, 4096, PROT_NONE) != 0)
        stop_at(nullptr, "no memory for the stack of a thread");
    return static_cast<char *>(room);
}

/* What a thread does, from its first instruction to its last. */
static void thread_main()
{
    context_arrive(&current->place, &scheduler);
    kernel_thunk(kernel_args);
    current->state = ENDED;
    context_switch(&current->place, &scheduler, true);
    abort();
}

/* Lets a thread run until it waits or ends. */
static void run_thread(fiber *thread)
{
    if (!thread->stack) {
        thread->stack = take_stack();
        context_make(&thread->place, thread->stack, STACK_BYTES, thread_main);
    }
    current = thread;
    threadIdx = thread->thread;
    context_switch(&scheduler, &thread->place, false);
    current = nullptr;
    if (thread->state != ENDED)
        return;
    free_stacks.push_back(thread->stack);
    thread->stack = nullptr;
}

static uint64_t wait_as(enum state state, unsigned mask, int source, uint64_t given,
                        fibers::site at)
{
    if (!current)
        stop_at(nullptr, "%s at %s:%d is called outside of a kernel", at.what, at.file,
                at.line);
    fiber *self = current;
    self->state = state;
    self->mask = mask;
    self->source = source;
    self->given = given;
    self->at = at;
    context_switch(&self->place, &scheduler, false);
    return self->result;
}

int fibers::lane()
{
    return static_cast<int>((current - threads) % WARP);
}

int fibers::meet_block(int vote, site at)
{
    return static_cast<int>(wait_as(AT_BARRIER, 0, -1, vote != 0, at));
}

/* A lane that calls must be in its own mask. */
static void check_mask(unsigned mask, fibers::site at)
{
    if (!(mask >> fibers::lane() & 1u))
        stop_at(current,
                "%s at %s:%d is called by lane %d, which its mask 0x%08x leaves "
                "out",
                at.what, at.file, at.line, fibers::lane(), mask);
}

unsigned fibers::vote_in_warp(unsigned mask, int vote, site at)
{
    check_mask(mask, at);
    return static_cast<unsigned>(wait_as(IN_WARP, mask, -1, vote != 0, at));
}

uint64_t fibers::read_lane(unsigned mask, uint64_t value, int source, site at)
{
    check_mask(mask, at);
    if (!(mask >> source & 1u))
        stop_at(current, "%s at %s:%d reads lane %d, outside its mask 0x%08x", at.what,
                at.file, at.line, source, mask);
    return wait_as(IN_WARP, mask, source, value, at);
}

/* ---- who may go on --------------------------------------------------------------- */

static bool is_same_site(const fibers::site &a, const fibers::site &b)
{
    return a.line == b.line && (a.what == b.what || strcmp(a.what, b.what) == 0) &&
           (a.file == b.file || strcmp(a.file, b.file) == 0);
}

/* The lanes of a warp that have not ended, and those that wait where `thread` does. */
static unsigned lanes_alive(const fiber *warp, int lanes)
{
    unsigned alive = 0;
    for (int i = 0; i < lanes; i++)
        alive |= static_cast<unsigned>(warp[i].state != ENDED) << i;
    return alive;
}

static unsigned lanes_beside(const fiber *warp, int lanes, const fiber *thread)
{
    unsigned beside = 0;
    for (int i = 0; i < lanes; i++)
        if (warp[i].state == IN_WARP && warp[i].mask == thread->mask &&
            is_same_site(warp[i].at, thread->at))
            beside |= 1u << i;
    return beside;
}

/* Gives each lane of a complete group its result and lets it go on. */
static void release_group(fiber *warp, unsigned group)
{
    unsigned votes = 0;
    for (int i = 0; i < WARP; i++)
        if (group >> i & 1u)
            votes |= static_cast<unsigned>(warp[i].given & 1u) << i;
    for (int i = 0; i < WARP; i++) {
        if (!(group >> i & 1u))
            continue;
        fiber *thread = &warp[i];
        int source = thread->source;
        if (source >= 0 && !(group >> source & 1u))
            stop_at(thread,
                    "%s at %s:%d reads lane %d, which has ended or was never "
                    "there",
                    thread->at.what, thread->at.file, thread->at.line, source);
        thread->result = source < 0 ? votes : warp[source].given;
    }
    for (int i = 0; i < WARP; i++)
        if (group >> i & 1u)
            warp[i].state = READY;
}

/* Releases every group of lanes that is complete: all lanes of its mask that have not
 * ended are there. */
static bool release_groups(fiber *warp, int lanes)
{
    bool released = false;
    for (int i = 0; i < lanes; i++) {
        if (warp[i].state != IN_WARP)
            continue;
        unsigned group = lanes_beside(warp, lanes, &warp[i]);
        if (group != (warp[i].mask & lanes_alive(warp, lanes)))
            continue;
        release_group(warp, group);
        released = true;
    }
    return released;
}

/* Releases the whole block when all of its threads wait at the same barrier. */
static bool release_barrier()
{
    uint64_t votes = 0;
    for (int i = 0; i < thread_count; i++) {
        if (threads[i].state != AT_BARRIER || !is_same_site(threads[i].at, threads[0].at))
            return false;
        votes += threads[i].given;
    }
    for (int i = 0; i < thread_count; i++) {
        threads[i].result = votes;
        threads[i].state = READY;
    }
    return true;
}

/* ---- nobody can go on ------------------------------------------------------------ */

/* "has ended", or where it waits. */
static std::string whereabouts(const fiber *thread)
{
    if (thread->state == ENDED)
        return "has ended";
    return std::string("waits in ") + thread->at.what + " at " + thread->at.file + ":" +
           std::to_string(thread->at.line);
}

[[noreturn]] static void stop_for_warp(const fiber *thread)
{
    int index = static_cast<int>(thread - threads);
    const fiber *warp = threads + index / WARP * WARP;
    int lanes = thread_count - index / WARP * WARP;
    lanes = lanes < WARP ? lanes : WARP;
    unsigned beside = lanes_beside(warp, lanes, thread);
    unsigned absent = thread->mask & lanes_alive(warp, lanes) & ~beside;
    const fiber *other = &warp[__builtin_ctz(absent)];
    stop_at(thread,
            "%s at %s:%d in a divergent branch: of its mask 0x%08x the lanes "
            "0x%08x do not come; thread (%u,%u,%u) %s",
            thread->at.what, thread->at.file, thread->at.line, thread->mask, absent,
            other->thread.x, other->thread.y, other->thread.z,
            whereabouts(other).c_str());
}

[[noreturn]] static void stop_for_barrier(const fiber *thread)
{
    int here = 0;
    const fiber *other = nullptr;
    for (int i = 0; i < thread_count; i++) {
        bool is_here =
            threads[i].state == AT_BARRIER && is_same_site(threads[i].at, thread->at);
        here += is_here;
        if (!is_here && !other)
            other = &threads[i];
    }
    stop_at(thread,
            "divergent barrier: %d of %d threads wait in %s at %s:%d; thread "
            "(%u,%u,%u) %s",
            here, thread_count, thread->at.what, thread->at.file, thread->at.line,
            other->thread.x, other->thread.y, other->thread.z,
            whereabouts(other).c_str());
}

[[noreturn]] static void stop_for_deadlock()
{
    const fiber *at_barrier = nullptr;
    for (int i = 0; i < thread_count; i++) {
        if (threads[i].state == IN_WARP)
            stop_for_warp(&threads[i]);
        if (threads[i].state == AT_BARRIER)
            at_barrier = &threads[i];
    }
    stop_for_barrier(at_barrier);
}

/* ---- the order of things --------------------------------------------------------- */

static void read_order()
{
    const char *text = getenv("FIBER_ORDER");
    text = text && *text ? text : "fwd";
    bool is_known = true;
    if (strcmp(text, "fwd") == 0) {
        order = FORWARD;
    } else if (strcmp(text, "rev") == 0) {
        order = REVERSE;
    } else {
        char *end = nullptr;
        const char *digits = strncmp(text, "rand", 4) == 0 ? text + 4 : "";
        random_state = strtoull(digits, &end, 10) * 2654435761u + 1;
        order = RANDOM;
        is_known = end != digits && !*end;
    }
    if (!is_known)
        stop_at(nullptr, "FIBER_ORDER=%s is not known; expected fwd, rev or randN", text);
}

static size_t random_below(size_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(random_state >> 33) % bound;
}

/* Puts 0..count-1 into the chosen order. */
template <class T> static void arrange(T *places, size_t count)
{
    std::iota(places, places + count, T(0));
    for (size_t i = 0; order == REVERSE && i < count / 2; i++)
        std::swap(places[i], places[count - 1 - i]);
    for (size_t i = count; order == RANDOM && i > 1; i--)
        std::swap(places[i - 1], places[random_below(i)]);
}

/* ---- one block ------------------------------------------------------------------- */

/* Runs a warp as far as it can without the others; whether it moved at all. */
static bool run_warp(int index)
{
    fiber *warp = threads + index * WARP;
    int lanes = thread_count - index * WARP;
    lanes = lanes < WARP ? lanes : WARP;
    bool has_moved = false;
    for (bool moves = true; moves; has_moved |= moves) {
        int places[WARP];
        arrange(places, static_cast<size_t>(lanes));
        moves = false;
        for (int i = 0; i < lanes; i++) {
            if (warp[places[i]].state != READY)
                continue;
            run_thread(&warp[places[i]]);
            moves = true;
        }
        moves |= release_groups(warp, lanes);
    }
    return has_moved;
}

static bool has_ended()
{
    for (int i = 0; i < thread_count; i++)
        if (threads[i].state != ENDED)
            return false;
    return true;
}

static void run_block()
{
    if (__start_fibers_shared)
        memset(__start_fibers_shared, 0xff,
               static_cast<size_t>(__stop_fibers_shared - __start_fibers_shared));
    for (int i = 0; i < thread_count; i++) {
        unsigned u = static_cast<unsigned>(i);
        threads[i].stack = nullptr;
        threads[i].state = READY;
        threads[i].thread = {u % blockDim.x, u / blockDim.x % blockDim.y,
                             u / (blockDim.x * blockDim.y)};
    }
    do {
        int warps[WARPS_MAX];
        size_t count = static_cast<size_t>(thread_count + WARP - 1) / WARP;
        arrange(warps, count);
        bool moves = false;
        for (size_t i = 0; i < count; i++)
            moves |= run_warp(warps[i]);
        if (!release_barrier() && !moves)
            stop_for_deadlock();
    } while (!has_ended());
}

/* ---- one launch ------------------------------------------------------------------ */

/* What a device of compute capability 7.5 would refuse. */
static void check_sizes(dim3 grid, dim3 block, size_t shared_bytes)
{
    if (shared_bytes)
        stop_at(nullptr, "%zu bytes of dynamic shared memory; expected static arrays",
                shared_bytes);
    if (!grid.x || !grid.y || !grid.z || grid.x > 2147483647u || grid.y > 65535u ||
        grid.z > 65535u)
        stop_at(nullptr,
                "a grid of %ux%ux%u blocks; expected 1 to 2147483647, and at most "
                "65535 in y and z",
                grid.x, grid.y, grid.z);
    size_t count = static_cast<size_t>(block.x) * block.y * block.z;
    if (!count || count > THREADS_MAX || block.z > 64)
        stop_at(nullptr,
                "a block of %ux%ux%u threads; expected 1 to %d, and at most 64 in "
                "z",
                block.x, block.y, block.z, THREADS_MAX);
}

void fibers::run(const char *name, void (*thunk)(void **), dim3 grid, dim3 block,
                 size_t shared_bytes, void **args)
{
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    kernel_name = name;
    kernel_thunk = thunk;
    kernel_args = args;
    blockIdx = {0, 0, 0};
    read_order();
    check_sizes(grid, block, shared_bytes);
    gridDim = grid;
    blockDim = block;
    thread_count = static_cast<int>(block.x * block.y * block.z);
    std::vector<size_t> places(static_cast<size_t>(grid.x) * grid.y * grid.z);
    arrange(places.data(), places.size());
    for (size_t place : places) {
        blockIdx = {static_cast<unsigned>(place % grid.x),
                    static_cast<unsigned>(place / grid.x % grid.y),
                    static_cast<unsigned>(place / grid.x / grid.y)};
        run_block();
    }
}

/* ---- names ----------------------------------------------------------------------- */

static std::map<const void *, std::string> &names()
{
    static std::map<const void *, std::string> all; // filled before main() begins
    return all;
}

const char *fibers::name_of(const void *kernel)
{
    auto found = names().find(kernel);
    return found == names().end() ? "(not registered)" : found->second.c_str();
}

void fibers::register_kernel(const char *name, const void *kernel, int argument_count,
                             const size_t *sizes, void (*thunk)(void **))
{
    names()[kernel] = name;
    if (standin_register_kernel)
        standin_register_kernel(name, argument_count, sizes, thunk, run);
}
