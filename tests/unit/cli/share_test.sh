#!/bin/sh
# Runs the program as a user does; the checks are in share_test.py.
exec /usr/bin/python3 -B tests/unit/cli/share_test.py tools/membrane
