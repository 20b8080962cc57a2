/* json_text.h - JSON as text that is whole.
 * Flow:  a json_t -> [json_text] -> logs, metadata, settings, results.
 * Owns:  nothing; the caller frees the text.
 *
 * json_dumps() leaves out, in silence, what it has no memory for in the middle of a
 * text. */
#ifndef APP_FILES_JSON_TEXT_H
#define APP_FILES_JSON_TEXT_H

#include <jansson.h>

/* `json` as `flags` of json_dumps() say; NULL without memory, or where `json` is NULL. */
char *json_text(const json_t *json, size_t flags);

#endif
