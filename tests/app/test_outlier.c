/* test_outlier.c - one image unlike the others is found where there is one, and only
 * there. */
#include "app/recovery/outlier.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/input/batch.h"
#include "app/report.h"
#include "app/train/train.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

#define INTERVAL 8 // growth steps

static char out[512];

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("outlier"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

struct live {
    struct trainer trainer;
    struct run_folder folder;
    struct monitor *monitor;
    struct report report;
};

static void open_live(struct live *live)
{
    struct config config = small_config();
    memset(live, 0, sizeof *live);
    snprintf(config.out, sizeof config.out, "%s", out);
    config.kimg = 100;
    config.preview = PREVIEW_OFF;
    config.grid_columns = config.grid_rows = 2;
    config.g.init_scale = 8192;         // not too far from where D's will be
    config.g.growth_interval = 1000000; // G's scale stays out of it
    config.g.lr = 1e-5;
    config.d.lr = 1e-3; // D soon knows its real images
    config.d.growth_interval = INTERVAL;
    assert_int_equal(trainer_create(&live->trainer, &config), STATUS_OK);
    assert_int_equal(trainer_start_data(&live->trainer), STATUS_OK);
    assert_int_equal(run_folder_create(&live->folder, &config, "shapes"), STATUS_OK);
    live->monitor = monitor_create();
    assert_int_equal(
        report_open(&live->report, &live->trainer, &live->folder, live->monitor, 0, 0),
        STATUS_OK);
}

static void close_live(struct live *live)
{
    report_close(&live->report);
    monitor_destroy(live->monitor);
    run_folder_close(&live->folder);
    trainer_release(&live->trainer);
}

static void step(struct live *live)
{
    train_step(&live->trainer);
    if (train_collect_all(&live->trainer) != STATUS_OK)
        fail_msg("%s", status_message());
    report_step(&live->report);
}

static int is_quiet(const struct live *live)
{
    const struct step_record *record = &live->trainer.last.record[ROLE_D];
    return record->scale_after <= live->report.watch.of[ROLE_D].good &&
           live->report.quiet_steps[ROLE_D] >= INTERVAL / OUTLIER_QUIET;
}

/* Until D's scale has found its plateau, has come back to what a whole interval was good
 * at, and has been quiet there. */
static void settle(struct live *live)
{
    for (int i = 0; i < 120 || !is_quiet(live); i++) {
        assert_true(i < 400);
        step(live);
    }
}

// Image `row` of the next batch of D becomes what G makes, which D calls false.
static size_t plant_fake(struct live *live, int row)
{
    struct trainer *trainer = &live->trainer;
    const struct dataset *dataset = trainer->dataset;
    size_t index[16], values = (size_t)32 * 32 * 3;
    uint8_t *pixels;
    batch_indices(dataset, trainer_stream_seed(trainer),
                  (uint64_t)trainer->progress.images, 16, index);
    struct tensor fake = *net_output(&trainer->gan.net[ROLE_G]);
    float *image = malloc(values * sizeof *image);
    fake.shape.n = fake.n_stored = 1;
    struct tensor copy = fake;
    copy.dtype = DTYPE_F32;
    copy.data = image;
    trainer->device->ops->pointwise.cast(trainer->device, &fake, &copy);
    pixels = dataset->pixels + index[row] * values;
    for (size_t i = 0; i < values; i++)
        pixels[i] = (uint8_t)(127.5f * (image[i] + 1.0f) + 0.5f);
    free(image);
    assert_int_equal(trainer_start_data(trainer), STATUS_OK); // nothing read ahead is old
    return index[row];
}

static void test_an_image_that_d_calls_false_is_found_by_its_position(void **state)
{
    (void)state;
    static const int rows[] = {0, 7, 8, 15};
    struct live live;
    char words[128];
    open_live(&live);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        settle(&live);
        size_t image = plant_fake(&live, rows[i]);
        step(&live);
        assert_int_equal(live.trainer.last.view.records[0].was_skipped, 1);
        char picture[1100], *at = picture;
        long long number = (long long)live.trainer.progress.step;
        at += snprintf(picture, sizeof picture, "%s/", live.folder.path);
        snprintf(at, sizeof picture - 1024, "batch-step%lld.png", number);
        assert_int_equal(access(picture, R_OK), 0);
        snprintf(words, sizeof words, "image %zu of the data, the first in %s", image,
                 at);
        assert_int_equal(lines_with(live.folder.path, "log.txt", words), 1);
        snprintf(words, sizeof words, "\"image\":%zu,\"picture\":\"%s\"", image, at);
        assert_int_equal(lines_with(live.folder.path, "events.jsonl", words), 1);
    }
    // All the overflows on the way were the scale's.
    assert_int_equal(
        lines_with(live.folder.path, "events.jsonl", "\"cause\":\"outlier\""), 4);
    assert_true(lines_with(live.folder.path, "events.jsonl", "\"cause\":\"scale\"") > 8);
    close_live(&live);
}

static void test_a_whole_batch_that_d_calls_false_is_no_outlier(void **state)
{
    (void)state;
    struct live live;
    open_live(&live);
    settle(&live);
    for (int row = 0; row < 16; row++)
        plant_fake(&live, row);
    step(&live);
    assert_int_equal(live.trainer.last.view.records[0].was_skipped, 1);
    assert_int_equal(
        lines_with(live.folder.path, "events.jsonl", "\"cause\":\"outlier\""), 0);
    close_live(&live);
}

static void test_the_search_for_an_outlier_changes_nothing(void **state)
{
    (void)state;
    struct live live;
    struct diagnosis diagnosis;
    open_live(&live);
    struct trainer *trainer = &live.trainer;
    const struct net *d = &trainer->gan.net[ROLE_D];
    size_t real_bytes = tensor_bytes(&trainer->feed.real);
    settle(&live);
    plant_fake(&live, 3);
    train_step(trainer);
    assert_int_equal(train_collect_all(trainer), STATUS_OK);
    diagnose(trainer, 0, &diagnosis);
    float *params = malloc(d->param_elements * sizeof *params);
    float *buffers = malloc(d->buffer_elements * sizeof *buffers);
    char *real = malloc(real_bytes);
    memcpy(params, d->params, d->param_elements * sizeof *params);
    memcpy(buffers, d->buffers, d->buffer_elements * sizeof *buffers);
    memcpy(real, trainer->feed.real.data, real_bytes);
    struct scaler_state scale = grad_scaler_read(&trainer->scaler[ROLE_D]);
    assert_int_equal(outlier_find(trainer, &diagnosis), 3);
    struct scaler_state after = grad_scaler_read(&trainer->scaler[ROLE_D]);
    assert_memory_equal(params, d->params, d->param_elements * sizeof *params);
    assert_memory_equal(buffers, d->buffers, d->buffer_elements * sizeof *buffers);
    assert_memory_equal(real, trainer->feed.real.data, real_bytes);
    assert_memory_equal(&scale, &after, sizeof scale);
    free(params);
    free(buffers);
    free(real);
    close_live(&live);
}

static void test_only_a_skip_after_a_quiet_spell_is_worth_a_trial(void **state)
{
    (void)state;
    struct live live;
    open_live(&live);
    struct trainer *trainer = &live.trainer;
    struct diagnosis skip = {.cause = CAUSE_SCALE, .is_exact = 1, .only_real = 1};
    skip.facts.scale = 1024.0f;
    assert_true(outlier_is_possible(trainer, &skip, 0, 1024.0f, 2));
    assert_false(outlier_is_possible(trainer, &skip, 0, 512.0f, 2)); // not yet shown good
    assert_false(outlier_is_possible(trainer, &skip, 0, 1024.0f, 1));
    assert_false(outlier_is_possible(trainer, &skip, 1, 1024.0f, 2)); // G's
    trainer->config.d.accum = 2; // a batch before the last is no longer there
    assert_false(outlier_is_possible(trainer, &skip, 0, 1024.0f, 2));
    trainer->config.d.accum = 1;
    skip.only_real = 0;
    assert_false(outlier_is_possible(trainer, &skip, 0, 1024.0f, 2));
    skip.only_real = 1;
    skip.cause = CAUSE_FORWARD; // what an inf would have been is not known
    assert_false(outlier_is_possible(trainer, &skip, 0, 1024.0f, 2));
    close_live(&live);
}

static void test_pictures_of_batches_are_limited(void **state)
{
    (void)state;
    struct live live;
    open_live(&live);
    live.report.batch_pictures = BATCH_PICTURES - 1;
    for (int i = 0; i < 2; i++) {
        settle(&live);
        plant_fake(&live, 5);
        step(&live);
    }
    assert_int_equal(lines_with(live.folder.path, "events.jsonl", "\"image\":"), 2);
    assert_int_equal(lines_with(live.folder.path, "events.jsonl", "\"picture\":"), 1);
    close_live(&live);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_image_that_d_calls_false_is_found_by_its_position),
        TEST(test_a_whole_batch_that_d_calls_false_is_no_outlier),
        TEST(test_the_search_for_an_outlier_changes_nothing),
        TEST(test_only_a_skip_after_a_quiet_spell_is_worth_a_trial),
        TEST(test_pictures_of_batches_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
