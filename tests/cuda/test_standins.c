/* test_standins.c - the stand-ins for CUDA, cuDNN, cuBLAS and NCCL: right programs pass
 * on them, and every planted fault is seen, by a complaint or by a wrong result.
 *
 * The programs are standins/cases_*.c, ordinary ones of CUDA, each with many small cases.
 * CASES_RUNTIME, CASES_GRAPH, ... name them, ON_STANDINS the environment they run in. */
#include <stdio.h>
#include <string.h>

#include "tests/support/support.h"

#define EXIT_VIOLATION 98
#define EXIT_FATAL 97

static char text[65536];

static int run(const char *environment, const char *program, const char *name)
{
    return run_command(text, sizeof text, "env %s %s '%s' %s", ON_STANDINS, environment,
                       program, name);
}

static void assert_says(const char *sentence)
{
    if (!strstr(text, sentence))
        fail_msg("expected \"%s\" in: %s", sentence, text);
}

static void assert_passes(const char *program, const char *const *names)
{
    for (; *names; names++) {
        int code = run("", program, *names);
        if (code != 0)
            fail_msg("%s: exit %d: %s", *names, code, text);
        assert_says("ended: ");
        assert_null(strstr(text, "standin"));
    }
}

struct fault {
    const char *name;
    int exit_code;
    const char *sentence;
};

static void assert_seen(const char *program, const struct fault *faults)
{
    for (; faults->name; faults++) {
        int code = run("", program, faults->name);
        if (code != faults->exit_code)
            fail_msg("%s: exit %d, not %d: %s", faults->name, code, faults->exit_code,
                     text);
        assert_says(faults->sentence);
        assert_says(code == EXIT_FATAL ? "standin FATAL: " : "standin VIOLATION: ");
    }
}

/* ---- the runtime ---------------------------------------------------------------- */

static void test_right_programs_of_the_runtime_pass(void **state)
{
    (void)state;
    static const char *const names[] = {"copies_and_kernels",
                                        "pageable_memory_is_taken_at_the_call",
                                        "an_event_orders_two_streams",
                                        "a_query_finds_work_once",
                                        "the_legacy_stream_waits_for_blocking_streams",
                                        NULL};
    assert_passes(CASES_RUNTIME, names);
}

static void test_a_forgotten_wait_leaves_wrong_results_every_time(void **state)
{
    (void)state;
    static const char *const names[] = {
        "unwritten_memory_is_nan", "without_a_wait_results_are_stale",
        "pinned_memory_is_read_late", "without_an_event_streams_do_not_wait", NULL};
    assert_passes(CASES_RUNTIME, names);
}

static void test_wrong_uses_of_memory_are_seen(void **state)
{
    (void)state;
    static const struct fault faults[] = {
        {"host_reads_device_memory", EXIT_FATAL, "host code touches device memory"},
        {"kernel_runs_past_the_end", EXIT_FATAL, "out of bounds of a block"},
        {"kernel_writes_into_the_gap", EXIT_VIOLATION, "something wrote outside"},
        {"freed_memory_is_used", EXIT_FATAL, "freed memory is used"},
        {"free_while_in_use", EXIT_VIOLATION, "while queued work still uses it"},
        {"free_twice", EXIT_VIOLATION, "is no live device block"},
        {"copy_of_the_wrong_kind", EXIT_VIOLATION, "from host to device memory"},
        {"copy_past_the_end", EXIT_VIOLATION, "run past the end of block"},
        {"grid_of_no_blocks", EXIT_VIOLATION, "no GPU takes that"},
        {"kernel_without_a_body", EXIT_VIOLATION, "has no body in STANDIN_KERNELS"},
        {"fault_before_a_short_end", EXIT_VIOLATION, "run past the end of block"},
        {"stream_that_is_destroyed", EXIT_VIOLATION, "is no live stream"},
        {NULL, 0, NULL}};
    assert_seen(CASES_RUNTIME, faults);
    run("", CASES_RUNTIME, "kernel_runs_past_the_end");
    assert_says("case_add_kernel");
}

static void test_the_environment_says_which_devices_there_are(void **state)
{
    (void)state;
    static const struct {
        const char *environment, *sentence;
    } worlds[] = {
        {"A=1", "count 1, cudaSuccess, driver 13000\ncompute 9.0, 143771 MB\n"},
        {"STANDIN_DEVICES=4", "count 4, cudaSuccess"},
        {"STANDIN_DEVICES=0", "count 0, cudaErrorNoDevice, driver 13000\n"},
        {"STANDIN_DRIVER=none", "count 0, cudaErrorInsufficientDriver, driver 0\n"},
        {"STANDIN_DRIVER=12040", "count 0, cudaErrorInsufficientDriver, driver 12040\n"},
        {"STANDIN_MEMORY_MB=64 STANDIN_CAPABILITY=75", "compute 7.5, 64 MB\n"}};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        int code = run(worlds[i].environment, CASES_RUNTIME, "devices");
        if (code != 0)
            fail_msg("%s: exit %d: %s", worlds[i].environment, code, text);
        assert_says(worlds[i].sentence);
    }
}

static void test_the_log_counts_what_was_done(void **state)
{
    (void)state;
    char path[512], environment[600], line[256] = "";
    snprintf(path, sizeof path, "%s/log", make_folder("standins"));
    snprintf(environment, sizeof environment, "STANDIN_LOG='%s'", path);
    assert_int_equal(run(environment, CASES_GRAPH, "a_graph_repeats_what_was_captured"),
                     0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    if (!strstr(line, " launches 1 waits 3 graph_launches 3 live_blocks 1 live_bytes 400 "
                      "violations 0\n"))
        fail_msg("the log says: %s", line);
    *strrchr(path, '/') = '\0';
    remove_folder(path);
}

/* ---- graphs --------------------------------------------------------------------- */

static void test_right_captures_pass(void **state)
{
    (void)state;
    static const char *const names[] = {"a_graph_repeats_what_was_captured",
                                        "a_fork_is_joined",
                                        "another_thread_works_beside_a_capture",
                                        "arguments_are_those_of_the_capture",
                                        "without_an_event_branches_run_in_any_order",
                                        NULL};
    assert_passes(CASES_GRAPH, names);
}

static void test_what_a_capture_forbids_is_seen(void **state)
{
    (void)state;
    static const char *const capturing = "while a stream is capturing";
    const struct fault faults[] = {
        {"wait_in_capture", EXIT_VIOLATION, capturing},
        {"device_wait_in_capture", EXIT_VIOLATION, capturing},
        {"query_in_capture", EXIT_VIOLATION, capturing},
        {"malloc_in_capture", EXIT_VIOLATION, capturing},
        {"free_in_capture", EXIT_VIOLATION, capturing},
        {"pageable_copy_in_capture", EXIT_VIOLATION, "pageable host memory"},
        {"plain_copy_in_capture", EXIT_VIOLATION, capturing},
        {"legacy_work_in_capture", EXIT_VIOLATION, capturing},
        {"fork_that_is_never_joined", EXIT_VIOLATION, "never joined again"},
        {"event_from_outside_a_capture", EXIT_VIOLATION, "an event recorded outside"},
        {"event_of_a_capture_is_asked", EXIT_VIOLATION, "was recorded in a capture"},
        {"graph_uses_freed_memory", EXIT_FATAL, "freed memory is used"},
        {"graph_is_launched_after_its_end", EXIT_VIOLATION, "is destroyed or never was"},
        {NULL, 0, NULL}};
    assert_seen(CASES_GRAPH, faults);
}

/* ---- libraries ------------------------------------------------------------------ */

static void test_plans_of_the_real_cudnn_are_executed(void **state)
{
    (void)state;
    static const char *const names[] = {"a_plan_computes_its_convolution",
                                        "a_plan_adds_to_its_output", "a_plan_is_captured",
                                        "workspace_that_holds_data", NULL};
    assert_passes(CASES_CUDNN, names);
}

static void test_wrong_pointers_given_to_cudnn_are_seen(void **state)
{
    (void)state;
    static const struct fault faults[] = {
        {"tensor_on_the_host", EXIT_VIOLATION, "is no live device memory"},
        {"tensor_that_is_misaligned", EXIT_VIOLATION, "is not aligned to the 16 bytes"},
        {"tensor_that_is_too_short", EXIT_VIOLATION, "run past the end of block"},
        {"workspace_that_is_too_small", EXIT_VIOLATION, "workspace: "},
        {NULL, 0, NULL}};
    assert_seen(CASES_CUDNN, faults);
}

static void test_cudnn_without_a_device_and_of_another_version(void **state)
{
    (void)state;
    int code = run("STANDIN_DEVICES=0 STANDIN_CUDNN_VERSION=90100", CASES_CUDNN,
                   "a_handle_needs_a_device");
    assert_int_equal(code, 0);
    assert_says("version 90100\n");
}

static void test_products_of_cublas_are_right(void **state)
{
    (void)state;
    static const char *const names[] = {"products_are_right", "a_product_is_captured",
                                        NULL};
    assert_passes(CASES_CUBLAS, names);
}

static void test_wrong_uses_of_cublas_are_seen(void **state)
{
    (void)state;
    static const struct fault faults[] = {
        {"capture_without_workspace", EXIT_VIOLATION, "the handle has no workspace"},
        {"workspace_is_forgotten_with_the_stream", EXIT_VIOLATION,
         "no workspace since cublasSetStream"},
        {"product_of_host_memory", EXIT_VIOLATION, "cublasGemmEx, A: "},
        {"leading_dimension_too_small", EXIT_VIOLATION, "its leading dimension 3"},
        {"matrix_past_the_end", EXIT_VIOLATION, "run past the end of block"},
        {NULL, 0, NULL}};
    assert_seen(CASES_CUBLAS, faults);
}

#define NO_NCCL "nccl.h was not found when this was built"

static void test_ranks_exchange_over_shared_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"collectives_are_right",
                                        "a_collective_is_captured",
                                        "devices_work_while_hosts_talk", NULL};
    if (!CASES_NCCL[0])
        skip_because(NO_NCCL);
    assert_passes(CASES_NCCL, names);
}

static void test_a_lost_rank_is_an_error_and_no_wait_for_ever(void **state)
{
    (void)state;
    static const char *const names[] = {"rank_that_is_killed", "rank_that_ends_early",
                                        "rank_that_never_comes"};
    if (!CASES_NCCL[0])
        skip_because(NO_NCCL);
    for (int i = 0; i < 3; i++) {
        int code = run("STANDIN_NCCL_SECONDS=1", CASES_NCCL, names[i]);
        if (code != 0)
            fail_msg("%s: exit %d: %s", names[i], code, text);
        assert_says("lost: remote process exited");
    }
}

static void test_wrong_uses_of_nccl_are_seen(void **state)
{
    (void)state;
    static const struct fault faults[] = {
        {"ranks_that_disagree", EXIT_VIOLATION, "call different collectives"},
        {"collective_of_host_memory", EXIT_VIOLATION, "ncclAllReduce: "},
        {NULL, 0, NULL}};
    if (!CASES_NCCL[0])
        skip_because(NO_NCCL);
    assert_seen(CASES_NCCL, faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_programs_of_the_runtime_pass),
        cmocka_unit_test(test_a_forgotten_wait_leaves_wrong_results_every_time),
        cmocka_unit_test(test_wrong_uses_of_memory_are_seen),
        cmocka_unit_test(test_the_environment_says_which_devices_there_are),
        cmocka_unit_test(test_the_log_counts_what_was_done),
        cmocka_unit_test(test_right_captures_pass),
        cmocka_unit_test(test_what_a_capture_forbids_is_seen),
        cmocka_unit_test(test_plans_of_the_real_cudnn_are_executed),
        cmocka_unit_test(test_wrong_pointers_given_to_cudnn_are_seen),
        cmocka_unit_test(test_cudnn_without_a_device_and_of_another_version),
        cmocka_unit_test(test_products_of_cublas_are_right),
        cmocka_unit_test(test_wrong_uses_of_cublas_are_seen),
        cmocka_unit_test(test_ranks_exchange_over_shared_memory),
        cmocka_unit_test(test_a_lost_rank_is_an_error_and_no_wait_for_ever),
        cmocka_unit_test(test_wrong_uses_of_nccl_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
