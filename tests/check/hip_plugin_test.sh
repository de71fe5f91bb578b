#!/bin/sh
# The HIP plugin over CUDA's driver, by the library that hands its calls on, is conformant at level 4 on
# device memory and on pinned memory. Without a runtime it says so.
set -eu
plugin=plugins/hip/libmembrane-hip.so
check() { tools/membrane-check "$plugin" "$@"; }

if check --level 1 --only OPN-001 >out.txt; then exit 1; fi
grep -q 'MBR_NO_DEVICE: no HIP runtime is installed: libamdhip64.so.7' out.txt

STANDIN_DEVICES=2
STANDIN_GRANULE_MIN_BYTES=65536
export STANDIN_DEVICES STANDIN_GRANULE_MIN_BYTES
LD_LIBRARY_PATH=$PWD/tests/standin:$PWD/tests/forward
export LD_LIBRARY_PATH
for mechanism in 3 1; do # device1, pinned0
    check --device $mechanism --level 4
done
