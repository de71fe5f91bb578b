#!/bin/sh
# `membrane` on a GPU's plugin, as a user runs it: typed answers without a driver, and with the stand-in one a
# plugin that loads, is described, and replays a trace whose contents are checked through the EP.
#
#   tools_test.sh NAME FOLDER ANSWER    the plugin, where its driver is, and what it says where there is none
set -eu
name=$1
answer=$3
folder=$TEST_TMPDIR/plugins # a folder of one's own, as the trust rule wants it
mkdir -m 0755 "$folder"
install -m 0755 "plugins/$name/libmembrane-$name.so" "$folder"
export MEMBRANE_PLUGIN_PATH="$folder"

fail() { echo "$1" >&2; exit 1; }
replay() {
    tools/membrane replay tools/cli/trace/sample.jsonl --plugin "$name" --budget 256MiB --max-requests 60 \
        --model layers=8,heads=2,dim=64,bytes=2,planes=2 "$@"
}

# A machine may have a driver of its own.
for library in libcuda.so.1 libamdhip64.so.7 libamdhip64.so.6 libamdhip64.so; do
    mkdir -p "none/$library"
done
LD_LIBRARY_PATH=none
export LD_LIBRARY_PATH
tools/membrane plugins --probe | grep -q 'probe: loads' || fail "does not load without a driver"
tools/membrane inspect "$name" | grep -q "no mechanism .*$answer" || fail "inspect, no driver"
if replay >replay.txt 2>&1; then fail "replay without a driver"; fi
grep -q "$answer" replay.txt || fail "replay says: $(cat replay.txt)"

LD_LIBRARY_PATH=$PWD/$2
STANDIN_CLEAN=1
STANDIN_GRANULE_MIN_BYTES=65536
export STANDIN_CLEAN STANDIN_GRANULE_MIN_BYTES
tools/membrane inspect "$name" >inspect.txt
grep -q 'mechanism device0: .*its own memory' inspect.txt || fail "inspect: $(cat inspect.txt)"
grep -q 'capabilities *allocator, virtual, shared, order, transfer' inspect.txt || fail "inspect: $(cat inspect.txt)"
replay --verify --fork-every 10 --sleep-every 15 --weights 8MiB >replay.txt
grep -q 'marks written, .* read back, all as written' replay.txt || fail "replay: $(cat replay.txt)"
grep -q 'caches  *slept and woke [1-9].* refused 0 times, begun anew 0 times' replay.txt || fail "replay: $(cat replay.txt)"
grep -q 'at the end 0 bytes charged, 0 mapped, 0 owned, 0 reservations; audit clean' replay.txt ||
    fail "replay: $(cat replay.txt)"
