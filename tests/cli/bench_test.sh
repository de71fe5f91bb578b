#!/bin/sh
# Runs the program as a user does; the checks are in bench_test.py.
exec /usr/bin/python3 -B tests/cli/bench_test.py tools/membrane plugins/host/libmembrane-host.so
