/* post_mortem.h - what is left of a run that was given up.
 * Flow:  recover.c -> [post_mortem_write] -> RUN/post-mortem/.
 * Owns:  nothing.
 *
 * reason.txt, options.json, batch.png (the real images of the last D step, as they are in
 * the data set), layers.json (one object a tensor, as report.h has them, of the network
 * that overflowed) and events.jsonl (a copy, up to that point). */
#ifndef APP_POST_MORTEM_H
#define APP_POST_MORTEM_H

#include "app/report.h"
#include "app/recovery/storm.h"

/* Of the step that was last collected, in which `storm` was found. `path` receives the
 * folder. What is there from earlier is set aside (set_aside.h). STATUS_FAILED with file
 * and reason. */
enum status post_mortem_write(struct report *report, const struct storm *storm,
                              const char *reason, char *path, size_t bytes);

#endif
