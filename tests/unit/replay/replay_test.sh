#!/bin/sh
# The command as a user runs it; the checks are in the script beside it that is named first.
exec /usr/bin/python3 -B "$(dirname "$0")/$1" "$2"
