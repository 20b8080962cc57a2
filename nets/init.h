/* init.h - initial weights, as functions of (seed, parameter, element).
 * Flow:  net_plan() -> [net_initialise] -> training.
 *
 * DCGAN: conv and dense weights ~ N(0, 0.02), biases 0, BN gamma ~ N(1, 0.02), BN beta 0,
 * running mean 0, running variance 1.
 * Source: Radford et al. 2015, arXiv:1511.06434, section 4; gamma as in PyTorch's
 * example. */
#ifndef NETS_INIT_H
#define NETS_INIT_H

#include <stdint.h>

#include "nets/net.h"

/* `salt` keeps two nets of one seed apart (0 for G, 1 for D). STATUS_FAILED without
 * memory. */
enum status net_initialise(struct net *net, uint64_t seed, uint64_t salt);

#endif
