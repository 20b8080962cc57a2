#!/bin/sh
# Builds and runs every test twice, as a release and under AddressSanitizer and UBSan, and
# closes with one line of counts. Works from any folder; a second run builds what changed.
#   sh tests/run.sh              all
#   sh tests/run.sh -R scaler    what follows is handed on to ctest
# What depends on the CPU's instructions again, from the release build, as on other CPUs:
#   sh tests/run.sh --isa all                  under each, on 1, 2 and 4 threads
#   sh tests/run.sh --isa avx2 --threads 4     under one of c, avx2, avx512 and avx512-bf16
#   sh tests/run.sh --turn N                   all, and then one of those twelve, the Nth
# Under those that this CPU lacks an emulator (Debian: qemu-user) runs what is one process; what
# it lacks too is skipped, counted, and named before the last line.
# Exit codes: 0 all passed, 1 a build or a test failed, 2 wrong use, 3 a package is missing.
set -eu

isas='c avx2 avx512 avx512-bf16' thread_counts='1 2 4'

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
jobs=2
passed=0 failed=0 skipped=0                # by test function: count.awk
cuda_passed=0 cuda_failed=0 cuda_skipped=0 # of these, on stand-ins for CUDA
left_out=''

usage()
{
    echo "tests/run.sh: $1" >&2
    exit 2
}

# is_among WORD LIST
is_among()
{
    case " $2 " in *" $1 "*) return 0 ;; esac
    return 1
}

isa='' threads=$thread_counts turn=''
while [ $# -ge 2 ]; do
    case "$1" in
    --isa)
        is_among "$2" "$isas all" || usage "--isa $2: expected all or one of $isas"
        isa=$2
        [ "$isa" != all ] || isa=$isas
        ;;
    --threads)
        is_among "$2" "$thread_counts" || usage "--threads $2: expected one of $thread_counts"
        threads=$2
        ;;
    --turn)
        case "$2" in '' | *[!0-9]*) usage "--turn $2: expected a number" ;; esac
        turn=$2
        ;;
    *) break ;;
    esac
    shift 2
done
case "${1-}" in --isa | --threads | --turn) usage "$1: a value is missing" ;; esac

sh "$root/app/install_packages.sh" --tests

# LeakSanitizer needs ptrace, which debuggers and some containers keep to themselves; there it
# ends every program with an error. A program without leaks shows whether it works here.
leak_check_works()
{
    probe=$(mktemp -d)
    printf 'int main(void)\n{\n    return 0;\n}\n' >"$probe/probe.c"
    works=1
    cc -fsanitize=address "$probe/probe.c" -o "$probe/probe" 2>/dev/null &&
        ASAN_OPTIONS=detect_leaks=1 "$probe/probe" >/dev/null 2>&1 || works=0
    rm -r "$probe"
    [ "$works" = 1 ]
}

# Adds what count.awk finds in a file of results to the totals. A file that is missing, or has no
# test, is a failure of its own.
add_results()
{
    counts=$(awk -f "$root/tests/count.awk" "$1" 2>/dev/null) || {
        echo "no test ran: $1 tells of none" >&2
        failed=$((failed + 1))
        return 0
    }
    left_out="$left_out$(printf '%s\n' "$counts" | sed 1d)
"
    # shellcheck disable=SC2046 # six numbers
    set -- $(printf '%s\n' "$counts" | sed -n 1p)
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    cuda_passed=$((cuda_passed + $4)) cuda_failed=$((cuda_failed + $5))
    cuda_skipped=$((cuda_skipped + $6))
}

# build_suite NAME CMAKE-OPTIONS: fails where it does not build. The options are one word, none
# with a space in it.
build_suite()
{
    build=$root/build/tests-$1
    echo "== $build"
    if [ -f "$build/CMakeCache.txt" ]; then
        generator=
    else
        generator=-GNinja
    fi
    # shellcheck disable=SC2086 # the options are several words
    if ! cmake -S "$root" -B "$build" ${generator:+"$generator"} $2 ||
        ! cmake --build "$build" --parallel "$jobs"; then
        echo "$build: does not build" >&2
        failed=$((failed + 1))
        return 1
    fi
}

# run_tests NAME CTEST-ARGUMENT...: what was built last; the results go to NAME.xml there.
run_tests()
{
    results=$build/$1.xml
    shift
    rm -f "$results"
    set -- --output-on-failure --no-tests=error -j "$jobs" --output-junit "$results" \
        --test-output-size-passed 16777216 --test-output-size-failed 16777216 "$@"
    status=0
    (cd "$build" && ctest "$@") || status=$?
    failed_before=$failed
    add_results "$results"
    # ctest has the last word: whatever it found wrong is never counted as nothing.
    if [ "$status" -ne 0 ] && [ "$failed" -eq "$failed_before" ]; then
        echo "ctest ended with exit code $status" >&2
        failed=$((failed + 1))
    fi
}

# run_suite NAME CMAKE-OPTIONS CTEST-ARGUMENT...: one build and its tests; fails where it does
# not build.
run_suite()
{
    build_suite "$1" "$2" || return 1
    shift 2
    run_tests results "$@"
}

# ---- instruction sets ------------------------------------------------------------------

# Whether the program, run by the words that follow, has the instruction set $1.
has_isa()
{
    name=$1
    shift
    case "$(TWINSCALE_ISA=$name "$@" "$build/twinscale" info --devices 2>/dev/null)" in
    *", $name, "*) return 0 ;;
    esac
    return 1
}

# Tests that are one process, by an emulator; in the form of ctest's results.
run_emulated()
{
    results=$build/results-emulated.xml
    for program in "$build"/tests/kernels/test_* "$build"/tests/nets/test_* \
        "$build"/tests/scaler/test_*; do
        [ -x "$program" ] && [ -f "$program" ] || continue
        state=run
        qemu-x86_64 -cpu max "$program" >"$build/emulated.log" 2>&1 || state=fail
        if [ "$state" = fail ]; then
            tail -n 40 "$build/emulated.log" >&2
            echo "emulated, failed: $program" >&2
        fi
        {
            echo "<testcase name=\"emulated ${program##*/}\" status=\"$state\">"
            cat "$build/emulated.log"
            echo "</testcase>"
        } >"$results"
        add_results "$results"
    done
}

# run_isa NAME THREADS CTEST-ARGUMENT...: all but style/, which does not run the program, and
# cuda/, whose stand-ins are the same under each; of cuda/ what compares with the CPU, once.
run_isa()
{
    name=$1 count=$2
    shift 2
    echo "== $name on $count thread(s); again: sh tests/run.sh --isa $name --threads $count"
    what='^(kernels|nets|scaler|app|gpu)/'
    [ -n "$turn" ] || [ "$count" -ne 2 ] || what="$what|^cuda/train"
    export TWINSCALE_ISA="$name" TWINSCALE_THREADS="$count"
    if has_isa "$name" env; then
        run_tests "results-$name-$count" -R "$what" "$@"
    elif has_isa "$name" qemu-x86_64 -cpu max; then
        run_emulated
        notes="$notes$name on $count thread(s): emulated, without the tests of app/
"
    else
        skipped=$((skipped + 1))
        notes="$notes$name on $count thread(s): skipped, neither this CPU nor an emulator has it
"
    fi
    unset TWINSCALE_ISA TWINSCALE_THREADS
}

# End of a run: what was left out, and the counts.
conclude()
{
    printf '%s' "$left_out" | sed '/^$/d' | sort | uniq -c | sed 's/^ *1 //; s/^ *//'
    printf '%s' "$notes"
    echo "on stand-ins for CUDA: $cuda_passed passed, $cuda_failed failed," \
        "$cuda_skipped skipped; with all others:"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}

notes=''
if [ -n "$isa" ]; then
    if build_suite release -DTWINSCALE_WERROR=ON; then
        for one in $isa; do
            for number in $threads; do
                run_isa "$one" "$number" "$@"
            done
        done
    fi
    conclude
fi

# run_turn CTEST-ARGUMENT...: the turn's instruction set and number of threads.
run_turn()
{
    index=0
    for one in $isas; do
        for number in $thread_counts; do
            [ "$index" -ne $((turn % 12)) ] || run_isa "$one" "$number" "$@"
            index=$((index + 1))
        done
    done
}

if run_suite release -DTWINSCALE_WERROR=ON "$@" && [ -n "$turn" ]; then
    run_turn "$@"
fi

leaks=1
if ! leak_check_works; then
    echo "LeakSanitizer does not work here (no ptrace?): leaks are not looked for" >&2
    leaks=0
fi
export ASAN_OPTIONS="detect_leaks=$leaks${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
run_suite sanitize '-DTWINSCALE_SANITIZE=ON -DTWINSCALE_CUDA=OFF' "$@" || true

conclude
