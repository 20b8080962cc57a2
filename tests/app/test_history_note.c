/* test_history_note.c - what is said of a mark, and how notes are kept beside the
 * curves. */
#include "app/view/history_note.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

static struct history_note note_of(const char *text)
{
    struct history_note note;
    json_t *event = json_loads(text, 0, NULL);
    assert_non_null(event);
    assert_true(history_note_of(event, &note));
    json_decref(event);
    return note;
}

static void test_a_skip_names_its_layer_its_scales_and_its_cause(void **state)
{
    (void)state;
    struct history_note note = note_of(
        "{\"event\":\"skip\",\"net\":\"D\",\"scale_before\":4096,\"scale_after\":2048,"
        "\"layer\":\"d.conv1\",\"tensor\":\"weight gradient\",\"cause\":\"scale\","
        "\"step\":1067,\"kimg\":68.288}");
    assert_int_equal(note.kind, NOTE_SKIP);
    assert_int_equal(note.network, ROLE_D);
    assert_int_equal(note.step, 1067);
    assert_true(note.kimg == 68.288);
    assert_string_equal(note.text, "D skipped: d.conv1, weight gradient\n"
                                   "scale 2^12 \xe2\x86\x92 2^11\n"
                                   "cause: the scale was too high");
    note = note_of("{\"event\":\"skip\",\"net\":\"G\",\"scale_before\":2,"
                   "\"scale_after\":1,\"layer\":null,\"tensor\":null,"
                   "\"cause\":\"a new one\",\"step\":3,\"kimg\":0.1}");
    assert_int_equal(note.network, ROLE_G);
    assert_string_equal(note.text, "G skipped\nscale 2^1 \xe2\x86\x92 2^0\n"
                                   "cause: a new one");
}

static void test_a_change_says_what_changed_and_by_what(void **state)
{
    (void)state;
    struct history_note note =
        note_of("{\"event\":\"change\",\"net\":\"D\",\"key\":\"d.scale\",\"before\":"
                "\"1024\",\"after\":\"512\",\"by\":\"key [\",\"step\":40,\"kimg\":2.5}");
    assert_int_equal(note.kind, NOTE_CHANGE);
    assert_string_equal(note.text, "d.scale 1024 \xe2\x86\x92 512 by key [");
    note = note_of("{\"event\":\"change\",\"key\":\"kimg\",\"before\":\"100\",\"after\":"
                   "\"200\",\"by\":\"\",\"step\":40,\"kimg\":2.5}");
    assert_int_equal(note.network, -1);
    assert_string_equal(note.text, "kimg 100 \xe2\x86\x92 200");
    note = note_of("{\"event\":\"fp32_layer\",\"net\":\"D\",\"layers\":\"d.conv1\","
                   "\"step\":40,\"kimg\":2.5}");
    assert_int_equal(note.kind, NOTE_CHANGE);
    assert_string_equal(note.text, "in f32 from here on: d.conv1");
}

static void test_a_rollback_says_from_where_it_went_back(void **state)
{
    (void)state;
    struct history_note note =
        note_of("{\"event\":\"rollback\",\"net\":\"D\",\"number\":3,\"rollbacks\":3,"
                "\"from_step\":19,\"step\":0,\"kimg\":0}");
    assert_int_equal(note.kind, NOTE_ROLLBACK);
    assert_int_equal(note.number, 3);
    assert_string_equal(note.text, "rollback 3, from step 19 back to 0");
}

static void test_other_events_and_broken_ones_have_no_mark(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"event\":\"growth\",\"net\":\"D\",\"step\":4,\"kimg\":1}",
        "{\"event\":\"skip\",\"net\":\"D\",\"kimg\":1}",
        "{\"event\":\"skip\",\"net\":\"D\",\"step\":1e300,\"kimg\":1}",
        "{\"event\":\"skip\",\"net\":\"D\",\"step\":-1,\"kimg\":1}",
        "{\"event\":\"skip\",\"net\":\"D\",\"step\":4}",
        "{}",
        "[]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct history_note note;
        json_t *event = json_loads(texts[i], 0, NULL);
        assert_false(history_note_of(event, &note));
        json_decref(event);
    }
}

static void test_notes_are_kept_rewound_and_bounded(void **state)
{
    (void)state;
    struct history *history = history_create();
    struct history_note *notes = NULL;
    size_t room = 0;
    for (int step = 1; step <= 10; step++)
        history_add_note(history, &(struct history_note){.step = step});
    history_rewind(history, 6);
    assert_int_equal(history_copy_notes(history, &notes, &room), 6);
    assert_int_equal(notes[5].step, 6);
    for (int step = 7; step <= 3 * HISTORY_NOTES_MAX; step++)
        history_add_note(history, &(struct history_note){.step = step});
    size_t count = history_copy_notes(history, &notes, &room);
    assert_in_range(count, HISTORY_NOTES_MAX / 2, HISTORY_NOTES_MAX);
    for (size_t i = 0; i < count; i++) // the newest, none left out
        assert_int_equal(notes[i].step, 3 * HISTORY_NOTES_MAX - (int)(count - 1 - i));
    free(notes);
    history_destroy(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_skip_names_its_layer_its_scales_and_its_cause),
        cmocka_unit_test(test_a_change_says_what_changed_and_by_what),
        cmocka_unit_test(test_a_rollback_says_from_where_it_went_back),
        cmocka_unit_test(test_other_events_and_broken_ones_have_no_mark),
        cmocka_unit_test(test_notes_are_kept_rewound_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
