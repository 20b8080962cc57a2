#include "kernels/cuda/cuda_plan.h"

#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plan_cache.h"
#include "kernels/cuda/plan_graph.h"
#include "kernels/cuda/plan_tune.h"

#define CANDIDATES_MAX 32

/* ---- notes ----------------------------------------------------------------------- */

static int has_note(unsigned notes, int note)
{
    return (int)(notes >> note & 1u);
}

int plan_uses_tensor_cores(const struct cuda_plan *plan)
{
    return has_note(plan->numerical_notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

int plan_is_deterministic(const struct cuda_plan *plan)
{
    return !has_note(plan->numerical_notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
}

int plan_is_compiled_at_run_time(const struct cuda_plan *plan)
{
    return has_note(plan->behavior_notes, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

/* ---- text ------------------------------------------------------------------------ */

const char *plan_text(const struct plan_desc *desc, char text[PLAN_TEXT])
{
    static const char *const passes[] = {"forward", "dgrad", "wgrad"};
    static const char *const activations[] = {"", " relu", " leaky", " tanh"};
    char x[SHAPE_TEXT], y[SHAPE_TEXT], slope[24] = "", out[16] = "";
    if (desc->activation == ACTIVATION_LEAKY_RELU)
        snprintf(slope, sizeof slope, "%.9g", (double)desc->slope);
    if (desc->out_dtype != desc->dtype)
        snprintf(out, sizeof out, " to %s", dtype_name(desc->out_dtype));
    snprintf(text, PLAN_TEXT, "%s %s to %s k%d s%d p%d %s%s%s%s%s%s%s",
             passes[desc->pass], shape_text(desc->x, x), shape_text(desc->y, y),
             desc->kernel, desc->stride, desc->pad, dtype_name(desc->dtype), out,
             desc->has_bias ? " bias" : "", desc->undoes ? " undo" : "",
             activations[desc->activation], slope, desc->makes_sums ? " sums" : "");
    return text;
}

/* ---- one candidate --------------------------------------------------------------- */

/* An engine with its settings, from the heuristics. */
struct candidate {
    cudnnBackendDescriptor_t config;
    int engine;
    unsigned numerical_notes, behavior_notes;
};

// Bit i for each note i; the two kinds of note differ in nothing but their type.
static unsigned read_notes(struct plan_parts *parts, cudnnBackendDescriptor_t engine,
                           cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type)
{
    int notes[32] = {0};
    int64_t count = 0;
    unsigned bits = 0;
    _Static_assert(sizeof(cudnnBackendNumericalNote_t) == sizeof(int) &&
                       sizeof(cudnnBackendBehaviorNote_t) == sizeof(int),
                   "a note is an int");
    if (parts->failure == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, name, type, 32, &count, notes) ==
            CUDNN_STATUS_SUCCESS)
        for (int64_t i = 0; i < count && i < 32; i++)
            bits |= 1u << notes[i];
    return bits;
}

/* 1 if the candidate could be read. */
static int describe(struct candidate *candidate)
{
    struct plan_parts parts = {.count = 0};
    cudnnBackendDescriptor_t engine = plan_part(&parts, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0, number = -1;
    int is_read =
        engine &&
        cudnnBackendGetAttribute(candidate->config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                 &engine) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                                 1, &count, &number) == CUDNN_STATUS_SUCCESS;
    candidate->engine = (int)number;
    candidate->numerical_notes = read_notes(
        &parts, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
    candidate->behavior_notes = read_notes(
        &parts, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE);
    plan_parts_release(&parts);
    return is_read;
}

static void say(struct plan_maker *maker, const char *reason)
{
    snprintf(maker->reason, sizeof maker->reason, "%s", reason);
}

/* 1 if its notes allow it. Sums are f32 always, so an engine that adds in less is
 * refused; so is one that rounds f32 operands, unless TF32 is allowed. */
static int is_allowed(struct plan_maker *maker, const struct plan_desc *desc,
                      int wants_tensor_cores, const struct candidate *candidate)
{
    unsigned notes = candidate->numerical_notes;
    int has_cores = has_note(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    int is_strict = desc->dtype == DTYPE_F32 && !maker->allows_tf32;
    if (has_note(notes, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION))
        say(maker, "its engines add in less than f32");
    else if (is_strict &&
             (has_cores || has_note(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)))
        say(maker, "its engines round f32 operands to TF32; --tf32 allows that");
    else if (wants_tensor_cores && !has_cores)
        say(maker, "its engines do not use tensor cores");
    else if (maker->is_deterministic &&
             has_note(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC))
        say(maker, "its engines may give other bits every time");
    else
        return 1;
    return 0;
}

/* Makes *plan of one engine configuration or of JSON: the parts that both share. */
static int finish_plan(struct plan_maker *maker, cudnnBackendDescriptor_t made,
                       struct plan_parts *parts, struct cuda_plan *plan)
{
    int64_t count = 0;
    plan_part_finalize(parts, made);
    if (parts->failure == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                 CUDNN_TYPE_INT64, 1, &count,
                                 &plan->workspace_bytes) == CUDNN_STATUS_SUCCESS &&
        plan->workspace_bytes <= maker->workspace_max) {
        plan->plan = made;
        parts->count = 0; // the plan is kept
        return 1;
    }
    if (parts->failure != CUDNN_STATUS_SUCCESS)
        say(maker, parts->reason);
    else
        snprintf(maker->reason, sizeof maker->reason,
                 "it needs %lld bytes of workspace, at most %lld are allowed",
                 (long long)plan->workspace_bytes, (long long)maker->workspace_max);
    plan_parts_release(parts);
    return 0;
}

// A plan belongs to a handle's GPU, or to a description of one.
static cudnnBackendDescriptor_t begin_plan(const struct plan_maker *maker,
                                           struct plan_parts *parts)
{
    cudnnBackendDescriptor_t made =
        plan_part(parts, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (maker->handle)
        plan_part_set(parts, made, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                      &maker->handle);
    else
        plan_part_set(parts, made, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &maker->devprop);
    return made;
}

static int finalize_candidate(struct plan_maker *maker, const struct plan_desc *desc,
                              const struct candidate *candidate, struct cuda_plan *plan)
{
    struct plan_parts parts = {.count = 0};
    *plan = (struct cuda_plan){.desc = *desc,
                               .engine = candidate->engine,
                               .numerical_notes = candidate->numerical_notes,
                               .behavior_notes = candidate->behavior_notes};
    cudnnBackendDescriptor_t made = begin_plan(maker, &parts);
    plan_part_set(&parts, made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &candidate->config);
    return finish_plan(maker, made, &parts, plan);
}

/* ---- choosing -------------------------------------------------------------------- */

/* The heuristics' engine configurations for a graph, best first; the count. The parts own
 * them. */
static int list_candidates(struct plan_maker *maker, cudnnBackendDescriptor_t graph,
                           cudnnBackendHeurMode_t mode, struct plan_parts *parts,
                           struct candidate candidates[CANDIDATES_MAX])
{
    cudnnBackendDescriptor_t list = plan_part(parts, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendDescriptor_t configs[CANDIDATES_MAX] = {NULL};
    int64_t count = 0;
    plan_part_set(parts, list, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    plan_part_set(parts, list, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
                  &mode);
    if (!maker->handle)
        plan_part_set(parts, list, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &maker->devprop);
    plan_part_finalize(parts, list);
    for (int i = 0; i < CANDIDATES_MAX; i++)
        configs[i] = plan_part(parts, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (parts->failure != CUDNN_STATUS_SUCCESS) {
        say(maker, parts->reason);
        return 0;
    }
    cudnnStatus_t status = cudnnBackendGetAttribute(list, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                    CANDIDATES_MAX, &count, configs);
    if (status != CUDNN_STATUS_SUCCESS) {
        plan_failure_text(status, maker->reason, sizeof maker->reason);
        return 0;
    }
    if (count == 0)
        say(maker, "its heuristics know no engine");
    for (int i = 0; i < (int)count; i++)
        candidates[i].config = configs[i];
    return (int)count;
}

/* The plans of one choice: the first that pass, as many as are to be compared. */
struct shortlist {
    struct cuda_plan plans[PLAN_TUNE_MAX];
    int count, wanted;
};

static void collect(struct plan_maker *maker, cudnnBackendDescriptor_t graph,
                    const struct plan_desc *desc, int wants_tensor_cores,
                    cudnnBackendHeurMode_t mode, struct shortlist *list)
{
    struct plan_parts parts = {.count = 0};
    struct candidate candidates[CANDIDATES_MAX] = {{NULL, 0, 0, 0}};
    int count = list_candidates(maker, graph, mode, &parts, candidates);
    for (int i = 0; i < count && list->count < list->wanted; i++)
        if (describe(&candidates[i]) &&
            is_allowed(maker, desc, wants_tensor_cores, &candidates[i]) &&
            finalize_candidate(maker, desc, &candidates[i], &list->plans[list->count]))
            list->count++;
    plan_parts_release(&parts);
}

// The heuristics' order is by expected speed; its fallback list runs where nothing else
// does.
static int choose(struct plan_maker *maker, cudnnBackendDescriptor_t graph,
                  const struct plan_desc *desc, int wants_tensor_cores,
                  struct cuda_plan *plan)
{
    struct shortlist list = {.count = 0, .wanted = 1};
    if (maker->tunes && maker->handle)
        list.wanted = PLAN_TUNE_MAX;
    collect(maker, graph, desc, wants_tensor_cores, CUDNN_HEUR_MODE_A, &list);
    if (list.count == 0)
        collect(maker, graph, desc, wants_tensor_cores, CUDNN_HEUR_MODE_FALLBACK, &list);
    if (list.count == 0)
        return 0;
    int best = list.count > 1 ? plan_tune(maker->handle, list.plans, list.count) : 0;
    for (int i = 0; i < list.count; i++)
        if (i != best)
            plan_release(&list.plans[i]);
    *plan = list.plans[best];
    return 1;
}

int plan_build(struct plan_maker *maker, const struct plan_desc *desc,
               int wants_tensor_cores, struct cuda_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->desc = *desc;
    if (plan_cache_load(maker, desc, wants_tensor_cores, plan)) {
        maker->reloaded++;
        return 1;
    }
    struct plan_parts parts = {.count = 0};
    cudnnBackendDescriptor_t graph = plan_graph(&parts, maker->handle, desc);
    int is_built = 0;
    if (parts.failure != CUDNN_STATUS_SUCCESS)
        say(maker, parts.reason);
    else
        is_built = choose(maker, graph, desc, wants_tensor_cores, plan);
    plan_parts_release(&parts);
    if (is_built) {
        maker->built++;
        plan_cache_save(maker, wants_tensor_cores, plan);
    }
    return is_built;
}

void plan_release(struct cuda_plan *plan)
{
    for (int i = 0; i < PLAN_PACKS; i++)
        if (plan->packs[i].pack)
            cudnnBackendDestroyDescriptor(plan->packs[i].pack);
    if (plan->plan)
        cudnnBackendDestroyDescriptor(plan->plan);
    memset(plan, 0, sizeof *plan);
}

/* ---- running --------------------------------------------------------------------- */

// A finalized pack cannot be changed, so one is kept for each set of pointers.
static struct plan_pack *find_pack(struct cuda_plan *plan, void *const pointers[],
                                   size_t bytes, const void *workspace)
{
    for (int i = 0; i < PLAN_PACKS; i++) {
        struct plan_pack *pack = &plan->packs[i];
        if (pack->pack && pack->workspace == workspace &&
            memcmp(pack->pointers, pointers, bytes) == 0)
            return pack;
    }
    return NULL;
}

static const char *make_pack(struct cuda_plan *plan, const int64_t uids[],
                             void *const pointers[], int count, void *workspace,
                             struct plan_pack **result)
{
    static __thread char reason[512];
    struct plan_parts parts = {.count = 0};
    cudnnBackendDescriptor_t made =
        plan_part(&parts, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    plan_part_set(&parts, made, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                  count, uids);
    plan_part_set(&parts, made, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                  CUDNN_TYPE_VOID_PTR, count, pointers);
    plan_part_set(&parts, made, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                  &workspace);
    plan_part_finalize(&parts, made);
    if (parts.failure != CUDNN_STATUS_SUCCESS) {
        snprintf(reason, sizeof reason, "%s", parts.reason);
        plan_parts_release(&parts);
        return reason;
    }
    struct plan_pack *slot = &plan->packs[plan->next_pack];
    plan->next_pack = (plan->next_pack + 1) % PLAN_PACKS;
    if (slot->pack)
        cudnnBackendDestroyDescriptor(slot->pack);
    slot->pack = made;
    slot->workspace = workspace;
    memcpy(slot->pointers, pointers, (size_t)count * sizeof *pointers);
    *result = slot;
    return NULL;
}

const char *plan_run(struct cudnnContext *handle, struct cuda_plan *plan,
                     const struct plan_pointers *at, void *workspace)
{
    static __thread char reason[512];
    int64_t uids[PLAN_TENSORS_MAX];
    void *pointers[PLAN_TENSORS_MAX];
    int count = plan_tensors(&plan->desc, at, uids, pointers);
    struct plan_pack *pack =
        find_pack(plan, pointers, (size_t)count * sizeof *pointers, workspace);
    if (!pack) {
        const char *failure = make_pack(plan, uids, pointers, count, workspace, &pack);
        if (failure)
            return failure;
    }
    cudnnStatus_t status = cudnnBackendExecute(handle, plan->plan, pack->pack);
    if (status == CUDNN_STATUS_SUCCESS)
        return NULL;
    plan_failure_text(status, reason, sizeof reason);
    return reason;
}

/* ---- JSON ------------------------------------------------------------------------ */

void *plan_devprop(const char *json, size_t bytes)
{
    struct plan_parts parts = {.count = 0};
    cudnnBackendDescriptor_t made =
        plan_part(&parts, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    plan_part_set(&parts, made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                  CUDNN_TYPE_CHAR, (int64_t)bytes, json);
    plan_part_finalize(&parts, made);
    if (parts.failure == CUDNN_STATUS_SUCCESS)
        return made;
    plan_parts_release(&parts);
    return NULL;
}

void plan_devprop_release(void *devprop)
{
    if (devprop)
        cudnnBackendDestroyDescriptor(devprop);
}

char *plan_to_json(const struct cuda_plan *plan, size_t *bytes)
{
    int64_t size = 0;
    if (cudnnBackendGetAttribute(
            plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0,
            &size, NULL) != CUDNN_STATUS_SUCCESS ||
        size <= 0)
        return NULL;
    char *json = calloc((size_t)size + 1, 1);
    if (json && cudnnBackendGetAttribute(
                    plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                    CUDNN_TYPE_CHAR, size, &size, json) == CUDNN_STATUS_SUCCESS) {
        *bytes = strlen(json);
        return json;
    }
    free(json);
    return NULL;
}

int plan_from_json(struct plan_maker *maker, const char *json, size_t bytes,
                   struct cuda_plan *plan)
{
    struct plan_parts parts = {.count = 0};
    cudnnBackendDescriptor_t made = begin_plan(maker, &parts);
    plan_part_set(&parts, made, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                  CUDNN_TYPE_CHAR, (int64_t)bytes, json);
    return finish_plan(maker, made, &parts, plan);
}
