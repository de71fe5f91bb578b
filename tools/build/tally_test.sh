#!/bin/sh
# Runs the counter on made-up build events, with the Python that every Debian set-up has.
exec /usr/bin/python3 -B tools/build/tally_test.py
