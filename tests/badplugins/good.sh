#!/bin/sh
# The plugin without a fault offers every capability and is conformant at level 4.
set -eu
tools/membrane-check tests/badplugins/libmembrane-good.so --level 4
