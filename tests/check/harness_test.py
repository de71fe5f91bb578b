"""membrane-check against inputs of every kind: a verdict, an exit code, and nothing left running."""

import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
import xml.etree.ElementTree

import specimen

TOOL = os.path.abspath("tools/membrane-check")
MEMBRANE = os.path.abspath("tools/membrane")
HOST = os.path.abspath("plugins/host/libmembrane-host.so")

HANG_S = "2" # for what never ends; a busy machine must do the other checks of the run within it

CONFORMANT, FINDINGS, USAGE, NOT_A_PLUGIN, INCOMPLETE, TOOL_FAILED = range(6)


def processes_with(mark):
    """Processes that have inherited the mark in their environment."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(entry)
        except OSError:
            continue # no process, another's, or ended meanwhile
    return found


def path_of_libm():
    ctypes.CDLL("libm.so.6")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "/libm.so.6" in line)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, "MEMBRANE_TEST_MARK": self.mark}

    def start(self, *arguments, program=TOOL, **more):
        return subprocess.Popen(
            [program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.folder, env=self.environment, **more)

    def run_tool(self, *arguments, program=TOOL):
        process = self.start(*arguments, program=program)
        out, err = process.communicate()
        self.assertEqual(processes_with(self.mark), [], "left running")
        return process.returncode, out, err

    def report(self, *arguments):
        code, out, err = self.run_tool(*arguments, "--format", "json")
        self.assertEqual(err, "")
        report = json.loads(out)
        self.assertEqual(report["exit_code"], code)
        return report

    def path(self, name, data=b""):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def bad(self, fault):
        return specimen.put(fault, self.folder)


class NoPlugin(Case):
    def refused(self, path, word):
        report = self.report(path)
        self.assertEqual(report["exit_code"], NOT_A_PLUGIN)
        self.assertIn(word, report["refusal"])
        self.assertFalse(report["conformant"])
        self.assertEqual(report["totals"]["checks"], 0)
        for form in ("human", "tap", "junit"):
            code, out, _ = self.run_tool(path, "--format", form)
            self.assertEqual(code, NOT_A_PLUGIN)
            self.assertIn(word, out)

    def image(self, offset, form, *values):
        with open(HOST, "rb") as file:
            data = bytearray(file.read())
        struct.pack_into(form, data, offset, *values)
        return bytes(data)

    def test_no_such_file(self):
        self.refused(os.path.join(self.folder, "nothing"), "No such file")

    def test_directory(self):
        self.refused(self.folder, "directory")

    def test_pipe_does_not_block(self):
        os.mkfifo(os.path.join(self.folder, "pipe"))
        self.refused(os.path.join(self.folder, "pipe"), "regular")

    def test_empty_file(self):
        self.refused(self.path("libmembrane-empty.so"), "not an ELF")

    def test_text_file(self):
        self.refused(self.path("libmembrane-text.so", b"no plugin\n" * 50), "not an ELF")

    def test_cut_off_at_many_places(self):
        with open(HOST, "rb") as file:
            data = file.read()
        for size in (4, 16, 20, 63, 64, 100, 500, 4096):
            with self.subTest(size=size):
                code = self.run_tool(self.path("libmembrane-host.so", data[:size]))[0]
                self.assertEqual(code, NOT_A_PLUGIN)
        report = self.report(self.path("libmembrane-host.so", data[:-64]), "--level", "1")
        self.assertEqual([f["id"] for f in report["findings"]], ["LNK-028"])

    def test_32_bit(self):
        self.refused(self.path("libmembrane-host.so", self.image(4, "B", 1)), "64-bit")

    def test_other_machine(self):
        self.refused(self.path("libmembrane-host.so", self.image(18, "<H", 243)), "another machine")

    def test_executable(self):
        self.refused("/bin/true", "executable")
        self.refused(self.path("libmembrane-host.so", self.image(16, "<H", 2)), "shared object")

    def test_library_that_is_no_plugin(self):
        library = os.path.join(self.folder, "libmembrane-math.so")
        shutil.copy(path_of_libm(), library)
        report = self.report(library)
        self.assertEqual(report["exit_code"], NOT_A_PLUGIN)
        self.assertTrue({"LNK-002", "LOD-002"} <= {f["id"] for f in report["findings"]})


class Hostile(Case):
    """In the slot `open`, which the check OPN-001 calls in its own phase."""

    def finding(self, fault, timeout="20", level="1"):
        report = self.report(self.bad(fault), "--level", level, "--timeout", timeout)
        found = {finding["id"]: finding for finding in report["findings"]}
        self.assertEqual(list(found), ["OPN-001"], found)
        self.assertEqual(report["exit_code"], FINDINGS)
        return found["OPN-001"]

    def test_dies(self):
        finding = self.finding("hostile_dies")
        self.assertEqual(finding["verdict"], "CRASH")
        self.assertIn("signal 11", finding["observed"])

    def test_raises(self):
        self.assertIn("signal 12", self.finding("hostile_raises")["observed"])

    def test_kills_its_group(self):
        self.assertIn("signal 9", self.finding("hostile_kills_group")["observed"])

    def test_hangs(self):
        self.assertEqual(self.finding("hostile_hangs", HANG_S)["verdict"], "TIMEOUT")

    def test_spins(self):
        self.assertEqual(self.finding("hostile_spins", HANG_S)["verdict"], "TIMEOUT")

    def test_stops(self):
        self.assertEqual(self.finding("hostile_stops", HANG_S)["verdict"], "TIMEOUT")

    def test_prints_without_end(self):
        finding = self.finding("hostile_prints", HANG_S)
        self.assertEqual(finding["verdict"], "TIMEOUT")
        self.assertIn("the same line", finding["output"])

    def test_exits(self):
        for fault in ("hostile_exits", "hostile_exits_with_handlers"):
            finding = self.finding(fault)
            self.assertEqual(finding["verdict"], "ABORT")
            self.assertIn("code 0", finding["observed"])

    def test_eats_memory(self):
        self.assertEqual(self.finding("hostile_eats_memory")["verdict"], "ABORT")

    def test_deletes_itself(self):
        finding = self.finding("hostile_deletes_itself")
        self.assertEqual(finding["verdict"], "FAIL")
        self.assertIn("removed", finding["observed"])

    def test_forks(self):
        report = self.report(self.bad("hostile_forks"), "--only", "OPN-001")
        self.assertEqual(report["exit_code"], CONFORMANT)
        self.assertEqual([note["id"] for note in report["notes"]], ["OPN-001"])
        ended = re.fullmatch(r"(\d+) were ended", report["notes"][0]["observed"])
        self.assertIsNotNone(ended, report["notes"])
        self.assertGreaterEqual(int(ended.group(1)), 4) # some of those may not have forked yet

    def test_changes_the_locale(self):
        report = self.report(self.bad("hostile_locale"), "--level", "1")
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["exit_code"], CONFORMANT)

    def test_dies_once_is_flaky(self):
        self.environment["MEMBRANE_BAD_ONCE"] = os.path.join(self.folder, "once")
        report = self.report(self.bad("hostile_dies_once"), "--only", "OPN-001")
        self.assertEqual(report["totals"]["flaky"], 1)
        self.assertEqual(report["exit_code"], FINDINGS)
        self.assertIn("abort", report["findings"][0]["observed"])

    def test_interrupted_run_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(self.bad("hostile_hangs"), "--only", "OPN-001", "--format", "json",
                                 "--timeout", "60")
            deadline = time.monotonic() + 20
            while len(processes_with(self.mark)) < 3 and time.monotonic() < deadline:
                time.sleep(0.01) # the tool, the warden, the child
            process.send_signal(number)
            out = process.communicate(timeout=20)[0]
            self.assertEqual(process.returncode, INCOMPLETE)
            self.assertEqual(json.loads(out)["totals"]["resource"], 1)
            self.assertEqual(processes_with(self.mark), [])


class Blocked(Case):
    def test_constructor_that_dies_is_no_loadable_plugin(self):
        report = self.report(self.bad("crashes_in_constructor"), "--level", "4")
        self.assertEqual(report["exit_code"], NOT_A_PLUGIN)
        self.assertEqual([f["id"] for f in report["findings"]], ["LOD-001"])
        blocked = [skip for skip in report["skips"] if skip["reason"] == "blocked"]
        self.assertEqual(len(blocked), len(report["skips"]))
        self.assertTrue(all(not skip["declared"] for skip in blocked))

    def test_without_its_opener_the_run_is_incomplete(self):
        report = self.report(self.bad("refuses_every_open"), "--skip", "OPN-001", "--level", "1")
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["exit_code"], INCOMPLETE)

    def test_nothing_chosen_is_incomplete(self):
        report = self.report(HOST, "--only", "XYZ-*")
        self.assertEqual(report["exit_code"], INCOMPLETE)
        self.assertFalse(report["conformant"])

    def test_no_such_mechanism_is_usage(self):
        for arguments in (("--level", "1"), ("--only", "ALC-001"), ("--repro", "ALC-001:1"),
                          ("--repro", "OPN-001:1", "--in-process")):
            with self.subTest(arguments=arguments):
                code, out, err = self.run_tool(HOST, "--device", "7", *arguments)
                self.assertEqual((code, out), (USAGE, ""))
                self.assertIn("--device 7: the plugin has 1 mechanism; the last one is 0", err)


class OtherDevice(Case):
    def test_out_of_the_cpus_reach_is_judged_by_copies(self):
        report = self.report(self.bad("unreachable_device"), "--level", "3")
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["exit_code"], CONFORMANT)
        skipped = {skip["id"] for skip in report["skips"]}
        self.assertEqual(skipped & {"VIR-052", "VIR-060", "VIR-073", "SHR-001", "SHR-004"}, set())

    def test_no_check_wants_more_than_16_mib(self):
        report = self.report(self.bad("small_device"), "--level", "3")
        self.assertEqual(report["findings"], [])
        self.assertEqual([skip for skip in report["skips"] if not skip["declared"]], [])
        self.assertEqual(report["exit_code"], CONFORMANT)
        skipped = {skip["id"] for skip in report["skips"]}
        self.assertEqual(skipped & {"ALC-036", "ALC-037", "ALC-045", "VIR-023", "VIR-047"}, set())


class Reports(Case):
    def test_json_of_a_good_plugin(self):
        report = self.report(HOST, "--level", "1")
        self.assertEqual(report["plugin"], HOST)
        with open(HOST, "rb") as file:
            import hashlib
            self.assertEqual(report["sha256"], hashlib.sha256(file.read()).hexdigest())
        self.assertEqual(report["level"], 1)
        self.assertTrue(report["conformant"])
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["totals"]["checks"], report["totals"]["pass"])
        self.assertEqual(report["capabilities"], ["allocator", "virtual", "shared"])
        self.assertEqual(report["mechanism"], "host")

    def test_partial_run_is_never_conformant(self):
        report = self.report(HOST, "--only", "NEG-*")
        self.assertEqual(report["exit_code"], CONFORMANT)
        self.assertTrue(report["partial"])
        self.assertFalse(report["conformant"])

    def test_tap(self):
        code, out, _ = self.run_tool(self.bad("wrong_kind"), "--level", "1", "--format", "tap")
        self.assertEqual(code, FINDINGS)
        lines = out.splitlines()
        self.assertEqual(lines[0], "TAP version 14")
        count = int(re.fullmatch(r"1\.\.(\d+)", lines[1]).group(1))
        results = [line for line in lines if re.match(r"(not )?ok \d+ - [A-Z]{3}-\d{3} ", line)]
        self.assertEqual(len(results), count)
        bad = [line for line in results if line.startswith("not ok")]
        self.assertEqual(len(bad), 1)
        self.assertIn("VTB-011", bad[0])
        self.assertEqual(lines.count("  ---"), 1)
        self.assertEqual(lines.count("  ..."), 1)

    def test_junit(self):
        code, out, _ = self.run_tool(self.bad("wrong_kind"), "--level", "1", "--format", "junit")
        self.assertEqual(code, FINDINGS)
        root = xml.etree.ElementTree.fromstring(out)
        self.assertEqual(len(root.findall(".//failure")), 1)
        failed = [case for case in root.iter("testcase") if case.find("failure") is not None]
        self.assertIn("VTB-011", failed[0].get("name"))
        for suite in root.iter("testsuite"):
            self.assertEqual(int(suite.get("tests")), len(suite.findall("testcase")))

    def test_human_names_slot_rule_and_command(self):
        code, out, _ = self.run_tool(self.bad("hostile_dies"), "--level", "1")
        self.assertEqual(code, FINDINGS)
        for text in ("CRASH    OPN-001", "slot      mechanisms", "signal 11", "rules     C2, C23",
                     "--repro OPN-001:1"):
            self.assertIn(text, out)

    def test_output_file(self):
        target = os.path.join(self.folder, "report.json")
        code, out, _ = self.run_tool(
            HOST, "--only", "NEG-001", "--format", "json", "-o", target)
        self.assertEqual((code, out), (CONFORMANT, ""))
        with open(target, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["totals"]["pass"], 1)
        code, _, err = self.run_tool(HOST, "--only", "NEG-001", "-o", self.folder)
        self.assertEqual(code, TOOL_FAILED)
        self.assertIn(self.folder, err)

    def test_full_disk_is_no_success(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([TOOL, HOST, "--only", "NEG-001"], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, TOOL_FAILED)

    def test_foreign_bytes_in_the_path(self):
        path = os.path.join(self.folder.encode(), b"libmembrane-\xff\x1b[0m.so")
        shutil.copy(HOST, path)
        for form in ("json", "junit", "tap", "human"):
            done = subprocess.run([TOOL, path, "--only", "NEG-*", "--format", form],
                                  stdout=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, CONFORMANT)
            self.assertNotIn(b"\x1b", done.stdout)
            done.stdout.decode("utf-8")


class CommandLine(Case):
    def test_list_names_level_group_and_rule(self):
        code, out, _ = self.run_tool("--list")
        self.assertEqual(code, CONFORMANT)
        lines = out.splitlines()
        ids = []
        for line in lines:
            found = re.fullmatch(
                r"([A-Z]{3})-(\d{3})  level ([1-5])  group ([A-Z]{3})  rules (C\d+(?:, C\d+)*)"
                r"  (\S.*[^.])", line)
            self.assertIsNotNone(found, line)
            self.assertEqual(found.group(1), found.group(4))
            self.assertLess(len(found.group(6)), 100, line)
            ids.append(line.split()[0])
        self.assertEqual(len(ids), len(set(ids)))
        self.assertGreaterEqual(len(ids), 400)

    def test_rules_of_the_list_are_those_of_the_page(self):
        numbered = re.findall(r"^\| (C\d+) \|", self.run_tool("--contract")[1], re.M)
        named = re.findall(r"rules (C\d+(?:, C\d+)*)  ", self.run_tool("--list")[1])
        self.assertLessEqual({rule for rules in named for rule in rules.split(", ")}, set(numbered))

    def test_explain_every_check(self):
        for line in self.run_tool("--list")[1].splitlines():
            code, out, _ = self.run_tool("--explain", line.split()[0])
            self.assertEqual(code, CONFORMANT)
            reason = out.strip().split("\n\n")[-1]
            self.assertGreater(len(reason), 20, line)
            self.assertTrue(reason.endswith("."), line)

    def test_explain_gives_the_text_of_each_rule(self):
        page = self.run_tool("--contract")[1]
        rules = {row.split(" | ")[0].lstrip("| "): row.split(" | ")[1:3]
                 for row in page.splitlines() if row.startswith("| C")}
        out = self.run_tool("--explain", "ALC-014")[1]
        for rule in ("C4", "C5", "C15"):
            what, why = rules[rule]
            self.assertIn(f"{rule}  {what}.", out)
            self.assertIn(f"Why: {why}.", out)
            self.assertIn(self.run_tool("--explain", rule)[1], out)

    def test_repro_runs_one_check_once(self):
        report = self.report(self.bad("wrong_kind"), "--repro", "VTB-011:77")
        self.assertEqual(report["totals"]["checks"], 1)
        self.assertEqual(report["seed"], 77)
        self.assertTrue(report["findings"][0]["repro"].endswith("--repro VTB-011:77"))

    def test_repro_names_the_device(self):
        report = self.report(self.bad("hostile_second_mechanism"), "--device", "1", "--level", "1")
        self.assertEqual([f["id"] for f in report["findings"]], ["OPN-001"])
        self.assertTrue(report["findings"][0]["repro"].endswith(" --device 1 --repro OPN-001:1"))
        again = shlex.split(report["findings"][0]["repro"])
        self.assertEqual(self.run_tool(*again[1:])[0], FINDINGS)
        code, _, err = self.run_tool(*again[1:2], "--device", "2")
        self.assertEqual(code, USAGE)
        self.assertIn("2 mechanisms; the last one is 1", err)

    def test_in_process(self):
        code, _, err = self.run_tool(
            self.bad("wrong_kind"), "--repro", "VTB-011:1", "--in-process")
        self.assertEqual(code, FINDINGS)
        self.assertIn("FAIL VTB-011", err)
        code, _, err = self.run_tool(HOST, "--repro", "VTB-011:1", "--in-process")
        self.assertEqual(code, CONFORMANT)
        self.assertIn("PASS VTB-011", err)

    def test_waivers(self):
        plugin = self.bad("wrong_kind")
        waivers = self.path("waivers", b"# known\n\nVTB-011 the vendor repairs it in March\n")
        report = self.report(plugin, "--level", "1", "--waivers", waivers)
        self.assertEqual(report["exit_code"], CONFORMANT)
        self.assertEqual(report["totals"]["waived"], 1)
        self.assertIn("in March", report["notes"][0]["observed"])

    def test_waivers_that_rot_are_refused(self):
        for text, word in ((b"VTB-011\n", "no reason"), (b"VTB-999 because\n", "no check")):
            code, _, err = self.run_tool(HOST, "--waivers", self.path("waivers", text))
            self.assertEqual(code, USAGE)
            self.assertIn(word, err)
        self.assertEqual(self.run_tool(HOST, "--waivers", "/no/such/file")[0], USAGE)

    def test_usage(self):
        for arguments in ((), ("--level", "6", HOST), ("--level", "x", HOST), ("--nonsense", HOST),
                          (HOST, HOST), ("--format", "xml", HOST), ("--repro", "VTB-999:1", HOST),
                          ("--repro", "VTB-001", HOST), ("--in-process", HOST), ("--jobs", "0", HOST),
                          ("--timeout", "-1", HOST), ("--explain", "VTB-999"), ("--seed", "-1", HOST)):
            with self.subTest(arguments=arguments):
                code, out, err = self.run_tool(*arguments)
                self.assertEqual((code, out), (USAGE, ""))
                self.assertIn("membrane-check: ", err)

    def test_self_test(self):
        code, out, _ = self.run_tool("--self-test")
        self.assertEqual(code, CONFORMANT, out)

    def test_one_job_or_many_find_the_same(self):
        one = self.report(self.bad("wrong_kind"), "--level", "1", "--jobs", "1")
        many = self.report(self.bad("wrong_kind"), "--level", "1", "--jobs", "16")
        self.assertEqual(one["totals"], many["totals"])

    def test_by_name_through_membrane(self):
        self.environment["MEMBRANE_PLUGIN_PATH"] = self.folder
        os.chmod(self.folder, 0o755)
        shutil.copy(HOST, self.folder)
        code, out, err = self.run_tool("check", "--only", "NEG-001", "host", program=MEMBRANE)
        self.assertEqual((code, err), (CONFORMANT, ""))
        self.assertIn(self.folder, out)
        code, _, err = self.run_tool("check", "stranger", program=MEMBRANE)
        self.assertEqual(code, 3)
        self.assertIn("no plugin 'stranger'", err)

    def test_file_that_others_may_write_is_judged_all_the_same(self):
        self.environment["MEMBRANE_PLUGIN_PATH"] = self.folder
        os.chmod(self.folder, 0o755)
        shutil.copy(HOST, self.folder)
        os.chmod(os.path.join(self.folder, "libmembrane-host.so"), 0o666)
        code, out, _ = self.run_tool("check", "host", "--level", "1", program=MEMBRANE)
        self.assertEqual(code, FINDINGS)
        self.assertIn("FAIL     LNK-027", out)


def own_share(suite):
    """This shard's part of the cases."""
    count = int(os.environ.get("TEST_TOTAL_SHARDS", "1"))
    index = int(os.environ.get("TEST_SHARD_INDEX", "0"))
    status = os.environ.get("TEST_SHARD_STATUS_FILE")
    if status:
        with open(status, "w", encoding="utf-8"):
            pass
    cases = [case for group in suite for case in group]
    return unittest.TestSuite(cases[index::count])


if __name__ == "__main__":
    SUITE = own_share(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    sys.exit(not unittest.TextTestRunner(verbosity=1).run(SUITE).wasSuccessful())
