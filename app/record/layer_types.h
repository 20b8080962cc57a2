/* layer_types.h - which layer of a run is stored in which type: as a table, and as JSON.
 * Flow:  both networks -> [layer_types_write] -> precision.json of the run folder;
 *        a checkpoint's settings -> both networks -> [layer_types_print] -> `info`.
 * Owns:  nothing. */
#ifndef APP_RECORD_LAYER_TYPES_H
#define APP_RECORD_LAYER_TYPES_H

#include <stdio.h>

#include "nets/net.h"

/* One line a layer: what it reads, writes, gets and gives as gradients, and is kept
 * in. */
void layer_types_print(FILE *stream, const struct net *net);

/* The same of several networks as one JSON object {"layers": [...]}, written whole or not
 * at all. STATUS_FAILED with path and reason. */
enum status layer_types_write(const char *path, const struct net *const *nets, int count);

#endif
