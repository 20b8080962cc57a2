#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/input/batch.h"

enum { COUNT = 23, CHANNELS = 2 };

static struct device *device;

static int open_device(void **state)
{
    (void)state;
    return device_open("ref", 1, &device) != STATUS_OK;
}

static int close_device(void **state)
{
    (void)state;
    device_close(device);
    return 0;
}

static size_t batch_index(const struct dataset *dataset, uint64_t seed, uint64_t image)
{
    size_t index;
    batch_indices(dataset, seed, image, 1, &index);
    return index;
}

/* Images of one pixel: the index and its complement. */
static struct dataset numbered(void)
{
    static uint8_t pixels[COUNT * CHANNELS];
    for (int i = 0; i < COUNT; i++) {
        pixels[2 * i] = (uint8_t)i;
        pixels[2 * i + 1] = (uint8_t)~i;
    }
    struct dataset dataset = {.source = "numbers",
                              .resolution = 1,
                              .channels = CHANNELS,
                              .count = COUNT,
                              .pixels = pixels};
    return dataset;
}

static struct batch_stream *opened(const struct dataset *dataset, int size, uint64_t seed,
                                   uint64_t first)
{
    struct batch_stream *stream;
    struct batch_options options = {
        .size = size, .rows = size, .kept = 1, .seed = seed, .first_image = first};
    assert_int_equal(batch_open(dataset, device, &options, &stream), STATUS_OK);
    return stream;
}

/* The indices of `batches` batches, one after the other. */
static void deliver(struct batch_stream *stream, int size, int batches, int *indices)
{
    for (int b = 0; b < batches; b++) {
        const uint8_t *pixels = batch_next(stream);
        for (int i = 0; i < size; i++) {
            assert_int_equal(pixels[2 * i + 1], (uint8_t)~pixels[2 * i]);
            *indices++ = pixels[2 * i];
        }
    }
}

static void test_one_epoch_holds_every_image_once(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        int seen[COUNT] = {0};
        for (uint64_t k = 0; k < COUNT; k++)
            seen[batch_index(&dataset, 7, epoch * COUNT + k)]++;
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(seen[i], 1);
    }
}

static void test_epochs_and_seeds_differ_in_their_order(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    int same_epoch = 0, same_seed = 0;
    for (uint64_t k = 0; k < COUNT; k++) {
        size_t index = batch_index(&dataset, 7, k);
        same_epoch += index == batch_index(&dataset, 7, COUNT + k);
        same_seed += index == batch_index(&dataset, 8, k);
    }
    // One image in COUNT stays in its place by chance.
    assert_true(same_epoch < COUNT / 2);
    assert_true(same_seed < COUNT / 2);
}

static void test_every_image_is_as_likely_at_the_first_place(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    int first[COUNT] = {0};
    const int epochs = 23000;
    for (int epoch = 0; epoch < epochs; epoch++)
        first[batch_index(&dataset, 1, (uint64_t)epoch * COUNT)]++;
    // 1,000 each; 5 standard deviations are 155.
    for (int i = 0; i < COUNT; i++)
        assert_in_range(first[i], 845, 1155);
}

static void test_batches_span_epochs_and_follow_batch_index(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    enum { SIZE = 7, BATCHES = 15 }; // 105 images: four and a half epochs
    int indices[SIZE * BATCHES];
    struct batch_stream *stream = opened(&dataset, SIZE, 3, 0);
    deliver(stream, SIZE, BATCHES, indices);
    batch_close(stream);
    for (int k = 0; k < SIZE * BATCHES; k++)
        assert_int_equal(indices[k], batch_index(&dataset, 3, (uint64_t)k));
}

static void test_the_first_images_are_those_of_the_first_batch(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    enum { SIZE = 7 };
    int indices[SIZE];
    uint8_t pixels[SIZE * CHANNELS];
    struct batch_stream *stream = opened(&dataset, SIZE, 3, 0);
    deliver(stream, SIZE, 1, indices);
    batch_close(stream);
    batch_first_images(&dataset, 3, SIZE, pixels);
    for (int k = 0; k < SIZE; k++) {
        assert_int_equal(pixels[2 * k], indices[k]);
        assert_int_equal(pixels[2 * k + 1], (uint8_t)~indices[k]);
    }
}

static void test_a_run_resumed_at_image_k_sees_what_the_whole_run_saw(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    enum { SIZE = 5, TOTAL = 60 };
    int whole[TOTAL], rest[TOTAL];
    struct batch_stream *stream = opened(&dataset, SIZE, 9, 0);
    deliver(stream, SIZE, TOTAL / SIZE, whole);
    batch_close(stream);
    // At any number, also one that no batch of the first run began with.
    for (int k = 0; k + SIZE <= TOTAL; k++) {
        stream = opened(&dataset, SIZE, 9, (uint64_t)k);
        int batches = (TOTAL - k) / SIZE;
        deliver(stream, SIZE, batches, rest);
        batch_close(stream);
        assert_memory_equal(rest, whole + k, (size_t)(batches * SIZE) * sizeof *rest);
    }
}

static void test_the_order_is_the_same_in_every_release(void **state)
{
    (void)state;
    // The order is part of every run: a checkpoint of an older release must meet it
    // again.
    struct dataset dataset = numbered();
    static const size_t kept[] = {7, 13, 5, 4, 8, 20, 1, 11};
    for (uint64_t k = 0; k < 8; k++)
        assert_int_equal(batch_index(&dataset, 42, (UINT64_C(1) << 33) * COUNT + k),
                         kept[k]);
}

static void test_a_lent_batch_is_not_overwritten_before_the_next_call(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    enum { SIZE = 4 };
    struct batch_stream *stream = opened(&dataset, SIZE, 5, 0);
    for (int b = 0; b < 50; b++) {
        const uint8_t *batch = batch_next(stream);
        for (int look = 0; look < 200; look++)
            for (int i = 0; i < SIZE; i++)
                assert_int_equal(((const volatile uint8_t *)batch)[2 * i],
                                 batch_index(&dataset, 5, (uint64_t)(b * SIZE + i)));
    }
    batch_close(stream);
}

static void test_as_many_batches_as_are_kept_stay_valid(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    enum { SIZE = 4, KEPT = 3, CALLS = 20 };
    const struct batch_options options = {
        .size = SIZE, .rows = SIZE, .kept = KEPT, .seed = 9};
    struct batch_stream *stream;
    assert_int_equal(batch_open(&dataset, device, &options, &stream), STATUS_OK);
    const uint8_t *lent[CALLS];
    for (int call = 0; call < CALLS; call++) {
        lent[call] = batch_next(stream);
        for (int back = 0; back < KEPT && back <= call; back++)
            for (int i = 0; i < SIZE; i++)
                assert_int_equal(
                    lent[call - back][CHANNELS * i],
                    batch_index(&dataset, 9, (uint64_t)((call - back) * SIZE + i)));
    }
    batch_close(stream);
}

static void test_shares_of_a_batch_make_the_whole_batch(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    enum { SIZE = 6, SHARE = 2, BATCHES = 9 };
    for (int first = 0; first < SIZE; first += SHARE) {
        const struct batch_options options = {
            .size = SIZE, .first_row = first, .rows = SHARE, .kept = 1, .seed = 3};
        struct batch_stream *stream;
        assert_int_equal(batch_open(&dataset, device, &options, &stream), STATUS_OK);
        int indices[SHARE * BATCHES];
        deliver(stream, SHARE, BATCHES, indices);
        for (int k = 0; k < SHARE * BATCHES; k++)
            assert_int_equal(indices[k], batch_index(&dataset, 3,
                                                     (uint64_t)(k / SHARE * SIZE + first +
                                                                k % SHARE)));
        batch_close(stream);
    }
}

static void test_a_batch_of_all_images_is_possible(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    int indices[2 * COUNT];
    struct batch_stream *stream = opened(&dataset, COUNT, 5, 0);
    deliver(stream, COUNT, 2, indices);
    batch_close(stream);
    for (int k = 0; k < 2 * COUNT; k++)
        assert_int_equal(indices[k], batch_index(&dataset, 5, (uint64_t)k));
}

static void test_fewer_images_than_a_batch_are_refused_with_both_numbers(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    struct batch_stream *stream;
    const struct batch_options options = {
        .size = COUNT + 1, .rows = COUNT + 1, .kept = 1, .seed = 5};
    assert_int_equal(batch_open(&dataset, device, &options, &stream), STATUS_DATA);
    assert_null(stream);
    assert_string_equal(status_message(),
                        "numbers: 23 images, fewer than one batch of 24; give at most "
                        "--batch 23, or more images");
}

static void test_a_stream_may_be_closed_at_any_moment(void **state)
{
    (void)state;
    struct dataset dataset = numbered();
    for (int taken = 0; taken < 200; taken++) {
        struct batch_stream *stream = opened(&dataset, 3, 5, 0);
        for (int b = 0; b < taken % 4; b++)
            batch_next(stream);
        batch_close(stream);
    }
    batch_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_epoch_holds_every_image_once),
        cmocka_unit_test(test_epochs_and_seeds_differ_in_their_order),
        cmocka_unit_test(test_every_image_is_as_likely_at_the_first_place),
        cmocka_unit_test(test_batches_span_epochs_and_follow_batch_index),
        cmocka_unit_test(test_the_first_images_are_those_of_the_first_batch),
        cmocka_unit_test(test_a_run_resumed_at_image_k_sees_what_the_whole_run_saw),
        cmocka_unit_test(test_the_order_is_the_same_in_every_release),
        cmocka_unit_test(test_a_lent_batch_is_not_overwritten_before_the_next_call),
        cmocka_unit_test(test_as_many_batches_as_are_kept_stay_valid),
        cmocka_unit_test(test_shares_of_a_batch_make_the_whole_batch),
        cmocka_unit_test(test_a_batch_of_all_images_is_possible),
        cmocka_unit_test(test_fewer_images_than_a_batch_are_refused_with_both_numbers),
        cmocka_unit_test(test_a_stream_may_be_closed_at_any_moment),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
