#!/bin/sh
# A process with more rights than its user's (AT_SECURE) ignores what its user can set. Runs outside
# of the sandbox, whose user namespace has one group only.
set -eu
if [ "$(id -u)" != 0 ]; then
    echo "SKIP: not root, so there is no other group to take on"
    exit 0
fi
folder=$(mktemp -d "${TEST_TMPDIR:?}/elevated.XXXXXX")
chmod 755 "$folder"
mkdir -p "$folder/membrane/plugins"
cp tests/unit/loader/specimen_good.so "$folder/libmembrane-specimen.so"
cp tests/unit/loader/specimen_good.so "$folder/membrane/plugins/libmembrane-specimen.so"
chmod 755 "$folder/membrane" "$folder/membrane/plugins"
chmod 644 "$folder/libmembrane-specimen.so" "$folder/membrane/plugins/libmembrane-specimen.so"

list() {
    env MEMBRANE_PLUGIN_PATH="$folder" XDG_DATA_HOME="$folder" XDG_DATA_DIRS="$folder" HOME="$folder" \
        "$@" tools/membrane plugins --explain
}

list | grep -q "$folder/libmembrane-specimen.so" || { echo "not found without elevation" >&2; exit 1; }
# Not in the pipe, which would hide that setpriv did not run at all.
list setpriv --egid 65534 --keep-groups >"$folder/elevated" || {
    echo "setpriv, or the listing by an elevated process, failed" >&2
    exit 1
}
if grep "$folder" "$folder/elevated"; then
    echo "an elevated process looked where its user pointed" >&2
    exit 1
fi
