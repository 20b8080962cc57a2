#include "app/input/readers.h"

const struct reader *reader_of(const uint8_t *head, size_t size)
{
    static const struct reader readers[] = {
#define X(name, begins, read) {#name, begins, read},
        READERS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (readers[i].begins(head, size))
            return &readers[i];
    return NULL;
}

const char *reader_names(void)
{
#define X(name, begins, read) " or " #name
    static const char names[] = READERS(X);
#undef X
    return names + sizeof " or " - 1;
}
