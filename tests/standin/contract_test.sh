#!/bin/bash
# The whole contract table over the stand-in: contract_test.sh CONTRACT LIBRARY
set -u
"$1" --library "$2" --transcript "$TEST_TMPDIR/transcript" --json "$TEST_TMPDIR/json" || exit 1
rows=$(wc -l <"$TEST_TMPDIR/transcript")
[ "$rows" -ge 170 ] || { echo "only $rows rows ran"; exit 1; }
/usr/bin/python3 -c 'import json, sys; rows = json.load(open(sys.argv[1]))["rows"]
assert len(rows) == int(sys.argv[2]) and all(row["is_right"] for row in rows)' "$TEST_TMPDIR/json" "$rows"
