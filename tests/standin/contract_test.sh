#!/bin/bash
# The whole contract table over the stand-in, with the options that a driver is most like and with others:
# contract_test.sh CONTRACT LIBRARY RECORDED_PY TRANSCRIPT
set -u
# Rows with a process of their own are many: none of them need wait for reports at its end.
export TSAN_OPTIONS="${TSAN_OPTIONS:-} atexit_sleep_ms=0"

table() {
    echo "== $*"
    env "$@" "$contract" --library "$library" --transcript "$TEST_TMPDIR/transcript" --json "$TEST_TMPDIR/json"
}

contract=$1
library=$2
compare=$3
recorded=$4
table STANDIN_CONTENT=poison || exit 1
rows=$(wc -l <"$TEST_TMPDIR/transcript")
[ "$rows" -ge 170 ] || { echo "only $rows rows ran"; exit 1; }
# What a card answered is what the table expects of a driver, and the stand-in did the same.
/usr/bin/python3 "$compare" "$TEST_TMPDIR/json" "$rows" "$recorded" || exit 1
for edit in '/^D21 /d' '/^D21 /s/OK$/NOT_READY/' 's/^D21 /D21.gone /'; do
    sed "$edit" "$recorded" >"$TEST_TMPDIR/edited"
    /usr/bin/python3 "$compare" "$TEST_TMPDIR/json" "$rows" "$TEST_TMPDIR/edited" >/dev/null &&
        { echo "a transcript with the edit $edit passed"; exit 1; }
done
table STANDIN_GRANULE_MIN_BYTES=65536 STANDIN_GRANULE_RECOMMENDED_BYTES=262144 STANDIN_DEVICES=2 \
    STANDIN_CAPACITY_BYTES=67108864 STANDIN_ADDRESSES=rising STANDIN_CONTENT=zeros || exit 1
table STANDIN_GRANULE_MIN_BYTES=4096 || exit 1
# A device that runs nothing before it is stepped or waited for: all but what is about a running kernel.
for mode in manual lazy; do
    table STANDIN_MODE=$mode || exit 1
    [ "$(wc -l <"$TEST_TMPDIR/transcript")" -eq $((rows - 2)) ] || { echo "rows of a device by hand"; exit 1; }
done
# A driver that answers otherwise is seen.
broken=$(STANDIN_FAULTS=cuMemUnmap:1:sticky:before:999 "$contract" --library "$library" --only "D21 ") &&
    { echo "a broken driver passed"; exit 1; }
[[ $broken == *"D21 "*UNKNOWN*expected:* ]] || { echo "$broken"; exit 1; }
# A driver, which the stand-in without its own functions passes for, is not asked what it crashed at.
asked=$(STANDIN_MISSING=standin_assert_clean "$contract" --library "$library" --only "D1")
[[ $asked == *"D10 "*"D12 "*"on a driver"* && $asked != *"D11 "* ]] || { echo "$asked"; exit 1; }
