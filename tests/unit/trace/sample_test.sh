#!/bin/sh
# The committed sample trace is what its generator writes, and the generator's --check notices when
# it is not.
set -eu
generator=tools/cli/trace/generate_sample.py
sample=tools/cli/trace/sample.jsonl
folder=$TEST_TMPDIR

/usr/bin/python3 -B "$generator" --check "$sample"

/usr/bin/python3 -B "$generator" "$folder/again.jsonl"
cmp "$sample" "$folder/again.jsonl"

sed '200s/"output_length": /&1/' "$sample" >"$folder/other.jsonl"
if /usr/bin/python3 -B "$generator" --check "$folder/other.jsonl" 2>"$folder/said"; then
    echo "a changed sample passed --check" >&2
    exit 1
fi
grep -q "is not what generate_sample.py writes" "$folder/said"
