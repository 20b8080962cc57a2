#include "app/config.h"

#include <string.h>

#include "app/config_table.h"

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

const char *precision_name(int precision)
{
    static const char *const names[] = {"fp16", "bf16", "fp32"};
    CHECK(precision >= PRECISION_FP16 && precision <= PRECISION_FP32, "precision %d",
          precision);
    return names[precision];
}
