/* init_scale_line.c - what was found, for a person. */
#include <math.h>
#include <stdio.h>

#include "app/recovery/init_scale.h"
#include "kernels/base/text.h"

// ": first in d.conv3: activation", or "" where this rank has not seen it.
static void place_text(const struct found_scale *found, const char *before, char *text,
                       size_t bytes)
{
    text[0] = '\0';
    if (found->bad.layer[0])
        snprintf(text, bytes, "%s%s: %s", before, found->bad.layer, found->bad.tensor);
}

static void limit_text(const struct found_scale *found, char *text, size_t bytes)
{
    char place[80];
    place_text(found, ": ", place, sizeof place);
    snprintf(text, bytes,
             "the first step's gradients are finite up to 2^%d (at 2^%d not%s)",
             found->exponent, found->exponent + 1, place);
}

static void nothing_text(const struct found_scale *found, char *text, size_t bytes)
{
    char place[80];
    int is_forward = found->bad.layer[0] && found->bad.kind == SURVEY_ACTIVATION;
    place_text(found, ": first in ", place, sizeof place);
    snprintf(text, bytes,
             "warning: no scale down to 2^%d makes the first step's gradients finite%s%s",
             INIT_EXPONENT_MIN, place,
             is_forward ? ", in the forward pass, which no scale can mend" : "");
}

// Why the start is where it is, unless it is init_margin below.
static const char *reason(const struct trainer *trainer, const struct found_scale *found)
{
    const struct network_config *settings = &trainer->config.network[found->network];
    int exponent = found->exponent - trainer->config.init_margin;
    if (found->kind != FOUND_LIMIT)
        return ", as without auto";
    if (found->start == ldexpf(1.0f, exponent))
        return "";
    if (found->start == (float)settings->min_scale)
        return ", its minimum";
    if (found->start == (float)settings->max_scale)
        return ", its maximum";
    return ", the smaller of both networks'";
}

const char *init_scale_line(const struct trainer *trainer,
                            const struct found_scale *found, char text[INIT_SCALE_LINE])
{
    char what[224], scale[32];
    if (found->kind == FOUND_LIMIT)
        limit_text(found, what, sizeof what);
    else if (found->kind == FOUND_NOTHING)
        nothing_text(found, what, sizeof what);
    else
        snprintf(what, sizeof what,
                 "the first step's gradients are finite at 2^%d, and "
                 "no larger scale is tried",
                 found->exponent);
    snprintf(text, INIT_SCALE_LINE, "%c%s%s: %s; begins at %s%s",
             found->network == ROLE_G ? 'G' : 'D', found->loss[0] ? " on " : "",
             found->loss, what, scale_text(found->start, scale, sizeof scale),
             reason(trainer, found));
    return text;
}
