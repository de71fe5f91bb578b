"""Where a bad plugin lies for a test: copied out of the build, because one of them removes its own file."""

import os
import shutil

BUILT = os.path.abspath("tests/badplugins")
MODES = {"writable_by_all": 0o777}


def put(fault, folder):
    """The path of the plugin with this fault, in this folder with what it wants beside it."""
    built = os.path.join(BUILT, fault)
    for name in os.listdir(built):
        path = shutil.copy(os.path.join(built, name), folder)
        if name.startswith("libmembrane-"):
            plugin = path
    os.chmod(plugin, MODES.get(fault, 0o755))
    return plugin
