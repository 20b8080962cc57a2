#include "kernels/cpu/pass_choice.h"

#include <stdio.h>

const char *algorithm_name(enum algorithm algorithm)
{
    static const char *const names[] = {[ALGORITHM_DIRECT] = "direct",
                                        [ALGORITHM_THIN] = "thin",
                                        [ALGORITHM_FOLD] = "fold",
                                        [ALGORITHM_WINOGRAD] = "winograd"};
    return names[algorithm];
}

/* Whether Winograd is taken, and in either case why. */
static int takes_winograd(const struct cpu_backend *backend,
                          const struct winograd *winograd, enum pass_kind pass,
                          int can_winograd, struct pass_choice *choice)
{
    char *reason = choice->reason;
    size_t room = sizeof choice->reason;
    if (!can_winograd) {
        snprintf(reason, room, "not a Winograd shape");
        return 0;
    }
    if (backend->conv_choice == CONV_DIRECT) {
        snprintf(reason, room, "TWINSCALE_CONV=direct");
        return 0;
    }
    if (backend->conv_choice == CONV_WINOGRAD) {
        snprintf(reason, room, "TWINSCALE_CONV=winograd");
        return 1;
    }
    struct wino_estimate cost = winograd_estimate(winograd, pass);
    if (!cost.is_exact)
        snprintf(reason, room, "few %s: less exact",
                 pass == PASS_WGRAD ? "tiles" : "channels");
    else
        snprintf(reason, room, "Winograd/direct cost %.2f", cost.winograd / cost.direct);
    return cost.is_exact && cost.winograd < cost.direct;
}

struct pass_choice choose_pass(const struct cpu_backend *backend,
                               const struct winograd *winograd, enum pass_kind pass,
                               const struct pass_options *options)
{
    struct pass_choice choice = {.algorithm = ALGORITHM_DIRECT};
    if (takes_winograd(backend, winograd, pass, options->can_winograd, &choice)) {
        choice.algorithm = ALGORITHM_WINOGRAD;
    } else if (options->can_fold) {
        choice.algorithm = ALGORITHM_FOLD;
        snprintf(choice.reason, sizeof choice.reason, "%d channels or fewer", THIN_COLS);
    } else if (pass != PASS_WGRAD && options->columns <= THIN_COLS) {
        choice.algorithm = ALGORITHM_THIN;
        snprintf(choice.reason, sizeof choice.reason, "%d columns or fewer", THIN_COLS);
    }
    return choice;
}
