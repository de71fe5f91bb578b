#!/bin/sh
# The plugin without a fault offers every capability and is conformant at level 4.
set -eu
tools/membrane-check tests/badplugins/none/libmembrane-bad.so --level 4
