#!/bin/sh
# Which device a program uses is one value of its configuration: the same replay on the host plugin, CUDA's
# and HIP's, both over their stand-ins. What a page is differs, and what became of the requests does not.
set -eu
LD_LIBRARY_PATH=$PWD/tests/standin:$PWD/tests/standin/hip
STANDIN_CLEAN=1
STANDIN_HIP_REFUSES_ACCESS=5
export LD_LIBRARY_PATH STANDIN_CLEAN STANDIN_HIP_REFUSES_ACCESS
for name in host cuda hip; do
    tools/membrane replay tools/cli/trace/sample.jsonl --plugin "plugins/$name/libmembrane-$name.so" --trust \
        --budget 512MiB --max-requests 60 --model layers=8,heads=2,dim=64,bytes=2,planes=2 >"$name.txt"
    grep -q 'marks written, .* read back, all as written' "$name.txt" || { cat "$name.txt"; exit 1; }
    grep -q '0 mapped, 0 owned, 0 reservations; audit clean' "$name.txt" || { cat "$name.txt"; exit 1; }
    grep '^requests ' "$name.txt" >"$name.requests"
    cmp host.requests "$name.requests"
done
