# count.awk - results of ctest, counted by test function.
#   awk -f count.awk RESULTS.xml...    JUnit files as ctest writes them, with the whole output
# Prints "passed failed skipped", the same of the tests on stand-ins for CUDA alone (they are in
# the first three as well), and a line "skipped TEST: reason" for each that was left out. A cmocka
# program counts by its functions, any other test as one. A test that is left out says why in a line
# "SKIPPED: reason"; in a cmocka program such a line outside of a function counts by itself.

function leave_out(name, reason) {
    skipped++
    notes = notes "skipped " name (reason == "" ? "" : ": " reason) "\n"
    reason_given = ""
}

/<testcase / {
    match($0, /name="[^"]*"/)
    test = substr($0, RSTART + 6, RLENGTH - 7)
    match($0, /status="[^"]*"/)
    status = substr($0, RSTART + 8, RLENGTH - 9)
    seen++
    is_cmocka = passed = failed = skipped = 0
    function_name = reason_given = ""
    early = 0
}
{
    sub(/^.*<system-out>/, "")
}
/^\[==========\] Running/ {
    is_cmocka = 1
    for (; early > 0; early--) leave_out(test, reasons[early])
}
/^\[ RUN      \]/ { function_name = $4 }
/^\[       OK \]/ { passed++; function_name = "" }
/^\[  FAILED  \] test/ {
    if (!(test in failures) || index(failures[test], " " $4 " ") == 0) failed++
    failures[test] = failures[test] " " $4 " "
    function_name = ""
}
/^\[  SKIPPED \] test/ {
    if (function_name != "") leave_out(test " " $4, reason_given)
    function_name = ""
}
/^SKIPPED: / {
    reason_given = substr($0, 10)
    if (is_cmocka && function_name == "") leave_out(test, reason_given)
    if (!is_cmocka) reasons[++early] = reason_given
}
/<\/testcase>/ {
    if (!is_cmocka && status == "run") passed = 1
    if (!is_cmocka && (status == "notrun" || status == "disabled")) leave_out(test, reason_given)
    if (status == "fail" && failed == 0) failed = 1
    all[1] += passed; all[2] += failed; all[3] += skipped
    if (test ~ /^cuda\//) {
        cuda[1] += passed; cuda[2] += failed; cuda[3] += skipped
    }
}
END {
    if (!seen) exit 1
    printf "%d %d %d %d %d %d\n%s", all[1], all[2], all[3], cuda[1], cuda[2], cuda[3], notes
}
