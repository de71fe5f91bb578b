#!/bin/sh
# Runs the program as a user does; the checks are in ledger_test.py.
exec /usr/bin/python3 -B tests/unit/cli/ledger_test.py tools/membrane tests/unit/cli/ledger_member
