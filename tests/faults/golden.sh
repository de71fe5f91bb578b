#!/bin/sh
# Writes golden.txt and each golden_DEVICE.txt anew: how often each scenario makes each call. Look at
# what has changed.
set -eu
cd "$(dirname "$0")/../.."
bazel build --noshow_progress //tests/faults:all
work=$(mktemp -d)
golden() { # FILE PROGRAM...
    file=$1
    shift
    rm -f "$work/golden"
    (
        cd bazel-bin/tests/faults/sweep_test_cuda.runfiles/membrane
        TEST_TMPDIR=$work MEMBRANE_FAULT=none MEMBRANE_FAULT_GOLDEN=$work/golden \
            "$@" tests/faults/sweep_test --gtest_filter='Faults/*' \
            "--plugin=tests/faults/libmembrane-seams${file#golden}.so" >"$work/log" || { cat "$work/log"; exit 1; }
    )
    LC_ALL=C sort "$work/golden" >"tests/faults/$file.txt"
}
golden golden env
golden golden_cuda env LD_LIBRARY_PATH=tests/standin
rm -r "$work"
git diff --stat -- tests/faults/golden*.txt
