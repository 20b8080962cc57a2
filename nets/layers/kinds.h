/* kinds.h - every kind of layer there is, in the order of kinds.def.
 * Flow:  layers/NAME.c defines NAME_kind -> [kinds.h] -> the files of layers, the table
 *        of types.
 * Owns:  nothing. */
#ifndef NETS_LAYERS_KINDS_H
#define NETS_LAYERS_KINDS_H

#include <stdio.h>

#include "nets/kind.h"

#define KIND(name) extern const struct layer_kind name##_kind;
#include "nets/layers/kinds.def"
#undef KIND

/* Which tensors of each kind, of the loss and of the optimizer are stored in which type,
 * as a table for people. */
void kinds_print_policies(FILE *stream);

#endif
