/* known.h - where data sets lie that are given by name, and what a data set is called.
 * Flow:  --data NAME -> [known] -> a path.
 * Owns:  nothing between calls. */
#ifndef APP_INPUT_KNOWN_H
#define APP_INPUT_KNOWN_H

#include <stddef.h>

/* The path of the data set `name` ("fashion-mnist"): a folder of that name in
 * $TWINSCALE_DATA (or this folder itself, if it ends in the name), in twinscale/datasets
 * under $XDG_DATA_HOME and under ~/.local/share, in datasets under each of $XDG_DATA_DIRS
 * (/usr/local/share, /usr/share), and, for fashion-mnist, in ./data/FashionMNIST/raw. The
 * caller frees it; NULL when it is in none of them. */
char *find_known_dataset(const char *name);

/* The path of a train-images* IDX file in a folder; the caller frees it, NULL for none.
 */
char *find_train_images(const char *folder);

/* A short name for a run folder: the last part of the path (of its folder, when the file
 * is an IDX file), with letters, digits, '.', '_', '-' kept and the rest turned into '-'.
 */
void name_from_path(const char *path, int is_idx, char *name, size_t bytes);

#endif
