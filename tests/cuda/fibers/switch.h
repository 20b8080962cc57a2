/* switch.h - a stack of its own for each fiber, and the step from one to another.
 * Flow:  fibers.cpp alone uses it.
 * Owns:  nothing; the caller owns the stacks.
 *
 * On x86-64 a switch saves the six registers that a call must keep; elsewhere, or with
 * FIBERS_PORTABLE, it is the C library's ucontext. AddressSanitizer is told of every
 * switch. */
#ifndef TESTS_CUDA_FIBERS_SWITCH_H
#define TESTS_CUDA_FIBERS_SWITCH_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) || defined(FIBERS_PORTABLE)
#define FIBERS_UCONTEXT
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define FIBERS_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBERS_ASAN
#endif
#endif
#ifdef FIBERS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

/* Where a fiber (or the caller's own stack) stopped. */
struct context {
#ifdef FIBERS_UCONTEXT
    ucontext_t state;
#else
    void *stack_pointer;
#endif
    const void *stack; // its lowest byte; of the caller's own: told at the first switch
    size_t stack_bytes;
    void *fake_stack; // AddressSanitizer's
};

#ifndef FIBERS_UCONTEXT
/* Saves where this stack stands in *from, goes on where `to` stands. System V x86-64. */
__attribute__((naked, noinline)) static void switch_stacks(void **, void *)
{
    asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n"
        "mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
        "ret");
}
#endif

/* A context that will run entry(), which must never return, on `stack`. */
static inline void context_make(struct context *context, void *stack, size_t bytes,
                                void (*entry)())
{
    context->stack = stack;
    context->stack_bytes = bytes;
    context->fake_stack = nullptr;
#ifdef FIBERS_UCONTEXT
    getcontext(&context->state);
    context->state.uc_stack.ss_sp = stack;
    context->state.uc_stack.ss_size = bytes;
    context->state.uc_link = nullptr;
    makecontext(&context->state, entry, 0);
#else
    // What switch_stacks() pops: six registers and the place to go on. After that, as in
    // a function just called, the stack pointer is 8 beyond a multiple of 16.
    void **top = reinterpret_cast<void **>(static_cast<char *>(stack) + bytes - 64);
    *--top = nullptr;
    *--top = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    context->stack_pointer = top;
#endif
}

/* The other side of context_switch(), also at the start of entry(). */
static inline void context_arrive(struct context *self, struct context *from)
{
#ifdef FIBERS_ASAN
    __sanitizer_finish_switch_fiber(self->fake_stack, &from->stack, &from->stack_bytes);
#else
    (void)self, (void)from;
#endif
}

/* Leaves `from` for `to`; returns when something switches back. is_last: nothing will. */
static inline void context_switch(struct context *from, struct context *to, bool is_last)
{
#ifdef FIBERS_ASAN
    __sanitizer_start_switch_fiber(is_last ? nullptr : &from->fake_stack, to->stack,
                                   to->stack_bytes);
#else
    (void)is_last;
#endif
#ifdef FIBERS_UCONTEXT
    swapcontext(&from->state, &to->state);
#else
    switch_stacks(&from->stack_pointer, to->stack_pointer);
#endif
    context_arrive(from, to);
}

#endif
