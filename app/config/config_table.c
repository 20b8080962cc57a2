#include "app/config/config_table.h"

#include <stdio.h>
#include <string.h>

#include "kernels/losses.h"

// A row is: name, FIELD kind, RANGE or CHOICES, default, unit, group, resume, help.
// The kind macros do not compile when the field has another type.
// clang-format off
#define FIELD(field, type)                                                               \
    offsetof(struct config, field),                                                      \
    _Generic(((struct config *)0)->field, type: sizeof(type))
// clang-format on
#define INT(field) SETTING_INT, FIELD(field, int)
#define INT64(field) SETTING_INT64, FIELD(field, int64_t)
#define DOUBLE(field) SETTING_DOUBLE, FIELD(field, double)
#define CHOICE(field) SETTING_CHOICE, FIELD(field, int)
#define SWITCH(field) SETTING_SWITCH, FIELD(field, int)
#define GRID(field) SETTING_GRID, FIELD(field, int)
#define TEXT(field) \
    SETTING_TEXT, offsetof(struct config, field), sizeof(((struct config *)0)->field)

#define RANGE(min, max) (min), (max), 0, NULL
#define RANGE_OR(min, max, word) (min), (max), 0, (word)
#define RANGE_OR_0(min, max) (min), (max), 0, "0"
#define ABOVE(min, max) (min), (max), 1, NULL // min itself is not allowed
#define CHOICES(words) 0, 0, 0, (words)
#define ANY 0, 0, 0, NULL

#define LOSS_WORD(name, help) "|" #name
#define LOSS_HELP(name, help) "; " help

#define SEED_MAX 9007199254740992.0 // 2^53: what every reader of JSON keeps exactly
#define KIMG_MAX 1e8

// What a network owns, once for each. Bounds of the optimizer and the scaler are those
// that f32 keeps: a beta that rounds to 1, an eps or a rate that rounds to 0 would ruin
// the run without a word, and so would a scale of 0, inf or NaN, a factor that moves no
// scale, and a norm that rounds to the 0 that means none.
// clang-format off
#define NETWORK(n)                                                                       \
    {#n "_width", INT(n.width), RANGE(1, 1024), "64", "N", GROUP_NETWORK, RESUME_FIXED,  \
     "channels of the largest map: G's last hidden one, D's first; smaller maps have "   \
     "multiples of it"},                                                                 \
    {#n "_lr", DOUBLE(n.lr), RANGE(1e-12, 1), "2e-4", "RATE", GROUP_NETWORK, RESUME_FREE,\
     "Adam's learning rate"},                                                            \
    {#n "_beta1", DOUBLE(n.beta1), RANGE_OR_0(1e-37, 0.999999), "0.5", "B", GROUP_NETWORK, \
     RESUME_FREE, "Adam's decay of the mean gradient (0.5 as in DCGAN; Adam's usual is 0.9)"}, \
    {#n "_beta2", DOUBLE(n.beta2), RANGE_OR_0(1e-37, 0.999999), "0.999", "B", GROUP_NETWORK, \
     RESUME_FREE, "Adam's decay of the mean squared gradient"},                          \
    {#n "_eps", DOUBLE(n.eps), RANGE(1e-30, 1), "1e-8", "E", GROUP_NETWORK, RESUME_FREE, \
     "Adam's epsilon, added to the root of that mean square"},                           \
    {#n "_init_scale", DOUBLE(n.init_scale), RANGE_OR(1e-37, 1.7e38, "auto"), "65536",   \
     "S|auto", GROUP_NETWORK, RESUME_FIXED,                                              \
     "the loss scale that this network begins with; auto: init-margin below the largest "\
     "power of two at which every gradient of the first step's batches is finite"},      \
    {#n "_growth_factor", DOUBLE(n.growth_factor), RANGE(1.000001, 65536), "2", "F",     \
     GROUP_NETWORK, RESUME_FREE,                                                         \
     "multiplies the scale after growth-interval good steps in a row"},                  \
    {#n "_backoff_factor", DOUBLE(n.backoff_factor), RANGE(1e-37, 0.999999), "0.5", "F", \
     GROUP_NETWORK, RESUME_FREE,                                                         \
     "multiplies the scale after a step with an inf or NaN, which is skipped"},          \
    {#n "_growth_interval", INT64(n.growth_interval), RANGE(1, INT32_MAX), "2000",       \
     "STEPS", GROUP_NETWORK, RESUME_FREE,                                                \
     "good steps in a row before the scale grows"},                                      \
    {#n "_min_scale", DOUBLE(n.min_scale), RANGE_OR_0(1e-37, 1.7e38), "0", "S", GROUP_NETWORK, \
     RESUME_FREE, "the scale never backs off below this; 0 is no limit, as in PyTorch"}, \
    {#n "_max_scale", DOUBLE(n.max_scale), RANGE_OR_0(1e-37, 1.7e38), "0", "S", GROUP_NETWORK, \
     RESUME_FREE, "the scale never grows above this; 0 is no limit (apex: 16777216)"},   \
    {#n "_hysteresis", INT(n.hysteresis), RANGE(1, 100), "1", "N", GROUP_NETWORK,        \
     RESUME_FREE,                                                                        \
     "every overflow skips its step, and only the Nth lowers the scale; 1 is PyTorch's " \
     "rule, 2 that of Megatron and DeepSpeed"},                                          \
    {#n "_hysteresis_refill", CHOICE(n.hysteresis_refill), CHOICES("growth|step"),       \
     "growth", "growth|step", GROUP_NETWORK, RESUME_FREE,                                \
     "what begins that count again: a growth of the scale (Megatron, DeepSpeed), or "    \
     "any good step, so that only overflows in a row count (apex)"},                     \
    {#n "_overflow_tolerance", DOUBLE(n.overflow_tolerance), RANGE(0, 0.999999), "0",    \
     "SHARE", GROUP_NETWORK, RESUME_FREE,                                                \
     "an overflow only skips its step while less than this share of the steps since "    \
     "the scale last moved overflowed (fairseq); 0 lowers the scale each time"},         \
    {#n "_growth_delay", INT(n.growth_delay), RANGE(0, 1000000), "0", "STEPS",           \
     GROUP_NETWORK, RESUME_FREE,                                                         \
     "good steps at the start and after an overflow that growth-interval does not "      \
     "count; DeepSpeed has 1"},                                                          \
    {#n "_clip_norm", DOUBLE(n.clip_norm), RANGE_OR_0(1e-37, 1e37), "0", "NORM", GROUP_NETWORK, \
     RESUME_FREE,                                                                        \
     "gradients of a larger norm are scaled down to it, after the loss scale is taken "  \
     "out of them; the norm is in stats.jsonl; 0 is off"},                               \
    {#n "_accum", INT(n.accum), RANGE(1, 1000), "1", "N", GROUP_NETWORK, RESUME_FIXED,   \
     "batches whose gradients make one optimizer step of this network: at one loss "     \
     "scale, with one check, and skipped together"},                                     \
    {#n "_precision", CHOICE(n.precision), CHOICES("same|fp16|bf16|fp32"), "same",       \
     "fp16|bf16|fp32", GROUP_NETWORK, RESUME_FIXED,                                      \
     "how this network's activations and gradients are stored, where not as "            \
     "--precision says; images and their gradients are cast between the two"}
// clang-format on

_Static_assert(offsetof(struct config, grid_rows) ==
                   offsetof(struct config, grid_columns) + sizeof(int),
               "a grid is two neighbouring ints");

// In the order of struct config.
const struct setting settings[] = {
    {"data", TEXT(data), ANY, "", "PATH", GROUP_DATA, RESUME_FREE,
     "folder of pictures (any of PNG, PNM), IDX file (MNIST's form, .gz too), "
     "fashion-mnist, "
     "builtin:fashion or builtin:shapes"},
    {"resolution", INT(resolution), CHOICES("auto|28|32|64|128"), "auto", NULL,
     GROUP_DATA, RESUME_FIXED,
     "height and width that images are brought to; auto: 28 or 32 where that is the size "
     "of them all, else 64"},
    {"channels", INT(channels), RANGE(0, 4), "0", "N", GROUP_DATA, RESUME_FIXED,
     "1 grey, 2 grey and alpha, 3 RGB, 4 RGBA; 0 takes what the data has"},
    {"fit", CHOICE(fit), CHOICES("crop|pad|stretch"), "crop", NULL, GROUP_DATA,
     RESUME_FIXED, "what happens to images that are not square"},
    {"resize_filter", CHOICE(resize_filter), CHOICES("lanczos|area"), "lanczos", NULL,
     GROUP_DATA, RESUME_FIXED,
     "how they are brought to that size, both antialiased: lanczos is sharper, area "
     "never "
     "rings at hard edges"},
    {"mirror", SWITCH(mirror), ANY, "0", NULL, GROUP_DATA, RESUME_FIXED,
     "flips real images left to right at random"},
    {"strict", SWITCH(strict), ANY, "0", NULL, GROUP_DATA, RESUME_FREE,
     "a file that cannot be used ends the run; otherwise it is named and passed over"},

    {"preset", TEXT(preset), ANY, "", "NAME", GROUP_DATA, RESUME_OWN,
     "settings to begin with: a name from PRESETS or a .json file of your own; flags win "
     "over it"},
    {"out", TEXT(out), ANY, "outputs", "FOLDER", GROUP_OUTPUT, RESUME_FIXED,
     "where the numbered run folder is made"},
    {"desc", TEXT(desc), ANY, "", "WORD", GROUP_OUTPUT, RESUME_FIXED,
     "ends the name of the run folder"},
    {"resume", TEXT(resume), ANY, "", "RUN", GROUP_OUTPUT, RESUME_OWN,
     "goes on with this run folder or snapshot, in the same folder"},
    {"keep", INT(keep), RANGE(0, 1e6), "3", "N", GROUP_OUTPUT, RESUME_FREE,
     "newest snapshots that are kept; 0 keeps all"},

    {"kimg", DOUBLE(kimg), ABOVE(0, KIMG_MAX), "1000", "KIMG", GROUP_DURATION,
     RESUME_FREE,
     "total to reach, also after --resume: the run ends when D has seen this many"},
    {"tick", DOUBLE(tick), ABOVE(0, KIMG_MAX), "2", "KIMG", GROUP_DURATION, RESUME_FREE,
     "between two progress lines; small, so that a laptop prints one within minutes"},
    {"snap", DOUBLE(snap), ABOVE(0, KIMG_MAX), "20", "KIMG", GROUP_DURATION, RESUME_FREE,
     "between two snapshots: minutes of work on a laptop, which is what a crash can cost "
     "(Ctrl-C saves at once); with a fast GPU give 200"},
    {"img_snap", DOUBLE(img_snap), ABOVE(0, KIMG_MAX), "10", "KIMG", GROUP_DURATION,
     RESUME_FREE, "between two grids of samples"},

    {"set_at", TEXT(set_at), ANY, "", "CHANGES", GROUP_DURATION, RESUME_FREE,
     "changes settings while the run goes on, as `twinscale ctl` does, each before the "
     "first "
     "step from that kimg on: 50:g.lr=1e-4,d.scale=64,100:d.growth_interval=500; a "
     "rollback "
     "undoes those that it goes back behind, and they come again"},

    {"device", TEXT(device), ANY, "auto", "NAME", GROUP_MACHINE, RESUME_FREE,
     "auto (a GPU that works, else the CPU), cpu, cuda:N, or ref (slow, plain, for "
     "tests)"},
    {"gpus", INT(gpus), RANGE(1, 64), "1", "N", GROUP_MACHINE, RESUME_FREE,
     "GPUs that share each batch, a process for each: cuda:N, N+1 and so on; processes "
     "that torchrun, mpirun or srun started find each other, without this"},
    {"precision", CHOICE(precision), CHOICES("fp16|bf16|fp32"), "fp16", NULL,
     GROUP_MACHINE, RESUME_FIXED, "how activations and their gradients are stored"},
    {"fp32_layers", TEXT(fp32_layers), ANY, "", "PATTERNS", GROUP_MACHINE, RESUME_FIXED,
     "layers that stay f32 in a half-precision run, by name with *, as in d.conv4,g.*: "
     "their "
     "operands, outputs and gradients, with casts around them; --dry-run lists the "
     "names"},
    {"recompute", SWITCH(recompute), ANY, "0", NULL, GROUP_MACHINE, RESUME_FREE,
     "keeps no outputs of batch norm for the backward pass, which makes them again: less "
     "memory, the same bits, a little slower (--dry-run prints both); --grad-stats then "
     "has no row for them"},
    {"threads", INT(threads), RANGE(0, 1024), "0", "N", GROUP_MACHINE, RESUME_FREE,
     "CPU threads; 0 takes one per core, or TWINSCALE_THREADS of the environment"},
    {"tf32", SWITCH(tf32), ANY, "0", NULL, GROUP_MACHINE, RESUME_FREE,
     "on a GPU in fp32: products may be rounded to TF32's 10 bits, several times faster"},
    {"deterministic", SWITCH(deterministic), ANY, "0", NULL, GROUP_MACHINE, RESUME_FREE,
     "on a GPU: only algorithms that give the same bits every time, as a CPU always "
     "does"},
    {"graph", SWITCH(graph), ANY, "1", NULL, GROUP_MACHINE, RESUME_FREE,
     "on a GPU: a step is recorded once and replayed; --no-graph gives the same bits, "
     "slower, for looking for faults"},
    {"tune_plans", SWITCH(tune_plans), ANY, "0", NULL, GROUP_MACHINE, RESUME_FREE,
     "on a GPU: times five algorithms for each convolution at the start and keeps the "
     "fastest, for this and later runs"},
    {"sync_bn", SWITCH(sync_bn), ANY, "0", NULL, GROUP_MACHINE, RESUME_FIXED,
     "on several GPUs: batch norm's statistics are those of the whole batch"},
    {"preview", CHOICE(preview), CHOICES("auto|window|png|off"), "auto", NULL,
     GROUP_MACHINE, RESUME_FREE,
     "auto: a window where there is a display, else preview.png in the run folder"},
    {"exit_when_done", SWITCH(exit_when_done), ANY, "0", NULL, GROUP_MACHINE, RESUME_FREE,
     "closes the window when the run has ended; without it, it stays until q or until it "
     "is closed"},
    {"dry_run", SWITCH(dry_run), ANY, "0", NULL, GROUP_MACHINE, RESUME_OWN,
     "takes a few real steps, reports memory and time, and writes nothing"},
    {"show_config", SWITCH(show_config), ANY, "0", NULL, GROUP_MACHINE, RESUME_OWN,
     "prints every setting, its value and where that comes from (default, preset, "
     "command "
     "line, snapshot, data), and ends"},
    {"seed", INT64(seed), RANGE(0, SEED_MAX), "0", "N", GROUP_TRAINING, RESUME_FIXED,
     "of weights, latents and the order of images; the same seed gives the same run"},
    {"batch", INT(batch), RANGE(1, 8192), "64", "N", GROUP_TRAINING, RESUME_FIXED,
     "images per step; at least 2, for batch norm"},
    {"n_dis", INT(n_dis), RANGE(1, 100), "1", "N", GROUP_TRAINING, RESUME_FIXED,
     "D's steps per step of G"},
    {"latent", INT(latent), RANGE(1, 4096), "100", "N", GROUP_TRAINING, RESUME_FIXED,
     "size of the latent vector z, from which G makes an image"},
    {"grid", GRID(grid_columns), RANGE(1, 64), "8x8", "CxR", GROUP_OUTPUT, RESUME_FREE,
     "columns and rows of samples in the window and in fakes*.png"},
    {"loss", CHOICE(loss), CHOICES(&("" LOSSES(LOSS_WORD))[1]), "ns", NULL,
     GROUP_TRAINING, RESUME_FIXED, "of both networks, on D's logits" LOSSES(LOSS_HELP)},
    {"label_smoothing", DOUBLE(label_smoothing), RANGE_OR_0(1e-7, 0.5), "0", "A",
     GROUP_TRAINING, RESUME_FREE, "D's target for real images is 1 minus this"},
    {"ema_kimg", DOUBLE(ema_kimg), RANGE(0, 1e6), "10", "KIMG", GROUP_TRAINING,
     RESUME_FREE, "half-life of G's averaged weights, which samples come from; 0 is off"},
    {"ema_rampup", DOUBLE(ema_rampup), RANGE(0, 1), "0.05", "R", GROUP_TRAINING,
     RESUME_FREE,
     "early on that half-life is at most this share of the run so far; 0 is off"},
    {"scaler", CHOICE(scaler),
     CHOICES("auto|per-network|shared|shared-per-step|per-loss|static|off"), "auto", NULL,
     GROUP_SCALER, RESUME_FIXED,
     "loss scales. auto: one for each network whose gradients pass through fp16 (G's "
     "come "
     "through D), else off. per-network: one for each, moved by its own overflows. "
     "shared: one for both, moved once after both steps, as "
     "PyTorch's documentation has it. shared-per-step: one, moved after each step. "
     "per-loss: three, for D on real, D on fakes and G, as in apex. static: the scales "
     "stay at init-scale, which is auto unless given, or all at S with static:S. In "
     "each, a step with an inf or NaN "
     "is skipped, and with off as well"},
    {"skip", CHOICE(skip), CHOICES("own|both"), "own", NULL, GROUP_SCALER, RESUME_FREE,
     "own: an overflow skips a step of its own network only. both: one in D also holds "
     "back G's step of that iteration, and one in G the next step of D"},
    {"init_margin", INT(init_margin), RANGE(0, 64), "5", "N", GROUP_SCALER, RESUME_FIXED,
     "powers of two that init-scale auto stays below what it finds, because gradients "
     "grow: "
     "by up to 5 powers in the first 1000 steps of the networks here"},
    {"max_skips", INT(max_skips), RANGE(1, 100), "25", "N", GROUP_SCALER, RESUME_FREE,
     "steps in a row that one network may skip; so many are an overflow storm, and so is "
     "an overflow at min-scale"},
    {"on_overflow_storm", CHOICE(on_overflow_storm),
     CHOICES("stop|rollback|fp32-layer|warn"), "stop", NULL, GROUP_SCALER, RESUME_FREE,
     "stop: leaves post-mortem/ in the run folder and ends with exit code 5. rollback: "
     "goes on from the last good snapshot with half the scale and another order of "
     "images and latents. fp32-layer: moves the layer that overflowed to f32, and the "
     "one that its output or gradient meets, begins with init-scale again (65536 for "
     "auto) and goes on; stops where that would not help. warn: prints a warning once "
     "and goes on"},
    {"max_rollbacks", INT(max_rollbacks), RANGE(0, 100), "3", "N", GROUP_SCALER,
     RESUME_FREE, "rollbacks of a run; at the next storm it stops"},
    {"grad_stats", INT(grad_stats), RANGE(0, 1e6), "0", "STEPS", GROUP_SCALER,
     RESUME_FREE,
     "between two statistics of every layer's activations and gradients, in "
     "layers.jsonl, "
     "stats.png and the window; in half precision each also takes the step in f32, to "
     "tell which zeros are real. 0: only where a step overflows"},
    {"inject", TEXT(inject), ANY, "", "FAULTS", GROUP_SCALER, RESUME_FREE,
     "plants faults to watch what they do: d:10-20:inf spoils D's gradients in steps 10 "
     "to 20; also g, one step (g:5:nan), no end (d:10-:nan), several with commas. inf, "
     "nan: in a weight gradient. nan-forward, huge-activation (60000): in the network's "
     "output. bad-weight: inf in a weight. After a rollback only those without an end "
     "are planted again"},
    NETWORK(g),
    NETWORK(d),
};
// clang-format on

const int setting_count = sizeof settings / sizeof *settings;

static int same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b))
            return 0;
    return *a == *b;
}

const struct setting *setting_find(const char *name)
{
    for (int i = 0; i < setting_count; i++)
        if (same_name(name, settings[i].name))
            return &settings[i];
    return NULL;
}

const char *setting_flag(const struct setting *setting, char text[SETTING_FLAG])
{
    snprintf(text, SETTING_FLAG, "--%s", setting->name);
    for (char *c = text; *c; c++)
        if (*c == '_')
            *c = '-';
    return text;
}
