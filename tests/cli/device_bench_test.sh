#!/bin/sh
# On the stand-in driver: two small devices of small granules. The checks are in device_bench_test.py.
export LD_LIBRARY_PATH=tests/standin STANDIN_CAPACITY_BYTES=1073741824 STANDIN_CONTENT=zeros
export STANDIN_GRANULE_MIN_BYTES=65536 STANDIN_DEVICES=2
exec /usr/bin/python3 -B tests/cli/device_bench_test.py tools/membrane plugins/cuda/libmembrane-cuda.so
