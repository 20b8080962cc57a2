#!/bin/sh
# Writes the source that compiles one .cu file for fibers and registers its kernels.
#   sh generate.sh FILE.cu OUT.cpp
# Finds every `__global__ ... NAME_kernel(`. Exit code 1, with the place, when there is
# none, or one that cannot be registered: a template, one without external linkage, one of
# another name.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: generate.sh FILE.cu OUT.cpp" >&2
    exit 2
fi

awk -v file="$1" '
# The text without comments and literals; line ends stay.
function stripped(text,    out, two, end, gone)
{
    out = ""
    while (match(text, /\/\*|\/\/|"|\047/)) {
        out = out substr(text, 1, RSTART - 1)
        two = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        if (two == "/*")
            end = match(text, /\*\//)
        else if (two == "//")
            end = match(text, /\n/)
        else if (two == "\"")
            end = match(text, /([^"\\]|\\.)*"/) ? RSTART : 0
        else
            end = match(text, /([^\047\\]|\\.)*\047/) ? RSTART : 0
        if (!end)
            return out
        gone = substr(text, 1, RSTART + RLENGTH - 1)
        gsub(/[^\n]/, "", gone)
        out = out " " gone
        text = substr(text, RSTART + RLENGTH)
    }
    return out text
}

function fail(line, why)
{
    printf "%s:%d: %s\n", file, line, why >"/dev/stderr"
    has_failed = 1
}

# The word before the parameters, given what follows __global__; "" if there is none.
# Leaves the words before it in `words`.
function kernel_name(text,    head, depth, c)
{
    gsub(/\n/, " ", text)
    while (match(text, /(__launch_bounds__|__attribute__|__maxnreg__)[ ]*\(/)) {
        head = substr(text, 1, RSTART - 1)
        if (head ~ /[({;]/)
            break
        text = substr(text, RSTART + RLENGTH)
        for (depth = 1; depth > 0 && text != ""; text = substr(text, 2)) {
            c = substr(text, 1, 1)
            depth += (c == "(") - (c == ")")
        }
        text = head " " text
    }
    if (!match(text, /[A-Za-z_][A-Za-z_0-9#]*[ ]*\(/))
        return ""
    words = substr(text, 1, RSTART - 1)
    name = substr(text, RSTART, RLENGTH - 1)
    gsub(/ /, "", name)
    return words ~ /[;{}]/ ? "" : name
}

{ all = all $0 "\n" }

END {
    rest = stripped(all)
    line = 1
    # From the end of the declaration before to the next __global__.
    while (match(rest, /__global__/)) {
        before = substr(rest, 1, RSTART - 1)
        rest = substr(rest, RSTART + RLENGTH)
        line += gsub(/\n/, " ", before)
        sub(/.*[;{}]/, "", before)
        name = kernel_name(rest)
        if (name == "")
            fail(line, "what follows this __global__ is no function")
        else if (name !~ /^[A-Za-z_0-9]*_kernel$/)
            fail(line, "the name of the kernel " name " does not end in _kernel")
        else if (before ~ /(^|[^A-Za-z_0-9])template([^A-Za-z_0-9]|$)/)
            fail(line, name " is a template and cannot be registered by name")
        else if ((before " " words) ~ /(^|[^A-Za-z_0-9])(static|inline)([^A-Za-z_0-9]|$)/)
            fail(line, name " has no external linkage and cannot be launched by name")
        else if (!(name in seen)) {
            seen[name] = 1
            kernels[++count] = name
        }
    }
    if (!count && !has_failed)
        fail(line, "no __global__ function was found")
    if (has_failed)
        exit 1
    printf "// Made by generate.sh from %s.\n", file
    printf "#include \"tests/cuda/fibers/fibers.h\"\n#include \"%s\"\n\n", file
    for (i = 1; i <= count; i++)
        printf "FIBERS_KERNEL(%s);\n", kernels[i]
}
' "$1" >"$2.new" || {
    rm -f "$2.new"
    exit 1
}
mv "$2.new" "$2"
