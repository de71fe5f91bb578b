#!/bin/sh
exec /usr/bin/python3 -B tests/unit/cli/new_plugin_test.py tools/membrane abi/membrane tools/membrane-check
