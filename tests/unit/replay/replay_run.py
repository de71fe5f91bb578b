"""Runs `membrane replay` over the real host plugin, for the tests of this folder."""

import json
import os
import subprocess

PROGRAM = os.path.abspath("tools/membrane")
PLUGIN = os.path.abspath("plugins/host/libmembrane-host.so")
EAGER = os.path.abspath("tests/support/libmembrane-eager.so")
SAMPLE = os.path.abspath("tools/cli/trace/sample.jsonl")
# Four KiB a token: the shape of a model, small enough for many requests in little memory.
SMALL = "layers=8,heads=2,dim=64,bytes=2,planes=2"


def run(*arguments, environment=None):
    whole = dict(os.environ)
    whole.pop("MEMBRANE_PLUGIN_PATH", None)
    whole.update(environment or {})
    return subprocess.run([PROGRAM, "replay", *arguments], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env=whole, timeout=600)


def replay(test, *arguments):
    """Runs with --trust (a runfiles tree is not ours to judge) and returns the JSON."""
    answer = run(*arguments, "--plugin", PLUGIN, "--trust", "--format", "json")
    test.assertEqual(answer.returncode, 0, answer.stderr)
    test.assertEqual(answer.stderr, "")  # no progress in a pipe
    return json.loads(answer.stdout)


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return path
