#!/bin/sh
# A plugin that the guide and the headers led to is conformant at level 4.
set -eu
tools/membrane-check tests/author/libmembrane-anon.so --level 4
