#include "app/recovery/init_scale.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/process.h"
#include "app/train/rehearsal.h"
#include "app/train/train.h"

#define STRIDE_DOWN 4 // of the first steps down from a scale that was bad

/* One scale while it is looked for. `good` and `bad` are exponents, and lie beyond those
 * that are tried as long as nothing is known. */
struct target {
    int index; // of a role, or SCALER_D_FAKE
    struct grad_scaler *scaler;
    const float *grads; // that carry it
    size_t elements;
    struct scaler_state before; // as the run begins with it, but for the scale
    int good, bad, ceiling, tried;
    int was_good, stride;         // how the search goes on
    struct nonfinite_place place; // at `bad`
    struct found_scale *found;
};

struct search {
    struct trainer *trainer;
    struct target target[3];
    int count, rehearsals;
    float *excess; // device: [3] minus each target's headroom, for the group's maximum
    struct rehearsal rehearsal;
    struct survey_stats *stats; // host: of one pass
    struct arena arena;
};

/* ---- what to look for ------------------------------------------------------------ */

static const struct network_config *settings_of(const struct trainer *trainer,
                                                int network)
{
    return &trainer->config.network[network];
}

static int is_wanted(const struct trainer *trainer, int network)
{
    return settings_of(trainer, network)->init_scale == 0.0 &&
           trainer->scaler[network].config.enabled;
}

// True for a pass whose gradients carry the scale.
static int carries(const struct trainer *trainer, int pass, const struct target *target)
{
    return trainer->topology.scaler_of[pass] == target->index;
}

// True where a gradient on the way of these passes is stored in f16.
static int has_f16(const struct trainer *trainer, const struct target *target)
{
    for (int pass = 0; pass < trainer->gan.passes.count; pass++) {
        const struct survey *survey = &trainer->probe.survey[pass];
        for (int i = 0; carries(trainer, pass, target) && i < survey->count; i++)
            if (survey->entry[i].kind == SURVEY_ACTIVATION_GRADIENT &&
                survey->entry[i].dtype == DTYPE_F16)
                return 1;
    }
    return 0;
}

// `index`: of a role, or SCALER_D_FAKE.
static void add_target(struct search *search, struct found_scales *found, int index)
{
    struct trainer *trainer = search->trainer;
    struct topology *topology = &trainer->topology;
    int is_fake = index == SCALER_D_FAKE, network = is_fake ? ROLE_D : index, pass = 0;
    while (topology->scaler_of[pass] != index)
        pass++;
    struct target *target = &search->target[search->count++];
    *target =
        (struct target){.index = index,
                        .scaler = is_fake ? &topology->fake : &trainer->scaler[network],
                        .grads = topology_grads(topology, pass),
                        .elements = trainer->gan.net[network].param_elements,
                        .found = &found->of[found->count++]};
    *target->found = (struct found_scale){.network = network, .loss = ""};
    if (network == ROLE_D && topology->kind == TOPOLOGY_PER_LOSS)
        target->found->loss = is_fake ? "fakes" : "real";
    int usual = ilogb(grad_scaler_default_config().init_scale);
    target->before = grad_scaler_read(target->scaler);
    target->ceiling = has_f16(trainer, target) ? INIT_EXPONENT_MAX : usual;
    target->good = INIT_EXPONENT_MIN - 1;
    target->bad = target->ceiling + 1;
    target->tried = usual;
}

static void list_targets(struct search *search, struct found_scales *found)
{
    const struct trainer *trainer = search->trainer;
    for (int role = 0; role < ROLES; role++)
        if (is_wanted(trainer, role))
            add_target(search, found, role);
    if (is_wanted(trainer, ROLE_D) && trainer->topology.kind == TOPOLOGY_PER_LOSS)
        add_target(search, found, SCALER_D_FAKE);
}

static enum status open_search(struct search *search)
{
    struct trainer *trainer = search->trainer;
    struct arena *arena = &search->arena;
    arena_begin(arena, trainer->device, "looking for a loss scale");
    arena_reserve(arena, (void **)&search->excess, 3 * sizeof *search->excess);
    TRY(arena_commit(arena));
    search->stats =
        calloc((size_t)probe_most_entries(&trainer->probe), sizeof *search->stats);
    if (!search->stats)
        return status_fail(STATUS_FAILED, "not enough memory to look for a loss scale");
    return rehearsal_open(&search->rehearsal, trainer);
}

/* ---- a rehearsal ----------------------------------------------------------------- */

static void write_scale(struct target *target, float scale)
{
    struct scaler_state state = target->before;
    state.scale = scale;
    target->scaler->device->ops->memory.upload(
        target->scaler->device, target->scaler->state, &state, sizeof state);
}

// What the scaler's own check would find, over all ranks and all optimizer steps.
static void check(struct trainer *trainer, int network, void *context)
{
    struct search *search = context;
    const struct ops *ops = trainer->device->ops;
    for (int i = 0; i < search->count; i++) {
        struct target *target = &search->target[i];
        if (target->found->network != network)
            continue;
        ops->optimizer.grads_check(trainer->device, target->grads, target->elements,
                                   target->scaler->state);
        ops->group.max_f32(trainer->device, &target->scaler->state->found_inf, 2);
    }
}

// Powers of two by which all gradients of one pass may grow.
static int headroom(const struct survey *survey, const struct survey_stats *stats)
{
    int least = INIT_EXPONENT_MAX - INIT_EXPONENT_MIN;
    for (int i = 0; i < survey->count; i++) {
        if (survey->entry[i].kind == SURVEY_ACTIVATION || !(stats[i].max_abs > 0.0f))
            continue;
        double ratio = (double)survey_limit(&survey->entry[i]) / (double)stats[i].max_abs;
        if (ilogb(ratio) < least)
            least = ilogb(ratio);
    }
    return least > 0 ? least : 0;
}

static void download_stats(const struct search *search, int pass)
{
    struct probe *probe = &search->trainer->probe;
    probe->device->ops->memory.download(probe->device, search->stats, probe->stats[pass],
                                        (size_t)probe->survey[pass].count *
                                            sizeof *search->stats);
}

static void find_place(const struct search *search, struct target *target)
{
    target->place = (struct nonfinite_place){.entry = -1};
    for (int pass = 0; pass < search->trainer->gan.passes.count; pass++) {
        if (!carries(search->trainer, pass, target))
            continue;
        download_stats(search, pass);
        if (survey_first_nonfinite(&search->trainer->probe.survey[pass], search->stats,
                                   &target->place))
            return;
    }
}

/* Of every target, on all ranks alike. */
static void read_headrooms(const struct search *search, float rooms[3])
{
    struct device *device = search->trainer->device;
    size_t bytes = 3 * sizeof *rooms;
    for (int i = 0; i < search->count; i++) {
        int least = INT32_MAX;
        for (int pass = 0; pass < search->trainer->gan.passes.count; pass++) {
            if (!carries(search->trainer, pass, &search->target[i]))
                continue;
            download_stats(search, pass);
            int room = headroom(&search->trainer->probe.survey[pass], search->stats);
            least = room < least ? room : least;
        }
        rooms[i] = -(float)least;
    }
    device->ops->memory.upload(device, search->excess, rooms, bytes);
    device->ops->group.max_f32(device, search->excess, 3);
    device->ops->memory.download(device, rooms, search->excess, bytes);
    for (int i = 0; i < search->count; i++)
        rooms[i] = -rooms[i];
}

/* ---- the search ------------------------------------------------------------------ */

static int is_settled(const struct target *target)
{
    return target->bad - target->good == 1;
}

/* What to try next, strictly between `good` and `bad`: as far as the headroom goes;
 * without one, a stride that doubles for as long as the answers are the same. */
static void choose_next(struct target *target, int is_good, int room)
{
    int is_blind = target->good < INIT_EXPONENT_MIN;
    if (is_good != target->was_good || (is_good && room > 0))
        target->stride = 0;
    target->was_good = is_good;
    if (is_good && room > 0)
        target->tried = target->good + room;
    else if (target->stride > 0)
        target->stride *= 2;
    else
        target->stride = is_blind ? STRIDE_DOWN : 1;
    if (target->stride > 0)
        target->tried =
            is_good ? target->good + target->stride : target->bad - target->stride;
    if (target->tried >= target->bad)
        target->tried = target->bad - 1;
    if (target->tried <= target->good)
        target->tried = target->good + 1;
}

static void take_verdict(struct search *search, struct target *target, int room)
{
    struct scaler_state state = grad_scaler_read(target->scaler);
    int is_good = !scaler_overflowed(&state);
    if (is_settled(target))
        return;
    if (is_good) {
        target->good = target->tried;
    } else {
        target->bad = target->tried;
        find_place(search, target);
    }
    if (!is_settled(target))
        choose_next(target, is_good, room);
}

static int is_over(const struct search *search)
{
    for (int i = 0; i < search->count; i++)
        if (!is_settled(&search->target[i]))
            return 0;
    return 1;
}

static void rehearse(struct search *search)
{
    struct trainer *trainer = search->trainer;
    float rooms[3];
    for (int i = 0; i < search->count; i++)
        write_scale(&search->target[i], ldexpf(1.0f, search->target[i].tried));
    trainer->probe.is_on = 1;
    rehearsal_take(&search->rehearsal, trainer->config.n_dis, check, search);
    trainer->probe.is_on = 0;
    read_headrooms(search, rooms);
    for (int i = 0; i < search->count; i++)
        take_verdict(search, &search->target[i], (int)rooms[i]);
    search->rehearsals += 1;
}

/* ---- what was found -------------------------------------------------------------- */

static float start_of(const struct trainer *trainer, const struct found_scale *found)
{
    const struct network_config *settings = settings_of(trainer, found->network);
    double scale = config_init_scale(settings); // within the limits
    if (found->kind != FOUND_LIMIT)
        return (float)scale;
    int exponent = found->exponent - trainer->config.init_margin;
    scale = ldexp(1.0, exponent > INIT_EXPONENT_MIN ? exponent : INIT_EXPONENT_MIN);
    scale = fmax(scale, settings->min_scale);
    return (float)(settings->max_scale > 0.0 ? fmin(scale, settings->max_scale) : scale);
}

static void settle(const struct search *search)
{
    const struct trainer *trainer = search->trainer;
    float least = FLT_MAX;
    for (int i = 0; i < search->count; i++) {
        const struct target *target = &search->target[i];
        struct found_scale *found = target->found;
        found->kind = target->good < INIT_EXPONENT_MIN ? FOUND_NOTHING
                      : target->bad > target->ceiling  ? FOUND_NO_LIMIT
                                                       : FOUND_LIMIT;
        found->exponent = target->good;
        found->bad = target->place;
        found->start = start_of(trainer, found);
        least = fminf(least, found->start);
    }
    if (trainer->topology.kind == TOPOLOGY_SHARED ||
        trainer->topology.kind == TOPOLOGY_SHARED_PER_STEP)
        for (int i = 0; i < search->count; i++)
            search->target[i].found->start = least;
}

// A sentence a line, for log, info and --dry-run.
static void keep_sentences(struct trainer *trainer, const struct found_scales *found)
{
    size_t used = 0, bytes = sizeof trainer->found_scales;
    for (int i = 0; i < found->count; i++) {
        char line[INIT_SCALE_LINE];
        init_scale_line(trainer, &found->of[i], line);
        used += (size_t)snprintf(trainer->found_scales + used, bytes - used, "%s%s",
                                 i ? "\n" : "", line);
        CHECK(used < bytes, "no room for what was found");
    }
}

static enum status look_for(struct search *search)
{
    TRY(open_search(search));
    do
        rehearse(search);
    while (!is_over(search));
    settle(search);
    for (int i = 0; i < search->count; i++)
        write_scale(&search->target[i], search->target[i].found->start);
    return STATUS_OK;
}

enum status init_scale_find(struct trainer *trainer, struct found_scales *found)
{
    *found = (struct found_scales){0};
    struct search search = {.trainer = trainer};
    CHECK(trainer->progress.step == 0 && train_pending(trainer) == 0);
    list_targets(&search, found);
    if (search.count == 0)
        return STATUS_OK;
    double started = now_seconds();
    enum status status = look_for(&search), closed = rehearsal_close(&search.rehearsal);
    status = status == STATUS_OK ? closed : status;
    found->rehearsals = search.rehearsals;
    found->seconds = now_seconds() - started;
    free(search.stats);
    arena_release(&search.arena);
    if (status == STATUS_OK)
        keep_sentences(trainer, found);
    return status;
}
