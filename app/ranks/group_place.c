/* group_place.c - what torchrun, mpirun and srun say to a process, in variables of their
 * own: which of how many it is, which of those on this machine, and where rank 0 can be
 * met. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/ranks/group.h"
#include "app/config/number.h"

#define DEFAULT_PORT 29500 // torchrun's

struct launcher {
    const char *name, *rank, *world, *local_rank, *local_world;
    int is_certain; // nothing else sets these: one without the others is a mistake
};

// The first that is complete counts. MPICH's mpirun may itself use srun to reach its
// nodes. The script of a Slurm job has a rank, but no number of tasks, before it calls
// srun.
static const struct launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", 1},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", 1},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", 0},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, 0},
};
#define LAUNCHER_COUNT (sizeof launchers / sizeof *launchers)

static const char *value_of(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && value[0] ? value : NULL;
}

static int read_number(const char *text, long least, long most, int *number)
{
    int64_t value;
    if (number_read_whole(text, &value) != NUMBER_OK || value < least || value > most)
        return 0;
    *number = (int)value;
    return 1;
}

static enum status find_launcher(const struct launcher **found)
{
    *found = NULL;
    for (size_t i = 0; i < LAUNCHER_COUNT && !*found; i++)
        if (value_of(launchers[i].rank) && value_of(launchers[i].world) &&
            (value_of(launchers[i].local_rank) || value_of("LOCAL_RANK")))
            *found = &launchers[i];
    for (size_t i = 0; i < LAUNCHER_COUNT && !*found; i++) {
        const struct launcher *one = &launchers[i];
        const char *rank = value_of(one->rank), *world = value_of(one->world);
        if (!one->is_certain || (!rank && !world))
            continue;
        const char *missing = !rank ? one->rank : !world ? one->world : one->local_rank;
        return status_fail(STATUS_USAGE,
                           "%s is set (\"%s\") but %s is not: a process that %s starts "
                           "has both; set it, or unset %s",
                           rank ? one->rank : one->world, rank ? rank : world, missing,
                           one->name, rank ? one->rank : one->world);
    }
    return STATUS_OK;
}

static enum status refuse(const char *name, const char *what, int most)
{
    int64_t value;
    return status_fail(
        STATUS_USAGE, "%s: \"%s\" %s; expected %s up to %d", name, getenv(name),
        number_problem(number_read_whole(getenv(name), &value)), what, most);
}

static enum status read_ranks(const struct launcher *launcher, struct group_place *place)
{
    const char *local =
        value_of(launcher->local_rank) ? launcher->local_rank : "LOCAL_RANK";
    if (!read_number(getenv(launcher->world), 1, GROUP_WORLD_MAX, &place->world))
        return refuse(launcher->world, "a number of processes from 1", GROUP_WORLD_MAX);
    if (!read_number(getenv(launcher->rank), 0, place->world - 1, &place->rank))
        return refuse(launcher->rank, "a rank from 0", place->world - 1);
    if (!read_number(getenv(local), 0, place->rank, &place->local_rank))
        return refuse(local, "a rank on this machine from 0", place->rank);
    return STATUS_OK;
}

static int is_one_machine(const struct launcher *launcher, int world)
{
    int local_world;
    const char *nodes = value_of("SLURM_STEP_NUM_NODES");
    if (!launcher->local_world)
        return nodes && strcmp(nodes, "1") == 0;
    return value_of(launcher->local_world) &&
           read_number(getenv(launcher->local_world), 1, GROUP_WORLD_MAX, &local_world) &&
           local_world == world;
}

static enum status read_meeting(const struct launcher *launcher,
                                struct group_place *place)
{
    const char *address = value_of("MASTER_ADDR"), *port = value_of("MASTER_PORT");
    if (!address && !is_one_machine(launcher, place->world))
        return status_fail(STATUS_USAGE,
                           "MASTER_ADDR is not set: rank %d of %d (%s) has to know where "
                           "rank 0 runs; set it to that machine's name or address, the "
                           "same for all",
                           place->rank, place->world, launcher->name);
    snprintf(place->address, sizeof place->address, "%s",
             address ? address : "127.0.0.1");
    place->port = DEFAULT_PORT;
    if (port && !read_number(port, 1, 65534, &place->port))
        return refuse("MASTER_PORT", "a port from 1", 65534);
    // torchrun itself listens at its port.
    const char *store = value_of("TORCHELASTIC_USE_AGENT_STORE");
    place->port += store && strcmp(store, "True") == 0;
    return STATUS_OK;
}

enum status group_read_environment(struct group_place *place)
{
    const struct launcher *launcher;
    memset(place, 0, sizeof *place);
    TRY(find_launcher(&launcher));
    if (!launcher)
        return STATUS_OK;
    TRY(read_ranks(launcher, place));
    if (place->world == 1) {
        memset(place, 0, sizeof *place);
        return STATUS_OK;
    }
    place->is_launched = 1;
    place->launcher = launcher->name;
    const char *visible = value_of("CUDA_VISIBLE_DEVICES");
    place->sees_one_device = visible && !strchr(visible, ',');
    return read_meeting(launcher, place);
}

int group_device_index(const struct group_place *place, int rank)
{
    if (!place->is_launched)
        return rank;
    return place->sees_one_device ? 0 : place->local_rank;
}
