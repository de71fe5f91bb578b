#!/bin/sh
# The host plugin is conformant at level 4, and so is the template that authors start from.
set -eu
tools/membrane-check --self-test
tools/membrane-check plugins/host/libmembrane-host.so --level 4
tools/membrane-check plugins/template/libmembrane-template.so --level 4
