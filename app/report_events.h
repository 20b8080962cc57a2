/* report_events.h - events.jsonl: every skip, every growth, and how a run goes on and
 * ends.
 * Flow:  report_step() -> [event_optimizer_step] -> events.jsonl, log.txt.
 *
 * A line is one object: "event", "step", "kimg", "timestamp", "rollbacks" (how many there
 * had been; record/rollbacks.h tells which lines they gave up); for a scale ("skip",
 * "growth", "held", and "backoff" where it is the other network's overflow) "net",
 * "scale_before", "scale_after". A skip has besides
 *   layer, tensor   where inf or NaN came first in backward order ("d.conv3", "activation
 *                   gradient"); in forward order for an activation
 *   pass            "real", "fakes" or "generator": in which loss's pass; "" if unknown
 *   inf, nan, max_finite   of that tensor: counts, and the largest finite magnitude
 *   exact           true where that tensor itself was looked at, false where it was told
 *                   from the weight gradients, whose counts these then are
 *   forward_finite  false where logits were inf or NaN: no loss scale can help then
 *   cause           scale, outlier, gradients, weight, forward, invalid,
 *                   elsewhere, unknown (diagnosis.h)
 *   images, files   D's real images in that step, as positions in the data set, and their
 *                   files; empty for G, and files for data without them
 *   image, picture  of an outlier: its position, and batch-stepN.png where it was written
 * all of them null where nothing was seen. Where D's loss on fakes has a scale of its
 * own, a skip of D has "loss" (which overflowed: real, fakes, both), "fake_scale_before"
 * and "fake_scale_after", and a growth of that scale has these alone.
 *
 * "storm" has "net", "action" (stop, rollback, fp32-layer, warn), "skips" in a row,
 * "at_floor", "scale" and "reason"; "rollback" has "net", "number", "of", "from_step",
 * "snapshot" and "scale" (of that network), and is as of the step that it went back to.
 * "fp32_layer" has "net", the "layer" and "tensor" that overflowed, the "layers" that are
 * f32 from here on, all "fp32_layers" of the run, "scale_before" and "scale_after". Both
 * have the scales that the run goes on with: "scale_g", "scale_d" and maybe
 * "scale_d_fake".
 *
 * A "change" has "net", "key" ("d.scale"), "before", "after" (as text), and
 * "scale_before" and "scale_after": what the request that it was part of did to the
 * network's scale. One of D has "fake_scale_before" and "fake_scale_after" too, where
 * there is that scale. "by" is "ctl", "key [" and its like, "--set-at", or "--set-at,
 * taken back by the rollback".
 *
 * "init_scale", before the first step (init_scale.h), has "net", "loss" ("" or, where D
 * has two scales, real or fakes), "found" (limit, no limit, nothing), "largest" (the
 * largest scale that was good, null for none), "scale" (that the run begins with),
 * "layer" and "tensor" of what overflows at twice it, "" where not seen, "rehearsals" and
 * "seconds".
 *
 * Told once of a network: "loss" with "net", the "loss" of the step, and how many "steps"
 * in a row it has been beyond that of a logit of 50 on the wrong side.
 *
 * Told once: "oscillation" with "net" and "swings" ("at", "scale", "place" of each), and
 * "drift" with "kind" (stuck, skips, scales), "net" (of stuck, else "") and "reason". */
#ifndef APP_REPORT_EVENTS_H
#define APP_REPORT_EVENTS_H

#include <jansson.h>

#include "app/report.h"

/* All that an optimizer step of the step that was just taken gives rise to:
 * trainer->last.view.records[slot]. `place` receives where it overflowed ("d.conv3: weight
 * gradient"), or "". */
void event_optimizer_step(struct report *report, int slot, char place[WATCH_PLACE]);

/* What the tensors of a skipped optimizer step held, as "layers" of report_layers():
 * where the step was not taken again, activations and weight gradients, with an empty
 * pass. */
json_t *report_layers_of_skip(const struct report *report, int slot);

struct found_scales;
/* "init_scale": the scale number `index` that init-scale auto has found. */
void event_found_scale(struct report *report, const struct found_scales *found,
                       int index);

struct change;
/* "change": a setting that was changed after the step that was just taken. */
void event_change(struct report *report, const struct change *change, const char *by);

/* Writes an event as of the step that was just taken; takes the object. */
void event_write(struct report *report, json_t *event);

/* The same with all scales as the run goes on with them. */
void event_write_scales(struct report *report, json_t *event);

/* "resume", "finished", "stopped", "diverged", "failed"; reason may be "". */
void event_word(struct report *report, const char *word, const char *reason);

#endif
