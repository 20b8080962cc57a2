/* set_aside.h - keeps a file that makes room for another: under a name that no file has.
 * Flow:  snapshots and pictures of a future that is trained anew, a second post-mortem ->
 *        [set_aside].
 * Owns:  nothing. */
#ifndef APP_FILES_SET_ASIDE_H
#define APP_FILES_SET_ASIDE_H

#include <stddef.h>

/* Renames the file or folder `path` to PATH.bak, or to PATH.bak2, PATH.bak3 and so on
 * where that name is taken: no older backup is ever replaced. `kept` receives the new
 * path.
 * Returns 0, or errno when it cannot be renamed (ENOENT: there was none). */
int set_aside(const char *path, char *kept, size_t bytes);

/* rename(), but EEXIST where `to` exists. Returns 0 or errno. */
int rename_to_new(const char *from, const char *to);

#endif
