#!/bin/sh
# The real program in a real window: an Xvfb screen, keys by xdotool, and what must follow.
#   watch.sh TWINSCALE    exit 0 all true, 1 something was not, 77 no Xvfb or xdotool here
set -eu

twinscale=$1
for tool in Xvfb xdotool; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "SKIPPED: no $tool"
        exit 77
    }
done

work=$(mktemp -d)
server=
trainer=
end()
{
    [ -z "$trainer" ] || kill -9 "$trainer" 2>/dev/null || true
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

fail()
{
    echo "not true: $1" >&2
    [ ! -f "$work/log" ] || tail -20 "$work/log" >&2
    exit 1
}

# wait_for SENTENCE COMMAND...: until the command succeeds, at most ten minutes.
wait_for()
{
    sentence=$1
    shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 12000 ] || fail "$sentence"
        sleep 0.05
    done
}

has_display_number() { [ -s "$work/number" ]; }
has_window() { xdotool search --onlyvisible --class '^twinscale$' >"$work/window" 2>/dev/null; }
has_ticks() { [ "$(cat "$run"/stats.jsonl 2>/dev/null | wc -l)" -gt "$1" ]; }
has_files() { [ "$(find "$run" -name "$1" | wc -l)" -ge "$2" ]; }
has_run() { run=$(echo "$work/$1"/0*) && [ -s "$run/stats.jsonl" ]; }
has_ended() { ! kill -0 "$trainer" 2>/dev/null; }
# No tick in a second, in which several come while training goes on.
has_paused() { before=$(ticks) && sleep 1 && [ "$(ticks)" -eq "$before" ]; }
ticks() { wc -l <"$run/stats.jsonl"; }
# A picture of the whole screen, as the X server keeps it.
screen() { cat "$work/Xvfb_screen0"; }
press() { xdotool key --window "$(head -1 "$work/window")" "$1"; }
# The window may be gone before the key is let go, which xdotool takes for an error.
press_last() { press "$1" 2>/dev/null || true; }

# start NAME ARGUMENT...: a run in the folder NAME that is in no hurry to end.
start()
{
    name=$1
    shift
    "$twinscale" train --data builtin:shapes --resolution 32 --g-width 8 --d-width 8 \
        --latent 16 --batch 16 --grid 4x4 --keep 0 --tick 0.32 --snap 100000 \
        --img-snap 100000 --out "$work/$name" "$@" >"$work/log" 2>&1 &
    trainer=$!
    wait_for "the run $name makes its folder and ticks" has_run "$name"
}

# ended CODE: the program ends by itself, with that code.
ended()
{
    wait_for "the program ends" has_ended
    code=0
    wait "$trainer" || code=$?
    trainer=
    [ "$code" -eq "$1" ] || fail "the exit code is $1 (it is $code)"
}

unset WAYLAND_DISPLAY SDL_VIDEODRIVER
unset DISPLAY
export XDG_RUNTIME_DIR="$work"

# Without a display, and with the name of one that is not there: the run goes on.
for display in '' :4242; do
    [ -z "$display" ] || export DISPLAY="$display"
    start "headless$display" --kimg 1.6
    ended 0
    grep -q "^preview .*preview.png" "$work/log" || fail "one line says that there is no window"
    [ -s "$run/preview.png" ] && [ -s "$run/scales.png" ] || fail "pictures stand in for it"
done

Xvfb -displayfd 3 -screen 0 1400x800x24 -fbdir "$work" -nolisten tcp \
    3>"$work/number" 2>"$work/xvfb.log" &
server=$!
wait_for "Xvfb starts" has_display_number
DISPLAY=:$(cat "$work/number")
export DISPLAY
screen | cksum >"$work/blank"

# The window appears, shows something, and keeps changing.
start keys --kimg 100000
wait_for "the window appears" has_window
screen_differs() { ! screen | cksum | cmp -s - "$1"; }
wait_for "the window is not blank" screen_differs "$work/blank"
screen | cksum >"$work/early"
wait_for "the window changes while training" screen_differs "$work/early"

# s saves a snapshot, e a grid.
before=$(find "$run" -name 'snapshot-*' | wc -l)
press s
wait_for "s writes a snapshot" has_files 'snapshot-*' $((before + 1))
press e
wait_for "e writes a grid" has_files 'fakes0*.png' 1

# space pauses, and space again goes on.
before=$(ticks)
wait_for "training ticks" has_ticks "$before"
press space
wait_for "space pauses" has_paused
before=$(ticks)
saved=$(find "$run" -name 'snapshot-*' | wc -l)
press s # keys are served during a pause, and the pause stays
wait_for "s writes a snapshot in a pause" has_files 'snapshot-*' $((saved + 1))
[ "$(ticks)" -eq "$before" ] || fail "saving does not end a pause"
press space
wait_for "space goes on" has_ticks "$before"

# q saves and ends with 0, and what it saved opens.
press q
ended 0
"$twinscale" info "$run" --digest >/dev/null || fail "what q saved opens"

# At its end the run prints what it made; the window stays, exports, and closes with q. Another
# program may train in the folder by then.
start stays --kimg 1.6
wait_for "the window appears" has_window
has_result() { grep -q "^checkpoint: " "$work/log"; }
wait_for "the results are printed while the window is open" has_result
wait_for "how it closes is said" grep -q "^the window stays open: press q" "$work/log"
has_window || fail "the window stays"
press s # nothing to save: the run has ended
rm "$run/fakes000001.600.png"
press e
wait_for "e writes the grid after the end" has_files 'fakes000001.600.png' 1
[ "$(find "$run" -name 'snapshot-*' | wc -l)" -eq 2 ] || fail "s saves nothing after the end"
[ ! -e "$run/control" ] || fail "ctl does not reach a run that has ended"
"$twinscale" train --resume "$run" --kimg 1.92 --preview off >/dev/null 2>&1 ||
    fail "another program resumes the run while its window stays"
press_last q
ended 0

# SIGTERM ends it too; and with --exit-when-done it ends by itself.
start term --kimg 1.6
wait_for "the results are printed" has_result
wait_for "how it closes is said" grep -q "^the window stays open: press q" "$work/log"
kill -TERM "$trainer"
ended 0
start done --kimg 1.6 --exit-when-done
ended 0
! grep -q "^the window stays" "$work/log" || fail "--exit-when-done closes the window"

# A run that diverged shows why, and keeps its exit code.
start diverged --kimg 100000 --inject d:20-:inf --max-skips 3
wait_for "how it closes is said" grep -q "^the window stays open: press q" "$work/log"
grep -q "^twinscale: D skipped 3 steps in a row" "$work/log" || fail "the reason is printed"
wait_for "the window is found" has_window
press_last q
ended 5

# A window that another program destroys leaves the run alive, and ends its pause, which
# no key could end any more (its close button: test_window.c).
start closed --kimg 100000
wait_for "the window appears" has_window
press space
wait_for "space pauses" has_paused
before=$(ticks)
xdotool windowclose "$(head -1 "$work/window")"
wait_for "training goes on without its window" has_ticks $((before + 3))
has_preview() { [ -s "$run/preview.png" ]; }
wait_for "preview.png stands in for a window that is gone" has_preview
kill -TERM "$trainer"
ended 0
grep -q "^checkpoint: " "$work/log" || fail "a run whose window was closed ends with its files"

# So does the death of the X server.
start orphan --kimg 100000
wait_for "the window appears" has_window
kill -9 "$server"
wait "$server" 2>/dev/null || true
server=
before=$(ticks)
wait_for "training goes on without the X server" has_ticks $((before + 3))
kill -TERM "$trainer"
ended 0
echo "all true"
