/* role.h - the two networks of a GAN, and the passes of a training step.
 * Flow:  every table of two - settings, scalers, records, plots - is indexed by a role,
 *        every list of losses, scales and statistics by a pass (app/train/passes.h has
 *        their rows).
 * Owns:  nothing.
 *
 *     for (int role = 0; role < ROLES; role++)
 *         net_release(&gan->net[role]); */
#ifndef NETS_ROLE_H
#define NETS_ROLE_H

enum role { ROLE_NONE = -1, ROLE_G, ROLE_D, ROLES };

/* Forward through a loss and backward from it: those of every GAN. A run may have more,
 * numbered after them. */
enum gan_pass { PASS_NONE = -1, PASS_D_REAL, PASS_D_FAKE, PASS_G_MAIN, GAN_PASSES };
#define PASSES_MAX 6

/* "g" and "d": in names of layers, parameters, settings and files. */
static inline const char *role_name(int role)
{
    return role == ROLE_G ? "g" : "d";
}

/* "G" and "D": in sentences, records and plots. */
static inline const char *role_letter(int role)
{
    return role == ROLE_G ? "G" : "D";
}

#endif
