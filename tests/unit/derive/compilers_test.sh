#!/bin/sh
# The assertions in two C and two C++ units, linked together, by each compiler that is here.
# gcc is required; clang is named when it is missing.
set -eu
work="${TEST_TMPDIR:?}/units"
mkdir -p "$work"
cp tests/unit/derive/unit_main.cc "$work/"

check() {
    c="$1" cxx="$2"
    "$c" -std=gnu11 -Wall -Wextra -Werror -Iabi -I. -c tests/unit/derive/unit_c11.c -o "$work/c11.o"
    "$c" -std=c17 -pedantic -Wall -Wextra -Werror -Iabi -I. -c tests/unit/derive/unit_c17.c \
        -o "$work/c17.o"
    "$cxx" -std=c++17 -Wall -Wextra -Werror -Iabi -I. -c tests/unit/derive/unit_one.cc -o "$work/one.o"
    "$cxx" -std=c++17 -Wall -Wextra -Werror -Iabi -I. -c tests/unit/derive/unit_main.cc \
        -o "$work/main.o"
    "$cxx" "$work/c11.o" "$work/c17.o" "$work/one.o" "$work/main.o" -o "$work/units-$c"
    "$work/units-$c"
    echo "$c: compiled, linked, ran"
}

# A header with one field moved must not compile: the assertions are alive.
check_alive() {
    mkdir -p "$work/moved/abi/derive"
    cp -r abi/membrane "$work/moved/membrane"
    chmod -R u+w "$work/moved"
    sed 's/^MBR_LAYOUT_FIELD(mbr_outcome, value, 24, 8);/MBR_LAYOUT_FIELD(mbr_outcome, value, 32, 8);/' \
        abi/derive/layout_asserts.h >"$work/moved/abi/derive/layout_asserts.h"
    if "$1" -std=c17 -I"$work/moved" -c tests/unit/derive/unit_c17.c -o "$work/moved.o" 2>"$work/text"; then
        echo "$1: a wrong offset compiled" >&2
        exit 1
    fi
    grep -q 'offset of mbr_outcome.value' "$work/text"
}

check gcc g++
check_alive gcc
if command -v clang >/dev/null && command -v clang++ >/dev/null; then
    check clang clang++
    check_alive clang
else
    echo "clang: not installed, not checked"
fi
