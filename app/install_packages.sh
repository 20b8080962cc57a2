#!/bin/sh
# Installs what building twinscale needs, and nothing that is there already.
#   sh app/install_packages.sh            to build and run
#   sh app/install_packages.sh --tests    to run the tests too
# The one place that knows the packages. On Debian and Ubuntu it uses apt-get (with sudo only
# when it is not run by root); elsewhere it names what is missing and stops.
# Exit codes: 0 all is there, 2 wrong use, 3 something is missing and cannot be installed.
set -eu

# Without these nothing can be built, or with --tests nothing can be tested.
build_packages="build-essential cmake ninja-build pkg-config libpng-dev zlib1g-dev
    libcairo2-dev libjansson-dev libsdl2-dev"
test_packages="libcmocka-dev xvfb xdotool"
# Nice to have: 60,000 garments instead of the 2,000 in the program; letters in its pictures.
optional_packages="dataset-fashion-mnist fonts-dejavu-core"

# The same for systems without apt-get: programs, and libraries by their pkg-config name.
build_programs="cc cmake ninja pkg-config"
build_libraries="libpng zlib cairo jansson sdl2"
test_programs="Xvfb xdotool"
test_libraries="cmocka"

say()
{
    printf '%s\n' "$*" >&2
}

is_installed()
{
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

# Those of the packages given that are not installed.
missing_packages()
{
    missing=''
    for package in "$@"; do
        is_installed "$package" || missing="$missing $package"
    done
    printf '%s' "${missing# }"
}

# Those of the packages given that apt-get can find in the lists it has.
known_packages()
{
    known=''
    for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            known="$known $package"
        fi
    done
    printf '%s' "${known# }"
}

apt_get()
{
    # shellcheck disable=SC2086 # $as_root is "sudo" or nothing
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" </dev/null >&2
}

# Sets as_root to what apt-get must be started with; stops where nothing would do.
become_root()
{
    as_root=''
    if [ "$(id -u)" -eq 0 ]; then
        return 0
    fi
    if ! command -v sudo >/dev/null 2>&1; then
        say "Neither root nor sudo is here. Let root run:"
        say "    apt-get install $*"
        exit 3
    fi
    as_root=sudo
    say "apt-get needs root, so sudo may ask for your password."
}

install_needed()
{
    say "Installing, to build and run twinscale${for_tests}: $*"
    become_root "$@"
    apt_get update || say "apt-get update failed; going on with the lists that are here."
    if ! apt_get install -y --no-install-recommends "$@"; then
        say "apt-get could not install: $*"
        exit 3
    fi
}

# One by one, so that one that cannot be had does not keep the others away.
install_optional()
{
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1; then
        return 0
    fi
    for package in "$@"; do
        say "Installing, because it makes the first run better: $package"
        become_root
        apt_get install -y --no-install-recommends "$package" ||
            say "Going on without $package."
    done
}

install_with_apt_get()
{
    # shellcheck disable=SC2046,SC2086 # lists of words
    set -- $(missing_packages $build_packages $wanted_test_packages)
    [ $# -eq 0 ] || install_needed "$@"
    # shellcheck disable=SC2046,SC2086
    set -- $(known_packages $(missing_packages $optional_packages))
    [ $# -eq 0 ] || install_optional "$@"
}

# Those of the programs given that are not in PATH.
missing_programs()
{
    for program in "$@"; do
        command -v "$program" >/dev/null 2>&1 || printf ' %s' "$program"
    done
}

missing_libraries()
{
    for library in "$@"; do
        pkg-config --exists "$library" 2>/dev/null || printf ' %s' "$library"
    done
}

name_what_is_missing()
{
    # shellcheck disable=SC2086
    programs=$(missing_programs $build_programs $wanted_test_programs)
    # shellcheck disable=SC2086
    libraries=$(missing_libraries $build_libraries $wanted_test_libraries)
    if [ -z "$programs$libraries" ]; then
        return 0
    fi
    say "This system has no apt-get, so please install what is missing${for_tests}:"
    if [ -n "$programs" ]; then
        say "    programs:$programs"
    fi
    if [ -n "$libraries" ]; then
        say "    libraries with their headers (pkg-config names):$libraries"
    fi
    exit 3
}

# A second compiler reads the sources, and where there is a CUDA toolkit those of the GPU too; an
# emulator runs the kernels for AVX2 on a CPU that lacks it.
if [ "${1-}" = --tests ]; then
    optional_packages="$optional_packages clang"
    ! grep -q '^flags' /proc/cpuinfo 2>/dev/null || grep -qw avx2 /proc/cpuinfo ||
        optional_packages="$optional_packages qemu-user"
fi
if [ "${1-}" = --tests ] && command -v nvcc >/dev/null 2>&1; then
    optional_packages="$optional_packages clang-19"
fi

wanted_test_packages='' wanted_test_programs='' wanted_test_libraries='' for_tests=''
case "${1-}" in
"") ;;
--tests)
    wanted_test_packages=$test_packages
    wanted_test_programs=$test_programs
    wanted_test_libraries=$test_libraries
    for_tests=" and its tests"
    ;;
*)
    say "install_packages.sh: \"$1\" is not an option; the only one is --tests"
    exit 2
    ;;
esac

if command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then
    install_with_apt_get
else
    name_what_is_missing
fi
