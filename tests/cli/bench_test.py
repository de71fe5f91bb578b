"""`membrane bench` from outside: rows, shape of the JSON, options, errors. No figure is judged."""

import json
import os
import re
import subprocess
import sys
import unittest

PLUGIN = "./" + sys.argv.pop(2)
PROGRAM = sys.argv.pop(1)

IDS = (["H1", "H2a", "H2b", "H3"] + ["H4" + letter for letter in "abcdefghijklmnop"] +
       ["H5a", "H5b", "H5c", "H5d", "H6", "H7a", "H7b", "K1", "H8a", "H8b", "H8c", "H8d", "H8e", "H9", "H10a", "H10b",
        "D1", "D2", "D3", "D4", "F1", "F2", "G1a", "G1b", "G1c", "G1d", "G1e", "G1f", "G1g", "G2a", "G2b", "G3", "L1",
        "R1", "R2"])
DEVICE_IDS = ["P1a", "P1b", "P4a", "P4b", "P2a", "P2b", "P3", "P5a", "P5b", "P6", "P7", "P8a", "P8b", "P9a",
              "P9b", "P10", "P11a", "P11b", "P12", "P13a", "P13b", "P13c", "P14a", "P14b", "P17a", "P17b",
              "P17c", "P17d", "P17e", "P18a", "P18b", "P18c", "P20"]
NO_FLOOR = {"H5d", "H10b", "G1f", "L1"}


def bench(*arguments, env=None):
    return subprocess.run([PROGRAM, "bench", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, check=False, env=env)


def quick(*arguments):
    return bench("--quick", "--plugin", PLUGIN, "--trust", *arguments)


class Rows(unittest.TestCase):
    """Each row runs; `--quick` makes no figure an error."""

    @classmethod
    def setUpClass(cls):
        done = quick("--format", "json")
        cls.done = done
        cls.rows = json.loads(done.stdout) if done.returncode == 0 else []

    def test_all_rows_come_in_order(self):
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""))
        self.assertEqual([row["id"] for row in self.rows], IDS)

    def test_every_row_has_the_documented_keys(self):
        for row in self.rows:
            for key, kind in (("id", str), ("what", str), ("value", float), ("unit", str),
                              ("against", str), ("ratio", float), ("goal", float),
                              ("verdict", str), ("note", str), ("median_unit", str)):
                self.assertIs(type(row[key]), kind, (row["id"], key))
            self.assertIn(type(row["floor"]), (float, type(None)))
            self.assertEqual(row["floor"] is None, row["id"] in NO_FLOOR)

    def test_both_sides_were_measured(self):
        for row in self.rows:
            for key in ("median", "p99", "against_median", "against_p99", "ratio"):
                self.assertGreater(row[key], 0, (row["id"], key))
            self.assertGreaterEqual(row["p99"], row["median"], row["id"])
            self.assertGreaterEqual(row["against_p99"], row["against_median"], row["id"])
            self.assertEqual(row["rounds"], 2)

    def test_verdict_follows_from_value_goal_and_floor(self):
        for row in self.rows:
            sign = 1 if row["better"] == "higher" else -1
            value, goal = sign * row["value"], sign * row["goal"]
            if value >= goal:
                expected = "goal"
            elif row["floor"] is None or value >= sign * row["floor"]:
                expected = "floor"
            else:
                expected = "below"
            self.assertEqual(row["verdict"], expected, row["id"])

    def test_values_are_what_the_unit_says(self):
        for row in self.rows:
            if row["unit"] in ("ns", "ms"):
                self.assertEqual(row["value"], row["median"], row["id"])
            elif row["unit"] == "ns p99":
                self.assertEqual(row["value"], row["p99"], row["id"])
            elif row["unit"] == "ns more":
                self.assertAlmostEqual(row["value"], row["median"] - row["against_median"],
                                       delta=0.01 + 1e-4 * row["median"])
            elif row["id"][:2] in ("H5", "H6"):
                self.assertEqual(row["value"], row["ratio"])
            else:
                self.assertIn(row["unit"], ("x", "calls/s"))

    def test_allocators_of_H4_are_named_or_said_to_be_absent(self):
        for row in (row for row in self.rows if row["id"].startswith("H4")):
            medians = {other["name"]: other["median"] for other in row["others"]}
            self.assertIn(row["against"], medians)
            self.assertIn("glibc", medians)
            for name in {"mimalloc", "jemalloc"} - set(medians):
                self.assertIn(name + " is absent", row["note"])
            if row["unit"] == "ns":  # of two that print alike, either may be the faster one
                self.assertEqual(medians[row["against"]], min(medians.values()))

    def test_slots_that_explain_a_figure_are_counted(self):
        calls = {row["id"]: row["calls"] for row in self.rows}
        self.assertEqual((calls["H5a"], calls["H7a"], calls["H7b"]), (0, 0, 0))
        # 16 extents of the pool: a map of each and one protect.
        self.assertEqual(calls["H5b"], 17)
        self.assertEqual(calls["H5c"], 33)
        self.assertEqual(calls["H6"], 48)

    def test_frees_that_wait_are_counted(self):
        notes = {row["id"]: row["note"] for row in self.rows if row["id"] in ("D1", "D2")}
        for row, note in notes.items():
            frees, signals, again = (int(number) for number in re.findall(r"\d+", note))
            self.assertLessEqual(signals, frees / 64 + 20, (row, note))  # a drain closes an epoch, too
            self.assertGreater(frees, 4096, (row, note))
            self.assertEqual(again > 0, row == "D2", (row, note))

    def test_growth_inside_an_extent_makes_no_system_call(self):
        for row in self.rows:
            if row["id"].startswith("H7"):
                self.assertRegex(row["note"], r"\A0 plugin calls, (0 system calls|system calls not "
                                              r"watched: this kernel cannot)\Z")


class Choosing(unittest.TestCase):
    def test_list_prints_every_row_and_measures_nothing(self):
        done = bench("--list", "--plugin", "./absent.so")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], IDS)
        self.assertIn("goal", done.stdout.splitlines()[0])

    def test_list_as_json(self):
        done = bench("--list", "--format", "json")
        rows = json.loads(done.stdout)
        self.assertEqual([row["id"] for row in rows], IDS)
        self.assertEqual(set(rows[0]),
                         {"id", "what", "unit", "against", "goal", "floor", "better"})

    def test_device_has_rows_of_its_own(self):
        done = bench("--list", "--device")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], DEVICE_IDS)

    def test_only_takes_a_glob(self):
        for glob, wanted in (("H1", ["H1"]), ("H2?", ["H2a", "H2b"]), ("H5[ab]", ["H5a", "H5b"])):
            done = bench("--list", "--format=json", "--only", glob)
            self.assertEqual([row["id"] for row in json.loads(done.stdout)], wanted)

    def test_only_runs_what_was_chosen(self):
        done = quick("--only", "H2a", "--format", "json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([row["id"] for row in json.loads(done.stdout)], ["H2a"])

    def test_human_output_has_both_medians_and_a_sum(self):
        done = quick("--only", "H[13]")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"\AH1 +(goal|floor|below) +\S+ ns more +\(goal <= 2\.00, ")
        self.assertRegex(lines[1], r"\A +membrane +median \S+ ns, p99 ")
        self.assertRegex(lines[2], r"\A +a direct call .* median \S+ ns, p99 ")
        self.assertRegex(lines[-1],
                         r"\A[0-2] at goal, [0-2] between floor and goal, [0-2] below\Z")


class Refusals(unittest.TestCase):
    def refuse(self, code, text, *arguments, **kwargs):
        done = bench(*arguments, **kwargs)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertTrue(done.stderr.startswith("membrane bench: "), done.stderr)
        self.assertIn(text, done.stderr)

    def test_too_few_rounds_are_no_measure(self):
        for rounds in ("0", "19", "1001", "-1", "x", ""):
            self.refuse(2, "--rounds", "--rounds=" + rounds)

    def test_quick_has_rounds_of_its_own(self):
        self.refuse(2, "--quick and --rounds", "--quick", "--rounds", "20")

    def test_unknown_format(self):
        self.refuse(2, "--format", "--format", "xml")

    def test_unknown_option_and_argument(self):
        self.refuse(2, "--nope", "--nope")
        self.refuse(2, "'H1' is not an option; '--only GLOB' chooses rows", "H1")

    def test_glob_that_matches_nothing(self):
        self.refuse(2, "no row's id matches 'Q*'", "--only", "Q*")

    def test_absent_plugin(self):
        self.refuse(1, "absent", "--quick", "--only", "H1", "--plugin", "./absent.so")
        self.refuse(1, "absent", "--quick", "--only", "H5d", "--plugin", "./absent.so")

    def test_full_disk_is_an_error(self):
        for arguments in (["--list"], ["--list", "--format=json"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([PROGRAM, "bench", *arguments], stdout=full,
                                      stderr=subprocess.PIPE, universal_newlines=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot be written", done.stderr)


class Environment(unittest.TestCase):
    def test_tunables_that_the_user_set_are_kept(self):
        env = dict(os.environ, GLIBC_TUNABLES="glibc.malloc.arena_max=1")
        done = bench("--quick", "--plugin", PLUGIN, "--trust", "--only", "H4a", "--format=json",
                     env=env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([row["id"] for row in json.loads(done.stdout)], ["H4a"])


if __name__ == "__main__":
    unittest.main()
