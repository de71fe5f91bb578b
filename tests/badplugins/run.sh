#!/bin/sh
# Judges every bad plugin of the table; what is wanted is said in run.py.
exec /usr/bin/python3 -B tests/badplugins/run.py tools/membrane-check tests/badplugins/faults.json
