#!/bin/sh
# Plants the single faults of tests/mutants/faults/ one at a time in a copy of this tree,
# builds what has to see each, and reports it as killed or survived. Hours: no part of
# tests/run.sh, which checks only that every fault's place still stands.
#   sh tests/mutants/run.sh                    all that have no result yet
#   sh tests/mutants/run.sh --only scaler      those whose room, file, text or test matches
#   sh tests/mutants/run.sh --again            forgets the results of those first
#   sh tests/mutants/run.sh --survivors        the summary of the results, nothing is run
#   sh tests/mutants/run.sh --check            only: does each fault's text stand once, has each
#                                              setting a fault that ignores it?
# results.tsv has those that were killed by 2026-12-01: copied into DIR, a run goes on from them.
# --jobs N (2) for compiler and ctest; --folder DIR (build/mutants) for copy and results.
# Ctrl-C loses the fault under way and no more. A test that does not end kills its mutant.
# Exit codes: 0 at least 98 % are killed and each survivor is explained, 1 not so, 2 a fault
# does not fit its file, does not build, or names no test.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
command -v python3 >/dev/null || { echo "tests/mutants/run.sh needs python3" >&2; exit 77; }
exec python3 "$here/mutants.py" "$@"
