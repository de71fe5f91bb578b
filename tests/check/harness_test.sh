#!/bin/sh
# Runs the tool as a user does; the checks are in harness_test.py.
PYTHONPATH=tests/badplugins exec /usr/bin/python3 -B tests/check/harness_test.py
