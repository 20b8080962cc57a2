/* plot_layers.c - two heat maps of every layer's tensors, one for each end of half
 * precision's range.
 *
 * Rows are layers, G's above D's; the three blocks side by side are activations, their
 * gradients, and weight gradients, each over all kimg of the run. A look of --grad-stats
 * reaches until the next one; a skipped step is a thin line, and only through the layers
 * of the network that skipped. Both maps go from dark (harmless) to bright (at the edge),
 * so that they read without colour; what has left the range has a hue of its own, and
 * what was not measured is as black as the ground. */
#include <math.h>
#include <stdio.h>

#include "app/view/plot.h"
#include "app/view/plot_marks.h"
#include "app/view/plot_parts.h"

#define HEAD 84.0           // title, note, key and the blocks' names above the maps
#define FOOT 26.0           // kimg below the lower map
#define NAMES 74.0          // layer names
#define BLOCK_GAP 12.0      // between blocks
#define NETWORK_GAP 5.0     // between G's rows and D's
#define SAFE_DOUBLINGS 16.0 // headroom that is as dark as it gets
#define SMALL_LEAST 1e-4    // a share below it is as dark as it gets
#define ROW_MAX 27.0
#define NAME_HEIGHT 9.5 // rows less high do not all get their name
#define BAR_WIDTH 170.0
#define MARKS_LEAST 130.0 // width of a bar with room for three marks
#define SKIP_WIDTH 2.5    // of a skipped step

enum map_kind { MAP_HEADROOM, MAP_SMALL };

/* ---- colours --------------------------------------------------------------------- */

struct color {
    double r, g, b;
};

static struct color between(const struct color *stops, int count, double part)
{
    const double place = fmin(fmax(part, 0.0), 1.0) * (count - 1);
    const int i = place >= count - 1 ? count - 2 : (int)place;
    const double t = place - i;
    const struct color *a = &stops[i], *b = &stops[i + 1];
    return (struct color){a->r + (b->r - a->r) * t, a->g + (b->g - a->g) * t,
                          a->b + (b->b - a->b) * t};
}

// 0 harmless .. 1 at the edge.
static struct color ramp(enum map_kind kind, double part)
{
    static const struct color headroom[] = {{0.12, 0.16, 0.27},
                                            {0.13, 0.32, 0.47},
                                            {0.15, 0.51, 0.52},
                                            {0.45, 0.70, 0.40},
                                            {0.97, 0.88, 0.38}};
    static const struct color small[] = {{0.12, 0.16, 0.27},
                                         {0.32, 0.22, 0.50},
                                         {0.60, 0.29, 0.58},
                                         {0.88, 0.47, 0.57},
                                         {1.00, 0.84, 0.75}};
    return between(kind == MAP_HEADROOM ? headroom : small, 5, part);
}

static double part_of(enum map_kind kind, const struct layer_cell *cell)
{
    if (kind == MAP_HEADROOM && isnan(cell->headroom)) // all of it is zero
        return 0.0;
    if (kind == MAP_HEADROOM)
        return 1.0 - (double)cell->headroom / SAFE_DOUBLINGS;
    if (cell->small <= 0.0f)
        return 0.0;
    return 1.0 - log10((double)cell->small) / log10(SMALL_LEAST);
}

static void select_color(const struct canvas *canvas, struct color color)
{
    cairo_set_source_rgb(canvas->cairo, color.r, color.g, color.b);
}

/* ---- layout ---------------------------------------------------------------------- */

struct map {
    enum map_kind kind;
    const struct layers_view *layers;
    struct area panel, inner; // inner: all three blocks
    double row_height, block_width;
    int first_of_d; // row
    double kimg;    // at the right end of each block
};

static int first_row_of_d(const struct layers_view *layers)
{
    int row = 0;
    while (row < layers->row_count && layers->name[row][0] != 'd')
        row += 1;
    return row;
}

// Where the run is, or the last look.
static double last_kimg(const struct dashboard *dashboard)
{
    const struct layers_view *layers = dashboard->layers;
    double kimg = fmax(dashboard->kimg, 1e-3);
    if (layers->column_count > 0)
        kimg = fmax(kimg, layers->columns[layers->column_count - 1].kimg);
    if (layers->skip_count > 0)
        kimg = fmax(kimg, layers->skips[layers->skip_count - 1].kimg);
    return kimg;
}

static struct map lay_out(const struct dashboard *dashboard, struct area panel,
                          enum map_kind kind, double foot)
{
    const struct layers_view *layers = dashboard->layers;
    struct map map = {.kind = kind,
                      .layers = layers,
                      .panel = panel,
                      .first_of_d = first_row_of_d(layers),
                      .kimg = last_kimg(dashboard)};
    map.inner = (struct area){panel.x + PLOT_PADDING + NAMES, panel.y + HEAD,
                              fmax(30.0, panel.w - NAMES - 2.0 * PLOT_PADDING),
                              fmax(10.0, panel.h - HEAD - foot)};
    const double rows = fmax(1.0, layers->row_count);
    map.row_height = fmin(ROW_MAX, fmax(1.0, (map.inner.h - NETWORK_GAP) / rows));
    map.block_width = (map.inner.w - 2.0 * BLOCK_GAP) / (double)LAYER_TENSORS;
    return map;
}

static double row_y(const struct map *map, int row)
{
    return map->inner.y + row * map->row_height +
           (row >= map->first_of_d ? NETWORK_GAP : 0.0);
}

static double block_x(const struct map *map, int tensor)
{
    return map->inner.x + tensor * (map->block_width + BLOCK_GAP);
}

/* ---- parts ----------------------------------------------------------------------- */

static int is_seen(const struct layer_cell *cell)
{
    return cell->has_overflowed || !isnan(cell->headroom) || !isnan(cell->small);
}

static void draw_cell(const struct canvas *canvas, const struct map *map,
                      const struct layer_column *column, int row, int tensor,
                      struct area area)
{
    struct layer_cell cell = layer_column_cell(column, row, (enum layer_tensor)tensor);
    if (!is_seen(&cell))
        return;
    if (cell.has_overflowed && map->kind == MAP_HEADROOM)
        canvas_ink(canvas, INK_BAD, 1.0);
    else
        select_color(canvas, ramp(map->kind, part_of(map->kind, &cell)));
    cairo_rectangle(canvas->cairo, area.x, area.y, area.w, area.h);
    cairo_fill(canvas->cairo);
}

static double kimg_x(const struct map *map, int tensor, double kimg)
{
    return block_x(map, tensor) + map->block_width * kimg / map->kimg;
}

static void draw_row(const struct canvas *canvas, const struct map *map, int tensor,
                     int row)
{
    const struct layers_view *layers = map->layers;
    const double end = block_x(map, tensor) + map->block_width;
    struct area area = {.y = row_y(map, row),
                        .h = map->row_height - (map->row_height > 6.0 ? 1.0 : 0.0)};
    for (int i = 0; i < layers->column_count; i++) {
        const int is_last = i + 1 == layers->column_count;
        area.x = kimg_x(map, tensor, layers->columns[i].kimg);
        area.w =
            (is_last ? end : kimg_x(map, tensor, layers->columns[i + 1].kimg)) - area.x;
        area.w = fmax(area.w, is_last ? SKIP_WIDTH : 0.0);
        area.x = fmin(area.x, end - area.w);
        draw_cell(canvas, map, &layers->columns[i], row, tensor, area);
    }
    area.w = SKIP_WIDTH;
    for (int i = 0; i < layers->skip_count; i++) {
        const double x = kimg_x(map, tensor, layers->skips[i].kimg) - SKIP_WIDTH / 2.0;
        area.x = fmin(fmax(x, block_x(map, tensor)), end - SKIP_WIDTH);
        draw_cell(canvas, map, &layers->skips[i], row, tensor, area);
    }
}

static void draw_block(const struct canvas *canvas, const struct map *map, int tensor)
{
    cairo_save(canvas->cairo);
    cairo_set_antialias(canvas->cairo, CAIRO_ANTIALIAS_NONE);
    for (int row = 0; row < map->layers->row_count; row++)
        draw_row(canvas, map, tensor, row);
    cairo_restore(canvas->cairo);
}

static void draw_ground(const struct canvas *canvas, const struct map *map, int tensor)
{
    const double x = block_x(map, tensor);
    const double split = map->first_of_d * map->row_height;
    const double rest = (map->layers->row_count - map->first_of_d) * map->row_height;
    if (split > 0.0)
        canvas_fill(canvas, (struct area){x, map->inner.y, map->block_width, split - 1.0},
                    INK_BACKGROUND);
    if (rest > 0.0)
        canvas_fill(canvas,
                    (struct area){x, map->inner.y + split + NETWORK_GAP, map->block_width,
                                  rest - 1.0},
                    INK_BACKGROUND);
}

static void draw_names(const struct canvas *canvas, const struct map *map)
{
    const double size = fmin(11.5, fmax(9.0, map->row_height * 0.8));
    const int every = (int)fmax(1.0, ceil(NAME_HEIGHT / map->row_height));
    for (int row = 0; row < map->layers->row_count; row++) {
        const int is_d = row >= map->first_of_d;
        const struct text_style style = {size, 0, is_d ? INK_D : INK_G};
        if ((row - (is_d ? map->first_of_d : 0)) % every)
            continue;
        canvas_text(canvas, map->inner.x - 8.0,
                    row_y(map, row) + map->row_height / 2.0 + size * 0.36, ALIGN_RIGHT,
                    style, map->layers->name[row]);
    }
}

static void draw_heads(const struct canvas *canvas, const struct map *map)
{
    static const char *const words[] = {"activations", "activation gradients",
                                        "weight gradients"};
    const struct text_style style = {11.5, 0, INK_MUTED};
    for (int tensor = 0; tensor < LAYER_TENSORS; tensor++)
        canvas_text_fit(canvas, block_x(map, tensor), map->inner.y - 7.0,
                        map->block_width, style, words[tensor]);
}

static double bar_width(const struct map *map)
{
    return fmin(BAR_WIDTH, map->panel.w * 0.25);
}

/* The ramp with three marks, at the right of the title. */
static void draw_bar(const struct canvas *canvas, const struct map *map)
{
    static const char *const marks[][3] = {{"16+", "8", "0"}, {"0.01 %", "1 %", "100 %"}};
    const struct text_style style = {10.5, 0, INK_FAINT};
    const double width = bar_width(map);
    const double right = map->panel.x + map->panel.w - PLOT_PADDING;
    const struct area bar = {right - width, map->panel.y + 13.0, width, 9.0};
    for (int i = 0; i < 48; i++) {
        select_color(canvas, ramp(map->kind, i / 47.0));
        cairo_rectangle(canvas->cairo, bar.x + bar.w * i / 48.0, bar.y,
                        bar.w / 48.0 + 0.5, bar.h);
        cairo_fill(canvas->cairo);
    }
    static const enum align aligns[] = {ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT};
    const int every = width < MARKS_LEAST ? 2 : 1; // the ends alone
    for (int i = 0; i < 3; i += every)
        canvas_text(canvas, bar.x + bar.w * i / 2.0, bar.y + bar.h + 12.0, aligns[i],
                    style, marks[map->kind][i]);
}

static double draw_swatch(const struct canvas *canvas, double x, double y, double end,
                          enum ink ink, const char *word)
{
    const struct text_style style = {11.0, 0, INK_MUTED};
    canvas_fill_round(canvas, (struct area){x - 1.0, y - 10.0, 14.0, 11.0}, 0.0, INK_LINE,
                      1.0);
    canvas_fill(canvas, (struct area){x, y - 9.0, 12.0, 9.0}, ink);
    return x + 34.0 + canvas_text_fit(canvas, x + 18.0, y, end - x - 18.0, style, word);
}

/* What has a hue of its own, and why most of a map may be empty. */
static void draw_key(const struct canvas *canvas, const struct dashboard *dashboard,
                     const struct map *map)
{
    const struct text_style style = {11.0, 0, INK_MUTED};
    const double y = map->panel.y + 56.0;
    const double end = map->panel.x + map->panel.w - PLOT_PADDING;
    double x = map->panel.x + PLOT_PADDING + 1.0;
    if (map->kind == MAP_HEADROOM)
        x = draw_swatch(canvas, x, y, end, INK_BAD, "inf, NaN");
    x = draw_swatch(canvas, x, y, end, INK_BACKGROUND, "not measured");
    if (map->layers->column_count == 0)
        x += 16.0 + canvas_text_fit(canvas, x, y, end - x, style,
                                    "lines: skipped steps only (--grad-stats N measures "
                                    "every N steps)");
    plot_rollback_key(canvas, dashboard, x, y, end);
}

/* Grid lines behind the cells; numbers below the lower map. */
static void draw_axis(const struct canvas *canvas, const struct map *map, int tensor,
                      enum axis_labels labels)
{
    const struct area block = {block_x(map, tensor), map->inner.y, map->block_width,
                               row_y(map, map->layers->row_count) - map->inner.y};
    const struct axis axis =
        axis_exact(0.0, map->kimg, (int)fmax(2.0, fmin(6.0, block.w / 70.0)));
    axis_draw_x(canvas, &axis, block, labels);
}

static void draw_map(const struct canvas *canvas, const struct dashboard *dashboard,
                     const struct map *map, int has_kimg)
{
    const double end = map->panel.w - PLOT_PADDING - bar_width(map) - 10.0;
    plot_title(canvas, map->panel,
               map->kind == MAP_HEADROOM ? "Headroom" : "Lost to the small end",
               map->kind == MAP_HEADROOM
                   ? "doublings left before f16 ends at 65504"
                   : "share of values that are subnormal, or zero where f32 is not",
               end, end);
    draw_bar(canvas, map);
    draw_key(canvas, dashboard, map);
    draw_heads(canvas, map);
    for (int tensor = 0; tensor < LAYER_TENSORS; tensor++) {
        const struct area block = {block_x(map, tensor), map->inner.y, map->block_width,
                                   row_y(map, map->layers->row_count) - map->inner.y};
        draw_ground(canvas, map, tensor);
        draw_axis(canvas, map, tensor,
                  !has_kimg     ? AXIS_BARE
                  : tensor == 0 ? AXIS_LABELS_AND_UNIT
                                : AXIS_LABELS);
        draw_block(canvas, map, tensor);
        plot_rollbacks(canvas, dashboard, 0.0, map->kimg, block, 0);
    }
    draw_names(canvas, map);
}

static void draw_nothing(const struct canvas *canvas, struct area area)
{
    const struct text_style title = {14.0, 1, INK_TEXT}, note = {12.0, 0, INK_MUTED};
    const double x = area.x + area.w / 2.0, y = area.y + area.h / 2.0;
    canvas_fill_round(canvas, area, 7.0, INK_PANEL, 1.0);
    canvas_text(canvas, x, y - 6.0, ALIGN_CENTER, title, "No layer was looked at yet");
    canvas_text(canvas, x, y + 16.0, ALIGN_CENTER, note,
                "an overflow shows them, or --grad-stats N every N steps");
}

void plot_layers(const struct canvas *canvas, const struct dashboard *dashboard,
                 struct area area)
{
    const struct layers_view *layers = dashboard->layers;
    if (!layers || layers->column_count + layers->skip_count == 0 ||
        layers->row_count == 0) {
        draw_nothing(canvas, area);
        return;
    }
    const double gap = 12.0, height = (area.h - gap) / 2.0;
    const struct area upper = {area.x, area.y, area.w, height - FOOT / 2.0};
    const struct area lower = {area.x, area.y + upper.h + gap, area.w,
                               area.h - upper.h - gap};
    const struct map headroom = lay_out(dashboard, upper, MAP_HEADROOM, PLOT_PADDING);
    const struct map small = lay_out(dashboard, lower, MAP_SMALL, PLOT_PADDING + FOOT);
    draw_map(canvas, dashboard, &headroom, 0);
    draw_map(canvas, dashboard, &small, 1);
}
