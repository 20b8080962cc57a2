/* file_name.h - text as part of a file's name, and the characters of UTF-8.
 * Flow:  --data, --preset, --desc -> [file_name] -> data sets' and run folders' names.
 * Owns:  nothing. */
#ifndef APP_FILES_FILE_NAME_H
#define APP_FILES_FILE_NAME_H

#include <stddef.h>

/* Length of the UTF-8 character at `text`, 0 if there is none: overlong forms, surrogates
 * and values beyond U+10FFFF are refused, as JSON does. */
size_t utf8_length(const unsigned char *text);

/* Appends at most `word_max` bytes of `word` to `name`, which holds `bytes`: letters and
 * digits of any script, '.' and '_' stay, everything between them becomes one '-', and
 * none is at the beginning of a name or the end of the word. No character is cut. */
void file_name_append(char *name, size_t bytes, const char *word, size_t word_max);

#endif
