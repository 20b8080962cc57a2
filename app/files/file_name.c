#include "app/files/file_name.h"

#include <ctype.h>
#include <string.h>

size_t utf8_length(const unsigned char *text)
{
    unsigned char first = text[0];
    if (first < 0x80)
        return 1;
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((first == 0xe0 && text[1] < 0xa0) || (first == 0xed && text[1] > 0x9f) ||
        (first == 0xf0 && text[1] < 0x90) || (first == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

static unsigned long code_of(const unsigned char *text, size_t length)
{
    unsigned long code = length == 1 ? text[0] : text[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (text[i] & 0x3f);
    return code;
}

// Beyond ASCII all but what is not seen or has no shape: controls, blanks, marks of
// writing direction, variation selectors, private use, characters that are none.
static int is_plain(unsigned long code)
{
    static const unsigned long hidden[][2] = {
        {0x80, 0xbf},          {0x1680, 0x1680},   {0x180b, 0x180f}, {0x2000, 0x206f},
        {0x3000, 0x3000},      {0xe000, 0xf8ff},   {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
        {0xfff0, 0x10000 - 1}, {0xe0000, 0x10ffff}};
    if (code < 0x80)
        return isalnum((int)code) || code == '.' || code == '_';
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (code >= hidden[i][0] && code <= hidden[i][1])
            return 0;
    return 1;
}

void file_name_append(char *name, size_t bytes, const char *word, size_t word_max)
{
    size_t length = strlen(name), start = length;
    while (*word) {
        const unsigned char *text = (const unsigned char *)word;
        size_t character = utf8_length(text), step = character ? character : 1;
        int stays = character > 0 && is_plain(code_of(text, character));
        size_t added = stays ? character : 1;
        if (length + added >= bytes || length + added - start > word_max)
            break;
        if (stays)
            memcpy(name + length, word, character);
        else if (length > 0 && name[length - 1] != '-')
            name[length] = '-';
        else
            added = 0;
        length += added;
        word += step;
    }
    while (length > start && name[length - 1] == '-')
        length--;
    name[length] = '\0';
}
