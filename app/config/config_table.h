/* config_table.h - the one table of settings, which parsing, help, JSON and resume walk.
 * Flow:  config_table.c -> [settings] -> config_parse, config_value, config_json, ...
 * Owns:  nothing. For the config_*.c files only; others include config.h. */
#ifndef APP_CONFIG_CONFIG_TABLE_H
#define APP_CONFIG_CONFIG_TABLE_H

#include "app/config/config.h"

enum setting_kind {
    SETTING_INT,    // int
    SETTING_INT64,  // int64_t
    SETTING_DOUBLE, // double
    SETTING_TEXT,   // char array
    SETTING_CHOICE, // int that counts through `choices`, in the order of its enum
    SETTING_SWITCH, // int, 0 or 1
    SETTING_GRID,   // two neighbouring ints, written "8x8"
};

enum setting_group {
    GROUP_DATA,
    GROUP_OUTPUT,
    GROUP_DURATION,
    GROUP_MACHINE,
    GROUP_TRAINING,
    GROUP_SCALER,
    GROUP_NETWORK,
    GROUP_COUNT
};

/* What --resume may do with a setting. */
enum setting_resume {
    RESUME_FREE,  // may change; the change is told
    RESUME_FIXED, // is refused: the saved state or the past of the run depends on it
    RESUME_OWN,   // belongs to one invocation of the program, not to the run
};

struct setting {
    const char *name; // "g_lr"
    enum setting_kind kind;
    size_t offset; // into struct config
    size_t bytes;
    double min, max; // of numbers; both sides of a grid
    int is_min_open; // min itself is not allowed
    // "crop|pad|stretch"; also for an int with few values, where "auto" is 0. Of a
    // double: the one word ("auto", "0") that it may be besides its range, kept as 0,
    // which lies outside.
    const char *choices;
    const char *fallback; // the default, as text
    const char *unit;     // what stands for the value in --help: "KIMG"
    enum setting_group group;
    enum setting_resume on_resume;
    const char *help;
};

extern const struct setting settings[];
extern const int setting_count;

/* NULL if there is none. '-' and '_' are the same. */
const struct setting *setting_find(const char *name);

/* The flag of a setting: "--g-lr". Returns `text`. */
#define SETTING_FLAG 48
const char *setting_flag(const struct setting *setting, char text[SETTING_FLAG]);

/* ---- values (config_value.c) ----------------------------------------------------- */

/* Sets from text. Every failure is STATUS_USAGE and names setting, value and what is
 * allowed; `source` as in config_set(). */
enum status setting_parse(const struct setting *setting, struct config *config,
                          const char *value, const char *source);

/* The value as text that setting_parse() reads back exactly. Returns `text`. */
const char *setting_text(const struct setting *setting, const struct config *config,
                         char text[CONFIG_TEXT]);

/* Checks a value that is in the config already, however it came there. */
enum status setting_check(const struct setting *setting, const struct config *config);

/* How a message names a setting: "--g-lr" from the command line, else `preset x: "g_lr"`.
 */
#define SETTING_SUBJECT (CONFIG_TEXT + 64)
const char *setting_subject(const char *name, const char *source,
                            char text[SETTING_SUBJECT]);

/* ---- what is allowed (config_allowed.c) ------------------------------------------ */

/* The words of `choices`. */
#define CHOICES_MAX 8
struct choices {
    char text[64]; // what the words lie in
    const char *word[CHOICES_MAX];
    int count;
};
void setting_choices(const struct setting *setting, struct choices *choices);

/* True when `text` is the word that a number takes for 0: "auto" of a scale. */
int setting_is_word(const struct setting *setting, const char *text);

/* What is allowed: "a whole number from 2 to 8192", "crop, pad or stretch", "auto or a
 * number from 1 to 2". */
#define ALLOWED_TEXT 160
const char *setting_allowed(const struct setting *setting, char text[ALLOWED_TEXT]);

/* The limits of a number alone, "1 to 8192", or "" of other kinds. */
const char *setting_range(const struct setting *setting, char text[ALLOWED_TEXT]);

/* ---- unknown names (config_suggest.c) -------------------------------------------- */

/* STATUS_USAGE: there is no such setting, and which one was most likely meant. */
enum status setting_unknown(const char *name, const char *source);

/* ---- presets (config_preset.c) --------------------------------------------------- */

struct embedded_preset {
    const char *name, *json;
};

/* Made by CMake from assets/presets, in the order of the list in app/CMakeLists.txt. */
extern const struct embedded_preset embedded_presets[];
extern const int embedded_preset_count;

/* The value of "_about" in a preset's JSON; the caller frees; NULL if there is none. */
char *config_json_about(const char *json);

/* The preset that a file of settings begins with, its "preset"; the caller frees. NULL
 * where it has none, or is a whole options.json. */
char *config_json_base(const char *json);

/* config_apply_preset() and config_from_json() that record `origin` in `origins`, which
 * may be NULL. */
enum status preset_apply(struct config *config, const char *name,
                         struct config_origins *origins);
enum status config_from_json_as(struct config *config, const char *json,
                                const char *source, const char *origin,
                                struct config_origins *origins);

/* Notes that `setting` has been given as `value`; origins may be NULL. */
void config_origin_record(struct config_origins *origins, const struct setting *setting,
                          const char *value, const char *origin);

#endif
