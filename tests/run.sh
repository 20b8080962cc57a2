#!/bin/sh
# Builds and runs every test twice, as a release and under AddressSanitizer and UBSan, and
# closes with one line of counts. Works from any folder; a second run builds what changed.
#   sh tests/run.sh              all
#   sh tests/run.sh -R scaler    what follows is handed on to ctest
# Exit codes: 0 all passed, 1 a build or a test failed, 3 a package is missing.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
jobs=2
passed=0 failed=0 skipped=0

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

# The number that attribute $2 of a JUnit file's <testsuite> has.
count_of()
{
    sed -n '/<testsuite[ >]/,/>/p' "$1" | tr '\n\t' '  ' |
        sed -n "s/.* $2=\"\([0-9][0-9]*\)\".*/\1/p"
}

# Adds the results of one ctest run to the totals. A missing or unreadable file, or one
# without a single test, is a failure of its own.
add_results()
{
    total=$(count_of "$1" tests 2>/dev/null || true)
    failures=$(count_of "$1" failures 2>/dev/null || true)
    notrun=$(count_of "$1" skipped 2>/dev/null || true)
    disabled=$(count_of "$1" disabled 2>/dev/null || true)
    if [ "${total:-0}" -eq 0 ]; then
        echo "no test ran: $1 tells of none" >&2
        failed=$((failed + 1))
        return 0
    fi
    left_out=$((${notrun:-0} + ${disabled:-0}))
    failed=$((failed + ${failures:-0}))
    skipped=$((skipped + left_out))
    passed=$((passed + total - ${failures:-0} - left_out))
}

# run_suite NAME CMAKE-OPTIONS CTEST-ARGUMENT...: one build and its tests. The options are one
# word, none with a space in it.
run_suite()
{
    build=$root/build/tests-$1
    options=$2
    shift 2
    rm -f "$build/results.xml"
    echo "== $build"
    set -- --output-on-failure --no-tests=error -j "$jobs" \
        --output-junit "$build/results.xml" "$@"
    if [ -f "$build/CMakeCache.txt" ]; then
        generator=
    else
        generator=-GNinja
    fi
    if ! cmake -S "$root" -B "$build" ${generator:+"$generator"} $options ||
        ! cmake --build "$build" --parallel "$jobs"; then
        echo "$build: does not build" >&2
        failed=$((failed + 1))
        return 0
    fi
    status=0
    (cd "$build" && ctest "$@") || status=$?
    failed_before=$failed
    add_results "$build/results.xml"
    # ctest has the last word: whatever it found wrong is never counted as nothing.
    if [ "$status" -ne 0 ] && [ "$failed" -eq "$failed_before" ]; then
        echo "ctest ended with exit code $status" >&2
        failed=$((failed + 1))
    fi
}

run_suite release -DTWINSCALE_WERROR=ON "$@"

leaks=1
if ! leak_check_works; then
    echo "LeakSanitizer does not work here (no ptrace?): leaks are not looked for" >&2
    leaks=0
fi
export ASAN_OPTIONS="detect_leaks=$leaks${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
run_suite sanitize '-DTWINSCALE_SANITIZE=ON -DTWINSCALE_CUDA=OFF' "$@"

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
