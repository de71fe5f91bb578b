#!/bin/sh
# The server as a user runs it; the checks are in server_test.py.
exec /usr/bin/python3 -B tests/server/server_test.py "$@"
