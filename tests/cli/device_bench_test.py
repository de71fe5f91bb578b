"""Every row of `membrane bench --device` over the stand-in driver. No time is judged there; driver calls and owned bytes
are the driver's own counts, and the same on a card."""

import json
import os
import subprocess
import sys
import unittest

PLUGIN = "./" + sys.argv.pop(2)
PROGRAM = sys.argv.pop(1)

# Of an operation: ours, theirs. A quick run is smaller; of one handle each: a map and one access, beside the create
# where it is cold.
CALLS = {"P1b": (3, 192), "P2b": (2, 192), "P3": (0, 5), "P4a": (5, 5), "P4b": (3, 3), "P5a": (2, 4), "P5b": (0, 4),
         "P13a": (0, 4), "P13b": (2, 4), "P20": (1, 2)}


def bench(*arguments, devices=2, plugin=PLUGIN):
    return subprocess.run([PROGRAM, "bench", "--device", "--quick", "--trust", "--plugin", plugin, *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False,
                          env=dict(os.environ, STANDIN_DEVICES=str(devices)))


class Rows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done = bench("--format", "json")
        cls.rows = {row["id"]: row for row in json.loads(cls.done.stdout or "[]")}

    def test_every_row_runs(self):
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""))

    def test_driver_calls_of_an_operation(self):
        for name, (ours, theirs) in CALLS.items():
            row = self.rows[name]
            self.assertEqual((row["calls"], row["against_calls"]), (ours, theirs), name)

    def test_sharers_own_what_one_copy_takes(self):
        row = self.rows["P12"]
        self.assertEqual(row["against_owned_bytes"], 64 * row["owned_bytes"])

    def test_growth_owns_no_second_copy(self):
        row = self.rows["P6"]
        self.assertEqual(row["against_owned_bytes"], 2 * row["owned_bytes"])


class Choosing(unittest.TestCase):
    def test_on_one_device_the_row_of_two_is_left_out_and_refused_where_it_is_named(self):
        done = bench(devices=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("P20 is left out", done.stdout + done.stderr)
        self.assertNotEqual(bench("--only", "P20", devices=1).returncode, 0)
        self.assertEqual(bench("--only", "P3", devices=1).returncode, 0)

    def test_a_plugin_that_cannot_be_opened_is_told(self):
        self.assertNotEqual(bench("--only", "P3", plugin="./absent.so").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
