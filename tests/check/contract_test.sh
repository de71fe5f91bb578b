#!/bin/sh
# docs/contract.md is what the tool prints.
set -eu
tools/membrane-check --contract | diff -u docs/contract.md - || {
    echo "write it again: bazel-bin/tools/membrane-check --contract >docs/contract.md" >&2
    exit 1
}
