#include "app/record/tick.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/files/json_text.h"
#include "kernels/base/status.h"
#include "kernels/base/text.h"

/* ---- statistics ------------------------------------------------------------------ */

void statistic_add(struct statistic *statistic, double value)
{
    statistic_add_sums(statistic, 1, value, value * value);
}

void statistic_add_sums(struct statistic *statistic, int64_t num, double sum,
                        double sum_sq)
{
    if (isnan(sum)) {
        statistic->nan += num;
    } else if (isinf(sum)) {
        statistic->inf += num;
    } else {
        statistic->num += num;
        statistic->sum += sum;
        statistic->sum_sq += sum_sq;
    }
}

double statistic_mean(const struct statistic *statistic)
{
    return statistic->num > 0 ? statistic->sum / (double)statistic->num : (double)NAN;
}

double statistic_std(const struct statistic *statistic)
{
    double mean = statistic_mean(statistic);
    if (!isfinite(mean))
        return (double)NAN;
    if (statistic->num == 1)
        return 0.0;
    double variance = statistic->sum_sq / (double)statistic->num - mean * mean;
    // Rounding may leave a little less than nothing.
    return variance < 0.0 ? 0.0 : sqrt(variance);
}

/* ---- numbers for people ---------------------------------------------------------- */

/* Three decimals where they fit six characters, fewer digits and an exponent beyond. */
static const char *loss_text(const struct statistic *loss, char *text, size_t bytes)
{
    double mean = statistic_mean(loss);
    if (loss->num == 0)
        snprintf(text, bytes, "%s", loss->nan ? "nan" : loss->inf ? "inf" : "-");
    else if (fabs(mean) < 99.9995)
        snprintf(text, bytes, "%.3f", mean);
    else if (fabs(mean) < 99999.5)
        snprintf(text, bytes, "%.0f", mean);
    else
        snprintf(text, bytes, "%.1e", mean);
    return text;
}

/* "1.230", or "1.230 (4 nan, 1 inf)" where some are left out of the mean. */
static const char *counted_loss_text(const struct statistic *loss, char text[96])
{
    char nan[32], inf[32];
    loss_text(loss, text, 96);
    if (loss->num == 0 || loss->nan + loss->inf == 0)
        return text;
    size_t used = strlen(text);
    snprintf(text + used, 96 - used, " (%s%s%s%s%s)",
             loss->nan ? count_text(loss->nan, nan, sizeof nan) : "",
             loss->nan ? " nan" : "", loss->nan && loss->inf ? ", " : "",
             loss->inf ? count_text(loss->inf, inf, sizeof inf) : "",
             loss->inf ? " inf" : "");
    return text;
}

/* ---- the tick line --------------------------------------------------------------- */

/* "48.0/200 (0.80 ep)": as many decimals as a run of that length needs. */
static void progress_text(const struct tick *tick, char *text, size_t bytes)
{
    int decimals = tick->kimg_total < 1.0 ? 3 : tick->kimg_total < 10.0 ? 2 : 1;
    char total[32];
    snprintf(total, sizeof total, "%.7g", tick->kimg_total);
    // As wide as the last tick's will be.
    int width = snprintf(NULL, 0, "%.*f", decimals, tick->kimg_total);
    int epoch_decimals = tick->epoch < 10.0 ? 2 : tick->epoch < 100.0 ? 1 : 0;
    snprintf(text, bytes, "%*.*f/%s (%.*f ep)", width, decimals, tick->kimg, total,
             epoch_decimals, tick->epoch);
}

static void skip_text(const struct tick *tick, int network, int tells_fresh, char *text,
                      size_t bytes)
{
    char total[32], fresh[40] = "", count[32];
    if (tells_fresh && tick->skipped_in_tick[network] > 0)
        snprintf(fresh, sizeof fresh, " (+%s)",
                 count_text(tick->skipped_in_tick[network], count, sizeof count));
    snprintf(text, bytes, "%s%s", count_text(tick->skipped[network], total, sizeof total),
             fresh);
}

/* Returns the length that the whole line has. */
static int compose_line(const struct tick *tick, int tells_fresh, char *text,
                        size_t bytes)
{
    char progress[96], rate[32], eta[32], loss[ROLES][96], scale[ROLES][32],
        skip[ROLES][80];
    progress_text(tick, progress, sizeof progress);
    for (int i = 0; i < ROLES; i++) {
        counted_loss_text(&tick->loss[i], loss[i]);
        if (tick->scale[i] > 0.0f)
            scale_text(tick->scale[i], scale[i], sizeof scale[i]);
        else
            snprintf(scale[i], sizeof scale[i], "off");
        skip_text(tick, i, tells_fresh, skip[i], sizeof skip[i]);
    }
    return snprintf(text, bytes,
                    "tick %-3lld  kimg %s  %6s img/s  eta %-7s  mean loss G %-6s D %-6s  "
                    "scale G %-4s D %-4s  skip G %s D %s",
                    (long long)tick->index, progress,
                    rate_text(tick->images_per_sec, rate, sizeof rate),
                    duration_text(tick->eta_sec, eta, sizeof eta), loss[ROLE_G],
                    loss[ROLE_D], scale[ROLE_G], scale[ROLE_D], skip[ROLE_G],
                    skip[ROLE_D]);
}

void tick_line(const struct tick *tick, char *text, size_t bytes)
{
    char line[TICK_LINE_MAX + 1];
    // Only numbers beyond any sensible run make it so long that something has to go.
    if (compose_line(tick, 1, line, sizeof line) > TICK_LINE_MAX)
        compose_line(tick, 0, line, sizeof line);
    snprintf(text, bytes, "%s", line);
}

/* ---- every number of a tick, by name --------------------------------------------- */

struct value_list {
    struct tick_value *value;
    int count;
};

static void put(struct value_list *list, const char *key,
                const struct statistic *statistic)
{
    CHECK(list->count < TICK_VALUES, "%s", key);
    list->value[list->count++] = (struct tick_value){.key = key, .of = *statistic};
}

// What only some runs have.
static void put_extra(struct value_list *list, const char *key,
                      const struct statistic *statistic)
{
    put(list, key, statistic);
    list->value[list->count - 1].is_extra = 1;
}

static struct statistic one(double value)
{
    struct statistic statistic = {0};
    if (isfinite(value)) // else it is not known
        statistic_add(&statistic, value);
    return statistic;
}

static void put_one(struct value_list *list, const char *key, double value)
{
    struct statistic statistic = one(value);
    put(list, key, &statistic);
}

static void put_scale(struct value_list *list, const struct tick *tick, int network,
                      const char *key, const char *skipped_key)
{
    if (tick->scale_over_tick[network].num > 0)
        put(list, key, &tick->scale_over_tick[network]);
    else
        put_one(list, key, (double)tick->scale[network]);
    put_one(list, skipped_key, (double)tick->skipped[network]);
}

static void put_extras(struct value_list *list, const struct tick *tick)
{
    static const char *const norm_keys[] = {"Grad/G_norm", "Grad/D_norm"};
    static const char *const clip_keys[] = {"Grad/G_clipped", "Grad/D_clipped"};
    static const char *const held_keys[] = {"Scale/G_held", "Scale/D_held"};
    for (int network = 0; network < ROLES; network++) {
        struct statistic held = one((double)tick->held[network]), none = {0};
        put_extra(list, norm_keys[network], &tick->grad_norm[network]);
        put_extra(list, clip_keys[network], &tick->clipped[network]);
        put_extra(list, held_keys[network], tick->held[network] > 0 ? &held : &none);
    }
    put_extra(list, "Scale/D_fake", &tick->fake_scale_over_tick);
}

int tick_values(const struct tick *tick, struct tick_value values[TICK_VALUES])
{
    struct value_list list = {.value = values};
    put_one(&list, "Progress/tick", (double)tick->index);
    put_one(&list, "Progress/kimg", tick->kimg);
    put_one(&list, "Progress/step", (double)tick->step);
    put_one(&list, "Progress/epoch", tick->epoch);
    put_one(&list, "Progress/rollbacks", (double)tick->rollbacks);
    put_one(&list, "Timing/total_sec", tick->total_sec);
    put_one(&list, "Timing/sec_per_tick", tick->tick_sec);
    put_one(&list, "Timing/sec_per_kimg",
            tick->images_per_sec > 0.0 ? 1000.0 / tick->images_per_sec : (double)NAN);
    put_one(&list, "Timing/maintenance_sec", tick->maintenance_sec);
    put_one(&list, "Timing/images_per_sec", tick->images_per_sec);
    put(&list, "Loss/G/loss", &tick->loss[ROLE_G]);
    put(&list, "Loss/D/loss", &tick->loss[ROLE_D]);
    put(&list, "Loss/scores/real", &tick->score_real);
    put(&list, "Loss/scores/fake", &tick->score_fake);
    put(&list, "Loss/signs/real", &tick->sign_real);
    put(&list, "Loss/signs/fake", &tick->sign_fake);
    put_scale(&list, tick, ROLE_G, "Scale/G", "Scale/G_skipped");
    put_scale(&list, tick, ROLE_D, "Scale/D", "Scale/D_skipped");
    put_extras(&list, tick);
    put_one(&list, "Resources/cpu_mem_gb", tick->cpu_mem_gb);
    return list.count;
}

/* ---- stats.jsonl ----------------------------------------------------------------- */

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *statistic_json(const struct statistic *statistic)
{
    json_t *entry = json_pack("{s:I, s:o, s:o}", "num", (json_int_t)statistic->num,
                              "mean", number_or_null(statistic_mean(statistic)), "std",
                              number_or_null(statistic_std(statistic)));
    if (statistic->nan > 0)
        json_object_set_new(entry, "nan", json_integer(statistic->nan));
    if (statistic->inf > 0)
        json_object_set_new(entry, "inf", json_integer(statistic->inf));
    return entry;
}

char *tick_json(const struct tick *tick, double timestamp)
{
    struct tick_value values[TICK_VALUES];
    int count = tick_values(tick, values);
    json_t *json = json_object();
    for (int i = 0; i < count; i++)
        if (!values[i].is_extra || values[i].of.num > 0)
            json_object_set_new(json, values[i].key, statistic_json(&values[i].of));
    json_object_set_new(json, "timestamp", number_or_null(timestamp));
    // 15 digits: every decimal that a person would write comes back as it was.
    char *text = json_text(json, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(json);
    return text;
}
