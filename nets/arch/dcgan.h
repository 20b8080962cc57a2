/* dcgan.h - the DCGAN generator and discriminator for 28, 32, 64 and 128 pixels.
 * Flow:  config -> [dcgan_generator, dcgan_discriminator] -> net.
 * Owns:  nothing: fills a struct net.
 *
 * Generator, 64 px:  z [N,1,1,Z] -> convT 4x4 s1 p0 -> 4x4x8w -> BN ReLU -> convT 4x4 s2
 * p1
 *   -> 8x8x4w -> ... -> 64x64xC -> tanh.  Discriminator: the mirror with leaky ReLU 0.2,
 *   no BN on its first layer, ending in a raw logit (f32). 32 px drops one level, 128 px
 *   adds one; 28 px starts from a dense layer to 7x7 and ends D in a dense layer.
 * Source: Radford et al. 2015, arXiv:1511.06434, in the form of PyTorch's DCGAN
 * example. */
#ifndef NETS_ARCH_DCGAN_H
#define NETS_ARCH_DCGAN_H

#include "nets/net.h"

struct dcgan_config {
    int resolution;          // 28, 32, 64 or 128
    int channels;            // 1..4
    int latent;              // size of z
    int g_width;             // channels of G's last hidden map
    int d_width;             // channels of D's first hidden map
    const char *fp32_layers; // patterns of precision_hold_f32(), or NULL
};

/* Adds all nodes; the caller plans. `batch` is the number of samples of every pass.
 * STATUS_FAILED as net_begin(). */
enum status dcgan_generator(struct net *net, struct device *device,
                            const struct dcgan_config *config, enum dtype dtype,
                            int batch);
enum status dcgan_discriminator(struct net *net, struct device *device,
                                const struct dcgan_config *config, enum dtype dtype,
                                int batch);

/* True for 28, 32, 64, 128. */
int dcgan_has_resolution(int resolution);

#endif
