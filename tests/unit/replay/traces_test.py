"""Public traces through `membrane replay`, if MEMBRANE_TRACES names their folder. They are never part of the project.

With `long`: the first 2,000 requests of the conversation trace. With `small`: 200 of them under 256 MiB. With `azure`:
two traces under one budget. With `goals`: the two figures of P16 that need no rival, without pages."""

import os
import sys
import unittest

from replay_run import replay


class Conversation(unittest.TestCase):
    """One trace under a budget that it outgrows."""

    def trace(self):
        folder = os.environ.get("MEMBRANE_TRACES", "")
        path = os.path.join(folder, "mooncake_conversation.jsonl")
        if not os.path.exists(path):
            self.skipTest("the public traces are not here; MEMBRANE_TRACES would name their folder")
        return path

    def check(self, report, budget, served):
        self.assertEqual(report["audit"], "clean")
        self.assertEqual(set(report["final"].values()), {0})
        requests = report["requests"]
        self.assertEqual(requests["served"] + requests["refused"], served)
        self.assertLessEqual(requests["refused"], served // 50)
        self.assertGreaterEqual(requests["waited"], served // 5)
        self.assertGreater(report["prefix"]["attached_requests"], served // 4)
        self.assertGreaterEqual(report["bytes"]["owned"]["peak"], budget * 9 // 10)
        self.assertLessEqual(report["bytes"]["owned"]["peak"], budget)
        self.assertEqual(report["oracle"]["points"], 10)
        self.assertTrue(report["oracle"]["system_asked"])
        self.assertLessEqual(report["oracle"]["max_difference_bytes"],
                             report["oracle"]["extent_bytes"])
        self.assertGreaterEqual(report["contents"]["verified_marks"],
                                report["contents"]["written_marks"])

    def test_long(self):
        report = replay(self, self.trace(), "--max-requests", "2000", "--model",
                        "layers=4,heads=2,dim=64,bytes=2,planes=2", "--budget", "1GiB")
        self.check(report, 1 << 30, 2000)

    def test_small(self):
        report = replay(self, self.trace(), "--max-requests", "200", "--model",
                        "layers=2,heads=1,dim=64,bytes=2,planes=2", "--budget", "256MiB",
                        "--speed", "4")
        self.check(report, 256 << 20, 200)


class Azure(unittest.TestCase):
    """Two traces under one budget."""

    def test_two_tenants(self):
        folder = os.environ.get("MEMBRANE_TRACES", "")
        paths = [os.path.join(folder, f"azure_2023_{name}.csv") for name in ("conv", "code")]
        if not all(os.path.exists(path) for path in paths):
            self.skipTest("the public traces are not here; MEMBRANE_TRACES would name their folder")
        report = replay(self, "--tenant", f"chat={paths[0]},model=layers=4,heads=4,dim=64,bytes=2,planes=2", "--tenant",
                        f"code={paths[1]},model=layers=1,heads=1,dim=64,bytes=2,planes=2", "--budget", "60%",
                        "--max-requests", "1500")
        for arm in report["arms"]:
            self.assertEqual(set(arm["final"].values()), {0}, arm["arm"])
            self.assertEqual(arm["audit"], "clean")
            for line in arm["tenants"]:
                self.assertEqual(line["requests"]["served"], 1500, arm["arm"])
        elastic, static = (arm["completed_tokens"] for arm in report["arms"])
        self.assertGreaterEqual(elastic, static)
        self.assertGreaterEqual(report["elastic_against_static"]["worse_tenant"], 0.9)


class Goals(unittest.TestCase):
    """Llama-3-8B whole, cut as on a GPU; no page is there before it is touched."""

    def check(self, name, *arguments):
        path = os.path.join(os.environ.get("MEMBRANE_TRACES", ""), name)
        if not os.path.exists(path):
            self.skipTest("the public traces are not here; MEMBRANE_TRACES would name their folder")
        report = replay(self, path, "--model", "llama-3-8b", "--option", "granule=2097152", "--option", "populate=0",
                        *arguments)
        self.assertEqual(set(report["final"].values()), {0})
        self.assertEqual(report["requests"]["served"], report["requests"]["total"])
        for name in ("internal_waste", "peak_owned_over_peak_live"):
            self.assertEqual(report["goals"][name]["verdict"], "goal", report["goals"])

    def test_azure(self):
        self.check("azure_2023_conv.csv", "--max-requests", "4000", "--keep", "1GiB", "--budget", "64GiB")

    def test_mooncake(self):
        self.check("mooncake_conversation.jsonl", "--max-requests", "500", "--budget", "128GiB")


if __name__ == "__main__":
    names = {"long": ["Conversation.test_long"], "small": ["Conversation.test_small"], "azure": ["Azure"],
             "goals": ["Goals"]}[sys.argv[1]]
    unittest.main(argv=[sys.argv[0], *names], verbosity=2)
