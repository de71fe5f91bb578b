#!/bin/sh
# Runs the rules on planted faults, with the Python that every Debian set-up has.
exec /usr/bin/python3 -B tools/lint/lint_test.py
