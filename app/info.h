/* info.h - the parts of `twinscale info`.
 * Flow:  a checkpoint -> info.c -> a report for a person; [info_json.c] -> JSON.
 * Owns:  nothing. */
#ifndef APP_INFO_H
#define APP_INFO_H

#include "app/record/checkpoint.h"

/* Both networks of a config, G first, as their tables show them: built, without
 * weights. */
enum status info_each_net(const struct config *config,
                          void (*visit)(void *context, const struct net *net),
                          void *context);

/* `twinscale info --json`: all that info shows, as one object on stdout. Its keys:
 *   checkpoint    path of the snapshot
 *   step, images, kimg, elapsed_sec, rollbacks
 *   data          name, images, digest of the pixels
 *   scalers       G and D (on real images, where there is D_fake): PyTorch's five keys
 *                 and the counters, as in the snapshot
 *   found_scales  sentences on init-scale auto; empty without it
 *   layers        layer, kind, parameters, output, type
 *   parameters    G and D
 *   settings      as in options.json
 *   digest        over all tensors and the state, as --digest prints it */
enum status info_print_json(const char *path, const struct checkpoint *checkpoint);

#endif
