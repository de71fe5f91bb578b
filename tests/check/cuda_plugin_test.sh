#!/bin/sh
# The CUDA plugin is conformant at level 4 on every mechanism of the stand-in driver: device memory on a
# device that has peers and a recommended granule above the least, pinned and unified memory; and device
# memory without the driver's virtual memory. Without a driver it says so.
set -eu
plugin=plugins/cuda/libmembrane-cuda.so
check() { tools/membrane-check "$plugin" "$@"; }

mkdir -p none/libcuda.so.1 # a machine may have a driver of its own
if LD_LIBRARY_PATH=none check --level 1 --only OPN-001 >out.txt; then exit 1; fi
grep -q 'MBR_NO_DEVICE: no CUDA driver is installed: none/libcuda.so.1' out.txt

LD_LIBRARY_PATH=$PWD/tests/standin
STANDIN_DEVICES=2
STANDIN_GRANULE_MIN_BYTES=65536
STANDIN_GRANULE_RECOMMENDED_BYTES=262144
export LD_LIBRARY_PATH STANDIN_DEVICES STANDIN_GRANULE_MIN_BYTES STANDIN_GRANULE_RECOMMENDED_BYTES
for mechanism in 3 1 2; do # device1, pinned0, unified0
    check --device $mechanism --level 4
done
STANDIN_NO_VIRTUAL_MEMORY=1 check --device 0 --level 4
# On a device that does nothing before it is waited for or asked.
STANDIN_MODE=lazy check --device 3 --level 4
