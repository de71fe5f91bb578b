#!/bin/bash
# The options that come by the environment, as a whole program sees them: environment_test.sh CONTRACT LIBRARY
set -u
contract=$1
library=$2
failed=0

# expect WHAT WORD ROW NAME=VALUE...: the row's line has the word in it, with these options.
expect() {
    local what=$1 word=$2 row=$3 line
    shift 3
    line=$(env "$@" "$contract" --library "$library" --only "$row " 2>&1)
    [[ $line == *"$word"* ]] || { echo "FAIL: $what: no '$word' in: $line"; failed=1; }
}

expect "one fault" "D19.twice release-twice-and-of-nothing -> OK, UNKNOWN, INVALID_VALUE" D19.twice \
    STANDIN_FAULTS="cuMemRelease:2:once:before:999"
expect "a fault after its effect" "-> UNKNOWN, INVALID_VALUE, INVALID_VALUE" D19.twice \
    STANDIN_FAULTS="cuMemRelease:1:once:after:999"
expect "two faults" "-> UNKNOWN, OUT_OF_MEMORY, INVALID_VALUE" D19.twice \
    STANDIN_FAULTS="cuMemRelease:1:once:after:999;cuMemRelease:2:once:before:2"
expect "a start that fails" "stopped by cu.init(0)" D4 STANDIN_START_CODE=803
expect "no device" "NO_DEVICE" D4 STANDIN_DEVICES=0
expect "no virtual memory" "-> OK, no, OK, yes" device.attributes STANDIN_NO_VIRTUAL_MEMORY=1
expect "a device lost as a whole" "DEVICE_UNAVAILABLE" D4 STANDIN_LOSE="0:2:46:whole"
expect "a context lost" "ECC_UNCORRECTABLE" D4 STANDIN_LOSE="0:4:214:context"
expect "a missing function" "lacks a function: cuMemGetAccess" D4 STANDIN_MISSING="cuMemHostGetFlags;cuMemGetAccess"
expect "no such function" "STANDIN_MISSING is 'cuNone'" D4 STANDIN_MISSING=cuNone
expect "latency" "as before less it" D20 STANDIN_LATENCY="cuMemCreate:1000;*:1"
expect "released handles that map" "-> OK, OK" D12 STANDIN_MAPS_RELEASED=1
expect "a mode by hand" "-> OK, NOT_READY, OK, OK, NOT_READY" D29 STANDIN_MODE=manual
expect "no number" "STANDIN_DEVICES is 'two', and may be a number" D4 STANDIN_DEVICES=two
expect "no mode" "STANDIN_MODE is 'slow'" D4 STANDIN_MODE=slow
expect "no plan" "STANDIN_FAULTS is 'cuMemMap', and may be FUNCTION:CALL" D4 STANDIN_FAULTS=cuMemMap

STANDIN_JOURNAL=$TEST_TMPDIR/journal "$contract" --library "$library" --only "D5 " >/dev/null
for line in "cuInit 0" "cuMemCreate 1"; do
    grep -qx "$line" "$TEST_TMPDIR/journal" || { echo "FAIL: the journal has no line '$line'"; failed=1; }
done
exit "$failed"
