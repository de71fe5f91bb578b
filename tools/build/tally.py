#!/usr/bin/python3
"""Counts the test cases of one Bazel run and prints `N passed, N failed` last.

Reads the run's build events (--build_event_json_file), which name exactly the tests of this run and
where each left its report; the folder of reports itself may hold those of earlier runs. Judges
nothing: a target that Bazel calls failed counts as failed even where each of its cases passed.
"""

import argparse
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.failed_names = []

    def fail(self, name):
        self.failed += 1
        self.failed_names.append(name)


def report_path(result):
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.xml" and output.get("uri", "").startswith("file://"):
            return urllib.parse.unquote(output["uri"][len("file://"):])
    return None


def cases_of(path):
    """The cases of one report, each (name, 'passed' | 'failed' | 'skipped'), or None if unreadable."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, TypeError, ElementTree.ParseError):
        return None
    cases = []
    for case in root.iter("testcase"):
        name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
        if case.find("failure") is not None or case.find("error") is not None:
            cases.append((name, "failed"))
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            cases.append((name, "skipped"))
        else:
            cases.append((name, "passed"))
    return cases


def count_result(tally, label, result):
    """Adds the cases of one run of one test program."""
    program_passed = result.get("status") in ("PASSED", "FLAKY")
    failed_before = tally.failed
    for name, outcome in cases_of(report_path(result)) or ([("", "passed")] if program_passed else []):
        if outcome == "failed":
            tally.fail(f"{label} {name}".rstrip())
        elif outcome == "skipped":
            tally.skipped += 1
        else:
            tally.passed += 1
    if not program_passed and tally.failed == failed_before:
        tally.fail(f"{label} ({result.get('status', 'NO_STATUS')})")


def count_events(tally, lines):
    ran = set()
    summaries = {}
    unbuilt = set()
    for line in lines:
        event = json.loads(line)
        identity = event.get("id", {})
        if "testResult" in event and "testResult" in identity:
            label = identity["testResult"]["label"]
            ran.add(label)
            count_result(tally, label, event["testResult"])
        elif "testSummary" in event and "testSummary" in identity:
            summaries[identity["testSummary"]["label"]] = event["testSummary"].get("overallStatus")
        elif "completed" in event and not event["completed"].get("success"):
            unbuilt.add(identity["targetCompleted"]["label"])
    for label in sorted(unbuilt):
        tally.fail(f"{label} (does not build)")
    for label, status in summaries.items():
        if label not in ran and label not in unbuilt:
            tally.fail(f"{label} ({status})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--status", type=int, default=0, help="the exit status of Bazel")
    parser.add_argument("events", help="what --build_event_json_file wrote")
    options = parser.parse_args()

    tally = Tally()
    try:
        with open(options.events, encoding="utf-8") as lines:
            count_events(tally, lines)
    except (OSError, ValueError) as error:
        print(f"tally: {options.events}: {error}", file=sys.stderr)
    if options.status != 0 and tally.failed == 0:
        tally.fail(f"bazel itself (exit status {options.status})")

    for name in tally.failed_names:
        print(f"failed: {name}")
    if tally.skipped:
        print(f"{tally.skipped} skipped (each says why in its log)")
    print(f"{tally.passed} passed, {tally.failed} failed")


if __name__ == "__main__":
    main()
