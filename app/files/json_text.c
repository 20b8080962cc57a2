#include "app/files/json_text.h"

#include <stdlib.h>
#include <string.h>

struct growing {
    char *text;
    size_t length, room;
    int failed;
};

static int append(const char *piece, size_t bytes, void *context)
{
    struct growing *growing = context;
    if (growing->length + bytes + 1 > growing->room) {
        size_t room = 2 * (growing->length + bytes) + 256;
        char *text = realloc(growing->text, room);
        growing->failed |= !text;
        if (!text)
            return -1;
        growing->text = text;
        growing->room = room;
    }
    memcpy(growing->text + growing->length, piece, bytes);
    growing->length += bytes;
    growing->text[growing->length] = '\0';
    return 0;
}

char *json_text(const json_t *json, size_t flags)
{
    struct growing growing = {0};
    if (json_dump_callback(json, append, &growing, flags) == 0 && !growing.failed)
        return growing.text;
    free(growing.text);
    return NULL;
}
