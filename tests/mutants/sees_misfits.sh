#!/bin/sh
# sees_misfits.sh - run.sh --check reports a fault whose place has gone and a setting that no
# fault ignores, and the summary calls neither a survivor nor a fault without a result killed.
# Plants nothing, builds nothing.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
command -v python3 >/dev/null || { echo "python3 is not here"; exit 77; }
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/faults" "$copy/room"
printf 'int once = 1;\nint twice = 2;\nint twice = 2;\n' >"$copy/room/file.c"
failures=0

# block OLD NEW TEST [FILE]: one fault, alone in its list.
block()
{
    printf 'in    %s\nold   %s\nnew   %s\ntest  %s\n' "${4:-room/file.c}" "$1" "$2" "$3" \
        >"$copy/faults/planted.txt"
}

# expect STATUS TEXT OPTION...: one call of the list.
expect()
{
    wanted=$1 text=$2
    shift 2
    status=0
    said=$(sh "$here/run.sh" --faults "$copy/faults" --root "$copy" --folder "$copy" "$@" \
        2>&1) || status=$?
    if [ "$status" != "$wanted" ] || ! printf '%s' "$said" | grep -qF -- "$text"; then
        echo "expected exit status $wanted and \"$text\", got $status: $said"
        failures=1
    fi
}

block 'once = 1' 'once = 2' 'room/file'
expect 0 '1 faults, 0 of them not in their files' --check
expect 1 'not tried: planted:1 room/file.c: once = 1 -> once = 2' --survivors
expect 1 'no fault matches "elsewhere"' --check --only elsewhere
key=$(python3 -c "import hashlib
print(hashlib.sha256(b'room/file.c\0once = 1\0once = 2').hexdigest()[:16])")
printf '%s\tsurvived\t\n' "$key" >"$copy/results.tsv"
expect 1 '0 of   1 killed, 0.0 %' --survivors
printf '%s\tkilled\troom/file\n' "$key" >>"$copy/results.tsv"
expect 0 '1 of   1 killed, 100.0 %' --survivors
printf '%s\tdoes-not-build\t\n' "$key" >>"$copy/results.tsv"
expect 2 'does-not-build: planted:1' --survivors
block 'once = 3' 'once = 2' 'room/file'
expect 2 'stands 0 times' --check
block 'twice = 2' 'twice = 3' 'room/file'
expect 2 'stands 2 times' --check
block 'once = 1' 'once = 1' 'room/file'
expect 2 'changes nothing' --check
block 'once = 1' 'once = 2' ''
expect 2 'names no test' --check
block 'once = 1' 'once = 2' 'room/file' 'room/gone.c'
expect 2 'there is no file "room/gone.c"' --check
mkdir -p "$copy/app/config"
printf '    {"kimg", DOUBLE(kimg)\n    {#n "_lr", DOUBLE(n.lr)\n' >"$copy/app/config/config_table.c"
block 'once = 1' 'once = 2' 'room/file'
echo 'of    kimg g_lr' >>"$copy/faults/planted.txt"
expect 2 'd_lr: no fault ignores this setting' --check
block 'once = 1' 'once = 2' 'room/file'
echo 'of    kimg g_lr d_lr' >>"$copy/faults/planted.txt"
expect 0 '1 faults, 0 of them' --check
block 'once = 1' 'once = 2' 'room/file'
echo 'of    kimg g_lr d_lr tick' >>"$copy/faults/planted.txt"
expect 2 'tick: a fault is said to ignore it, and app/config/config_table.c has no such setting' --check
echo 'olt   once = 1' >"$copy/faults/planted.txt"
expect 1 'begins with "olt"' --check
[ "$failures" = 0 ] && echo "every misfit is seen"
exit "$failures"
