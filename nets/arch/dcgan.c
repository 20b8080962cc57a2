#include "nets/arch/dcgan.h"

#include <stdio.h>

#include "nets/layers/layers.h"
#include "nets/precision.h"

#define LEAKY_SLOPE 0.2f

int dcgan_has_resolution(int resolution)
{
    return resolution == 28 || resolution == 32 || resolution == 64 || resolution == 128;
}

// Halvings between the image and the smallest map: 28 -> 7 takes 2, 64 -> 4 takes 4.
static int halvings(int resolution)
{
    CHECK(dcgan_has_resolution(resolution), "no DCGAN for %d px", resolution);
    int smallest = resolution == 28 ? 7 : 4, count = 0;
    for (int size = resolution; size > smallest; size /= 2)
        count++;
    return count;
}

static const char *layer_name(char text[NET_NAME_MAX], const char *word, int number)
{
    snprintf(text, NET_NAME_MAX, "%s%d", word, number);
    return text;
}

static void norm_and_activation(struct net *net, int number, enum activation activation,
                                float slope)
{
    char name[NET_NAME_MAX];
    net_add_batch_norm(net, layer_name(name, "bn", number), NET_PREVIOUS);
    net_add_activation(net, layer_name(name, "act", number), NET_PREVIOUS, activation,
                       slope);
}

enum status dcgan_generator(struct net *net, struct device *device,
                            const struct dcgan_config *config, enum dtype dtype,
                            int batch)
{
    char name[NET_NAME_MAX];
    int doublings = halvings(config->resolution);
    int channels = config->g_width << (doublings - 1);
    TRY(net_begin(net, device, "g", dtype, (struct shape){batch, 1, 1, config->latent}));
    if (config->resolution == 28)
        net_add_linear(net, "fc1", NET_PREVIOUS, (struct shape){batch, 7, 7, channels},
                       0);
    else
        net_add_conv_transpose(net, "conv1", NET_PREVIOUS, channels, 4, 1, 0, 0);
    norm_and_activation(net, 1, ACTIVATION_RELU, 0.0f);
    for (int number = 2; number <= doublings; number++) {
        channels /= 2;
        net_add_conv_transpose(net, layer_name(name, "conv", number), NET_PREVIOUS,
                               channels, 4, 2, 1, 0);
        norm_and_activation(net, number, ACTIVATION_RELU, 0.0f);
    }
    net_add_conv_transpose(net, layer_name(name, "conv", doublings + 1), NET_PREVIOUS,
                           config->channels, 4, 2, 1, 0);
    net_add_activation(net, "tanh", NET_PREVIOUS, ACTIVATION_TANH, 0.0f);
    precision_hold_f32(net, config->fp32_layers);
    return STATUS_OK;
}

enum status dcgan_discriminator(struct net *net, struct device *device,
                                const struct dcgan_config *config, enum dtype dtype,
                                int batch)
{
    char name[NET_NAME_MAX];
    int count = halvings(config->resolution);
    int channels = config->d_width;
    TRY(net_begin(
        net, device, "d", dtype,
        (struct shape){batch, config->resolution, config->resolution, config->channels}));
    net_add_conv(net, "conv1", NET_PREVIOUS, channels, 4, 2, 1, 0);
    net_add_activation(net, "act1", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, LEAKY_SLOPE);
    for (int number = 2; number <= count; number++) {
        channels *= 2;
        net_add_conv(net, layer_name(name, "conv", number), NET_PREVIOUS, channels, 4, 2,
                     1, 0);
        norm_and_activation(net, number, ACTIVATION_LEAKY_RELU, LEAKY_SLOPE);
    }
    if (config->resolution == 28)
        net_add_linear(net, "fc", NET_PREVIOUS, (struct shape){batch, 1, 1, 1}, 1);
    else
        net_add_conv(net, layer_name(name, "conv", count + 1), NET_PREVIOUS, 1, 4, 1, 0,
                     0);
    net_make_head_f32(net);
    precision_hold_f32(net, config->fp32_layers);
    return STATUS_OK;
}
