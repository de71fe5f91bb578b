#!/bin/sh
# Writes golden.txt anew: how often each scenario makes each call. Look at what has changed.
set -eu
cd "$(dirname "$0")/../.."
bazel build --noshow_progress //tests/faults:sweep_sample_test
work=$(mktemp -d)
(
    cd bazel-bin/tests/faults/sweep_sample_test.runfiles/membrane
    TEST_TMPDIR=$work MEMBRANE_FAULT=none MEMBRANE_FAULT_GOLDEN=$work/golden \
        tests/faults/sweep_sample_test --gtest_filter='Faults/*' >"$work/log" || { cat "$work/log"; exit 1; }
)
LC_ALL=C sort "$work/golden" >tests/faults/golden.txt
rm -r "$work"
git diff --stat -- tests/faults/golden.txt
