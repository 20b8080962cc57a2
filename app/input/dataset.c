#include "app/input/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/files/file_name.h"
#include "app/input/builtin_fashion.h"
#include "app/input/builtin_shapes.h"
#include "app/input/folder.h"
#include "app/input/idx.h"
#include "app/input/known.h"
#include "app/input/load.h"
#include "app/input/readers.h"
#include "app/input/sniff.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)
#define REJECTS_TOLD 3
#define USUAL_RESOLUTION 64

// An IDX file, or the built-in images of the same form.

static enum status make_from_idx(const void *context, size_t index,
                                 struct picture *picture)
{
    const struct idx_images *images = context;
    TRY(picture_create(picture, images->columns, images->rows, 1));
    size_t bytes = picture_bytes(picture);
    memcpy(picture->pixels, images->pixels + index * bytes, bytes);
    return STATUS_OK;
}

static enum status load_idx(struct idx_images *images,
                            const struct dataset_options *options,
                            struct dataset *dataset)
{
    struct picture_source source = {images->count, images, make_from_idx, NULL};
    enum status status = load_pictures(&source, options, dataset);
    idx_release(images);
    return status;
}

static enum status open_idx(const char *path, const struct dataset_options *options,
                            struct dataset *dataset)
{
    struct idx_images images;
    snprintf(dataset->source, sizeof dataset->source, "%s", path);
    name_from_path(path, 1, dataset->name, sizeof dataset->name);
    TRY(idx_read(path, &images));
    return load_idx(&images, options, dataset);
}

// Files of a folder.

static const char *path_of_file(const void *context, size_t index)
{
    return ((const struct file_list *)context)->files[index].path;
}

/* A file that is neither an image nor named like one is no reject: folders of images hold
 * lists, captions and licences too. */
static enum status make_from_file(const void *context, size_t index,
                                  struct picture *picture)
{
    const struct listed_file *file = &((const struct file_list *)context)->files[index];
    if (file->error)
        return status_fail(STATUS_DATA, "the folder cannot be read: %s",
                           strerror(file->error));
    uint8_t head[SNIFF_BYTES];
    size_t size;
    int is_named = is_named_like_an_image(file->path);
    enum status status = read_head(file->path, head, &size);
    if (status != STATUS_OK)
        return is_named ? status : STATUS_OK;
    struct file_type type = sniff(head, size);
    if (type.kind != FILE_PICTURE && type.kind != FILE_IMAGE && !is_named)
        return STATUS_OK;
    if (!type.reader)
        return refuse_type(type, head);

    uint8_t *bytes;
    TRY(read_whole(file->path, FILE_BYTES_MAX, &bytes, &size));
    status = type.reader->read(bytes, size, picture);
    free(bytes);
    return status;
}

static enum status load_files(struct file_list *list,
                              const struct dataset_options *options,
                              struct dataset *dataset)
{
    struct picture_source source = {list->count, list, make_from_file, path_of_file};
    return load_pictures(&source, options, dataset);
}

static enum status open_folder(const char *path, const struct dataset_options *options,
                               struct dataset *dataset)
{
    struct file_list list;
    TRY(file_list_fill(&list, path));
    enum status status = load_files(&list, options, dataset);
    file_list_release(&list);
    return status;
}

// A path.

static enum status open_file(const char *path, const struct dataset_options *options,
                             struct dataset *dataset)
{
    uint8_t head[SNIFF_BYTES];
    size_t size;
    if (read_head(path, head, &size) != STATUS_OK)
        return status_fail(STATUS_DATA, "%s: %s", path, status_message());
    struct file_type type = sniff(head, size);
    if (type.kind == FILE_IDX || type.kind == FILE_GZIP)
        return open_idx(path, options, dataset);
    if (type.kind == FILE_PICTURE) {
        struct listed_file file = {(char *)path, 0};
        struct file_list alone = {&file, 1, 1};
        return load_files(&alone, options, dataset);
    }
    TRY(refuse_as_dataset(path, type, head, size, ""));
    refuse_type(type, head);
    return status_fail(STATUS_DATA,
                       "%s: %s; expected are a folder of pictures, a picture (%s) or an "
                       "IDX file of images (plain or gzip)",
                       path, status_message(), reader_names());
}

static enum status open_path(const char *path, const struct dataset_options *options,
                             struct dataset *dataset)
{
    snprintf(dataset->source, sizeof dataset->source, "%s", path);
    name_from_path(path, 0, dataset->name, sizeof dataset->name);
    struct stat about;
    if (stat(path, &about) != 0)
        return status_fail(STATUS_DATA, "%s: cannot be opened: %s", path,
                           strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return open_file(path, options, dataset);
    char *images = find_train_images(path);
    enum status status =
        images ? open_idx(images, options, dataset) : open_folder(path, options, dataset);
    free(images);
    return status;
}

// What is built in.

static enum status make_shape(const void *context, size_t index, struct picture *picture)
{
    return shape_draw(index, *(const int *)context, picture);
}

static enum status open_builtin(const char *name, const struct dataset_options *options,
                                struct dataset *dataset)
{
    snprintf(dataset->source, sizeof dataset->source, "%s", name);
    if (strcmp(name, "builtin:fashion") == 0) {
        struct idx_images images;
        snprintf(dataset->name, sizeof dataset->name, "fashion2000");
        TRY(fashion_read(&images));
        return load_idx(&images, options, dataset);
    }
    if (strcmp(name, "builtin:shapes") == 0) {
        struct picture_source source = {SHAPES_COUNT, &options->resolution, make_shape,
                                        NULL};
        snprintf(dataset->name, sizeof dataset->name, "shapes");
        return load_pictures(&source, options, dataset);
    }
    return status_fail(STATUS_DATA,
                       "%s: no such built-in data set; there are builtin:fashion "
                       "and builtin:shapes",
                       name);
}

/* A name that is no path: looked up in known places. */
static enum status open_known(const char *name, const struct dataset_options *options,
                              struct dataset *dataset)
{
    char *found = strchr(name, '/') ? NULL : find_known_dataset(name);
    if (found) {
        enum status status = open_path(found, options, dataset);
        dataset->name[0] = '\0';
        file_name_append(dataset->name, sizeof dataset->name, name, sizeof dataset->name);
        free(found);
        return status;
    }
    if (strcmp(name, "fashion-mnist") == 0)
        return open_builtin("builtin:fashion", options, dataset);
    return status_fail(STATUS_DATA,
                       "%s: no such file, folder or known data set; give a "
                       "folder of pictures, an IDX file, fashion-mnist, "
                       "builtin:fashion or builtin:shapes",
                       name);
}

static enum status check_options(const struct dataset_options *options)
{
    if (options->resolution < 0 || options->resolution > DATASET_RESOLUTION_MAX)
        return status_fail(STATUS_USAGE,
                           "--resolution %d: 1 to %d is possible, 0 for that of the data",
                           options->resolution, DATASET_RESOLUTION_MAX);
    if (options->channels < 0 || options->channels > 4)
        return status_fail(STATUS_USAGE,
                           "--channels %d: 1 to 4 is possible, 0 for those of "
                           "the data",
                           options->channels);
    return STATUS_OK;
}

static enum status scan(const char *path, const struct dataset_options *options,
                        struct dataset **dataset)
{
    struct dataset *opened = calloc(1, sizeof *opened);
    if (!opened)
        return status_fail(STATUS_FAILED, "no memory for a data set");
    enum status status;
    struct stat about;
    if (strncmp(path, "builtin:", 8) == 0)
        status = open_builtin(path, options, opened);
    else if (stat(path, &about) == 0 || errno != ENOENT)
        status = open_path(path, options, opened);
    else
        status = open_known(path, options, opened);
    if (status != STATUS_OK) {
        dataset_close(opened);
        return status;
    }
    *dataset = opened;
    return STATUS_OK;
}

// The size that all images have, where it is one below the usual that is trained at; else
// 0.
static int own_resolution(const struct dataset *dataset)
{
    if (dataset->size_count != 1)
        return 0;
    const struct dataset_size *size = &dataset->sizes[0];
    int is_small = size->width == 28 || size->width == 32;
    return is_small && size->width == size->height ? size->width : 0;
}

enum status dataset_scan(const char *path, const struct dataset_options *options,
                         struct dataset **dataset)
{
    struct dataset_options chosen = *options;
    *dataset = NULL;
    TRY(check_options(options));
    if (options->resolution > 0)
        return scan(path, options, dataset);
    chosen.resolution = USUAL_RESOLUTION;
    TRY(scan(path, &chosen, dataset));
    chosen.resolution = own_resolution(*dataset);
    if (chosen.resolution == 0)
        return STATUS_OK;
    // Images of 28 or 32 pixels are read twice in no time.
    dataset_close(*dataset);
    *dataset = NULL;
    return scan(path, &chosen, dataset);
}

enum status dataset_require_images(const char *path, const struct dataset *dataset)
{
    if (dataset->count > 0)
        return STATUS_OK;
    size_t rejects = dataset->reject_count;
    if (rejects == 0)
        return status_fail(STATUS_DATA,
                           "%s: holds no images; expected are pictures (%s), in it or in "
                           "folders below it",
                           path, reader_names());
    if (rejects == 1)
        return status_fail(STATUS_DATA, "%s: %s", dataset->rejects[0].path,
                           dataset->rejects[0].reason);
    char told[640] = "";
    for (size_t i = 0, length = 0;
         i < rejects && i < REJECTS_TOLD && length < sizeof told; i++)
        length += (size_t)snprintf(told + length, sizeof told - length, "%s%s: %s",
                                   i ? "; " : "", dataset->rejects[i].path,
                                   dataset->rejects[i].reason);
    return status_fail(STATUS_DATA, "%s: none of its %zu image files can be used (%s%s)",
                       path, rejects, told, rejects > REJECTS_TOLD ? "; and so on" : "");
}

enum status dataset_open(const char *path, const struct dataset_options *options,
                         struct dataset **dataset)
{
    TRY(dataset_scan(path, options, dataset));
    enum status status = dataset_require_images(path, *dataset);
    if (status != STATUS_OK) {
        dataset_close(*dataset);
        *dataset = NULL;
    }
    return status;
}

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    for (size_t i = 0; dataset->files && i < dataset->count; i++)
        free(dataset->files[i]);
    for (size_t i = 0; i < dataset->reject_count; i++) {
        free(dataset->rejects[i].path);
        free(dataset->rejects[i].reason);
    }
    free(dataset->files);
    free(dataset->rejects);
    free(dataset->sizes);
    free(dataset->pixels);
    free(dataset);
}
