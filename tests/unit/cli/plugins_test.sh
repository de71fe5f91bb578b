#!/bin/sh
# Runs the program as a user does; the checks are in plugins_test.py.
exec /usr/bin/python3 -B tests/unit/cli/plugins_test.py tools/membrane
