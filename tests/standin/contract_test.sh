#!/bin/bash
# The whole contract table over the stand-in, with the options that a driver is most like and with others:
# contract_test.sh CONTRACT LIBRARY TRANSCRIPT
set -u
# Rows with a process of their own are many: none of them need wait for reports at its end.
export TSAN_OPTIONS="${TSAN_OPTIONS:-} atexit_sleep_ms=0"

table() {
    echo "== $*"
    env "$@" "$contract" --library "$library" --transcript "$TEST_TMPDIR/transcript" --json "$TEST_TMPDIR/json"
}

contract=$1
library=$2
recorded=$3
table STANDIN_CONTENT=poison || exit 1
rows=$(wc -l <"$TEST_TMPDIR/transcript")
[ "$rows" -ge 170 ] || { echo "only $rows rows ran"; exit 1; }
/usr/bin/python3 -c 'import json, sys; rows = json.load(open(sys.argv[1]))["rows"]
assert len(rows) == int(sys.argv[2]) and all(row["is_right"] for row in rows)' "$TEST_TMPDIR/json" "$rows" || exit 1
# What a card answered: row by row the same, but where the stand-in ends the process for a misuse.
awk -F ' -> ' '/^#/ { next }
    NR == FNR { here[$1] = $2; next }
    !($1 in here) { print "no row any more: " $1; wrong++; next }
    here[$1] != $2 && here[$1] != "ended by SIGABRT" { print $0; print "    here: " here[$1]; wrong++; next }
    { same++ }
    END { print same " rows as on the card"; exit wrong > 0 || same < 170 }' \
    "$TEST_TMPDIR/transcript" "$recorded" || exit 1
table STANDIN_GRANULE_MIN_BYTES=65536 STANDIN_GRANULE_RECOMMENDED_BYTES=262144 STANDIN_DEVICES=2 \
    STANDIN_CAPACITY_BYTES=67108864 STANDIN_ADDRESSES=rising STANDIN_CONTENT=zeros || exit 1
# A driver that answers otherwise is seen.
broken=$(STANDIN_FAULTS=cuMemUnmap:1:sticky:before:999 "$contract" --library "$library" --only "D21 ") &&
    { echo "a broken driver passed"; exit 1; }
[[ $broken == *"D21 "*UNKNOWN*expected:* ]] || { echo "$broken"; exit 1; }
