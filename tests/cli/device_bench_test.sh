#!/bin/sh
# Every row of `membrane bench --device` runs over the stand-in driver, on two small devices of small
# granules. No figure is judged.
export LD_LIBRARY_PATH=tests/standin STANDIN_CAPACITY_BYTES=1073741824 STANDIN_CONTENT=zeros
export STANDIN_GRANULE_MIN_BYTES=65536 STANDIN_DEVICES=2
bench() {
    tools/membrane bench --device --quick --trust --plugin ./plugins/cuda/libmembrane-cuda.so "$@"
}
bench || exit 1
# On one device the row that wants two is left out, and refused where it is named; a plugin that
# cannot be opened is told.
STANDIN_DEVICES=1
bench 2>&1 | grep -q 'P20 is left out' || exit 1
bench --only P20 && exit 1
bench --only P3 || exit 1
! bench --only P3 --plugin ./absent.so
