#!/bin/sh
# The checks of threads, in the build that the test is for: under ThreadSanitizer a race in the tool, or in
# a plugin that has none, ends its check. A check's process ends without closing, so that threads of ended
# streams are still to be joined.
set -eu
export TSAN_OPTIONS="${TSAN_OPTIONS:-}:report_thread_leaks=0"
tools/membrane-check plugins/host/libmembrane-host.so --only 'THR-*' --timeout 120
tools/membrane-check tests/badplugins/none/libmembrane-bad.so --only 'THR-*' --timeout 120
