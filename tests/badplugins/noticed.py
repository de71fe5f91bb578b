"""run.py fails where a check is gone: dropped from the kit, asleep, or without a plugin that needs it.

Usage: noticed.py MEMBRANE_CHECK TABLE

Each case gives run.py a kit or a table with one thing changed, and wants it to fail with the check's name.
"""

import json
import os
import subprocess
import sys
import tempfile

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.py")
CHECK, FAULT = "ALC-066", "doubled_id_accepted" # the one plugin for it
PAIR = "thread_bound_release+unreserve_twice_accepted" # of ALC-018 and VIR-011

# The kit without a check: not in its list, or in its list and never run.
DROPPED = f"""#!/bin/sh
if [ "$1" = --list ]; then {{tool}} --list | grep -v '^{CHECK} '; else exec {{tool}} "$@" --skip {CHECK}; fi
"""
ASLEEP = f"""#!/bin/sh
if [ "$1" = --list ]; then exec {{tool}} --list; else exec {{tool}} "$@" --skip {CHECK}; fi
"""


def judged(tool, table, fault):
    """What run.py says of one fault; a pair meets the other one's group, too."""
    environment = {"PATH": os.environ["PATH"], "BAD_FAULTS": fault}
    if fault == PAIR:
        environment["BAD_WHOLE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, "faults.json")
        with open(written, "w", encoding="utf-8") as file:
            json.dump(table, file)
        return subprocess.run(
            [sys.executable, "-B", RUN, tool, written], stdout=subprocess.PIPE, text=True, check=False,
            env=environment)


def doctored(tool, script, folder, name):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(script.format(tool=tool))
    os.chmod(path, 0o755)
    return path


def main():
    tool, path = (os.path.abspath(path) for path in sys.argv[1:])
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    without = {fault: check for fault, check in table.items() if fault != FAULT}
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        dropped = doctored(tool, DROPPED, folder, "dropped")
        asleep = doctored(tool, ASLEEP, folder, "asleep")
        for kit, judged_table, fault, wanted in (
                (tool, table, FAULT, "1 faults, 0 not"),
                (dropped, table, FAULT, f"['{CHECK}'] is no check"),
                (asleep, table, FAULT, f"wanted {CHECK}, found nothing"),
                (tool, without, PAIR, f"{CHECK}: no plugin of the table fails it"),
                (tool, {**table, PAIR: "ALC-018"}, PAIR, "found as well ['VIR-011")):
            done = judged(kit, judged_table, fault)
            if wanted not in done.stdout or (done.returncode == 0) != (wanted == "1 faults, 0 not"):
                print(f"wanted '{wanted}'; run.py ended with {done.returncode}:\n{done.stdout}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
