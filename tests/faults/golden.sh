#!/bin/sh
# Writes golden.txt and each golden_DEVICE.txt anew: how often each scenario makes each call. Look at
# what has changed.
set -eu
cd "$(dirname "$0")/../.."
bazel build --noshow_progress //tests/faults:all
work=$(mktemp -d)
golden() { # FILE RUNFILES NAME=VALUE...
    file=$1
    runfiles=bazel-bin/tests/faults/$2.runfiles/membrane
    shift 2
    rm -f "$work/golden"
    (
        cd "$runfiles"
        env TEST_TMPDIR="$work" MEMBRANE_FAULT=none MEMBRANE_FAULT_GOLDEN="$work/golden" \
            "$@" tests/faults/sweep_test --gtest_filter='Faults/*' \
            "--plugin=tests/faults/libmembrane-seams${file#golden}.so" >"$work/log" || { cat "$work/log"; exit 1; }
    )
    LC_ALL=C sort "$work/golden" >"tests/faults/$file.txt"
}
golden golden sweep_test
golden golden_cuda sweep_test_cuda LD_LIBRARY_PATH=tests/standin
golden golden_hip sweep_test_hip LD_LIBRARY_PATH=tests/standin/hip STANDIN_HIP_OWN_LAST=1 STANDIN_HIP_FREES_LATE=1
rm -r "$work"
git diff --stat -- tests/faults/golden*.txt
