#!/bin/sh
# The host's own suites over a plugin, on the CUDA plugin over the stand-in driver: the plugin brings the
# EP, and its memory is out of the CPU's reach. Tests of what only the CPU EP can do skip themselves. Each
# process ends with a driver that holds nothing.
set -eu
MEMBRANE_TEST_PLUGIN=plugins/cuda/libmembrane-cuda.so
LD_LIBRARY_PATH=$PWD/tests/standin
STANDIN_CLEAN=1
STANDIN_GRANULE_MIN_BYTES=65536
STANDIN_GRANULE_RECOMMENDED_BYTES=2097152
export MEMBRANE_TEST_PLUGIN LD_LIBRARY_PATH STANDIN_CLEAN STANDIN_GRANULE_MIN_BYTES STANDIN_GRANULE_RECOMMENDED_BYTES
for suite in bind close fork holder identity log request shared ticket trim walk; do
    tests/unit/bind/${suite}_test --gtest_brief=1
done
