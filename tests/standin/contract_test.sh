#!/bin/bash
# The whole contract table over the stand-in, with the options that a driver is most like and with others:
# contract_test.sh CONTRACT LIBRARY RECORDED_PY TRANSCRIPT TRANSCRIPT_OF_TWO
set -u
# Rows with a process of their own are many: none of them need wait for reports at its end.
export TSAN_OPTIONS="${TSAN_OPTIONS:-} atexit_sleep_ms=0"

table() {
    echo "== $*"
    env "$@" "$contract" --library "$library" --transcript "$TEST_TMPDIR/transcript" --json "$TEST_TMPDIR/json"
}

# What cards answered is what the table expects of a driver, and the stand-in did the same; a transcript that is
# edited at one row is noticed: held JSON ROWS TRANSCRIPT ROW
held() {
    /usr/bin/python3 "$compare" "$1" "$2" "$3" || exit 1
    for edit in "/^$4 /d" "/^$4 /s/OK\$/NOT_READY/" "s/^$4 /$4.gone /"; do
        sed "$edit" "$3" >"$TEST_TMPDIR/edited"
        /usr/bin/python3 "$compare" "$1" "$2" "$TEST_TMPDIR/edited" >/dev/null &&
            { echo "a transcript with the edit $edit passed"; exit 1; }
    done
}

contract=$1
library=$2
compare=$3
recorded=$4
recorded_of_two=$5
table STANDIN_CONTENT=poison || exit 1
rows=$(wc -l <"$TEST_TMPDIR/transcript")
[ "$rows" -ge 170 ] || { echo "only $rows rows ran"; exit 1; }
held "$TEST_TMPDIR/json" "$rows" "$recorded" D21
# Rows that want two devices are asked of two, and else say why not.
two=$TEST_TMPDIR/two
STANDIN_DEVICES=2 "$contract" --library "$library" --only two. --transcript "$two.txt" --json "$two.json" || exit 1
rows_of_two=$(wc -l <"$two.txt")
[ "$rows_of_two" -ge 18 ] || { echo "only $rows_of_two rows of two devices ran"; exit 1; }
held "$two.json" "$rows_of_two" "$recorded_of_two" two.event
asked=$("$contract" --library "$library" --only two. --json "$two.json")
[[ $asked == *"two.list "*": not asked, this machine has one device"*"0 as expected"* ]] || { echo "$asked"; exit 1; }
grep -q '"two.list .*": "this machine has one device"' "$two.json" || { cat "$two.json"; exit 1; }
asked=$(STANDIN_DEVICES=2 STANDIN_NO_PEERS=1 "$contract" --library "$library" --only two.list)
[[ $asked == *": not asked, devices 0 and 1 do not reach"* ]] || { echo "$asked"; exit 1; }
table STANDIN_GRANULE_MIN_BYTES=65536 STANDIN_GRANULE_RECOMMENDED_BYTES=262144 STANDIN_DEVICES=2 \
    STANDIN_CAPACITY_BYTES=67108864 STANDIN_ADDRESSES=rising STANDIN_CONTENT=zeros || exit 1
table STANDIN_GRANULE_MIN_BYTES=4096 || exit 1
# Devices that run nothing before they are stepped or waited for: all but what is about a running kernel.
for mode in manual lazy; do
    table STANDIN_MODE=$mode STANDIN_DEVICES=2 || exit 1
    [ "$(wc -l <"$TEST_TMPDIR/transcript")" -eq $((rows + rows_of_two - 2)) ] || { echo "rows of a device by hand"; exit 1; }
done
# A driver that answers otherwise is seen.
broken=$(STANDIN_FAULTS=cuMemUnmap:1:sticky:before:999 "$contract" --library "$library" --only "D21 ") &&
    { echo "a broken driver passed"; exit 1; }
[[ $broken == *"D21 "*UNKNOWN*expected:* ]] || { echo "$broken"; exit 1; }
# A driver, which the stand-in without its own functions passes for, is not asked what it crashed at.
asked=$(STANDIN_MISSING=standin_assert_clean "$contract" --library "$library" --only "D1")
[[ $asked == *"D10 "*"D12 "*"D11 "*": not asked, a driver crashed at it"*"on a driver"* && $asked != *"D11 "*"->"* ]] || { echo "$asked"; exit 1; }
