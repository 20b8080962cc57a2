/* summary.h - a network as a table: layer, parameters, output shape, type. */
#ifndef APP_SUMMARY_H
#define APP_SUMMARY_H

#include <stdio.h>

#include "nets/net.h"

/* Parameters that the shapes name (without a device's padding). */
size_t summary_parameters(const struct net *net);

/* The table of one network; a fused activation is told on its row. */
void summary_print(FILE *stream, const struct net *net);

#endif
