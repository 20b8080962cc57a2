/* change.c - checks a request against the rules that flags obey, then applies it.
 *
 * A setting is parsed into a copy of the config and the whole copy is checked, as it is
 * at the start of a run: so a run cannot be brought live to what --resume would refuse.
 * The one exception is init-scale, which has done its work: it follows new limits. */
#include "app/live/change.h"

#include <stdio.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/config/nearest.h"
#include "app/config/number.h"
#include "kernels/ops.h"

/* ---- what can be set -------------------------------------------------------------- */

#define SCALE "scale" // the only key that is no setting

struct changeable {
    const char *key, *setting;
    int is_of_scaler;
};

// What each network has besides the settings of its scaler's rule.
#define NETWORK_KEYS(n)                                             \
    {#n ".lr", #n "_lr", 0}, {#n ".clip_norm", #n "_clip_norm", 0}, \
    {                                                               \
#n "." SCALE, "", 1                                         \
    }

// Both networks' keys in the same order, then those of the whole run.
static const struct changeable changeable[] = {NETWORK_KEYS(g),
#define RULE(type, name) {"g." #name, "g_" #name, 1},
#include "scaler/settings.def"
#undef RULE
                                               NETWORK_KEYS(d),
#define RULE(type, name) {"d." #name, "d_" #name, 1},
#include "scaler/settings.def"
#undef RULE
                                               {"kimg", "kimg", 0},
                                               {"snap", "snap", 0},
                                               {"grad_stats", "grad_stats", 0}};
enum {
    KEY_COUNT = sizeof changeable / sizeof *changeable,
    RUN_KEYS = 3,
    KEYS_EACH = (KEY_COUNT - RUN_KEYS) / 2
};

static int network_of(int key)
{
    return key < KEYS_EACH ? ROLE_G : key < 2 * KEYS_EACH ? ROLE_D : CHANGE_OF_RUN;
}

// The same key of the other network.
static int other_key(int key)
{
    return (key + KEYS_EACH) % (2 * KEYS_EACH);
}

static int is_scale(int key)
{
    return network_of(key) != CHANGE_OF_RUN &&
           strcmp(changeable[key].key + 2, SCALE) == 0;
}

static int shares_scale(const struct config *config)
{
    return config->scaler == SCALER_SHARED || config->scaler == SCALER_SHARED_PER_STEP;
}

/* ---- values ----------------------------------------------------------------------- */

static struct network_config *network_config(struct config *config, int network)
{
    CHECK(network >= 0 && network < ROLES, "network %d", network);
    return &config->network[network];
}

static float scale_of(const struct trainer *trainer, int network)
{
    if (network == CHANGE_OF_RUN)
        return 0.0f;
    const struct grad_scaler *scaler = &trainer->scaler[network];
    return scaler->config.enabled ? grad_scaler_read(scaler).scale : 0.0f;
}

// Of D's loss on fakes, where that has one.
static float fake_scale_of(const struct trainer *trainer, int network)
{
    const struct topology *topology = &trainer->topology;
    int has_fake = network == ROLE_D && topology->kind == TOPOLOGY_PER_LOSS;
    return has_fake ? grad_scaler_read(&topology->fake).scale : 0.0f;
}

static void value_text(const struct trainer *trainer, int key, char text[64])
{
    char value[CONFIG_TEXT], number[NUMBER_TEXT];
    if (is_scale(key))
        snprintf(text, 64, "%s",
                 number_text((double)scale_of(trainer, network_of(key)), number));
    else
        snprintf(
            text, 64, "%.63s",
            setting_text(setting_find(changeable[key].setting), &trainer->config, value));
}

void trainer_settable(const struct trainer *trainer, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int key = 0; key < KEY_COUNT; key++) {
        char value[64];
        if (changeable[key].is_of_scaler &&
            !trainer_wants_scaler(&trainer->config, network_of(key)))
            continue;
        value_text(trainer, key, value);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s=%s", used ? "\n" : "",
                                 changeable[key].key, value);
        CHECK(used < bytes, "no room for all that can be set");
    }
}

/* ---- reading a request ------------------------------------------------------------ */

/* What is asked for: the settings in `config`, the scales beside them. */
struct plan {
    struct config config;
    const char *source;      // begins a sentence on a value
    int is_named[KEY_COUNT]; // in the request itself
    int is_set[KEY_COUNT];   // there, or for the other network of a shared scale
    float scale[ROLES];      // where is_set[] of that key
};

static enum status unknown_key(const char *name)
{
    const char *names[KEY_COUNT];
    for (int key = 0; key < KEY_COUNT; key++)
        names[key] = changeable[key].key;
    const char *nearest = nearest_word(name, names, KEY_COUNT);
    return status_fail(STATUS_USAGE,
                       "%.60s: cannot be set while a run goes on%s%s%s `twinscale ctl "
                       "RUN` lists what can",
                       name, nearest ? "; did you mean " : ";", nearest ? nearest : "",
                       nearest ? "?" : "");
}

static enum status find_key(const struct config *config, const char *name, int *key)
{
    for (*key = 0; *key < KEY_COUNT; ++*key)
        if (edit_distance(name, changeable[*key].key) == 0)
            break;
    if (*key == KEY_COUNT)
        return unknown_key(name);
    if (changeable[*key].is_of_scaler && !trainer_wants_scaler(config, network_of(*key)))
        return status_fail(
            STATUS_USAGE,
            "%s: this network has no loss scaling; start a run with --scaler "
            "per-network to have it",
            changeable[*key].key);
    return STATUS_OK;
}

static enum status read_scale(struct plan *plan, int key, const char *value)
{
    double scale;
    const struct setting *init = setting_find("g_init_scale");
    enum number_error error = number_read(value, &scale);
    if (error != NUMBER_OK || scale < init->min || scale > init->max)
        return status_fail(
            STATUS_USAGE, "%s: \"%.60s\" %s; give a number from %.3g to %.3g",
            changeable[key].key, value, number_problem(error), init->min, init->max);
    plan->scale[network_of(key)] = (float)scale;
    return STATUS_OK;
}

static enum status set_key(struct plan *plan, int key, const char *value)
{
    plan->is_set[key] = 1;
    if (is_scale(key))
        return read_scale(plan, key, value);
    return config_set(&plan->config, changeable[key].setting, value, plan->source);
}

// "d.scale=1024": one line of a request.
static enum status read_item(struct plan *plan, char *item)
{
    char *equals = strchr(item, '=');
    int key;
    if (!equals || equals == item)
        return status_fail(STATUS_USAGE,
                           "\"%.60s\": expected key=value, such as d.growth_interval=500",
                           item);
    *equals = '\0';
    TRY(find_key(&plan->config, item, &key));
    if (plan->is_named[key])
        return status_fail(STATUS_USAGE, "%s: is given twice; give it once",
                           changeable[key].key);
    plan->is_named[key] = 1;
    TRY(set_key(plan, key, equals + 1));
    // Where the other network is named too, check_plan() sees whether both agree.
    int other = other_key(key);
    if (!changeable[key].is_of_scaler || !shares_scale(&plan->config) ||
        plan->is_named[other])
        return STATUS_OK;
    return set_key(plan, other, equals + 1);
}

static enum status read_request(const char *request, struct plan *plan)
{
    char copy[CHANGE_REQUEST];
    if (strlen(request) >= sizeof copy)
        return status_fail(STATUS_USAGE,
                           "the request has %zu bytes, at most %zu can be "
                           "read; give fewer changes at once",
                           strlen(request), sizeof copy - 1);
    snprintf(copy, sizeof copy, "%s", request);
    char *rest = copy;
    for (char *item; (item = strsep(&rest, "\n"));)
        if (item[0])
            TRY(read_item(plan, item));
    return STATUS_OK;
}

/* ---- checking --------------------------------------------------------------------- */

static enum status check_scale(struct plan *plan, int key)
{
    const struct network_config *network = network_config(&plan->config, network_of(key));
    float scale = plan->scale[network_of(key)];
    int is_below = scale < (float)network->min_scale;
    int is_above = network->max_scale > 0.0 && scale > (float)network->max_scale;
    if (!is_below && !is_above)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "%s: %.9g is %s %.9g; give a scale within the limits, or change "
                       "%.1s.%s in the same command",
                       changeable[key].key, (double)scale,
                       is_below ? "below the minimum" : "above the maximum",
                       is_below ? network->min_scale : network->max_scale,
                       changeable[key].key, is_below ? "min_scale" : "max_scale");
}

// A run that has shown more images than `kimg` would end at once, and without being
// asked.
static enum status check_end(const struct plan *plan, int64_t images)
{
    char kimg[NUMBER_TEXT];
    if (plan->config.kimg * 1000.0 > (double)images)
        return STATUS_OK;
    return status_fail(
        STATUS_USAGE,
        "kimg: %s has passed, the run is at %.4g; give more, or end the run "
        "with `twinscale ctl RUN stop`",
        number_text(plan->config.kimg, kimg), (double)images / 1000.0);
}

static enum status check_plan(struct plan *plan)
{
    config_follow_limits(&plan->config);
    TRY(config_check(&plan->config));
    for (int key = 0; key < KEY_COUNT; key++)
        if (is_scale(key) && plan->is_set[key])
            TRY(check_scale(plan, key));
    if (shares_scale(&plan->config) && plan->scale[ROLE_G] != plan->scale[ROLE_D])
        return status_fail(STATUS_USAGE,
                           "g.scale, d.scale: %.9g and %.9g, but both networks have one "
                           "scale between them; give one",
                           (double)plan->scale[ROLE_G], (double)plan->scale[ROLE_D]);
    return STATUS_OK;
}

/* ---- applying --------------------------------------------------------------------- */

// Everything that can be refused has been: a failure here is a fault of check_plan().
static void apply_scaler(struct trainer *trainer, struct grad_scaler *scaler, int network,
                         float scale)
{
    struct grad_scaler_config config =
        config_scaler(&trainer->config, network_config(&trainer->config, network));
    config.enabled = scaler->config.enabled;
    enum status status = grad_scaler_change(scaler, &config);
    CHECK(status == STATUS_OK, "%s", status_message());
    if (scale > 0.0f)
        status = grad_scaler_set(scaler, (double)scale);
    CHECK(status == STATUS_OK, "%s", status_message());
}

static void apply_network(struct trainer *trainer, const struct plan *plan, int network)
{
    const struct network_config *config = network_config(&trainer->config, network);
    trainer->adam[network].config.lr = (float)config->lr;
    trainer->topology.network[network].clip_norm = (float)config->clip_norm;
    if (!trainer->scaler[network].config.enabled)
        return;
    apply_scaler(trainer, &trainer->scaler[network], network, plan->scale[network]);
    struct scaler_state state = grad_scaler_read(&trainer->scaler[network]);
    trainer->last.record[network].scale_after = state.scale;
    trainer->last.record[network].growth_tracker = state.growth_tracker;
    if (network == ROLE_D && trainer->topology.kind == TOPOLOGY_PER_LOSS) {
        apply_scaler(trainer, &trainer->topology.fake, network, plan->scale[network]);
        trainer->last.fake_record.scale_after =
            grad_scaler_read(&trainer->topology.fake).scale;
    }
}

// A recorded step holds the arguments of its ops, learning rates among them.
static void forget_steps(struct trainer *trainer)
{
    const struct ops *ops = trainer->device->ops;
    if (trainer->repeat)
        ops->queue.forget(trainer->device, &trainer->repeat);
    if (trainer->probe.repeat)
        ops->queue.forget(trainer->device, &trainer->probe.repeat);
}

/* What a person who sets a scale by hand would not expect: as in PyTorch's
 * update(new_scale), the count of good steps goes on. "" where the scale never grows. */
static const char *growth_text(const struct grad_scaler *scaler, char text[96])
{
    struct scaler_state state = grad_scaler_read(scaler);
    int is_at_top = state.max_scale > 0.0f && state.scale >= state.max_scale;
    text[0] = '\0';
    if (state.enabled && !state.is_static && !is_at_top)
        snprintf(text, 96, "steps without an overflow until it grows: %lld",
                 (long long)(state.growth_interval - state.growth_tracker +
                             state.growth_wait));
    return text;
}

// Fills in what `change` has led to.
static void describe_change(const struct trainer *trainer, struct change *change, int key)
{
    char growth[96] = "";
    const char *note = "";
    value_text(trainer, key, change->after);
    change->scale_after = scale_of(trainer, change->network);
    change->fake_scale_after = fake_scale_of(trainer, change->network);
    int is_same = strcmp(change->before, change->after) == 0;
    if (changeable[key].is_of_scaler)
        note = trainer->scaler[change->network].note;
    if (is_scale(key) && !is_same)
        growth_text(&trainer->scaler[change->network], growth);
    snprintf(change->text, sizeof change->text, "%s: %s %s%s%s%s%s%s%s", change->key,
             is_same ? "is already" : "was", change->before, is_same ? "" : ", is now ",
             is_same ? "" : change->after, note[0] ? "; " : "", note,
             growth[0] ? "; " : "", growth);
}

enum status change_check(struct config *config, const char *request, const char *source)
{
    struct plan plan = {.config = *config, .source = source};
    TRY(read_request(request, &plan));
    TRY(check_plan(&plan));
    *config = plan.config;
    return STATUS_OK;
}

int change_is_of_scale(const struct change *change)
{
    return change->network != CHANGE_OF_RUN && strcmp(change->key + 2, SCALE) == 0;
}

enum status trainer_change(struct trainer *trainer, const char *request,
                           struct changes *changes)
{
    struct plan plan = {.config = trainer->config, .source = "ctl"};
    int keys[KEY_COUNT];
    changes->count = 0;
    TRY(read_request(request, &plan));
    TRY(check_plan(&plan));
    TRY(check_end(&plan, trainer->progress.images));

    for (int key = 0; key < KEY_COUNT; key++) {
        if (!plan.is_set[key])
            continue;
        keys[changes->count] = key;
        struct change *change = &changes->of[changes->count++];
        *change =
            (struct change){.network = network_of(key),
                            .key = changeable[key].key,
                            .scale_before = scale_of(trainer, network_of(key)),
                            .fake_scale_before = fake_scale_of(trainer, network_of(key))};
        value_text(trainer, key, change->before);
    }
    if (changes->count == 0)
        return STATUS_OK;
    trainer->config = plan.config;
    for (int network = 0; network < ROLES; network++)
        apply_network(trainer, &plan, network);
    forget_steps(trainer);
    for (int i = 0; i < changes->count; i++)
        describe_change(trainer, &changes->of[i], keys[i]);
    return STATUS_OK;
}
