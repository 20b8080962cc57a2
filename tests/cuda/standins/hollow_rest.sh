#!/bin/sh
# Writes the functions of the CUDA driver that hollow_driver.c does not have.
#   sh hollow_rest.sh STUB_LIBCUDA.so hollow_driver.c OUT.c
# The names are those that the toolkit's stub of libcuda exports.
set -eu
own=$(sed -n 's/^CUresult \(cu[A-Za-z0-9_]*\)(.*/\1/p' "$2")
nm -D --defined-only "$1" | awk -v own="$own" '
    BEGIN {
        count = split(own, names, /[ \n]+/)
        for (i = 1; i <= count; i++)
            is_own[names[i]] = 1
        print "// Made by hollow_rest.sh. 100 is CUDA_ERROR_NO_DEVICE."
    }
    $2 ~ /^[TW]$/ && $3 ~ /^cu[A-Z]/ && !($3 in is_own) {
        printf "int %s(void);\nint %s(void)\n{\n    return 100;\n}\n", $3, $3
        made++
    }
    END {
        if (made < 100) {
            print "hollow_rest.sh: only " made + 0 " functions were found" >"/dev/stderr"
            exit 1
        }
    }' >"$3.new"
mv "$3.new" "$3"
