#!/bin/sh
# Runs a suite's program with what tests/support/plugin.bzl says of the plugin that it runs on:
#   run_on.sh NAME=VALUE... PROGRAM ARGUMENT...
set -eu
exec env "$@"
