"""`membrane plugins` and `membrane inspect` from outside, on real files."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
FILES = os.path.abspath("tests/unit/loader")


class World(unittest.TestCase):
    def setUp(self):
        self.root = os.path.realpath(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        os.chmod(self.root, 0o755)
        self.addCleanup(shutil.rmtree, self.root)
        self.environment = {"PATH": os.environ["PATH"], "XDG_DATA_DIRS": "/nowhere"}

    def folder(self, name):
        path = os.path.join(self.root, name)
        os.makedirs(path, mode=0o755, exist_ok=True)
        os.chmod(path, 0o755)
        return path

    def put(self, folder, variant, name="libmembrane-specimen.so"):
        path = os.path.join(self.folder(folder), name)
        shutil.copy(os.path.join(FILES, f"specimen_{variant}.so"), path)
        os.chmod(path, 0o644)
        return path

    def run_program(self, *arguments, folders=(), **environment):
        if folders:
            environment["MEMBRANE_PLUGIN_PATH"] = ":".join(self.folder(f) for f in folders)
        return subprocess.run([PROGRAM, *arguments], env={**self.environment, **environment},
                              cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, check=False)

    def assert_refused(self, done, code, text):
        self.assertEqual((done.returncode, done.stdout), (code, ""))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(text, done.stderr)


class Plugins(World):
    def test_nothing_found_says_where_to_put_one(self):
        done = self.run_program("plugins")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("MEMBRANE_PLUGIN_PATH", done.stdout)

    def test_used_ones_alone_and_a_count_of_the_others(self):
        path = self.put("a", "good")
        self.put("b", "good")
        done = self.run_program("plugins", folders=("a", "b"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(path, done.stdout)
        self.assertNotIn(os.path.join(self.root, "b"), done.stdout)
        self.assertIn("1 more is not used; --explain says why", done.stdout)

    def test_explain_gives_each_reason(self):
        self.put("a", "good")
        self.put("a", "exec_stack", "libmembrane-stack.so")
        shutil.copy(os.path.join(FILES, "plain.so"), os.path.join(self.folder("a"),
                                                                  "libmembrane-plain.so"))
        writable = self.put("a", "other", "libmembrane-other.so")
        os.chmod(writable, 0o666)
        os.symlink("nowhere", os.path.join(self.root, "a", "libmembrane-dangling.so"))
        self.put("b", "good")
        done = self.run_program("plugins", "--explain", folders=("a", "b"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for reason in ("used: tests", "name-mismatch: ", "no-note: ", "untrusted-file: its mode 0666",
                       "not-regular: a link to \"nowhere\"", "shadowed: "):
            self.assertIn(reason, done.stdout)

    def test_json_has_the_same(self):
        path = self.put("a", "unique")
        self.put("b", "good")
        done = self.run_program("plugins", "--explain", "--format=json", folders=("a", "b"))
        plugins = json.loads(done.stdout)["plugins"]
        self.assertEqual([p["reason"] for p in plugins], ["used", "shadowed"])
        self.assertEqual(plugins[0]["path"], path)
        self.assertEqual(plugins[0]["note"]["pinned_by"], "unique symbol")
        self.assertEqual(plugins[0]["note"]["unique_symbol"], "specimen_unique")
        self.assertRegex(plugins[0]["note"]["digest"], r"\A[0-9a-f]{16}\Z")
        done = self.run_program("plugins", "--format=json", folders=("a", "b"))
        self.assertEqual(len(json.loads(done.stdout)["plugins"]), 1)

    def test_what_pins_is_warned_of(self):
        self.put("a", "unique")
        done = self.run_program("plugins", folders=("a",))
        self.assertIn("warning: never unloaded (unique symbol specimen_unique)", done.stdout)

    def test_listing_runs_nothing_and_probe_contains_it(self):
        self.put("a", "illegal")
        done = self.run_program("plugins", folders=("a",))
        self.assertEqual(done.returncode, 0)
        done = self.run_program("plugins", "--probe", folders=("a",))
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn("probe: killed by signal 4 (Illegal instruction)", done.stdout)
        done = self.run_program("plugins", "--probe", "--format=json", folders=("a",))
        self.assertEqual(done.returncode, 1)
        probe = json.loads(done.stdout)["plugins"][0]["probe"]
        self.assertFalse(probe["loads"])

    def test_probe_of_a_good_and_of_a_refused_one(self):
        self.put("a", "good")
        done = self.run_program("plugins", "--probe", folders=("a",))
        self.assertEqual(done.returncode, 0)
        self.assertIn("probe: loads", done.stdout)
        done = self.run_program("plugins", "--probe", folders=("a",), SPECIMEN_FAULT="table-kind")
        self.assertEqual(done.returncode, 1)
        self.assertIn("bad-table: the table of membrane.plugin states kind 5", done.stdout)

    def test_relative_element_is_shown_and_never_used(self):
        self.put("a", "good")
        done = self.run_program("plugins", "--explain", MEMBRANE_PLUGIN_PATH="a:")
        self.assertNotIn("used:", done.stdout)
        self.assertIn("a relative element", done.stdout)
        self.assertIn("an empty element", done.stdout)

    def test_usage(self):
        self.assert_refused(self.run_program("plugins", "x"), 2, "membrane inspect x")
        self.assert_refused(self.run_program("plugins", "--explian"), 2, "--explain")
        self.assert_refused(self.run_program("plugins", "--format=xml"), 2, "json")


class Inspect(World):
    def test_by_name_and_by_path(self):
        path = self.put("a", "good")
        for done in (self.run_program("inspect", "specimen", folders=("a",)),
                     self.run_program("inspect", path),
                     self.run_program("inspect", "a/libmembrane-specimen.so")):
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("specimen 1.2.3 (tests)\n", done.stdout)
            self.assertIn("mechanism unit0: specimen unit\n", done.stdout)
            self.assertIn("mechanism unit1: ", done.stdout)
            self.assertIn("allocator, virtual, shared\n", done.stdout)
            self.assertRegex(done.stdout, r"granule_min_bytes +4096 \(4 KiB\)\n")
            self.assertRegex(done.stdout, r"extent_max_bytes +no limit\n")
            self.assertRegex(done.stdout, r"past_physical_size +kill\n")

    def test_json_figures(self):
        path = self.put("a", "unloadable")
        done = self.run_program("inspect", path, "--format", "json")
        answer = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(answer["trusted"])
        self.assertTrue(answer["note"]["unloadable"])
        self.assertEqual(answer["version"], "1.2.3")
        self.assertEqual([m["name"] for m in answer["mechanisms"]], ["unit0", "unit1"])
        mechanism = answer["mechanisms"][0]
        self.assertEqual(mechanism["capabilities"], ["allocator", "virtual", "shared"])
        self.assertEqual(mechanism["granule_recommended_bytes"], 65536)
        self.assertIsNone(mechanism["extent_max_bytes"])
        self.assertTrue(mechanism["host_accessible"])
        self.assertFalse(mechanism["fork_safe"])

    def test_the_host_plugin(self):
        path = os.path.join(self.folder("a"), "libmembrane-host.so")
        shutil.copy("plugins/host/libmembrane-host.so", path)
        os.chmod(path, 0o644)
        done = self.run_program("inspect", "host", "--format=json", folders=("a",))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        mechanism = json.loads(done.stdout)["mechanisms"][0]
        self.assertEqual((mechanism["name"], mechanism["domain"]), ("host", "host"))
        self.assertIn("virtual", mechanism["capabilities"])
        granule = mechanism["granule_min_bytes"]
        self.assertEqual(granule & (granule - 1), 0)

    def test_no_open_opens_nothing(self):
        path = self.put("a", "good")
        done = self.run_program("inspect", "--no-open", path, SPECIMEN_FAULT="open-fails")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("granule", done.stdout)

    def test_a_plugin_that_ends_the_process_is_reported(self):
        path = self.put("a", "good")
        for fault, end in (("entry-aborts", "killed by signal 6 (Aborted)"),
                           ("open-aborts", "killed by signal 6 (Aborted)"),
                           ("entry-exits", "ended by the plugin with exit code 0"),
                           ("open-exits", "ended by the plugin with exit code 0")):
            done = self.run_program("inspect", path, "--format=json", SPECIMEN_FAULT=fault)
            self.assert_refused(done, 1, f"{path}: loaded in a child process: {end}")
        path = self.put("c", "illegal")
        self.assert_refused(self.run_program("inspect", "--no-open", path), 1,
                            "killed by signal 4 (Illegal instruction)")
        self.put("b", "good")
        done = self.run_program("plugins", "--probe", folders=("b",), SPECIMEN_FAULT="entry-exits")
        self.assertEqual(done.returncode, 1)
        self.assertIn("probe: ended by the plugin with exit code 0", done.stdout)

    def test_breach_of_trust_is_reported_and_gone_past(self):
        path = self.put("a", "good")
        os.chmod(path, 0o666)
        for argument, folders in ((path, ()), ("specimen", ("a",))):
            done = self.run_program("inspect", argument, folders=folders)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, r"NOT TRUSTED +untrusted-file: its mode 0666")
            self.assertIn("mechanism unit0", done.stdout)
        done = self.run_program("inspect", "--trust", path)
        self.assertNotIn("NOT TRUSTED", done.stdout)
        done = self.run_program("inspect", "--format=json", path)
        answer = json.loads(done.stdout)
        self.assertFalse(answer["trusted"])
        self.assertIn("0666", answer["breach"])

    def test_refusals_say_what_where_and_what_works(self):
        self.assert_refused(self.run_program("inspect", "nothing"), 1,
                            "not-found: no libmembrane-nothing.so in /nowhere/membrane/plugins")
        self.assert_refused(self.run_program("inspect", "./nothing.so"), 1, "./nothing.so: not-found")
        path = self.put("a", "no_note", "x.so")
        self.assert_refused(self.run_program("inspect", path), 1, "MBR_PLUGIN_NOTE")
        path = self.put("a", "good")
        done = self.run_program("inspect", path, SPECIMEN_FAULT="entry-minor=999")
        self.assert_refused(done, 1, "negotiation: its entry answered minor 999")

    def test_mechanism_that_does_not_open_or_close(self):
        path = self.put("a", "good")
        for fault, text in (("open-fails", "does not open"), ("fact-1=3", "does not open"),
                            ("close-in-use", "does not close"), ("report-lines=2", "2 lines")):
            done = self.run_program("inspect", path, SPECIMEN_FAULT=fault)
            self.assertEqual((done.returncode, done.stderr), (1, ""), fault)
            self.assertIn(text, done.stdout)

    def test_no_device_is_an_answer(self):
        path = self.put("a", "good")
        done = self.run_program("inspect", path, SPECIMEN_FAULT="describe-no-device")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"no mechanism +no driver library\n")

    def test_endless_enumeration_is_cut(self):
        path = self.put("a", "good")
        done = self.run_program("inspect", "--no-open", path, SPECIMEN_FAULT="describe-endless")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.count("  mechanism unit"), 256)
        self.assertIn("only the first 256 are shown", done.stdout)

    def test_usage(self):
        self.assert_refused(self.run_program("inspect"), 2, "no plugin is named")
        self.assert_refused(self.run_program("inspect", "a", "b"), 2, "one plugin at a time")
        self.assert_refused(self.run_program("inspect", "--fromat=json", "a"), 2, "--format")

    def test_full_disk_is_an_error(self):
        path = self.put("a", "good")
        for arguments in (["inspect", path], ["inspect", "--format=json", path],
                          ["plugins", "--format=json"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      universal_newlines=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot be written", done.stderr)


if __name__ == "__main__":
    unittest.main()
