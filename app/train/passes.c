#include "app/train/passes.h"

void passes_choose(struct passes *passes, const struct config *config)
{
    enum loss_kind loss = (enum loss_kind)config->loss;
    *passes = (struct passes){
        .count = GAN_PASSES,
        .row = {[PASS_D_REAL] = {.word = "real",
                                 .trains = ROLE_D,
                                 .input = INPUT_REAL,
                                 .loss = loss,
                                 .target = 1.0f - (float)config->label_smoothing,
                                 .weight = 1.0f},
                [PASS_D_FAKE] = {.word = "fakes",
                                 .trains = ROLE_D,
                                 .input = INPUT_FAKES,
                                 .loss = loss,
                                 .target = 0.0f,
                                 .weight = 1.0f,
                                 .has_scale_of_fakes = 1},
                [PASS_G_MAIN] = {.word = "generator",
                                 .trains = ROLE_G,
                                 .input = INPUT_FAKES,
                                 .loss = loss,
                                 .target = 1.0f,
                                 .weight = 1.0f}}};
}

int passes_place(const struct passes *passes, int pass)
{
    int count = 0;
    for (int before = 0; before < pass; before++)
        count += passes->row[before].trains == passes->row[pass].trains;
    return count;
}

int passes_count(const struct passes *passes, enum role role)
{
    int count = 0;
    for (int pass = 0; pass < passes->count; pass++)
        count += passes->row[pass].trains == role;
    return count;
}

int passes_first(const struct passes *passes, enum role role)
{
    int pass = 0;
    while (passes->row[pass].trains != role)
        pass++;
    return pass;
}
