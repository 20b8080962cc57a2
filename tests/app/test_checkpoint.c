/* test_checkpoint.c - what a snapshot keeps, and that its digest covers all of it: every
 * test that finds two digests equal rests on this. */
#include "app/record/checkpoint.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/record/checkpoint_tensors.h"
#include "app/train/train.h"
#include "kernels/half.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static char path[600];

static int enter(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/snapshot.safetensors", make_folder("checkpoint"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    *strrchr(path, '/') = '\0';
    remove_folder(path);
    return 0;
}

// Three scalers, and a step behind it, so that every number has something to keep.
static void open_trainer(struct trainer *trainer)
{
    struct config config = small_config();
    config.scaler = SCALER_PER_LOSS;
    config.precision = PRECISION_FP16;
    config.g.init_scale = config.d.init_scale = 1024.0;
    config.g.growth_delay = config.d.growth_delay =
        5;                                         // what limits the saved growth_wait
    config.g.hysteresis = config.d.hysteresis = 5; // and the saved hysteresis_used
    assert_int_equal(trainer_create(trainer, &config), STATUS_OK);
    assert_int_equal(trainer_start_data(trainer), STATUS_OK);
    train_step(trainer);
    assert_int_equal(train_collect_all(trainer), STATUS_OK);
}

static uint64_t digest_of_trainer(struct trainer *trainer)
{
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_save(trainer, path), STATUS_OK);
    assert_int_equal(checkpoint_open(path, &checkpoint), STATUS_OK);
    uint64_t digest = checkpoint_digest(checkpoint);
    checkpoint_close(checkpoint);
    return digest;
}

static void load(struct trainer *trainer)
{
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(path, &checkpoint), STATUS_OK);
    if (checkpoint_load(checkpoint, trainer) != STATUS_OK)
        fail_msg("%s", status_message());
    checkpoint_close(checkpoint);
}

/* ---- one number of the state at a time ------------------------------------------- */

struct number {
    char name[128];
    void *at;
    enum { IS_F32, IS_I32, IS_INT, IS_I64 } type;
};

struct numbers {
    size_t count;
    struct number of[4096];
};

static void add(struct numbers *numbers, const char *where, const char *name, void *at,
                int type)
{
    assert_true(numbers->count < sizeof numbers->of / sizeof *numbers->of);
    struct number *number = &numbers->of[numbers->count++];
    snprintf(number->name, sizeof number->name, "%.96s %.24s", where, name);
    number->at = at;
    number->type = type;
}

// The first and the last element of every tensor.
static void add_tensors(struct numbers *numbers, struct trainer *trainer)
{
    struct state_list *list = malloc(sizeof *list);
    assert_non_null(list);
    state_list_all(list, trainer);
    assert_true(list->count > 0);
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor *tensor = &list->entry[i].tensor;
        struct shape s = tensor->shape;
        size_t pixels = (size_t)s.n * (size_t)s.h * (size_t)s.w;
        float *data = tensor->data;
        add(numbers, list->entry[i].name, "first", data, IS_F32);
        add(numbers, list->entry[i].name, "last",
            data + (pixels - 1) * (size_t)tensor->c_stored + (size_t)s.c - 1, IS_F32);
    }
    free(list);
}

#define ADD(field, type) add(numbers, where, #field, &state->field, type)

// What a scaler moves. Flags of a step are 0 between two; settings are the config's.
static void add_scaler(struct numbers *numbers, const char *where,
                       struct scaler_state *state)
{
    ADD(scale, IS_F32);
    ADD(growth_tracker, IS_I32);
    ADD(hysteresis_used, IS_I32);
    ADD(growth_wait, IS_I32);
    ADD(is_held, IS_I32);
    ADD(steps_since_rescale, IS_I64);
    ADD(overflows_since_rescale, IS_I64);
    ADD(adam_t, IS_I64);
    ADD(updates, IS_I64);
    ADD(skipped, IS_I64);
    ADD(skipped_in_a_row, IS_I64);
    ADD(growths, IS_I64);
    ADD(backoffs, IS_I64);
    ADD(held, IS_I64);
}

// Each kind of tensor by itself, so that none can be missing in the list of them.
static void add_blocks(struct numbers *numbers, struct trainer *trainer)
{
    for (int network = 0; network < ROLES; network++) {
        struct net *net = &trainer->gan.net[network];
        struct adam *adam = &trainer->adam[network];
        const char *where = network == ROLE_G ? "G's" : "D's";
        add(numbers, where, "weights", net->params, IS_F32);
        add(numbers, where, "running statistics", net->buffers, IS_F32);
        add(numbers, where, "Adam's m", adam->m, IS_F32);
        add(numbers, where, "Adam's v", adam->v, IS_F32);
    }
    add(numbers, "G's", "average", trainer->ema.average, IS_F32);
}

static struct numbers *numbers_of(struct trainer *trainer)
{
    struct numbers *numbers = calloc(1, sizeof *numbers);
    assert_non_null(numbers);
    add_tensors(numbers, trainer);
    add_blocks(numbers, trainer);
    add_scaler(numbers, "G's scaler", trainer->scaler[ROLE_G].state);
    add_scaler(numbers, "D's scaler", trainer->scaler[ROLE_D].state);
    add_scaler(numbers, "D's scaler of fakes", trainer->topology.fake.state);
    // Where latents, flips and the order of images stand; which order it is.
    add(numbers, "progress", "step", &trainer->progress.step, IS_I64);
    add(numbers, "progress", "images", &trainer->progress.images, IS_I64);
    add(numbers, "progress", "rollbacks", &trainer->progress.rollbacks, IS_INT);
    return numbers;
}

static void change(const struct number *number)
{
    switch (number->type) {
    case IS_F32: *(float *)number->at = *(float *)number->at * 2.0f + 0.125f; break;
    case IS_I32: *(int32_t *)number->at += 1; break;
    case IS_INT: *(int *)number->at += 1; break;
    case IS_I64: *(int64_t *)number->at += 1; break;
    }
}

static size_t size_of(const struct number *number)
{
    switch (number->type) {
    case IS_F32: return sizeof(float);
    case IS_I32: return sizeof(int32_t);
    case IS_INT: return sizeof(int);
    case IS_I64: return sizeof(int64_t);
    }
    return 0;
}

static void test_every_number_of_the_state_is_in_the_digest(void **state)
{
    (void)state;
    struct trainer trainer;
    open_trainer(&trainer);
    struct numbers *numbers = numbers_of(&trainer);
    uint64_t before = digest_of_trainer(&trainer);
    assert_true(digest_of_trainer(&trainer) == before);
    for (size_t i = 0; i < numbers->count; i++) {
        const struct number *number = &numbers->of[i];
        char kept[sizeof(int64_t)];
        memcpy(kept, number->at, size_of(number));
        change(number);
        if (digest_of_trainer(&trainer) == before)
            fail_msg("the digest is the same with another %s", number->name);
        memcpy(number->at, kept, size_of(number));
    }
    assert_true(digest_of_trainer(&trainer) == before);
    free(numbers);
    trainer_release(&trainer);
}

static void test_every_number_of_the_state_is_saved_and_loaded(void **state)
{
    (void)state;
    struct trainer saved, loaded;
    open_trainer(&saved);
    open_trainer(&loaded);
    struct numbers *from = numbers_of(&saved), *to = numbers_of(&loaded);
    for (size_t i = 0; i < from->count; i++)
        change(&from->of[i]);
    saved.progress.images =
        2 * saved.config.batch; // those of the step before, and one more
    saved.progress.elapsed_sec = 12345.5;
    snprintf(saved.found_scales, sizeof saved.found_scales, "G's was found");
    uint64_t digest = digest_of_trainer(&saved);
    load(&loaded);
    assert_int_equal(from->count, to->count);
    for (size_t i = 0; i < from->count; i++)
        if (memcmp(from->of[i].at, to->of[i].at, size_of(&from->of[i])) != 0)
            fail_msg("%s was not loaded as it was saved", from->of[i].name);
    // Beside the digest: the clock, a sentence, and the place of the random numbers.
    assert_true(loaded.progress.elapsed_sec == 12345.5);
    assert_string_equal(loaded.found_scales, "G's was found");
    assert_int_equal(*loaded.feed.draw, 2);
    assert_true(digest_of_trainer(&loaded) == digest);
    // What the next forward pass reads: the half copy of the loaded weights.
    for (int network = 0; network < ROLES; network++) {
        const struct net *net = &loaded.gan.net[network];
        for (size_t i = 0; i < net->param_elements; i++)
            assert_true(element_load(net->half, net->dtype, i) ==
                        round_to_dtype(net->params[i], net->dtype));
    }
    free(from);
    free(to);
    trainer_release(&saved);
    trainer_release(&loaded);
}

static void test_as_many_images_with_other_pixels_are_other_data(void **state)
{
    (void)state;
    struct trainer trainer;
    struct checkpoint *checkpoint;
    open_trainer(&trainer);
    assert_int_equal(checkpoint_save(&trainer, path), STATUS_OK);
    assert_int_equal(checkpoint_open(path, &checkpoint), STATUS_OK);
    assert_int_equal(checkpoint_load(checkpoint, &trainer), STATUS_OK);
    trainer.dataset->digest ^= 1;
    assert_int_equal(checkpoint_load(checkpoint, &trainer), STATUS_DATA);
    assert_non_null(strstr(status_message(), "has other pixels"));
    checkpoint_close(checkpoint);
    trainer_release(&trainer);
}

static void test_settings_and_the_clock_are_not_in_the_digest(void **state)
{
    (void)state;
    struct trainer trainer;
    open_trainer(&trainer);
    uint64_t before = digest_of_trainer(&trainer);
    trainer.progress.elapsed_sec += 1000.0;
    trainer.config.threads = 7;
    snprintf(trainer.config.out, sizeof trainer.config.out, "elsewhere");
    assert_true(digest_of_trainer(&trainer) == before);
    trainer_release(&trainer);
}

static void same_counts(const struct step_record *a, const struct step_record *b)
{
    assert_true(a->scale_after == b->scale_after && a->scale_after > 0.0f);
    assert_int_equal(a->growth_tracker, b->growth_tracker);
    assert_int_equal(a->adam_t, b->adam_t);
    assert_int_equal(a->updates, b->updates);
    assert_int_equal(a->skipped, b->skipped);
    assert_int_equal(a->growths, b->growths);
    assert_int_equal(a->backoffs, b->backoffs);
}

// Where no step is left to take, the last picture is drawn from these.
static void test_scales_and_counts_can_be_shown_before_a_step_is_taken(void **state)
{
    (void)state;
    struct trainer saved, loaded;
    open_trainer(&saved);
    (void)digest_of_trainer(&saved);
    open_trainer(&loaded);
    for (int network = 0; network < ROLES; network++)
        loaded.last.record[network] = (struct step_record){0};
    loaded.last.fake_record = (struct step_record){0};
    load(&loaded);
    for (int network = 0; network < ROLES; network++)
        same_counts(&loaded.last.record[network], &saved.last.record[network]);
    same_counts(&loaded.last.fake_record, &saved.last.fake_record);
    assert_true(saved.last.record[ROLE_G].updates == 1);
    trainer_release(&saved);
    trainer_release(&loaded);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave)

/* ---- without memory -------------------------------------------------------------- */

static int allocations, fails_at; // the one that fails, counted from 1; 0: none

static int is_refused(void)
{
    return ++allocations == fails_at;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t bytes)
{
    return is_refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_refused() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return is_refused() ? NULL : __real_realloc(block, bytes);
}

char *__wrap_strdup(const char *text)
{
    return is_refused() ? NULL : __real_strdup(text);
}

// jansson is another library: its own calls are not wrapped.
static void *json_allocation(size_t bytes)
{
    return __wrap_malloc(bytes);
}

// The file's name and bytes, and that nothing lies beside it.
static void assert_only_the_good_one_is_there(uint64_t digest)
{
    char text[256];
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(path, &checkpoint), STATUS_OK);
    assert_true(checkpoint_digest(checkpoint) == digest);
    checkpoint_close(checkpoint);
    assert_int_equal(
        run_command(text, sizeof text, "ls -A \"$(dirname '%s')\" | wc -l", path), 0);
    assert_int_equal(atoi(text), 1);
}

static void
test_any_allocation_that_fails_leaves_the_last_snapshot_and_the_run(void **state)
{
    (void)state;
    static struct trainer trainer;
    json_set_alloc_funcs(json_allocation, free);
    open_trainer(&trainer);
    trainer.progress.rollbacks = 1;
    uint64_t digest = digest_of_trainer(&trainer);
    allocations = fails_at = 0;
    assert_int_equal(checkpoint_save(&trainer, path), STATUS_OK);
    int count = allocations;
    int failed = 0, tried = 0;
    // Those of one tensor are as those of the next.
    for (int failing = 1; failing <= count;
         failing += failing < 300 || failing > count - 100 ? 1 : 7) {
        tried++;
        allocations = 0;
        fails_at = failing;
        enum status status = checkpoint_save(&trainer, path);
        fails_at = 0;
        // jansson does without some: then the snapshot is whole.
        int is_said = status == STATUS_FAILED && strstr(status_message(), "memory") &&
                      !strstr(status_message(), "disk");
        if (status != STATUS_OK && !is_said)
            fail_msg("allocation %d of %d: status %d: %s", failing, count, (int)status,
                     status_message());
        failed += is_said;
        if (status == STATUS_OK)
            assert_only_the_good_one_is_there(digest);
    }
    assert_true(failed > tried / 2);
    assert_only_the_good_one_is_there(digest);
    assert_int_equal(checkpoint_save(&trainer, path), STATUS_OK);
    trainer_release(&trainer);
}

// As for fp32-layer: what a run trained is there again whichever allocation fails.
static void test_a_rebuild_without_memory_fails_and_keeps_the_trainer(void **state)
{
    (void)state;
    struct config config = small_config();
    struct trainer trainer;
    assert_int_equal(trainer_create(&trainer, &config), STATUS_OK);
    const float *weights = trainer.gan.net[ROLE_G].params;
    enum status status = STATUS_FAILED;
    int number = 0;
    while (status != STATUS_OK) {
        allocations = 0;
        fails_at = ++number;
        status = trainer_rebuild(&trainer);
        fails_at = 0;
        if (status == STATUS_OK)
            break;
        assert_int_equal(status, STATUS_FAILED);
        assert_ptr_equal(trainer.gan.net[ROLE_G].params, weights);
    }
    assert_true(number > 20 && allocations < number); // each of them failed once
    assert_int_equal(trainer_start_data(&trainer), STATUS_OK);
    train_step(&trainer);
    assert_int_equal(train_collect_all(&trainer), STATUS_OK);
    trainer_release(&trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_number_of_the_state_is_in_the_digest),
        TEST(test_every_number_of_the_state_is_saved_and_loaded),
        TEST(test_as_many_images_with_other_pixels_are_other_data),
        TEST(test_settings_and_the_clock_are_not_in_the_digest),
        TEST(test_scales_and_counts_can_be_shown_before_a_step_is_taken),
        TEST(test_any_allocation_that_fails_leaves_the_last_snapshot_and_the_run),
        TEST(test_a_rebuild_without_memory_fails_and_keeps_the_trainer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
