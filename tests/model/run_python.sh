#!/bin/sh
# Runs a Python test with the system's interpreter (a clean Debian has no `python`).
exec /usr/bin/python3 -B "$@"
