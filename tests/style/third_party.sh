#!/bin/sh
# third_party.sh ROOT - each library's header stays in its one room, so that one place has
# to change when the library does. A header that is neither the system's nor in the table is
# a violation too: a new library needs a row here, and with it a room.
# Prints each violation as file:line and exits 1 when there is one, 2 when it could not look.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
for room in app scaler nets kernels; do
    [ -d "$room" ] || { echo "$1: the room $room/ is missing" >&2; exit 2; }
done
list=$(find app scaler nets kernels -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) \
    -exec awk -f "$here/includes.awk" {} +)
[ -n "$list" ] || { echo "$1: no include was found at all" >&2; exit 2; }
printf '%s\n' "$list" | awk -F '\t' '
    # The header, where it may stand, and that place in words.
    function row(header, place, words) {
        rows++; headers[rows] = "^(" header ")$"; places[rows] = "^" place
        rooms[rows] = words
    }
    BEGIN {
        row("png(conf)?\\.h", "app/(input/png_|view/)", "app/input/png_*, app/view/")
        row("(SDL2/)?SDL.*\\.h", "app/view/(window|display)[^/]*\\.c$",
            "app/view/window*.c, display*.c")
        row("(cairo/)?cairo.*\\.h", "app/view/", "app/view/")
        row("jansson\\.h", "app/(config|files|record|recovery|view|live|bench)/|app/[^/]*$",
            "app/ but for input, train and ranks")
        row("z(lib|conf)\\.h", "app/input/", "app/input/")
        row("(cudnn|cuda|cublas|curand|nccl|nv)[a-zA-Z0-9_]*(\\.h|\\.hpp|\\.cuh)?",
            "kernels/cuda/", "kernels/cuda/")
        row("([a-z]*mmintrin|x86intrin|cpuid|arm_neon|arm_fp16)\\.h", "kernels/",
            "kernels/")
        system_headers = " aio assert complex ctype dirent dlfcn elf endian errno execinfo " \
            "fcntl features fenv float fnmatch ftw getopt glob iconv inttypes " \
            "iso646 langinfo libgen limits link locale malloc math mntent netdb omp " \
            "poll pthread pty pwd regex sched semaphore setjmp signal spawn " \
            "stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib " \
            "stdnoreturn string strings syslog termios tgmath threads time uchar " \
            "ucontext unistd utime wchar wctype wordexp "
    }
    {
        header = $4
        for (i = 1; i <= rows; i++) {
            if (header !~ headers[i])
                continue
            ruled++
            if ($1 !~ places[i]) {
                printf "%s:%d: <%s> may only be included in %s\n", $1, $2, header, rooms[i]
                bad = 1
            }
            next
        }
        if ($3 == "quote" || header ~ /^(sys|linux|arpa|net|netinet)\//)
            next
        name = header; sub(/\.h$/, "", name)
        if (!index(system_headers, " " name " ")) {
            printf "%s:%d: <%s> is no header of the system and has no row in " \
                   "tests/style/third_party.sh; give the library a room\n", $1, $2, header
            bad = 1
        }
    }
    END {
        if (!bad) printf "%d includes of libraries, all in their rooms\n", ruled
        exit bad
    }'
