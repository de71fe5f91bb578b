"""Each bad plugin is failed by its named check, and by no other: each check is needed.

Usage: run.py MEMBRANE_CHECK TABLE

The table has each fault with its check, or with several and blanks between. Each fault's plugin is judged
twice: by its check alone, which must find it; and with that check taken out, up to its level, when nothing
may find it. So a tool without that check would pass the plugin, and this test would tell. The plugin
without a fault has no finding. The table names every check that there is: a check that no plugin fails is
not known to see anything.

All checks for all faults take minutes: besides those of its check's group, where another is likely to
find it too, each fault meets a tenth of the checks, another tenth than the next fault, and one of level 4
or 5 a fiftieth, up to level 4. With BAD_WHOLE=1 each meets all of them.
"""

import json
import os
import subprocess
import sys
import tempfile

import specimen

TIMEOUT_S = "20" # nothing that ends comes near it, also on a busy machine
HANG_TIMEOUT_S = "3" # of faults whose name has "hang" in it
ENVIRONMENT = {"needs_host_library": {"LD_LIBRARY_PATH": "."}} # where the plugin finds it
CONFORMANT, INCOMPLETE = 0, 4 # exit codes
COSTLY_LEVEL, SOAK_LEVEL = 4, 5
PART, COSTLY_PART = 10, 50 # one of so many checks of other groups
GOOD_LEVEL = 3 # of the plugin without a fault here; //tests/badplugins:good has level 4


def levels_of(tool):
    listed = subprocess.run([tool, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[0]: int(line.split()[2]) for line in listed.splitlines()}


def findings(tool, fault, arguments):
    timeout = HANG_TIMEOUT_S if "hang" in fault else TIMEOUT_S
    with tempfile.TemporaryDirectory() as folder:
        plugin = specimen.put(fault, folder)
        done = subprocess.run(
            [tool, plugin, "--format", "json", "--timeout", timeout] + arguments,
            stdout=subprocess.PIPE, text=True, check=False, cwd=folder,
            env={**os.environ, **ENVIRONMENT.get(fault, {})})
    report = json.loads(done.stdout)
    return report, {finding["id"]: finding for finding in report["findings"]}


def others(number, checks, levels):
    """The arguments for the checks that a fault meets besides its own."""
    left_out = [argument for check in checks for argument in ("--skip", check)]
    if os.environ.get("BAD_WHOLE"):
        return left_out
    costly = max(levels[check] for check in checks) >= COSTLY_LEVEL
    part = COSTLY_PART if costly else PART
    groups = sorted({check.split("-")[0] + "-*" for check in checks})
    globs = groups + list(levels)[number % part::part]
    return left_out + [argument for glob in globs for argument in ("--only", glob)]


def told(found):
    return [f"{name}: {one['observed'][:150]}" for name, one in found.items()] or "nothing"


def judge(tool, fault, named, levels, number):
    """What is wrong, or None."""
    checks = named.split()
    unknown = [check for check in checks if check not in levels]
    if unknown:
        return f"{unknown} is no check"
    alone = [argument for check in checks for argument in ("--only", check)]
    found = findings(tool, fault, ["--level", "5"] + alone)[1]
    if set(found) != set(checks):
        return f"wanted {named}, found {told(found)}"
    level = max(levels[check] for check in checks)
    if not os.environ.get("BAD_WHOLE"):
        level = min(level, SOAK_LEVEL - 1)
    report, found = findings(tool, fault, ["--level", str(level)] + others(number, checks, levels))
    if found:
        return f"wanted {named} alone, found as well {told(found)}"
    if report["exit_code"] not in (CONFORMANT, INCOMPLETE):
        return f"without {named} the tool ends with {report['exit_code']}"
    return None


def unnamed(rows, levels):
    """The checks that no fault of the table is for."""
    return sorted(set(levels) - {check for _, named in rows for check in named.split()})


def share_of(rows):
    """This shard's part of the table."""
    count = int(os.environ.get("TEST_TOTAL_SHARDS", "1"))
    index = int(os.environ.get("TEST_SHARD_INDEX", "0"))
    status = os.environ.get("TEST_SHARD_STATUS_FILE")
    if status:
        open(status, "w", encoding="utf-8").close()
    return rows[index::count], index == 0


def main():
    tool, table = (os.path.abspath(path) for path in sys.argv[1:])
    with open(table, encoding="utf-8") as file:
        table = list(json.load(file).items())
    rows, is_first = share_of(table)
    only = os.environ.get("BAD_FAULTS") # a comma-separated list, while one is written
    if only:
        rows = [row for row in rows if row[0] in only.split(",")]
    levels = levels_of(tool)
    bad = 0
    if is_first:
        for check in unnamed(table, levels):
            print(f"{check}: no plugin of the table fails it")
            bad += 1
    if is_first and not only:
        report, found = findings(tool, "none", ["--level", str(GOOD_LEVEL)])
        if found or report["exit_code"] != 0:
            print(f"the plugin without a fault: {json.dumps(report, indent=1)}")
            bad += 1
    for number, (fault, check) in enumerate(rows):
        wrong = judge(tool, fault, check, levels, number)
        if wrong:
            print(f"{fault}: {wrong}")
            bad += 1
    print(f"{len(rows)} faults, {bad} not as the table says")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
