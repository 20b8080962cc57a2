#!/bin/sh
# skips.sh ROOT - tests that are left out say why, and are counted: tests/count.awk finds in the
# results below what stands in them, and no test calls cmocka's skip() without a reason.
set -eu
cd "$1"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/results.xml" <<'END'
<testsuite name="(empty)" tests="6" failures="2" disabled="0" skipped="1">
	<testcase name="kernels/a" classname="kernels/a" time="1" status="run">
		<system-out>[==========] Running 4 test(s).
SKIPPED: cpu avx512, which this machine does not have
[ RUN      ] test_one
[       OK ] test_one
[ RUN      ] test_two
SKIPPED: no disk here
[  SKIPPED ] test_two
[ RUN      ] test_three
[       OK ] test_three
[==========] 3 test(s) run.
[  PASSED  ] 2 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] test_two
</system-out>
	</testcase>
	<testcase name="app/b" classname="app/b" time="1" status="fail">
		<failure message=""/>
		<system-out>[==========] Running 2 test(s).
[ RUN      ] test_four
[  FAILED  ] test_four
[ RUN      ] test_five
[       OK ] test_five
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] test_four
</system-out>
	</testcase>
	<testcase name="app/crashed" classname="app/crashed" time="1" status="fail">
		<system-out>[==========] Running 2 test(s).
[ RUN      ] test_six
</system-out>
	</testcase>
	<testcase name="style/script" classname="style/script" time="1" status="run">
		<system-out>all well
</system-out>
	</testcase>
	<testcase name="app/watch" classname="app/watch" time="1" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out>SKIPPED: no Xvfb
</system-out>
	</testcase>
	<testcase name="cuda/c" classname="cuda/c" time="1" status="run">
		<system-out>[==========] Running 2 test(s).
[ RUN      ] test_seven
[       OK ] test_seven
[ RUN      ] test_eight
SKIPPED: no NCCL
[  SKIPPED ] test_eight
</system-out>
	</testcase>
</testsuite>
END
cat >"$folder/wanted" <<'END'
5 2 4 1 0 1
skipped kernels/a: cpu avx512, which this machine does not have
skipped kernels/a test_two: no disk here
skipped app/watch: no Xvfb
skipped cuda/c test_eight: no NCCL
END
awk -f tests/count.awk "$folder/results.xml" >"$folder/counted"
diff "$folder/wanted" "$folder/counted"

: >"$folder/empty.xml"
if awk -f tests/count.awk "$folder/empty.xml"; then
    echo "results without a test are no failure"
    exit 1
fi

if grep -rnE '[^_a-z]skip\(\)' tests --include='*.[ch]' | grep -v '^tests/support/support.h:'; then
    echo "skip() gives no reason: skip_because() does"
    exit 1
fi
echo "every test that is left out is counted, with its reason"
