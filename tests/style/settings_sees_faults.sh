#!/bin/sh
# settings_sees_faults.sh PROGRAM ROOT - settings.sh passes the program as it is, names a
# setting that is planted in its help, and does not pass help that it cannot read.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failures=0

# run WANTED_STATUS WANTED_TEXT PROGRAM
run()
{
    status=0
    said=$(sh "$here/settings.sh" "$3" "$root" 2>&1) || status=$?
    if [ "$status" != "$1" ] || ! printf '%s' "$said" | grep -qF -- "$2"; then
        echo "expected exit status $1 and \"$2\", got $status: $said"
        failures=1
    fi
}

root=$2
"$1" train --help >"$copy/help"
# A program that prints the help and one more line.
fake()
{
    printf '#!/bin/sh\ncat "%s"\necho "%s"\n' "$2" "$1" >"$copy/fake"
    chmod +x "$copy/fake"
}

run 0 "all of them set by a test" "$1"
fake '  --planted-row N          does nothing [0]' "$copy/help"
run 1 "--planted-row: no test sets it" "$copy/fake"
fake '  --[no-]planted-switch    does nothing [off]' "$copy/help"
run 1 "--planted-switch: no test sets it" "$copy/fake"
fake '  --g-planted, --d-planted N  does nothing [0]' "$copy/help"
run 1 "--d-planted: no test sets it" "$copy/fake"
fake 'usage:' /dev/null
run 2 "its form has changed" "$copy/fake"
[ "$failures" = 0 ] && echo "every setting without a test is seen"
exit "$failures"
