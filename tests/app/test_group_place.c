/* What launchers tell by environment variables, and the settings of runs on several
 * GPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/config/config.h"
#include "tests/app/processes.h"
#include "tests/support/support.h"

/* ---- launched: the environment --------------------------------------------------- */

static const char *const variables[] = {"RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "MPI_LOCALRANKID",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_PROCID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_LOCALID",
                                        "SLURM_STEP_NUM_NODES",
                                        "CUDA_VISIBLE_DEVICES",
                                        "TORCHELASTIC_USE_AGENT_STORE"};

/* The environment is "A=1 B=2" and nothing else of those above. */
static enum status read_place(const char *environment, struct group_place *place)
{
    char copy[512], *rest = copy;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    snprintf(copy, sizeof copy, "%s", environment);
    for (char *one; (one = strsep(&rest, " "));) {
        char *value = strchr(one, '=');
        if (!value)
            continue;
        *value = '\0';
        setenv(one, value + 1, 1);
    }
    enum status status = group_read_environment(place);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return status;
}

#define TORCHRUN "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 "

static void test_each_launchers_variables_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *environment, *launcher, *address;
        int rank, world, device, port;
    } cases[] = {
        {TORCHRUN "MASTER_ADDR=node1 MASTER_PORT=1234", "torchrun", "node1", 5, 8, 1,
         1234},
        {TORCHRUN "MASTER_ADDR=node1 MASTER_PORT=1234 TORCHELASTIC_USE_AGENT_STORE=True",
         "torchrun", "node1", 5, 8, 1, 1235},
        {TORCHRUN "MASTER_ADDR=node1 CUDA_VISIBLE_DEVICES=3", "torchrun", "node1", 5, 8,
         0, 29500},
        {TORCHRUN "MASTER_ADDR=node1 CUDA_VISIBLE_DEVICES=2,3", "torchrun", "node1", 5, 8,
         1, 29500},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=2",
         "Open MPI", "127.0.0.1", 1, 2, 1, 29500},
        // MPICH's proxies are started by Slurm, which counts them, not the ranks.
        {"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 SLURM_PROCID=1 "
         "SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 MASTER_ADDR=a",
         "MPICH", "a", 3, 4, 1, 29500},
        {"PMI_RANK=2 PMI_SIZE=4 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=2 "
         "SLURM_STEP_NUM_NODES=1",
         "Slurm", "127.0.0.1", 2, 4, 2, 29500},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct group_place place;
        if (read_place(cases[i].environment, &place) != STATUS_OK)
            fail_msg("%s: %s", cases[i].environment, status_message());
        assert_true(place.is_launched);
        assert_string_equal(place.launcher, cases[i].launcher);
        assert_string_equal(place.address, cases[i].address);
        assert_int_equal(place.rank, cases[i].rank);
        assert_int_equal(place.world, cases[i].world);
        assert_int_equal(group_device_index(&place, place.rank), cases[i].device);
        assert_int_equal(place.port, cases[i].port);
    }
}

static void test_without_a_launcher_a_process_is_alone(void **state)
{
    (void)state;
    static const char *const environments[] = {
        "", "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0",
        // The script of a Slurm job, which has called no srun.
        "SLURM_PROCID=0 SLURM_LOCALID=0", "CUDA_VISIBLE_DEVICES=0,1 MASTER_ADDR=a"};
    for (size_t i = 0; i < sizeof environments / sizeof *environments; i++) {
        struct group_place place;
        assert_int_equal(read_place(environments[i], &place), STATUS_OK);
        assert_false(place.is_launched);
        assert_int_equal(group_device_index(&place, 3), 3);
    }
}

static void test_each_wrong_variable_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *environment, *words;
    } cases[] = {
        {"RANK=1", "RANK is set (\"1\") but WORLD_SIZE is not"},
        {"WORLD_SIZE=2", "WORLD_SIZE is set (\"2\") but RANK is not"},
        {"RANK=1 WORLD_SIZE=2", "RANK is set (\"1\") but LOCAL_RANK is not"},
        {"RANK=1 WORLD_SIZE=two LOCAL_RANK=0",
         "WORLD_SIZE: \"two\" is not a number; expected a number of processes from 1 up "
         "to 64"},
        {"RANK=1 WORLD_SIZE=65 LOCAL_RANK=0", "WORLD_SIZE: \"65\" is out of range"},
        {"RANK=1 WORLD_SIZE=0 LOCAL_RANK=0", "WORLD_SIZE: \"0\""},
        {"RANK=2 WORLD_SIZE=2 LOCAL_RANK=0",
         "RANK: \"2\" is out of range; expected a rank from 0 up to 1"},
        {"RANK=-1 WORLD_SIZE=2 LOCAL_RANK=0", "RANK: \"-1\""},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=x",
         "LOCAL_RANK: \"x\" is not a number; expected a rank on this"},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=2", "LOCAL_RANK: \"2\""},
        {TORCHRUN, "MASTER_ADDR is not set: rank 5 of 8 (torchrun)"},
        {TORCHRUN "MASTER_ADDR=a MASTER_PORT=0",
         "MASTER_PORT: \"0\" is out of range; expected a port"},
        {TORCHRUN "MASTER_ADDR=a MASTER_PORT=70000", "MASTER_PORT: \"70000\""},
        {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_RANK is set (\"0\") but "
                                   "OMPI_COMM_WORLD_SIZE is not"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct group_place place;
        if (read_place(cases[i].environment, &place) != STATUS_USAGE)
            fail_msg("%s is taken", cases[i].environment);
        assert_says(status_message(), cases[i].words);
    }
}

/* ---- the program ----------------------------------------------------------------- */

static void assert_program(const char *environment, const char *flags, int code,
                           const char *words)
{
    char text[4096];
    int found = run_command(text, sizeof text,
                            "env %s '%s' train --data builtin:shapes --dry-run %s",
                            environment, TWINSCALE_PROGRAM, flags);
    if (found != code)
        fail_msg("%s %s: exit %d: %s", environment, flags, found, text);
    assert_one_line(text);
    assert_says(text, words);
}

static void test_settings_that_gpus_do_not_go_with_are_told(void **state)
{
    (void)state;
    assert_program("", "--gpus 2 --device cpu", 2,
                   "--gpus: 2 of them cannot be device \"cpu\"; give --device auto");
    assert_program("", "--gpus 2 --device cuda:", 2, "cannot be device \"cuda:\"");
    assert_program(
        "", "--gpus 3 --batch 64", 2,
        "--batch: 64 images cannot be shared evenly by 3 GPUs; give a multiple "
        "of 3, such as 66");
    assert_program(
        "", "--gpus 4 --batch 4", 2,
        "--batch: 4 images on 4 GPUs are one for each, which batch norm cannot "
        "normalise; give at least 8, or --sync-bn");
    assert_program("", "--gpus 0", 2, "--gpus");
    assert_program("", "--gpus 65", 2, "--gpus");
    assert_program("RANK=1", "", 2, "RANK is set (\"1\") but WORLD_SIZE is not");
    assert_program(
        "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1", "--gpus 4", 2,
        "--gpus: 4, but this is rank 0 of 2 processes that torchrun has started");
}

static void test_the_rules_hold_for_good_settings_too(void **state)
{
    (void)state;
    struct config config;
    config_default(&config);
    assert_int_equal(config.gpus, 1);
    assert_int_equal(config_set(&config, "data", "builtin:shapes", ""), STATUS_OK);
    assert_int_equal(config_set(&config, "gpus", "8", ""), STATUS_OK);
    assert_int_equal(config_check(&config), STATUS_OK);
    assert_int_equal(config_set(&config, "device", "cuda:2", ""), STATUS_OK);
    assert_int_equal(config_check(&config), STATUS_OK);
    assert_int_equal(config_set(&config, "batch", "8", ""), STATUS_OK);
    assert_int_equal(config_check(&config), STATUS_USAGE);
    assert_int_equal(config_set(&config, "sync_bn", "1", ""), STATUS_OK);
    assert_int_equal(config_check(&config), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_launchers_variables_are_understood),
        cmocka_unit_test(test_without_a_launcher_a_process_is_alone),
        cmocka_unit_test(test_each_wrong_variable_is_named),
        cmocka_unit_test(test_settings_that_gpus_do_not_go_with_are_told),
        cmocka_unit_test(test_the_rules_hold_for_good_settings_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
