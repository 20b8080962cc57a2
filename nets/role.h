/* role.h - the two networks of a GAN.
 * Flow:  every table of two - settings, scalers, records, plots - is indexed by a role.
 * Owns:  nothing.
 *
 *     for (int role = 0; role < ROLES; role++)
 *         net_release(&trainer->side[role].net); */
#ifndef NETS_ROLE_H
#define NETS_ROLE_H

enum role { ROLE_G, ROLE_D, ROLES };

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
