#include "app/view/history_note.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/files/json_lines.h"
#include "kernels/base/text.h"
#include "app/view/history.h"

static const char *word_of(json_t *event, const char *key)
{
    const char *word = json_string_value(json_object_get(event, key));
    return word ? word : "";
}

static const char *scale_of(json_t *event, const char *key, char text[32])
{
    return scale_text((float)json_line_number(event, key), text, 32);
}

// The "cause" of a skip, in words; one that has none here as it is.
static const char *cause_of(json_t *event)
{
    static const char *const causes[][2] = {
        {"scale", "the scale was too high"},
        {"outlier", "an image unlike the others"},
        {"weight", "a weight is inf or NaN"},
        {"gradients", "gradients out of fp16's range"},
        {"forward", "activations out of fp16's range"},
        {"invalid", "NaN without an inf before it"},
        {"elsewhere", "not seen"},
    };
    const char *word = word_of(event, "cause");
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (strcmp(word, causes[i][0]) == 0)
            return causes[i][1];
    return word;
}

static void describe_skip(json_t *event, char *text)
{
    const char *layer = word_of(event, "layer"), *tensor = word_of(event, "tensor");
    char before[32], after[32];
    snprintf(text, HISTORY_NOTE,
             "%s skipped%s%s%s%s\nscale %s \xe2\x86\x92 %s\ncause: %s",
             word_of(event, "net"), layer[0] ? ": " : "", layer, layer[0] ? ", " : "",
             tensor, scale_of(event, "scale_before", before),
             scale_of(event, "scale_after", after), cause_of(event));
}

static void describe_change(json_t *event, char *text)
{
    const char *by = word_of(event, "by");
    snprintf(text, HISTORY_NOTE, "%s %s \xe2\x86\x92 %s%s%s", word_of(event, "key"),
             word_of(event, "before"), word_of(event, "after"), by[0] ? " by " : "", by);
}

int history_note_of(json_t *event, struct history_note *note)
{
    const char *word = word_of(event, "event"), *net = word_of(event, "net");
    double step = json_line_number(event, "step"), kimg = json_line_number(event, "kimg");
    if (!(step >= 0.0 && step < 1e15) || !isfinite(kimg))
        return 0;
    *note = (struct history_note){.step = (int64_t)step,
                                  .kimg = kimg,
                                  .network = net[0] == 'G'   ? ROLE_G
                                             : net[0] == 'D' ? ROLE_D
                                                             : -1};
    if (strcmp(word, "skip") == 0) {
        note->kind = NOTE_SKIP;
        describe_skip(event, note->text);
    } else if (strcmp(word, "change") == 0) {
        note->kind = NOTE_CHANGE;
        describe_change(event, note->text);
    } else if (strcmp(word, "fp32_layer") == 0) {
        note->kind = NOTE_CHANGE;
        snprintf(note->text, sizeof note->text, "in f32 from here on: %s",
                 word_of(event, "layers"));
    } else if (strcmp(word, "rollback") == 0) {
        note->kind = NOTE_ROLLBACK;
        note->number = (int)json_whole_number(json_line_number(event, "rollbacks"));
        snprintf(note->text, sizeof note->text,
                 "rollback %d, from step %.0f back to %.0f", note->number,
                 json_line_number(event, "from_step"), step);
    } else {
        return 0;
    }
    return 1;
}
