/* bench_scaler_report.c - the runs of `bench scaler` as a table, as JSON and as a
 * picture. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/bench/bench_scaler.h"
#include "app/view/bench_picture.h"
#include "kernels/base/text.h"
#include "app/files/terminal.h"

static const char *end_word(const struct bench_run *run)
{
    static const char *const words[] = {[BENCH_NOT_BEGUN] = "not begun",
                                        [BENCH_FINISHED] = "finished",
                                        [BENCH_DIVERGED] = "diverged",
                                        [BENCH_STOPPED] = "stopped"};
    return words[run->end];
}

/* ---- the table ------------------------------------------------------------------- */

static const char *scale_cell(float scale, char *text, size_t bytes)
{
    if (!(scale > 0.0f))
        snprintf(text, bytes, "-");
    else
        scale_text(scale, text, bytes);
    return text;
}

static const char *number_cell(double value, char *text, size_t bytes)
{
    if (isfinite(value))
        snprintf(text, bytes, fabs(value) < 1000.0 ? "%.3f" : "%.3g", value);
    else
        snprintf(text, bytes, "-");
    return text;
}

void bench_table_head(char line[BENCH_LINE])
{
    snprintf(line, BENCH_LINE, "%-15s %5s %8s %7s %7s %9s %11s %8s %8s %9s  %s", "scaler",
             "seed", "steps", "skip G", "skip D", "scale G", "scale D", "loss G",
             "loss D", "diversity", "end");
}

void bench_run_line(const struct bench_run *run, char line[BENCH_LINE])
{
    char g[24], d[24], fake[24], both[52], loss_g[24], loss_d[24], diversity[24];
    scale_cell(run->scale[ROLE_G], g, sizeof g);
    scale_cell(run->scale[ROLE_D], d, sizeof d);
    if (run->fake_scale > 0.0f)
        snprintf(both, sizeof both, "%s|%s", d,
                 scale_cell(run->fake_scale, fake, sizeof fake));
    else
        snprintf(both, sizeof both, "%s", d);
    snprintf(line, BENCH_LINE, "%-15s %5lld %8lld %7lld %7lld %9s %11s %8s %8s %9s  %s",
             bench_scaler_name(run->scaler), (long long)run->seed, (long long)run->steps,
             (long long)run->skipped[ROLE_G], (long long)run->skipped[ROLE_D], g, both,
             number_cell(run->loss[ROLE_G], loss_g, sizeof loss_g),
             number_cell(run->loss[ROLE_D], loss_d, sizeof loss_d),
             number_cell(run->diversity, diversity, sizeof diversity), end_word(run));
}

/* Of the finished runs of one choice; scales by their exponents. */
struct mean {
    int count, finished;
    double steps, skipped[ROLES], exponent[ROLES], loss[ROLES];
    double diversity;
    int is_scaled;
};

static struct mean mean_of(const struct bench_result *result, int scaler)
{
    struct mean mean = {.is_scaled = 1};
    for (int i = 0; i < result->run_count; i++) {
        const struct bench_run *run = &result->run[i];
        if (run->scaler != scaler || run->end == BENCH_NOT_BEGUN)
            continue;
        mean.count++;
        if (run->end != BENCH_FINISHED)
            continue;
        mean.finished++;
        mean.steps += (double)run->steps;
        mean.diversity += run->diversity;
        for (int network = 0; network < ROLES; network++) {
            mean.skipped[network] += (double)run->skipped[network];
            mean.loss[network] += run->loss[network];
            mean.is_scaled &= run->scale[network] > 0.0f;
            if (run->scale[network] > 0.0f)
                mean.exponent[network] += log2((double)run->scale[network]);
        }
    }
    return mean;
}

static void print_mean(const struct bench_result *result, int scaler)
{
    struct mean mean = mean_of(result, scaler);
    char scale[ROLES][24], loss[ROLES][24], diversity[24];
    double n = mean.finished;
    if (mean.count == 0)
        return;
    if (mean.finished == 0) {
        printf("%-15s %5s %86s  none of %d finished\n", "", "mean", "-", mean.count);
        return;
    }
    for (int network = 0; network < ROLES; network++) {
        if (mean.is_scaled)
            snprintf(scale[network], sizeof scale[network], "2^%.1f",
                     mean.exponent[network] / n);
        else
            snprintf(scale[network], sizeof scale[network], "-");
        number_cell(mean.loss[network] / n, loss[network], sizeof loss[network]);
    }
    printf("%-15s %5s %8.0f %7.1f %7.1f %9s %11s %8s %8s %9s  %d of %d finished\n", "",
           "mean", mean.steps / n, mean.skipped[ROLE_G] / n, mean.skipped[ROLE_D] / n,
           scale[ROLE_G], scale[ROLE_D], loss[ROLE_G], loss[ROLE_D],
           number_cell(mean.diversity / n, diversity, sizeof diversity), mean.finished,
           mean.count);
}

static void print_table(const struct bench_result *result)
{
    char line[BENCH_LINE], diversity[24];
    bench_table_head(line);
    printf("%s\n", line);
    for (int i = 0; i < result->run_count; i++) {
        const struct bench_run *run = &result->run[i];
        int is_last = i + 1 == result->run_count || run[1].scaler != run->scaler;
        if (run->end != BENCH_NOT_BEGUN) {
            bench_run_line(run, line);
            printf("%s\n", line);
        }
        if (is_last && result->bench->seeds > 1)
            print_mean(result, run->scaler);
    }
    for (int i = 0; i < BENCH_CHOICES; i++)
        if (result->choice[i].is_left_out)
            printf("%-15s left out: %s\n", bench_scaler_name(result->choice[i].scaler),
                   result->choice[i].reason);
    printf("%-15s %88s\n", "real images",
           number_cell(result->real_diversity, diversity, sizeof diversity));
}

/* ---- JSON ------------------------------------------------------------------------ */

static json_t *number_pair(double g, double d)
{
    return json_pack("{s:o, s:o}", "G", bench_number(g), "D", bench_number(d));
}

static json_t *count_pair(const int64_t counts[ROLES])
{
    return json_pack("{s:I, s:I}", "G", (json_int_t)counts[ROLE_G], "D",
                     (json_int_t)counts[ROLE_D]);
}

// null where there is no scale.
static json_t *scale_json(const struct bench_run *run)
{
    double g = (double)run->scale[ROLE_G], d = (double)run->scale[ROLE_D];
    json_t *scale = number_pair(g > 0.0 ? g : (double)NAN, d > 0.0 ? d : (double)NAN);
    if (run->fake_scale > 0.0f)
        json_object_set_new(scale, "D_fake", bench_number((double)run->fake_scale));
    return scale;
}

json_t *bench_run_json(const struct bench_run *run)
{
    json_t *object = json_pack(
        "{s:s, s:I, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "scaler",
        bench_scaler_name(run->scaler), "seed", (json_int_t)run->seed, "end",
        end_word(run), "steps", (json_int_t)run->steps, "skipped",
        count_pair(run->skipped), "held", count_pair(run->held), "scale", scale_json(run),
        "loss", number_pair(run->loss[ROLE_G], run->loss[ROLE_D]), "diversity",
        bench_number(run->diversity), "seconds", bench_number(run->seconds));
    CHECK_MEMORY(object, "the results");
    if (run->reason[0])
        json_object_set_new(object, "reason", json_string(run->reason));
    return object;
}

static enum status write_json(const struct bench_result *result)
{
    json_t *settings = bench_settings_json(result->bench);
    json_t *runs = json_array(), *left_out = json_array();
    // What the runs differ in.
    json_object_del(settings, "scaler");
    json_object_del(settings, "seed");
    for (int i = 0; i < result->run_count; i++)
        if (result->run[i].end != BENCH_NOT_BEGUN)
            json_array_append_new(runs, bench_run_json(&result->run[i]));
    for (int i = 0; i < BENCH_CHOICES; i++)
        if (result->choice[i].is_left_out)
            json_array_append_new(left_out,
                                  json_pack("{s:s, s:s}", "scaler",
                                            bench_scaler_name(result->choice[i].scaler),
                                            "reason", result->choice[i].reason));
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:o, s:i, s:b, s:o, s:o, s:o}", "work", "bench scaler",
        "program", "twinscale " TWINSCALE_VERSION, "device", result->device, "data",
        result->data, "data_images", (json_int_t)result->data_count, "real_diversity",
        bench_number(result->real_diversity), "diversity_samples", BENCH_SAMPLES,
        "stopped", result->bench->must_end, "runs", runs, "left_out", left_out,
        "settings", settings);
    CHECK_MEMORY(object, "the results");
    return bench_write_json(result->bench, object);
}

/* ---- the picture ----------------------------------------------------------------- */

static void fill_panel(const struct bench_result *result, const struct bench_run *run,
                       struct dashboard *panel)
{
    const struct config *config = &result->bench->config;
    char diversity[24], end[64];
    memset(panel, 0, sizeof *panel);
    snprintf(end, sizeof end, run->end == BENCH_FINISHED ? "%s" : "%s at step %lld",
             end_word(run), (long long)run->steps);
    snprintf(panel->title, sizeof panel->title, "%s", bench_scaler_name(run->scaler));
    snprintf(panel->run, sizeof panel->run, "%s, diversity %s", end,
             number_cell(run->diversity, diversity, sizeof diversity));
    if (run->end == BENCH_DIVERGED)
        snprintf(panel->state, sizeof panel->state, "diverged");
    panel->kimg_total = config->kimg;
    for (int network = 0; network < ROLES; network++) {
        panel->skipped[network] = run->skipped[network];
        panel->scale[network] = run->scale[network];
    }
    panel->scale[SCALE_D_FAKE] = run->fake_scale;
    panel->grid_columns = BENCH_SHOWN;
    panel->grid_rows = 1;
    panel->tile_w = panel->tile_h = config->resolution;
    panel->tile_channels = config->channels;
    panel->tiles = run->tiles;
    panel->points = run->points;
    panel->point_count = run->point_count;
    panel->hover_x = panel->hover_y = -1;
}

static enum status write_picture(const struct bench_result *result)
{
    const struct config *config = &result->bench->config;
    struct dashboard *panels = calloc(BENCH_CHOICES, sizeof *panels);
    char title[360], path[1024], precision[PRECISION_TEXT];
    int count = 0;
    CHECK_MEMORY(panels, "the panels of bench.png");
    for (int i = 0; i < result->run_count; i++)
        if (result->run[i].seed == config->seed && result->run[i].end != BENCH_NOT_BEGUN)
            fill_panel(result, &result->run[i], &panels[count++]);
    snprintf(title, sizeof title, "Loss scalers on %s, %s, batch %d, seed %lld",
             result->data, config_precision_text(config, precision), config->batch,
             (long long)config->seed);
    run_folder_file(&result->bench->folder, path, sizeof path, "bench.png");
    enum status status = bench_picture_write(title, panels, count, path);
    free(panels);
    TRY(status);
    printf("picture: %s\n", path);
    return STATUS_OK;
}

enum status bench_scaler_report(const struct bench_result *result)
{
    int ended = 0;
    for (int i = 0; i < result->run_count; i++)
        ended +=
            result->run[i].end == BENCH_FINISHED || result->run[i].end == BENCH_DIVERGED;
    progress_clear();
    print_table(result);
    if (result->bench->must_end)
        bench_print(result->bench, "stopped after %d of %d runs", ended,
                    result->run_count);
    TRY(write_json(result));
    return write_picture(result);
}
