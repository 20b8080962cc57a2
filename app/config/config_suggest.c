/* config_suggest.c - for a name that no setting has: the one that was most likely meant.
 */
#include <stdio.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/config/nearest.h"

// What other trainers call the same thing.
static const struct {
    const char *theirs, *ours;
} habits[] = {
    {"amp", "precision"},
    {"batch_size", "batch"},
    {"cfg", "preset"},
    {"config", "preset"},
    {"dataroot", "data"},
    {"dataset", "data"},
    {"dlr", "d_lr"},
    {"epochs", "kimg"},
    {"fp16", "precision"},
    {"fp32", "precision"},
    {"glr", "g_lr"},
    {"gpu", "device"},
    {"num_gpus", "gpus"},
    {"nproc_per_node", "gpus"},
    {"image_size", "resolution"},
    {"imagesize", "resolution"},
    {"batchsize", "batch"},
    {"load_from", "resume"},
    {"manualseed", "seed"},
    {"n_critic", "n_dis"},
    {"name", "desc"},
    {"ndf", "d_width"},
    {"ngf", "g_width"},
    {"niter", "kimg"},
    {"num_train_steps", "kimg"},
    {"nz", "latent"},
    {"outdir", "out"},
    {"outf", "out"},
    {"size", "resolution"},
    {"steps", "kimg"},
    {"workers", "threads"},
    {"z_dim", "latent"},
};

static const char *meant_by_habit(const char *name)
{
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (edit_distance(name, habits[i].theirs) == 0)
            return habits[i].ours;
    return NULL;
}

static const char *nearest_setting(const char *name)
{
    const char *names[128];
    CHECK(setting_count <= 128, "%d settings", setting_count);
    for (int i = 0; i < setting_count; i++)
        names[i] = settings[i].name;
    return nearest_word(name, names, setting_count);
}

// A name as its reader writes it: --g-lr on the command line, "g_lr" in JSON.
static void written(const char *name, int is_flag, char text[SETTING_FLAG])
{
    const struct setting *setting = setting_find(name);
    if (is_flag)
        setting_flag(setting, text);
    else
        snprintf(text, SETTING_FLAG, "\"%s\"", setting->name);
}

enum status setting_unknown(const char *name, const char *source)
{
    char subject[SETTING_SUBJECT], one[SETTING_FLAG], other[SETTING_FLAG];
    char g_name[SETTING_FLAG], d_name[SETTING_FLAG];
    int is_flag = source[0] == '-';
    setting_subject(name, source, subject);

    snprintf(g_name, sizeof g_name, "g_%.40s", name);
    snprintf(d_name, sizeof d_name, "d_%.40s", name);
    if (setting_find(g_name)) {
        written(g_name, is_flag, one);
        written(d_name, is_flag, other);
        return status_fail(STATUS_USAGE,
                           "%s: each network has its own; give %s for the generator, %s "
                           "for the discriminator",
                           subject, one, other);
    }
    const char *meant = meant_by_habit(name);
    if (!meant)
        meant = nearest_setting(name);
    if (!meant)
        return status_fail(STATUS_USAGE,
                           "%s: there is no such setting; `twinscale train --help` lists "
                           "them all",
                           subject);
    written(meant, is_flag, one);
    return status_fail(STATUS_USAGE,
                       "%s: there is no such setting; did you mean %s? (`twinscale train "
                       "--help` lists them all)",
                       subject, one);
}
