#include "app/config/config.h"

#include <string.h>

#include "app/config/config_table.h"

void config_default(struct config *config)
{
    memset(config, 0, sizeof *config);
    for (int i = 0; i < setting_count; i++) {
        enum status status =
            setting_parse(&settings[i], config, settings[i].fallback, "default");
        CHECK(status == STATUS_OK, "%s", status_message());
    }
}

enum status config_set(struct config *config, const char *name, const char *value,
                       const char *source)
{
    const struct setting *setting = setting_find(name);
    if (!setting)
        return setting_unknown(name, source);
    return setting_parse(setting, config, value, source);
}

int config_precision(const struct config *config, const struct network_config *network)
{
    switch (network->precision) {
    case OWN_FP16: return PRECISION_FP16;
    case OWN_BF16: return PRECISION_BF16;
    case OWN_FP32: return PRECISION_FP32;
    default: return config->precision;
    }
}

const char *config_precision_text(const struct config *config, char text[PRECISION_TEXT])
{
    int g = config_precision(config, &config->g),
        d = config_precision(config, &config->d);
    const char *held = config->fp32_layers[0] ? " + f32" : "";
    if (g == d)
        snprintf(text, PRECISION_TEXT, "%s%s", precision_name(g), held);
    else
        snprintf(text, PRECISION_TEXT, "G %s, D %s%s", precision_name(g),
                 precision_name(d), held);
    return text;
}

const char *precision_name(int precision)
{
    static const char *const names[] = {"fp16", "bf16", "fp32"};
    CHECK(precision >= PRECISION_FP16 && precision <= PRECISION_FP32, "precision %d",
          precision);
    return names[precision];
}
