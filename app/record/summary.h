/* summary.h - a network as a table: layer, parameters, output shape, type. */
#ifndef APP_RECORD_SUMMARY_H
#define APP_RECORD_SUMMARY_H

#include <stdio.h>

#include "nets/net.h"

/* Parameters that the shapes name (without a device's padding). */
size_t summary_parameters(const struct net *net);

struct summary_row {
    char layer[NET_NAME_MAX + 8]; // "g.conv1"
    const char *kind;             // "conv transpose"
    size_t parameters;
    char output[SHAPE_TEXT]; // "64x4x4x512"
    const char *type;        // of that
};
struct summary_row summary_row(const struct net *net, int index);

/* The table of one network; a fused activation is told on its row. */
void summary_print(FILE *stream, const struct net *net);

#endif
