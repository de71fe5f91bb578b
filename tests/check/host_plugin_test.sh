#!/bin/sh
# The host plugin is conformant at level 4.
set -eu
tools/membrane-check plugins/host/libmembrane-host.so --level 4
