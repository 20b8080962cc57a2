/* test_traces.c - every scale and tracker of PyTorch's own GradScaler, bit for bit.
 * tests/golden/scaler_traces.bin holds 210 sequences of 2,000 overflow decisions and what
 * PyTorch made of them; tests/golden/README.md tells the layout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scaler/toy.h"
#include "tests/support/support.h"

#define STEPS 2000
#define BITMAP (STEPS / 8)

struct trace {
    double init_scale, growth_factor, backoff_factor;
    int64_t growth_interval, steps_taken;
    uint8_t found[STEPS];
    uint32_t scale_bits[STEPS]; // after each step
    int32_t tracker[STEPS];
};

struct traces {
    uint32_t count;
    struct trace *trace;
};

/* ---- reading --------------------------------------------------------------------- */

struct reader {
    const uint8_t *at, *end;
};

static void take(struct reader *reader, void *to, size_t bytes)
{
    assert_true((size_t)(reader->end - reader->at) >= bytes);
    memcpy(to, reader->at, bytes);
    reader->at += bytes;
}

static int bit_of(const uint8_t bitmap[BITMAP], int step)
{
    return bitmap[step / 8] >> (step % 8) & 1;
}

static void read_trace(struct reader *reader, struct trace *trace)
{
    uint8_t found[BITMAP], new_scale[BITMAP], new_tracker[BITMAP];
    uint32_t scale_count, tracker_count;
    take(reader, &trace->init_scale, sizeof trace->init_scale);
    take(reader, &trace->growth_factor, sizeof trace->growth_factor);
    take(reader, &trace->backoff_factor, sizeof trace->backoff_factor);
    take(reader, &trace->growth_interval, sizeof trace->growth_interval);
    take(reader, &trace->steps_taken, sizeof trace->steps_taken);
    take(reader, &scale_count, sizeof scale_count);
    take(reader, &tracker_count, sizeof tracker_count);
    take(reader, found, BITMAP);
    take(reader, new_scale, BITMAP);
    take(reader, new_tracker, BITMAP);

    uint32_t bits = float_bits((float)trace->init_scale);
    for (int i = 0; i < STEPS; i++) {
        if (bit_of(new_scale, i)) {
            take(reader, &bits, sizeof bits);
            scale_count--;
        }
        trace->scale_bits[i] = bits;
        trace->found[i] = (uint8_t)bit_of(found, i);
    }
    int32_t tracker = 0;
    for (int i = 0; i < STEPS; i++) {
        tracker++;
        if (bit_of(new_tracker, i)) {
            uint16_t stored;
            take(reader, &stored, sizeof stored);
            tracker = stored;
            tracker_count--;
        }
        trace->tracker[i] = tracker;
    }
    assert_int_equal(scale_count, 0);
    assert_int_equal(tracker_count, 0);
}

static uint8_t *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    assert_true(length > 0);
    rewind(file);
    uint8_t *data = malloc((size_t)length);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)length, file), length);
    fclose(file);
    *bytes = (size_t)length;
    return data;
}

static int open_traces(void **state)
{
    static struct traces traces;
    size_t bytes;
    uint8_t *data = read_file(TESTS_DIR "/golden/scaler_traces.bin", &bytes);
    struct reader reader = {.at = data, .end = data + bytes};
    char magic[8];
    uint32_t steps;
    take(&reader, magic, sizeof magic);
    take(&reader, &traces.count, sizeof traces.count);
    take(&reader, &steps, sizeof steps);
    assert_memory_equal(magic, "TWINTRC1", sizeof magic);
    assert_int_equal(steps, STEPS);
    assert_true(traces.count >= 200 && traces.count < 10000);
    traces.trace = calloc(traces.count, sizeof *traces.trace);
    assert_non_null(traces.trace);
    for (uint32_t i = 0; i < traces.count; i++)
        read_trace(&reader, &traces.trace[i]);
    assert_ptr_equal(reader.at, reader.end);
    free(data);
    *state = &traces;
    return 0;
}

static int close_traces(void **state)
{
    free(((struct traces *)*state)->trace);
    return 0;
}

/* ---- replaying ------------------------------------------------------------------- */

static void assert_state(const struct scaler_state *state, const struct trace *trace,
                         uint32_t sequence, int step)
{
    if (float_bits(state->scale) == trace->scale_bits[step] &&
        state->growth_tracker == trace->tracker[step])
        return;
    fail_msg(
        "sequence %u (init %.17g, growth %.17g, backoff %.17g, interval %d), step %d: "
        "scale %a tracker %d, PyTorch has %a and %d",
        sequence, trace->init_scale, trace->growth_factor, trace->backoff_factor,
        (int)trace->growth_interval, step, (double)state->scale, state->growth_tracker,
        (double)float_of_bits(trace->scale_bits[step]), trace->tracker[step]);
}

static void the_rule_makes_every_scale_and_tracker_of_pytorch(void **state)
{
    const struct traces *traces = *state;
    for (uint32_t k = 0; k < traces->count; k++) {
        const struct trace *trace = &traces->trace[k];
        struct scaler_state scaler = {.growth_factor = trace->growth_factor,
                                      .backoff_factor = trace->backoff_factor,
                                      .growth_interval = trace->growth_interval,
                                      .scale = (float)trace->init_scale,
                                      .enabled = 1};
        for (int i = 0; i < STEPS; i++) {
            struct step_record record;
            scaler.found_inf = (float)trace->found[i];
            scaler_finish_step(&scaler, &record);
            assert_state(&scaler, trace, k, i);
            assert_int_equal(record.was_skipped, trace->found[i]);
            assert_int_equal(float_bits(record.scale_after), trace->scale_bits[i]);
        }
        assert_int_equal(scaler.updates - scaler.skipped, trace->steps_taken);
    }
}

// Where 1/scale is infinite PyTorch would write NaN into the weights; this scaler skips.
static int has_finite_inverse(float scale)
{
    return scale_is_finite((float)(1.0 / (double)scale));
}

static void replay_on_device(const struct trace *trace, uint32_t sequence,
                             struct device *device)
{
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc12345u};
    struct grad_scaler_config config =
        toy_config(trace->init_scale, trace->growth_factor, trace->growth_interval);
    config.backoff_factor = trace->backoff_factor;
    struct toy toy;
    toy_open(&toy, device, 3, &config);
    int step = 0;
    for (; step < STEPS && has_finite_inverse(toy_scale(&toy)); step++) {
        toy_iterate(&toy, trace->found[step] ? float_of_bits(bad[step % 4]) : 0.0f);
        struct scaler_state state = grad_scaler_read(&toy.scaler);
        assert_state(&state, trace, sequence, step);
    }
    if (step == STEPS)
        assert_int_equal(grad_scaler_read(&toy.scaler).adam_t, trace->steps_taken);
    else {
        struct toy_weights before = toy_weights(&toy);
        toy_good_steps(&toy, 1);
        struct toy_weights after = toy_weights(&toy);
        assert_same_weights(&after, &before);
    }
    toy_close(&toy);
}

static void replay_all(const struct traces *traces, const char *device_name)
{
    struct device *device;
    assert_int_equal(device_open(device_name, 1, &device), STATUS_OK);
    for (uint32_t k = 0; k < traces->count; k++)
        replay_on_device(&traces->trace[k], k, device);
    assert_int_equal(device_fault(device), STATUS_OK);
    device_close(device);
}

static void real_gradients_on_ref_make_every_scale_and_tracker_of_pytorch(void **state)
{
    replay_all(*state, "ref");
}

static void real_gradients_on_cpu_make_every_scale_and_tracker_of_pytorch(void **state)
{
    replay_all(*state, "cpu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rule_makes_every_scale_and_tracker_of_pytorch),
        cmocka_unit_test(real_gradients_on_ref_make_every_scale_and_tracker_of_pytorch),
        cmocka_unit_test(real_gradients_on_cpu_make_every_scale_and_tracker_of_pytorch),
    };
    return cmocka_run_group_tests(tests, open_traces, close_traces);
}
