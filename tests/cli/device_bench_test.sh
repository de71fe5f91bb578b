#!/bin/sh
# Every row of `membrane bench --device` runs over the stand-in driver, on two small devices of small
# granules. No figure is judged.
export LD_LIBRARY_PATH=tests/standin STANDIN_CAPACITY_BYTES=1073741824 STANDIN_CONTENT=zeros
export STANDIN_GRANULE_MIN_BYTES=65536 STANDIN_DEVICES=2
exec tools/membrane bench --device --quick --trust --plugin ./plugins/cuda/libmembrane-cuda.so
