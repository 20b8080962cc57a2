/* config_origins.c - where the value of each setting came from, and the list of both. */
#include <stdio.h>
#include <string.h>

#include "app/config/config_table.h"

_Static_assert(CONFIG_SETTINGS_MAX >= 128, "config_suggest.c counts on as many");

void config_origins_begin(struct config_origins *origins, const char *origin)
{
    CHECK(setting_count <= CONFIG_SETTINGS_MAX, "%d settings", setting_count);
    memset(origins, 0, sizeof *origins);
    for (int i = 0; i < setting_count; i++)
        snprintf(origins->of[i], sizeof origins->of[i], "%s", origin);
}

void config_origin_set(struct config_origins *origins, const char *name,
                       const char *origin)
{
    const struct setting *setting = setting_find(name);
    CHECK(setting, "there is no setting %s", name);
    char *text = origins->of[setting - settings];
    snprintf(text, sizeof origins->of[0], "%s", origin);
}

const char *config_origin(const struct config_origins *origins, const char *name)
{
    const struct setting *setting = setting_find(name);
    CHECK(setting, "there is no setting %s", name);
    return origins->of[setting - settings];
}

void config_origin_record(struct config_origins *origins, const struct setting *setting,
                          const char *value, const char *origin)
{
    if (!origins)
        return;
    config_origin_set(origins, setting->name, origin);
    if (strcmp(setting->name, "scaler") == 0 && strncmp(value, "static:", 7) == 0) {
        config_origin_set(origins, "g_init_scale", origin);
        config_origin_set(origins, "d_init_scale", origin);
    }
}

int config_print_origins(FILE *stream, const struct config *config,
                         const struct config_origins *origins, int only_changed)
{
    int printed = 0;
    for (int i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        char flag[SETTING_FLAG], text[CONFIG_TEXT];
        setting_text(setting, config, text);
        int is_default = strcmp(origins->of[i], ORIGIN_DEFAULT) == 0;
        if (setting->on_resume == RESUME_OWN && setting->kind == SETTING_SWITCH)
            continue; // how the program was called, not how it trains
        if (only_changed && is_default)
            continue;
        fprintf(stream, "  %-22s %-24s %s\n", setting_flag(setting, flag),
                text[0] ? text : "\"\"", origins->of[i]);
        printed++;
    }
    return printed;
}
