"""`membrane stats` and `membrane limit` as a user runs them, beside processes that are members of the ledger."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MEMBER = sys.argv.pop(1), sys.argv.pop(1)
MIB = 1 << 20
LIMIT = 256 * MIB
CHUNK = 4 * MIB


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, check=False)


class Ledger(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.members = []

    def tearDown(self):
        for member in self.members:
            member.communicate()
        for name in os.listdir(self.folder):  # of those that were killed
            os.unlink(os.path.join(self.folder, name))
        os.rmdir(self.folder)

    def member(self, limit, bytes_, leased):
        member = subprocess.Popen([MEMBER, self.folder, "gpu0", str(limit), str(bytes_)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, universal_newlines=True)
        self.members.append(member)
        self.assertEqual(member.stdout.readline(), f"leased {leased}\n")
        return member

    def of_ledger(self, command, *arguments):
        return run(command, *arguments, "--folder", self.folder)

    def stats(self):
        done = self.of_ledger("stats", "gpu0", "--format", "json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)


class Stats(Ledger):
    def test_json_has_limit_sums_and_each_member(self):
        first, second = self.member(LIMIT, 1, CHUNK), self.member(1, 2 * CHUNK + 1, 3 * CHUNK)
        self.assertEqual(self.stats(), {
            "name": "gpu0", "folder": self.folder, "uid": os.geteuid(), "limit_bytes": LIMIT,
            "leased_bytes": 4 * CHUNK, "free_bytes": LIMIT - 4 * CHUNK, "over_bytes": 0, "chunk_bytes": CHUNK,
            "revision": 0, "members": [
                {"member": 1, "pid": first.pid, "leased_bytes": CHUNK, "claimed_bytes": 1, "wanted_bytes": 0,
                 "lives": True},
                {"member": 2, "pid": second.pid, "leased_bytes": 3 * CHUNK, "claimed_bytes": 2 * CHUNK + 1,
                 "wanted_bytes": 0, "lives": True}]})

    def test_human_shows_the_same_and_who_is_gone(self):
        first, second = self.member(LIMIT, 1, CHUNK), self.member(LIMIT, 1, CHUNK)
        second.kill()
        second.communicate()
        done = self.of_ledger("stats", "gpu0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("limit      256 MiB, leased in chunks of 4 MiB\n", done.stdout)
        self.assertIn("leased     8 MiB, 248 MiB free, 0 B over\n", done.stdout)
        self.assertRegex(done.stdout, rf"\n +{first.pid} +4 MiB +1 B +0 B  lives\n")
        self.assertRegex(done.stdout, rf"\n +{second.pid} +4 MiB +1 B +0 B  gone, its chunks come back\n")

    def test_after_the_last_member_there_is_none(self):
        self.member(LIMIT, 1, CHUNK).communicate()
        done = self.of_ledger("stats", "gpu0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no such shared ledger; it is there while a process is its member", done.stderr)

    def test_full_disk_is_an_error(self):
        self.member(LIMIT, 1, CHUNK)
        for more in ([], ["--format=json"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([PROGRAM, "stats", "gpu0", "--folder", self.folder, *more], stdout=full,
                                      stderr=subprocess.PIPE, universal_newlines=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot be written", done.stderr)


class Limit(Ledger):
    def test_lowered_below_what_is_leased_says_by_how_much(self):
        self.member(LIMIT, 10 * CHUNK, 10 * CHUNK)
        done = self.of_ledger("limit", "gpu0", "30MiB")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "the limit of gpu0 is 30 MiB; 10 MiB leased above it\n")
        stats = self.stats()
        self.assertEqual((stats["limit_bytes"], stats["over_bytes"], stats["free_bytes"], stats["revision"]),
                         (30 * MIB, 10 * MIB, 0, 1))
        refused = subprocess.run([MEMBER, self.folder, "gpu0", "1", "1"], stdin=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, universal_newlines=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("0 of its limit of 31457280 are free", refused.stderr)
        self.assertEqual(self.of_ledger("limit", "gpu0", "1GiB").stdout,
                         "the limit of gpu0 is 1 GiB; 0 B leased above it\n")
        self.member(1, 1, 16 * MIB)  # a chunk of the new limit

    def test_somebody_elses_ledger_is_refused(self):
        self.member(LIMIT, 1, CHUNK)
        path = os.path.join(self.folder, f"membrane-{os.geteuid()}-gpu0")
        os.chmod(path, 0o644)
        for command in (["stats", "gpu0"], ["limit", "gpu0", "1GiB"]):
            done = self.of_ledger(*command)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("open to others (mode 644); 600 would be trusted", done.stderr)
        os.chmod(path, 0o600)
        self.assertEqual(self.stats()["limit_bytes"], LIMIT)

    def test_damaged_page_is_one_line(self):
        self.member(LIMIT, 1, CHUNK)
        path = os.path.join(self.folder, f"membrane-{os.geteuid()}-gpu0")
        with open(path, "r+b") as file:
            file.seek(100)
            file.write(b"noise")
        for command in (["stats", "gpu0"], ["limit", "gpu0", "1GiB"]):
            done = self.of_ledger(*command)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
            self.assertIn("a damaged shared ledger: record 0 makes no sense", done.stderr)


class Usage(unittest.TestCase):
    def test_help_names_every_option_once(self):
        for command, options in (("stats", ("folder", "format", "help")), ("limit", ("folder", "help"))):
            done = run(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for option in options:
                self.assertEqual(done.stdout.count(f"--{option}"), 1, option)

    def test_bad_input_is_one_line_that_says_what_would_work(self):
        rows = [
            (["stats"], 2, "its name is missing"),
            (["stats", "a", "b"], 2, "one ledger at a time; 'b' is too much"),
            (["stats", "a/b"], 2, "1 to 47 letters, digits"),
            (["stats", ""], 2, "1 to 47 letters, digits"),
            (["stats", "x" * 48], 2, "1 to 47 letters, digits"),
            (["stats", "x", "--format=xml"], 2, "human and json would work"),
            (["stats", "x", "--fomat=json"], 2, "did you mean --format?"),
            (["stats", "x", "--folder=/nowhere"], 1, "no such shared ledger"),
            (["limit"], 2, "its name is missing"),
            (["limit", "x"], 2, "'x 16GiB' would work"),
            (["limit", "x", ""], 2, "is empty"),
            (["limit", "x", "5x"], 2, "has an unknown unit"),
            (["limit", "x", "1.5GiB"], 2, "is not a whole number"),
            (["limit", "x", "8EiB"], 2, "has an unknown unit"),
            (["limit", "x", "9223372036854775808"], 2, "is too large"),
            (["limit", "x", "1GiB", "y"], 2, "'y' is too much"),
            (["limit", "x", "1GiB", "--folder=/nowhere"], 1, "no such shared ledger"),
        ]
        for arguments, code, says in rows:
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (code, ""), arguments)
            self.assertIn(says, done.stderr, arguments)
            self.assertEqual(done.stderr.count("\n"), 1, arguments)
            self.assertTrue(done.stderr.startswith(f"membrane {arguments[0]}: "), done.stderr)


if __name__ == "__main__":
    unittest.main()
