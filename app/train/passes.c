#include "app/train/passes.h"

const struct pass_row pass_rows[GAN_PASSES] = {
    [PASS_D_REAL] = {.word = "real",
                     .trains = ROLE_D,
                     .input = INPUT_REAL,
                     .target = 1.0f,
                     .is_smoothed = 1},
    [PASS_D_FAKE] = {.word = "fakes",
                     .trains = ROLE_D,
                     .input = INPUT_FAKES,
                     .target = 0.0f},
    [PASS_G_MAIN] = {.word = "generator",
                     .trains = ROLE_G,
                     .input = INPUT_FAKES,
                     .target = 1.0f},
};

float pass_target(const struct config *config, enum gan_pass pass)
{
    const struct pass_row *row = &pass_rows[pass];
    return row->is_smoothed ? row->target - (float)config->label_smoothing : row->target;
}

int pass_count(enum role role)
{
    int count = 0;
    for (int pass = 0; pass < GAN_PASSES; pass++)
        count += pass_rows[pass].trains == role;
    return count;
}

enum gan_pass pass_first(enum role role)
{
    int pass = 0;
    while (pass_rows[pass].trains != role)
        pass++;
    return pass;
}

int pass_batches(const struct config *config, enum gan_pass pass)
{
    return config->network[pass_rows[pass].trains].accum;
}
