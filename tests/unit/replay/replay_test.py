"""`membrane replay` as a user runs it, over the real host plugin.

With `report`: small traces of every format, the report. With `bad`: bad input. With `limits`: little memory. With
`tenants`: several under one budget."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

from replay_run import EAGER, PLUGIN, PROGRAM, SAMPLE, SMALL, replay, run, write


def wait_until_caught(process, signals):
    """The run has begun when it catches these signals."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            masks = dict(line.split(":", 1) for line in file if line.startswith("Sig"))
        if int(masks["SigCgt"], 16) & signals == signals:
            break


class Report(unittest.TestCase):
    def check_end(self, report):
        self.assertEqual(report["final"], {"charged_bytes": 0, "mapped_bytes": 0, "owned_bytes": 0,
                                           "reservations": 0})
        self.assertEqual(report["audit"], "clean")
        requests = report["requests"]
        self.assertEqual(requests["served"] + requests["refused"], requests["total"])

    def test_two_processes_divide_one_limit(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [PROGRAM, "replay", SAMPLE, "--plugin", PLUGIN, "--trust", "--format", "json", "--model", SMALL,
                       "--max-requests", "60", "--budget", "256MiB", "--shared", "pool", "--shared-folder", folder]
            both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    for _ in range(2)]
            for one in both:
                out, err = one.communicate()
                self.assertEqual((one.returncode, err), (0, ""))
                report = json.loads(out)
                self.check_end(report)
                self.assertEqual(report["limit_bytes"], 256 << 20)
            self.assertEqual(os.listdir(folder), [])  # the last one removed the ledger

    def test_a_folder_without_ledgers_is_said_and_the_run_goes_on(self):
        answer = run(SAMPLE, "--plugin", PLUGIN, "--trust", "--format", "json", "--model", SMALL, "--max-requests",
                     "5", "--budget", "1GiB", "--shared", "pool", "--shared-folder", "/proc/self/nothing")
        self.assertEqual(answer.returncode, 0)
        self.check_end(json.loads(answer.stdout))
        self.assertEqual(answer.stderr.count("\n"), 1)
        self.assertIn("authority 'replay' goes on alone: shared ledger: the folder takes none", answer.stderr)

    def test_sample_waits_shares_and_ends_empty(self):
        report = replay(self, SAMPLE, "--budget", "1GiB", "--model", "qwen2.5-0.5b")
        self.check_end(report)
        self.assertEqual(report["requests"]["served"], 400)
        self.assertGreater(report["requests"]["waited"], 0)
        self.assertGreater(report["prefix"]["attached_requests"], 100)
        self.assertLessEqual(report["bytes"]["owned"]["peak"], 1 << 30)
        self.assertGreater(report["bytes"]["owned"]["peak"], (1 << 30) * 9 // 10)
        self.assertLess(report["bytes"]["live"]["peak"], report["bytes"]["owned"]["peak"])
        for way in ("max_prealloc", "grow_and_copy", "paged16"):
            self.assertGreater(report["compare"][way]["peak_owned"], 1 << 30)
        self.assertGreater(report["contents"]["verified_marks"],
                           report["contents"]["written_marks"] // 2)
        self.assertEqual(report["oracle"]["points"], 10)
        self.assertTrue(report["oracle"]["system_asked"])
        self.assertLessEqual(report["oracle"]["max_difference_bytes"], 2 << 20)  # one extent
        for name in ("p50", "p99", "p999", "count"):
            self.assertGreater(report["growth_ns"][name], 0)
        self.assertGreater(report["ops_per_s"], 0)

    def test_same_seed_same_service(self):
        first, second = (replay(self, SAMPLE, "--budget", "512MiB", "--model", SMALL,
                                "--max-requests", "150") for _ in range(2))
        for key in ("requests", "prefix", "compare"):
            self.assertEqual(first[key], second[key], key)
        # When a release is settled is the workers' matter, so mapped and owned may differ.
        self.assertEqual(first["bytes"]["live"], second["bytes"]["live"])

    def test_every_layout(self):
        for layout in ("head-major", "seq-major", "token-major", "window-major"):
            report = replay(self, SAMPLE, "--budget", "1GiB", "--model", SMALL, "--layout", layout,
                            "--max-requests", "20")
            self.check_end(report)
            self.assertEqual(report["layout"], layout)
            self.assertEqual(report["requests"]["served"], 20)

    def test_all_that_whole_extents_allow_comes_shared_unless_it_was_given_up(self):
        roomy = replay(self, SAMPLE, "--budget", "8GiB", "--model", SMALL, "--option", "populate=0",
                       "--layout", "seq-major", "--extent", "128KiB",  # 1024 tokens of a fragment
                       "--max-requests", "150")
        rows, goal = roomy["prefix"]["row_bytes"], roomy["goals"]["shared_of_shareable"]
        self.assertEqual(roomy["prefix"]["evicted"], 0)
        self.assertEqual((goal["value"], goal["verdict"]), (1, "goal"))
        self.assertEqual(rows["shared"], rows["shareable_whole"])
        self.assertLess(rows["shareable_whole"], rows["shareable_exact"])
        self.assertGreater(rows["shareable_whole"], rows["shareable_exact"] // 4)
        tight = replay(self, SAMPLE, "--budget", "96MiB", "--model", SMALL, "--max-requests", "150")
        self.assertGreater(tight["prefix"]["evicted"], 0)
        self.assertEqual(tight["goals"]["shared_of_shareable"]["verdict"], "not judged")
        rows = tight["prefix"]["row_bytes"]
        self.assertLess(rows["shared"], rows["shareable_whole"])

    def test_stamps_and_forks_on_every_shape(self):
        sliding = SMALL + ",window=1024+layers=2,heads=2,dim=64,bytes=2,planes=2"
        for layout, model in (("head-major", SMALL), ("seq-major", sliding), ("token-major", SMALL),
                              ("window-major", sliding)):
            report = replay(self, SAMPLE, "--verify", "--fork-every", "2", "--budget", "1GiB", "--model", model,
                            "--layout", layout, "--extent", "64KiB", "--max-requests", "24")
            self.check_end(report)
            contents = report["contents"]
            self.assertEqual(contents["mark_step_bytes"], 4096)
            self.assertGreater(contents["verified_marks"], 2 * contents["written_marks"])
            self.assertGreater(report["forks"]["made"], 5)
            self.assertEqual(report["forks"]["made"] + report["forks"]["refused"], 12)
            self.assertEqual(report["requests"]["served"], 24)  # a fork is nobody's request
        # Rows of 231 bytes, and too little memory for all of them.
        report = replay(self, SAMPLE, "--verify", "--paged", "--fork-every", "2", "--budget", "48MiB", "--model",
                        "layers=3,heads=5,dim=77,bytes=3,planes=2", "--max-requests", "30")
        self.check_end(report)
        self.assertGreater(report["requests"]["preempted"] + report["forks"]["refused"], 0)

    def test_requests_shorter_than_what_a_window_keeps_have_pages_too(self):
        with tempfile.TemporaryDirectory() as folder:
            short = write(folder, "short.jsonl", '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}\n')
            report = replay(self, short, "--verify", "--paged", "--budget", "48MiB", "--model", SMALL)
        self.check_end(report)
        self.assertEqual((report["pages"]["written_rows"], report["pages"]["verified_rows"]), (1, 1))

    def test_sources_that_are_protected_serve_as_others_do(self):
        for layout in ("seq-major", "window-major"):
            report = replay(self, SAMPLE, "--protect", "--verify", "--fork-every", "2", "--budget", "96MiB", "--model", SMALL,
                            "--layout", layout, "--extent", "64KiB", "--max-requests", "40")
            self.check_end(report)
            self.assertGreater(report["prefix"]["row_bytes"]["shared"], 0)

    def test_weights_sleep_and_wake_and_extents_stand_ahead(self):
        more = ["--verify", "--paged", "--fork-every", "3", "--sleep-every", "5", "--weights", "32MiB", "--ahead", "64MiB",
                "--model", SMALL, "--max-requests", "50"]
        report = replay(self, SAMPLE, "--budget", "1GiB", *more)
        self.check_end(report)
        weights = report["weights"]
        self.assertGreaterEqual(weights["sleeps"], 4)
        self.assertEqual((weights["wakes"], weights["refused"]), (weights["sleeps"], 0))
        caches = report["caches"]
        self.assertGreaterEqual(caches["sleeps"], 8)
        self.assertEqual((caches["refused"], caches["lost"]), (0, 0))
        self.assertLessEqual(report["bytes"]["ahead"]["peak"], 64 << 20)
        pages = report["pages"]
        self.assertGreater(pages["verified_rows"], pages["written_rows"])
        self.assertGreater(min(pages["forks"], pages["copied_bytes"], pages["rewinds"], pages["preemptions"]), 0)
        self.assertEqual(pages["dropped"], 0)
        self.assertEqual(report["goals"]["peak_owned_over_peak_live"]["verdict"], "not judged")

    def test_caches_sleep_and_wake_in_every_shape(self):
        sliding = SMALL + ",window=1024+layers=2,heads=2,dim=64,bytes=2,planes=2"
        more = ["--verify", "--paged", "--fork-every", "2", "--extent", "64KiB", "--max-requests", "12"]
        sleep = ["--sleep-every", "2", "--weights", "1MiB"]
        for layout, model, prefix, budget in (("head-major", SMALL, "declared", "1GiB"),
                                              ("seq-major", sliding, "declared", "1GiB"),
                                              ("token-major", SMALL, "none", "64MiB"),
                                              ("window-major", sliding, "auto", "64MiB")):
            arguments = [SAMPLE, "--budget", budget, "--model", model, "--layout", layout, "--prefix", prefix, *more]
            awake, asleep = replay(self, *arguments), replay(self, *arguments, *sleep)
            self.check_end(asleep)
            self.assertEqual(awake["caches"], {"sleeps": 0, "slept_bytes": 0, "refused": 0, "lost": 0})
            caches = asleep["caches"]
            self.assertGreaterEqual(caches["sleeps"], 4)
            self.assertGreater(caches["slept_bytes"], 1 << 20)
            self.assertEqual(caches["lost"], 0)
            self.assertGreater(asleep["contents"]["verified_marks"], awake["contents"]["verified_marks"])
            for what in ("verified_rows", "preemptions"):
                self.assertGreater(asleep["pages"][what], awake["pages"][what])

    def test_stamps_without_virtual_memory(self):
        for way in ("whole", "copy"):
            for layout in ("seq-major", "window-major"):
                answer = run(SAMPLE, "--plugin", EAGER, "--trust", "--budget", "512MiB", "--model", SMALL, "--verify",
                             "--max-requests", "40", "--eager", way, "--layout", layout, "--format", "json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                contents = json.loads(answer.stdout)["contents"]
                self.assertGreaterEqual(contents["verified_marks"], contents["written_marks"] // 2)

    def test_options_of_the_plugin_and_the_cache(self):
        report = replay(self, SAMPLE, "--budget", "1GiB", "--model", SMALL, "--max-requests", "60", "--option",
                        "granule=262144", "--option", "populate=0", "--keep", "0", "--prefix", "none")
        self.check_end(report)
        self.assertEqual(report["granule_bytes"], 262144)
        self.assertFalse(report["oracle"]["system_asked"])  # it knows of fewer bytes
        self.assertEqual(report["oracle"]["max_difference_bytes"], 0)
        goals = report["goals"]
        self.assertAlmostEqual(goals["internal_waste"]["value"] / (1 + report["bytes"]["waste"]), 1, 2)
        self.assertAlmostEqual(goals["peak_owned_over_peak_live"]["value"],
                               report["bytes"]["owned"]["peak"] / report["bytes"]["live"]["peak"], 9)

    def test_without_sharing(self):
        report = replay(self, SAMPLE, "--budget", "512MiB", "--model", SMALL, "--prefix", "none")
        self.check_end(report)
        self.assertEqual(report["prefix"]["attached_requests"], 0)

    def test_fixed_extents(self):
        report = replay(self, SAMPLE, "--budget", "1GiB", "--model", SMALL, "--extent", "4MiB",
                        "--max-requests", "50")
        self.check_end(report)

    def test_sliding_window(self):
        model = SMALL + ",window=1024+layers=2,heads=2,dim=64,bytes=2,planes=2"
        report = replay(self, SAMPLE, "--budget", "1GiB", "--model", model, "--max-requests", "80")
        self.check_end(report)

    def test_formats(self):
        traces = {
            "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                     "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:47.1,396,109\n",
            "vidur": "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,100,20\n0.75,300,10\n",
            "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                        "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,87,10,97,API log\n",
            "mooncake": '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
                        '{"timestamp": 9, "input_length": 700, "output_length": 5, "hash_ids": [0, 2]}\n',
        }
        with tempfile.TemporaryDirectory() as folder:
            for name, text in traces.items():
                path = write(folder, name, text.replace("\n", "\r\n"))  # CRLF is accepted
                for more in ([], ["--trace-format", name]):
                    report = replay(self, path, "--budget", "256MiB", "--model", SMALL, *more)
                    self.check_end(report)
                    self.assertEqual(report["trace"]["format"], name)
                    self.assertEqual(report["requests"]["served"], 2)
                    self.assertEqual("note" in report, name != "mooncake")

    def test_eager(self):
        for way in ("whole", "copy"):
            answer = run(SAMPLE, "--plugin", EAGER, "--trust", "--budget", "512MiB", "--model", SMALL,
                         "--max-requests", "40", "--eager", way, "--format", "json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            report = json.loads(answer.stdout)
            self.check_end(report)
            self.assertEqual(report["requests"]["served"], 40)

    def test_too_large_for_the_budget_is_refused_and_the_rest_served(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, "t.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n"
                         "0,100,20\n1,60000,10\n2,100,20\n3,2000,63000\n4,100,20\n")
            report = replay(self, path, "--budget", "32MiB", "--model", SMALL)
            self.check_end(report)
            self.assertEqual(report["requests"]["refused"], 2)
            self.assertEqual(report["requests"]["served"], 3)
            self.assertIn("line 3", report["first_refusal"])

    def test_human_report_says_what_is_measured_and_what_is_computed(self):
        answer = run(SAMPLE, "--plugin", PLUGIN, "--trust", "--budget", "256MiB", "--model", SMALL,
                     "--max-requests", "50")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for word in ("measured", "computed", "maximum preallocation", "audit clean", "50 served"):
            self.assertIn(word, answer.stdout)

    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bytes.svg")
            replay(self, SAMPLE, "--budget", "256MiB", "--model", SMALL, "--max-requests", "50",
                   "--plot", path)
            with open(path) as file:
                self.assertIn("</svg>", file.read())


    def hang_up(self, path, action, *arguments):
        """Sends SIGHUP once the run has begun: then SIGTERM is caught."""
        process = subprocess.Popen(
            [PROGRAM, "replay", path, "--plugin", PLUGIN, "--trust", "--format", "json", "--model", SMALL,
             "--budget", "256MiB", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, action))
        wait_until_caught(process, 1 << (signal.SIGTERM - 1)
                          | (0 if action == signal.SIG_IGN else 1 << (signal.SIGHUP - 1)))
        process.send_signal(signal.SIGHUP)
        out, error = process.communicate(timeout=600)
        return process.returncode, error, json.loads(out)["interrupted"]

    def test_hangup_ends_cleanly_unless_it_is_ignored(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, "day.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n"
                         + "".join(f"{i},600,200\n" for i in range(20000)))
            self.assertEqual(self.hang_up(path, signal.SIG_DFL), (130, "", True))
            self.assertEqual(self.hang_up(path, signal.SIG_IGN, "--max-requests", "400"), (0, "", False))

    def test_names_of_any_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            name = b"a\xff\x1b[31m\n\xc2\x9b.csv"
            path = os.fsencode(folder) + b"/" + name
            with open(path, "wb") as file:
                file.write(b"arrived_at,num_prefill_tokens,num_decode_tokens\n0,5,5\n")
            report = replay(self, path, "--budget", "64MiB", "--model", SMALL)
            self.assertEqual(report["trace"]["path"], folder + "/a??[31m??.csv")
            answer = run(path, "--plugin", PLUGIN, "--trust", "--budget", "64MiB", "--model", SMALL)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn("/a??[31m??.csv (vidur), plugin", answer.stdout.splitlines()[0])


class Tenants(unittest.TestCase):
    """Two tenants whose busy times differ: what one leaves is the other's until it wants it back."""

    HEAD = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
    QUARTER = "layers=2,heads=2,dim=64,bytes=2,planes=2"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        # 'long' always has more to do than its share holds, 'short' comes all at once, in the middle.
        self.long = write(self.folder.name, "long.csv",
                          self.HEAD + "".join(f"{i / 8},1000,200\n" for i in range(160)))
        self.short = write(self.folder.name, "short.csv", self.HEAD + "0,100,5\n"
                           + "".join(f"{10 + i / 100},1500,30\n" for i in range(40)))

    def pair(self, more=""):
        return ["--tenant", f"long={self.long},model={SMALL}{more}", "--tenant",
                f"short={self.short},model={SMALL}"]

    def check_end(self, report, budget):
        for arm in report["arms"]:
            self.assertEqual(set(arm["final"].values()), {0}, arm["arm"])
            self.assertEqual(arm["audit"], "clean")
            self.assertLessEqual(arm["peak_owned_bytes"], budget)
            self.assertGreater(arm["contents"]["verified_marks"], arm["contents"]["written_marks"] // 2)
            for line in arm["tenants"]:
                requests = line["requests"]
                self.assertEqual(requests["served"] + requests["refused"], requests["total"], arm["arm"])
                if arm["arm"] == "static":
                    self.assertLessEqual(line["bytes"]["peak"], line["bytes"]["share"])
                    self.assertEqual((line["bytes"]["borrowed"], line["bytes"]["given"]), (0, 0))

    def test_a_lent_share_serves_more_and_comes_back(self):
        budget = 128 << 20
        report = replay(self, *self.pair(), "--budget", str(budget))
        self.check_end(report, budget)
        elastic, static = report["arms"]
        self.assertEqual((elastic["arm"], static["arm"]), ("elastic", "static"))
        long, short = elastic["tenants"]
        self.assertGreater(long["bytes"]["borrowed"], budget // 4)
        self.assertGreater(long["bytes"]["given"], budget // 8)  # 'short' has taken its share back
        self.assertGreater(long["requests"]["preempted"], 0)
        self.assertEqual(short["requests"]["preempted"], 0)  # nobody presses what it does not borrow
        self.assertGreater(short["bytes"]["peak"], budget // 4)
        self.assertGreater(elastic["completed_tokens"], static["completed_tokens"] * 6 // 5)
        self.assertGreaterEqual(short["completed_tokens"], static["tenants"][1]["completed_tokens"])
        self.assertLess(long["wait_ns"]["p99"], static["tenants"][0]["wait_ns"]["p99"])
        against = report["elastic_against_static"]
        self.assertAlmostEqual(against["completed_tokens"],
                               elastic["completed_tokens"] / static["completed_tokens"], 6)
        self.assertEqual(against["worse_tenant_name"], "short")

    def test_budget_as_a_part_of_the_peaks_and_prefixes_under_pressure(self):
        tenants = ["--tenant", f"a={SAMPLE},model={SMALL},share=60", "--tenant",
                   f"b={SAMPLE},model={self.QUARTER}"]
        report = replay(self, *tenants, "--budget", "30%", "--max-requests", "150")
        first, second = report["tenants"]
        self.assertEqual((first["share_percent"], second["share_percent"]), (60, 40))
        peaks = first["alone_peak_bytes"] + second["alone_peak_bytes"]
        self.assertAlmostEqual(report["budget_bytes"] / peaks, 0.3, 3)
        self.check_end(report, report["budget_bytes"])
        elastic, static = report["arms"]
        self.assertGreater(elastic["tenants"][0]["prefix"]["attached_requests"], 30)
        self.assertGreater(elastic["tenants"][0]["prefix"]["evicted"], 0)
        self.assertGreaterEqual(elastic["completed_tokens"], static["completed_tokens"])

    def test_same_seed_same_service(self):
        first, second = (replay(self, *self.pair(), "--budget", "128MiB", "--arms", "elastic") for _ in range(2))
        for one, other in zip(first["arms"][0]["tenants"], second["arms"][0]["tenants"]):
            for key in ("requests", "completed_tokens", "wait_ns"):
                self.assertEqual(one[key], other[key], key)

    def test_one_arm(self):
        for arm in ("elastic", "static"):
            report = replay(self, *self.pair(",share=70"), "--budget", "128MiB", "--arms", arm)
            self.check_end(report, 128 << 20)
            self.assertEqual([line["arm"] for line in report["arms"]], [arm])
            self.assertIsNone(report["elastic_against_static"])

    def test_what_only_lent_bytes_can_serve(self):
        big = write(self.folder.name, "big.csv", self.HEAD + "0,20000,50\n1,100,20\n")
        report = replay(self, "--tenant", f"big={big},model={SMALL}", "--tenant",
                        f"short={self.short},model={SMALL}", "--budget", "128MiB")
        self.check_end(report, 128 << 20)
        elastic, static = (arm["tenants"][0] for arm in report["arms"])
        self.assertEqual((elastic["requests"]["served"], static["requests"]["served"]), (2, 1))
        self.assertIn("line 2", static["first_refusal"])

    def test_human_report_and_plot(self):
        path = os.path.join(self.folder.name, "tenants.svg")
        answer = run(*self.pair(), "--plugin", PLUGIN, "--trust", "--budget", "128MiB", "--plot", path)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        for word in ("elastic: ", "static: ", "given back", "tokens done", "the worse tenant, short", "audit clean"):
            self.assertIn(word, answer.stdout)
        with open(path) as file:
            picture = file.read()
        for title in ("long, elastic", "short, static", "budget"):
            self.assertIn(title, picture)

    def test_interrupted_tells_what_was_served_or_that_nothing_was(self):
        day = write(self.folder.name, "day.csv", self.HEAD + "".join(f"{i},600,200\n" for i in range(20000)))
        for budget in ("256MiB", "60%"):
            process = subprocess.Popen(
                [PROGRAM, "replay", "--tenant", f"a={day}", "--tenant", f"b={day}", "--model", SMALL, "--plugin", PLUGIN,
                 "--trust", "--budget", budget, "--format", "json"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            wait_until_caught(process, 1 << (signal.SIGTERM - 1))
            process.send_signal(signal.SIGTERM)
            out, error = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 130)
            if budget == "60%":
                self.assertEqual((out, error.count("\n")), ("", 1))
                self.assertIn("peak of tenant 'a'", error)
            else:
                report = json.loads(out)
                self.assertEqual([arm["arm"] for arm in report["arms"] if arm["interrupted"]], ["elastic"])
                self.assertEqual(set(report["arms"][0]["final"].values()), {0})
                self.assertIsNone(report["elastic_against_static"])

    def test_every_layout(self):
        for layout in ("head-major", "token-major"):
            report = replay(self, *self.pair(), "--budget", "256MiB", "--layout", layout, "--max-requests", "40")
            self.check_end(report, 256 << 20)


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def refused(self, code, words, *arguments, environment=None):
        answer = run(*arguments, environment=environment)
        self.assertEqual(answer.returncode, code, (arguments, answer.stderr, answer.stdout))
        self.assertEqual(answer.stdout, "")
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        for word in words:
            self.assertIn(word, answer.stderr)

    def with_trace(self, text, code, words, name="t.csv"):
        path = write(self.folder.name, name, text)
        self.refused(code, words, path, "--plugin", PLUGIN, "--trust")

    def test_plugins(self):
        self.refused(1, ["nosuch", "MEMBRANE_PLUGIN_PATH"], SAMPLE, "--plugin", "nosuch")
        self.refused(1, ["not-found"], SAMPLE, "--plugin", "/nowhere/x.so")
        text = write(self.folder.name, "libmembrane-text.so", "no plugin at all\n" * 100)
        self.refused(1, ["elf"], SAMPLE, "--plugin", text, "--trust")
        folder = os.path.join(self.folder.name, "open")
        os.mkdir(folder)
        with open(PLUGIN, "rb") as file:
            copy = write(folder, "libmembrane-host.so", file.read())
        os.chmod(copy, 0o755)
        os.chmod(folder, 0o777)
        self.refused(1, ["untrusted-folder", "chmod go-w"], SAMPLE, "--plugin", copy)
        os.chmod(folder, 0o755)
        os.chmod(copy, 0o777)
        self.refused(1, ["untrusted-file", "chmod"], SAMPLE, "--plugin", copy)
        os.chmod(copy, 0o755)
        answer = run(SAMPLE, "--plugin", copy, "--budget", "256MiB", "--model", SMALL,
                     "--max-requests", "3")
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_traces(self):
        head = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
        self.with_trace("arrived_at,num_prefill_tokens\n1,2\n", 1, ["num_decode_tokens"])
        self.with_trace(head + "1,-5,2\n", 1, ["-5", "t.csv:2:"])
        self.with_trace(head + "1,99999999999999999999,2\n", 1, ["t.csv:2:"])
        self.with_trace(head + "nan,5,2\n", 1, ["nan"])
        self.with_trace(head + "1,5,2\n2,5", 1, ["t.csv:3:"])
        self.with_trace('{"timestamp": 0, "input_length": 600, "outp', 1, ["t.jsonl:1:"], "t.jsonl")
        self.with_trace("", 1, ["empty"])
        self.with_trace(os.urandom(10 << 20), 1, ["t.csv"])
        self.refused(1, ["nosuch.csv"], os.path.join(self.folder.name, "nosuch.csv"))
        self.refused(1, [self.folder.name], self.folder.name)

    def test_tenants(self):
        one, two = f"one={SAMPLE}", f"two={SAMPLE}"
        pair = ["--tenant", one, "--tenant", two]
        budget = ["--budget", "1GiB"]
        for words, *arguments in (
                (["unknown key 'speed'", "model and share"], "--tenant", one + ",speed=3"),
                (["NAME=TRACE"], "--tenant", SAMPLE), (["NAME=TRACE"], "--tenant", "one="),
                (["NAME=TRACE"], "--tenant", "="), (["no trace"], "--tenant", "one=,share=3"),
                (["two tenants", "'one'"], "--tenant", one, "--tenant", one),
                (["110 %", "at most 100"], "--tenant", one + ",share=60", "--tenant", two + ",share=50",
                 *budget),
                (["nothing for 'two'"], "--tenant", one + ",share=100", "--tenant", two, *budget),
                (["share", "'0'"], "--tenant", one + ",share=0"), (["share", "'x'"], "--tenant", one + ",share=x"),
                (["one --tenant"], "--tenant", one, *budget), (["needs a budget"], *pair),
                (["beside --tenant"], SAMPLE, *pair, *budget), (["--eager"], *pair, *budget, "--eager", "whole"),
                (["--shared"], *pair, *budget, "--shared", "pool"),
                (["--arms", "--tenant"], SAMPLE, "--arms", "static"),
                (["--shared-folder", "--shared NAME"], SAMPLE, "--shared-folder", self.folder.name),
                (["--budget", "peaks"], SAMPLE, "--budget", "60%"), (["--budget", "'0'"], *pair, "--budget", "0%"),
                (["--budget", "''"], *pair, "--budget", "%"), (["--arms", "'both'"], *pair, *budget, "--arms", "both"),
                (["one more than 7"], *(f"--tenant=t{i}={SAMPLE}" for i in range(8))),
                (["no-such-model"], *pair, *budget, "--model", "no-such-model", "--plugin", PLUGIN, "--trust"),
                (["heads"], "--tenant", one + ",model=layers=2,heads=0,dim=4,bytes=2,planes=2,share=50", *pair[2:],
                 *budget, "--plugin", PLUGIN, "--trust")):
            self.refused(2, words, *arguments)
        own = ["--plugin", PLUGIN, "--trust", "--model", SMALL]
        self.refused(1, ["nosuch.csv", "tenant 'one'"], "--tenant", "one=/nosuch.csv", *pair[2:], *budget, *own)
        self.refused(1, ["tenant 'one'", "smallest request", "larger --budget"], *pair, "--budget", "300KB", *own)

    def test_geometries(self):
        for model, words in (("layers=8,heads=0,dim=64,bytes=2,planes=2", ["heads", "0"]),
                             ("layers=4096,heads=4096,dim=65536,bytes=16,planes=2", []),
                             ("layers=99999999999999999999,heads=1,dim=1,bytes=1,planes=1", ["layers"]),
                             ("no-such-model", ["no-such-model"])):
            self.refused(2, words, SAMPLE, "--plugin", PLUGIN, "--trust", "--model", model,
                         "--budget", "64MiB")

    def test_arrivals_beyond_the_end_of_time(self):
        path = write(self.folder.name, "far.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n"
                     "0,5,5\n9000000000,5,5\n")
        far = [path, "--plugin", PLUGIN, "--trust", "--budget", "64MiB", "--model", SMALL]
        for speed in ("0.000001", "0.4", "0.999999"):
            self.refused(2, ["--speed", "9000000000", "at least 1.0", "would work"], *far, "--speed", speed)
        report = replay(self, *far, "--speed", "1.000001")
        self.assertGreater(report["seconds"]["simulated"], 8999990000)

    def test_file_size_limit(self):
        with open(PROGRAM, "rb") as file:
            if b"__tsan_init" in file.read():
                self.skipTest("ThreadSanitizer's runtime writes a file of its own before main")

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        path = os.path.join(self.folder.name, "bytes.svg")
        done = subprocess.run([PROGRAM, "replay", SAMPLE, "--plugin", PLUGIN, "--trust", "--budget", "64MiB",
                               "--model", SMALL, "--eager", "whole", "--max-requests", "5", "--plot", path],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              preexec_fn=small_files)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_options(self):
        trusted = [SAMPLE, "--plugin", PLUGIN, "--trust"]
        self.refused(2, ["--budget", "granule", "65536"], *trusted, "--budget", "65535")
        self.refused(2, ["--budget"], *trusted, "--budget", "-1")
        self.refused(2, ["--budget"], *trusted, "--budget", "99999999TiB")
        self.refused(2, ["--layout", "seq-major"], *trusted, "--layout", "diagonal")
        self.refused(2, ["--prefix"], *trusted, "--prefix", "maybe")
        self.refused(2, ["--speed"], *trusted, "--speed", "0")
        self.refused(2, ["--speed"], *trusted, "--speed", "fast")
        self.refused(2, ["--plot", "bytes.gif", ".svg or .png"], *trusted, "--plot", "bytes.gif")
        self.refused(1, ["--plot", "cannot be written"], *trusted, "--plot", "/nowhere/bytes.svg")
        pipe = os.path.join(self.folder.name, "pipe.svg")
        os.mkfifo(pipe)
        self.refused(1, ["--plot", "a pipe", "another name"], *trusted, "--plot", pipe)
        self.assertEqual(os.listdir(self.folder.name), ["pipe.svg"])
        self.refused(2, ["--max-requests"], *trusted, "--max-requests", "0")
        self.refused(2, ["extent", "would work"], *trusted, "--extent", "1000")
        self.refused(2, ["--fork-every", "--eager"], *trusted, "--fork-every", "2", "--eager", "copy")
        self.refused(2, ["--fork-every", "--tenant"], "--fork-every", "2", "--tenant", "a=x", "--tenant", "b=y")
        self.refused(2, ["--paged", "--verify; with that"], *trusted, "--paged")
        self.refused(2, ["--protect", "--eager"], *trusted, "--protect", "--eager", "copy")
        self.refused(2, ["--paged", "--tenant"], "--verify", "--paged", "--tenant", "a=x", "--tenant", "b=y")
        self.refused(2, ["--weights", "--sleep-every"], *trusted, "--weights", "1MiB")
        self.refused(2, ["--sleep-every", "populate=0"], *trusted, "--sleep-every", "2", "--option", "populate=0")
        self.refused(2, ["--sleep-every", "--eager"], *trusted, "--sleep-every", "2", "--eager", "copy")
        self.refused(2, ["--option", "NAME=VALUE"], *trusted, "--option", "granule")
        self.refused(2, ["--option", "one more than 8"], *trusted, *["--option", "a=b"] * 9)
        self.refused(1, ["nosuch"], *trusted, "--option", "nosuch=1")
        self.refused(2, ["trace"], "--plugin", PLUGIN)
        self.refused(2, ["second"], SAMPLE, SAMPLE)
        self.refused(2, ["--frobnicate"], *trusted, "--frobnicate")
        self.refused(1, ["virtual"], SAMPLE, "--plugin", EAGER, "--trust")


class Limits(unittest.TestCase):
    """Thousands of requests at once under a limit of addresses: they wait for each other, or one line says
    what is used up. Wherever memory runs out, nothing is ended twice."""

    def test_addresses(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, "many.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n"
                         + "0,1,1\n" * 3000)
            for mib in (60, 80, 100, 120, 150):
                done = subprocess.run(
                    [PROGRAM, "replay", path, "--plugin", PLUGIN, "--trust", "--format", "json",
                     "--model", "layers=1,heads=1,dim=1,bytes=1,planes=1", "--budget", "8GiB"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                    preexec_fn=lambda mib=mib: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)))
                self.assertIn(done.returncode, (0, 1), (mib, done.stderr))
                self.assertEqual(done.stderr.count("\n"), done.returncode, (mib, done.stderr))
                if done.returncode == 0:
                    report = json.loads(done.stdout)
                    self.assertEqual(set(report["final"].values()), {0}, mib)
                    self.assertEqual(report["requests"]["served"] + report["requests"]["refused"], 3000, mib)


if __name__ == "__main__":
    names = {"report": ["Report"], "bad": ["BadInput"], "limits": ["Limits"], "tenants": ["Tenants"]}[sys.argv[1]]
    unittest.main(argv=[sys.argv[0], *names], verbosity=2)
