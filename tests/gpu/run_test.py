"""The scripts of tools/gpu without a GPU: a packed folder over the stand-in, with an nvidia-smi of
our own; and the pages that are made of its JSON."""

import fnmatch
import glob
import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = os.getcwd()
PACKED = {"membrane": "tools/membrane", "membrane-check": "tools/membrane-check",
          "contract": "tests/standin/contract", "end_to_end": "tests/gpu/end_to_end",
          "transcript.txt": "tests/standin/transcript.txt",
          "run": "tools/gpu/run",
          "plugins/libmembrane-cuda.so": "plugins/cuda/libmembrane-cuda.so",
          "plugins/libmembrane-hip.so": "plugins/hip/libmembrane-hip.so",
          "lib/libamdhip64.so.7": "tests/forward/libamdhip64.so.7"}
SMI = """#!/bin/sh
case $1 in
--query-gpu=name*) seq "${STANDIN_DEVICES:-1}" | sed 's/.*/Stand-in, 580.0, 1024 MiB/' ;;
*) echo 'Disabled, N/A' ;;
esac
"""
ROW = {"id": "P3", "what": "commit parked", "value": 2.5, "unit": "us", "against": "by hand",
       "ratio": 300.0, "goal": 5.0, "floor": 20.0, "verdict": "goal", "better": "lower",
       "median_unit": "us", "median": 2.5, "p99": 3.25, "against_median": 750.0,
       "against_p99": 900.0, "rounds": 21, "calls": 0, "against_calls": None, "owned_bytes": 1,
       "against_owned_bytes": 1, "others": [{"name": "kept", "median": 4.0, "p99": 5.0}],
       "note": "16 handles"}


def script(name, folder="tools/gpu"):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(ROOT, folder, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Folder:
    """As tools/gpu/pack leaves it, but of links."""

    def __init__(self):
        self.kept = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.path = self.kept.name
        for name, source in PACKED.items():
            place = os.path.join(self.path, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(os.path.join(ROOT, source), place)
        self.write("revision", "abc123\n")
        self.write("bin/nvidia-smi", SMI)
        os.chmod(os.path.join(self.path, "bin/nvidia-smi"), 0o755)
        self.out = os.path.join(self.path, "out.json")

    def write(self, name, text):
        place = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, *arguments, **more):
        environment = dict(os.environ, PATH=f"{self.path}/bin:{os.environ['PATH']}", **more)
        return subprocess.Popen([os.path.join(self.path, "run"), "--out", self.out, *arguments],
                                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                universal_newlines=True)

    def run(self, *arguments, **more):
        with self.start(*arguments, **more) as process:
            said, wrong = process.communicate(timeout=120)
            return process.returncode, said, wrong

    def report(self):
        with open(self.out, encoding="utf-8") as file:
            return json.load(file)

    def steps(self):
        return {step["name"]: step for step in self.report()["steps"]}


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.kept.cleanup)

    def test_Groups_TogetherChooseEachRowOnce(self):
        run = script("run")
        listed = json.loads(subprocess.run(
            ["tools/membrane", "bench", "--device", "--list", "--format", "json"], check=True,
            stdout=subprocess.PIPE).stdout)
        for row in listed:
            groups = [group for group in run.BENCH_GROUPS + run.PEER_GROUPS
                      if fnmatch.fnmatchcase(row["id"], group)]
            self.assertEqual(1, len(groups), f"{row['id']} is chosen by {groups}")
        for group in run.BENCH_GROUPS + run.PEER_GROUPS + run.HIP_GROUPS + run.ONE_VISIBLE_GROUPS:
            self.assertTrue(any(fnmatch.fnmatchcase(row["id"], group) for row in listed), group)

    def test_Steps_WriteWhatTheySaw(self):
        code, said, wrong = self.folder.run(
            "--quick", "--only", "inspect,check_others,bench,peers,hip_bench", "--rows", "P[34]*",
            STANDIN_DEVICES="2")
        self.assertEqual(0, code, said + wrong)
        steps = self.folder.steps()
        self.assertEqual(["passed"] * 5, [step["status"] for step in steps.values()])
        self.assertEqual(["P1a", "P1b", "P4a", "P4b", "P3"],
                         [row["id"] for row in steps["bench"]["rows"]])
        self.assertEqual([], steps["peers"]["rows"])
        self.assertEqual({"pinned0", "unified0", "device1", "pinned1", "unified1"},
                         set(steps["check_others"]["mechanisms"]))
        self.assertEqual(5, len(steps["hip_bench"]["compared"]))
        report = self.folder.report()
        self.assertEqual(("Stand-in", 2, "abc123"),
                         (report["device"]["card"], report["device"]["cards"], report["revision"]))

    def test_Machine_LacksWhatAStepWants_IsNotRunWithTheReason(self):
        code, said, wrong = self.folder.run("--only", "two_devices,peers,one_visible,sanitizer")
        self.assertEqual(0, code, said + wrong)
        for step in self.folder.steps().values():
            self.assertEqual("not run", step["status"])
            self.assertRegex(step["reason"], "one GPU|not installed")

    def test_EndToEnd_SkippedTestIsAFailure_TwoDevicesHasTests(self):
        code, said, wrong = self.folder.run("--only", "two_devices", STANDIN_DEVICES="2")
        self.assertEqual(0, code, said + wrong)
        self.assertTrue(self.folder.steps()["two_devices"]["tests"])
        code, _, _ = self.folder.run("--only", "end_to_end")
        self.assertEqual(1, code)
        self.assertRegex(self.folder.steps()["end_to_end"]["reason"],  # which no stand-in shows
                         "^skipped on a real device: Exhaustion_[A-Za-z_]*$")

    def test_Folder_LacksATrace_IsAFailure(self):
        code, _, _ = self.folder.run("--only", "replay_azure")
        self.assertEqual(1, code)
        self.assertIn("was not packed", self.folder.steps()["replay_azure"]["reason"])

    def test_Contract_DiffersFromTheTranscripts_IsAFailure(self):
        self.folder.write("transcript.two.txt", "two.gone a-row-that-was -> OK\n")
        code, _, _ = self.folder.run("--only", "contract", STANDIN_DEVICES="2")
        self.assertEqual(1, code)  # the stand-in ends a misuse that a driver answers
        step = self.folder.steps()["contract"]
        self.assertTrue(any(line.startswith("two.list ") for line in step["transcript"]))
        self.assertTrue(all("now" in line for line in step["changed"]))
        self.assertIn("two.gone a-row-that-was: OK, now no row", step["changed"])
        self.assertEqual({}, step["not_asked"])

    def test_Contract_RowsOfTwoDevicesOnOne_AreKeptWithTheReason(self):
        name = "two.list access-for-both-in-one-list"
        self.folder.write("transcript.two.txt", f"{name} -> OK, same, same\n")
        self.folder.run("--only", "contract")
        step = self.folder.steps()["contract"]
        self.assertEqual("this machine has one device", step["not_asked"][name])
        self.assertFalse([line for line in step["changed"] + step["transcript"] if "two." in line])

    def test_Budget_TooSmallForAStep_IsAFailureAndSaid(self):
        code, _, _ = self.folder.run("--only", "check,inspect", "--budget", "20")
        self.assertEqual(1, code)
        steps = self.folder.steps()
        self.assertEqual("failed", steps["check"]["status"])
        self.assertIn("--only check would work", steps["check"]["reason"])
        self.assertEqual("passed", steps["inspect"]["status"])

    def test_Signal_EndsTheRun_KeepsWhatIsDone(self):
        with self.folder.start("--only", "inspect,check,peers") as process:
            for line in process.stdout:
                if "check (" in line:
                    break
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            self.assertEqual(1, process.returncode)
        steps = self.folder.steps()
        self.assertEqual(["passed", "failed"], [step["status"] for step in steps.values()])
        self.assertEqual("stopped by SIGTERM", steps["check"]["reason"])

    def test_Options_Wrong_OneLineSaysWhatWouldWork(self):
        for arguments, expected in ((("--only", "benhc"), "'benhc' is no step; contract, inspect"),
                                    (("--budget", "2"), "more than 3 seconds would work")):
            code, said, wrong = self.folder.run(*arguments)
            self.assertEqual((2, ""), (code, said))
            self.assertIn(expected, wrong.splitlines()[-1])

    def test_Machine_WithoutAGpu_IsToldInOneLine(self):
        self.folder.write("bin/nvidia-smi", "#!/bin/sh\nexit 9\n")
        code, _, wrong = self.folder.run("--only", "inspect")
        self.assertEqual((1, 1), (code, len(wrong.splitlines())))
        self.assertIn("no NVIDIA GPU answers here", wrong)


class TraceTest(unittest.TestCase):
    def test_Peaks_AreThoseOfTheTokensThatLive(self):
        torch = types.ModuleType("torch")
        torch.uint8, self.taken = None, 0
        torch.cuda = types.SimpleNamespace(
            mem_get_info=lambda: ((1 << 40) - self.taken, 1 << 40), synchronize=lambda: None)
        test = self

        class Tensor:
            def __init__(self, size, **_):
                self.size = size
                test.taken += size

            def __del__(self):
                test.taken -= self.size

            def numel(self):
                return self.size

            def __getitem__(self, _part):
                return self

            def copy_(self, _other):
                pass

        torch.empty = Tensor
        sys.modules["torch"] = torch
        self.addCleanup(sys.modules.pop, "torch")
        trace = script("torch_trace.py", "tests/gpu")
        service = trace.serve([(0.0, 300, 60), (0.5, 30, 240)], (32, 2048))
        token = 32 * 2 * 2048
        self.assertEqual(0, self.taken)
        self.assertGreaterEqual(service.owned_peak, service.live_peak)
        # At the end of the first: 300 + 60 tokens of it, 30 + 46 of the second, which ends with 270.
        self.assertLessEqual(abs(service.live_peak / token - 436), 1)
        # Two chunks and one; and the second grows while the first is gone.
        self.assertEqual(3 * trace.CHUNK_TOKENS * token, service.owned_peak)


class ReportTest(unittest.TestCase):
    def run_report(self, *files):
        return subprocess.run([sys.executable, "-B", "tools/gpu/report", *files], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True)

    def test_Page_IsThatOfItsFiles(self):
        with open("docs/hardware.md", encoding="utf-8") as file:
            self.assertEqual(file.read(),
                             self.run_report(*sorted(glob.glob("docs/hardware/*.json"))).stdout)

    def test_FiguresOfThePerformancePage_AreThoseOfTheFiles(self):
        table = self.run_report("--figures", *sorted(glob.glob("docs/hardware/*.json"))).stdout
        self.assertIn("| P1a ", table)
        with open("docs/performance.md", encoding="utf-8") as file:
            self.assertIn(f"\n\n{table}\n", file.read())

    def test_Row_HasP99RatioCallsAndNotes(self):
        report = {"device": {"card": "Card", "driver": "1", "memory": "1 MiB", "cards": 1,
                             "kernel": "6", "processors": 2, "date": "2026-01-02"},
                  "revision": "abc", "steps": [
                      {"name": "bench", "status": "passed", "seconds": 1.5, "rows": [ROW]},
                      {"name": "peers", "status": "not run", "seconds": 0.0, "reason": "one GPU"}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(report, file)
            file.flush()
            page = self.run_report(file.name).stdout
            table = self.run_report("--figures", file.name, file.name).stdout
        self.assertIn("| P3 commit parked | 2.50 us | 5.00, 20.0 | 2.50 us (3.25) | "
                      "by hand 750 us (900) | 300 | 0 / – | goal |", page)
        self.assertIn("- P3: 16 handles; kept: 4.00 us (5.00)", page)
        self.assertIn("| peers | not run | 0.0 | one GPU |", page)
        self.assertEqual("| row | goal | floor | 1 card, abc | 1 card, abc |\n"
                         "| --- | --- | --- | --- | --- |\n"
                         "| P3 commit parked | 5.00 | 20.0 | 2.50 us, goal | 2.50 us, goal |\n", table)

    def test_Files_Missing_OneLine(self):
        for files in ((), ("--figures",), ("absent.json",), ("--figures", "absent.json")):
            done = self.run_report(*files)
            self.assertNotEqual(0, done.returncode)
            self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)

    def test_Pack_WithoutAFolder_SaysItsUsage(self):
        done = subprocess.run(["tools/gpu/pack"], check=False, stderr=subprocess.PIPE,
                              universal_newlines=True)
        self.assertEqual((2, "usage: tools/gpu/pack FOLDER [TRACES]\n"),
                         (done.returncode, done.stderr))


if __name__ == "__main__":
    unittest.main()
