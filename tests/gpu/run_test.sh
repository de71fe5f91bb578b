#!/bin/sh
# Runs the scripts of tools/gpu over the stand-in; the checks are in run_test.py.
export LD_LIBRARY_PATH="$PWD/tests/standin" STANDIN_CONTENT=zeros STANDIN_GRANULE_MIN_BYTES=65536
exec /usr/bin/python3 -B tests/gpu/run_test.py
