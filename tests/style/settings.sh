#!/bin/sh
# settings.sh PROGRAM ROOT - every setting that `PROGRAM train --help` lists is set by a test:
# as a flag (--g-lr 1e-3), by name (set(&config, "g_lr", "1e-3")), as a field (config.g.lr = x)
# or in a run (g.lr=1e-3). Reading its words is no use of it: test_config*.c does not count.
# Whether that test sees it ignored, tests/mutants measures.
# Prints each setting that no test sets, and exits 1 when there is one, 2 when it cannot look.
set -eu
program=$1
cd "$2"
names=$("$program" train --help |
    sed -nE 's/^  ((--(\[no-\])?[a-z0-9-]+(, | |$))+).*/\1/p' | tr ', ' '\n\n' |
    sed -nE 's/^--(\[no-\])?([a-z0-9-]+)$/\2/p' | sort -u)
count=$(printf '%s\n' "$names" | wc -l)
[ "$count" -ge 40 ] ||
    { echo "$program train --help lists $count settings: its form has changed" >&2; exit 2; }
missing=0
for name in $names; do
    key=$(printf '%s' "$name" | tr - _)
    field=$(printf '%s' "$key" | sed -E 's/^([gd])_/\1./')
    # A grid is two fields; what is named "g" or "d" before it belongs to a network.
    pattern="--(no-)?$name[] ='\"\\\\]|\"$key\", \"|config\\.$field(, sizeof|(_columns)? = )|\\b$field="
    if ! find tests -name '*.c' ! -name 'test_config*.c' -exec grep -qE -- "$pattern" {} + &&
        ! find tests -name '*.sh' ! -path 'tests/style/*' \
            -exec grep -qE -- "$pattern" {} +; then
        echo "--$name: no test sets it"
        missing=1
    fi
done
[ "$missing" = 0 ] && echo "$count settings, all of them set by a test"
exit "$missing"
