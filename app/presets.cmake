# Turns assets/presets/*.json into one C file of string literals, so that the program needs no
# files beside it. Reads PRESETS (names, in the order of --help); sets PRESETS_C to its path.
set(PRESETS_C ${CMAKE_CURRENT_BINARY_DIR}/embedded_presets.c)
set(rows "")
foreach(preset IN LISTS PRESETS)
    set(json ${CMAKE_SOURCE_DIR}/assets/presets/${preset}.json)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${json})
    file(READ ${json} text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n     \"" text "${text}")
    string(APPEND rows "    {\"${preset}\",\n     \"${text}\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${PRESETS_C} @ONLY CONTENT [[
// Made by app/presets.cmake from assets/presets; edit those.
#include "app/config/config_table.h"

const struct embedded_preset embedded_presets[] = {
@rows@};
const int embedded_preset_count = sizeof embedded_presets / sizeof *embedded_presets;
]])
