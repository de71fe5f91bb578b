#!/bin/sh
# Runs an example of the docs with the shared object and the plugin as they would be installed, and
# compares what it prints.
set -eu
program=$1 library=$2 plugin=$3 expected=$4
place=$(mktemp -d "${TEST_TMPDIR:-/tmp}/example.XXXXXX")
trap 'rm -rf "$place"' EXIT
mkdir -m 755 "$place/plugins" "$place/lib"
install -m 644 "$plugin" "$place/plugins/"
install -m 644 "$library" "$place/lib/libmembrane.so.0"
LD_LIBRARY_PATH=$place/lib MEMBRANE_PLUGIN_PATH=$place/plugins "$program" > "$place/printed"
diff "$expected" "$place/printed"

# Without the plugin it says where it looked, in one line.
if LD_LIBRARY_PATH=$place/lib MEMBRANE_PLUGIN_PATH=$place/lib "$program" 2> "$place/said"; then
    echo "the example went on without a plugin"
    exit 1
fi
test "$(wc -l < "$place/said")" -eq 1
grep -q host "$place/said"
