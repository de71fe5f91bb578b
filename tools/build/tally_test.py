"""The counter of test cases on build events whose right count is known."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TALLY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tally.py")

TWO_PASS = '<testsuites><testsuite><testcase name="A" status="run"/>' \
    '<testcase name="B" classname="S" status="run"/></testsuite></testsuites>'
ONE_FAILS = '<testsuites><testsuite><testcase name="A" status="run"/>' \
    '<testcase name="B" classname="S" status="run"><failure message="x"/></testcase>' \
    '</testsuite></testsuites>'
ONE_SKIPS = '<testsuites><testsuite><testcase name="A" status="run"/>' \
    '<testcase name="B" status="run"><skipped message="no card"/></testcase>' \
    '<testcase name="C" status="notrun"/></testsuite></testsuites>'


class Tally(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.reports = 0

    def result(self, label, status, xml):
        self.reports += 1
        path = os.path.join(self.folder, f"test {self.reports}.xml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(xml)
        uri = "file://" + path.replace(" ", "%20")
        output = [{"name": "test.log", "uri": "file:///none"}, {"name": "test.xml", "uri": uri}]
        return {"id": {"testResult": {"label": label}},
                "testResult": {"status": status, "testActionOutput": output}}

    @staticmethod
    def summary(label, status):
        return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}

    @staticmethod
    def completed(label, success):
        return {"id": {"targetCompleted": {"label": label}},
                "completed": {"success": True} if success else {"failureDetail": {}}}

    def run_tally(self, events, status=0):
        path = os.path.join(self.folder, "events.json")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
        done = subprocess.run(
            [sys.executable, "-B", TALLY, "--status", str(status), path],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        return done.stdout.splitlines()

    def test_tally_passed_programs_count_their_cases(self):
        lines = self.run_tally([
            self.completed("//a", True),
            self.result("//a", "PASSED", TWO_PASS), self.summary("//a", "PASSED"),
            self.result("//b", "PASSED", TWO_PASS), self.summary("//b", "PASSED")])
        self.assertEqual(lines, ["4 passed, 0 failed"])

    def test_tally_failed_case_is_named(self):
        lines = self.run_tally(
            [self.result("//a", "FAILED", ONE_FAILS), self.summary("//a", "FAILED")], status=3)
        self.assertEqual(lines, ["failed: //a S.B", "1 passed, 1 failed"])

    def test_tally_program_that_fails_after_its_cases_counts_as_failed(self):
        lines = self.run_tally([self.result("//a", "FAILED", TWO_PASS)], status=3)
        self.assertEqual(lines, ["failed: //a (FAILED)", "2 passed, 1 failed"])

    def test_tally_report_cut_short_counts_by_program(self):
        lines = self.run_tally([
            self.result("//a", "TIMEOUT", "<testsuites><test"),
            self.result("//b", "PASSED", "")], status=3)
        self.assertEqual(lines, ["failed: //a (TIMEOUT)", "1 passed, 1 failed"])

    def test_tally_skipped_cases_are_neither(self):
        lines = self.run_tally([self.result("//a", "PASSED", ONE_SKIPS)])
        self.assertEqual(lines[-1], "1 passed, 0 failed")
        self.assertTrue(lines[-2].startswith("2 skipped"))

    def test_tally_target_that_does_not_build_counts_once(self):
        lines = self.run_tally([
            self.completed("//a", False), self.summary("//a", "NO_STATUS"),
            self.completed("//lib", False)], status=1)
        self.assertEqual(
            lines, ["failed: //a (does not build)", "failed: //lib (does not build)",
                    "0 passed, 2 failed"])

    def test_tally_test_that_never_ran_counts_as_failed(self):
        lines = self.run_tally([self.summary("//a", "NO_STATUS")], status=1)
        self.assertEqual(lines, ["failed: //a (NO_STATUS)", "0 passed, 1 failed"])

    def test_tally_bazel_fails_before_any_test_counts_as_failed(self):
        self.assertEqual(
            self.run_tally([], status=2),
            ["failed: bazel itself (exit status 2)", "0 passed, 1 failed"])

    def test_tally_shards_of_one_test_add_up(self):
        lines = self.run_tally([
            self.result("//a", "PASSED", TWO_PASS), self.result("//a", "FAILED", ONE_FAILS),
            self.summary("//a", "FAILED")], status=3)
        self.assertEqual(lines[-1], "3 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
