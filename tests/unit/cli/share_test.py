"""`membrane` and `membrane share` from outside: help, exit codes, one-line errors, figures, JSON."""

import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
MIB = 1 << 20


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, check=False)


def share(*arguments):
    return run("share", *arguments)


def share_json(*arguments):
    done = share(*arguments, "--format", "json")
    return done.returncode, json.loads(done.stdout)


class Main(unittest.TestCase):
    def test_help_lists_the_commands(self):
        for flag in ("--help", "-h", "help"):
            done = run(flag)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("\n  share ", done.stdout)

    def test_version_is_one_line(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\Amembrane \d+\.\d+\.\d+, plugin contract \d+\.\d+\n\Z")

    def test_unknown_command_names_the_nearest(self):
        done = run("shaer")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr,
                         "membrane: unknown command 'shaer'; did you mean 'share'?\n")

    def test_unlike_any_command_points_to_the_help(self):
        for arguments in ((), ("",), ("zzz",), ("--nope",), ("a\nb",)):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("membrane --help", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_full_disk_is_an_error(self):
        for arguments in (["--help"], ["share", "--model=phi-4", "--prefix=9000"],
                          ["share", "--model=phi-4", "--prefix=9000", "--format=json"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      universal_newlines=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot be written", done.stderr)


class Usage(unittest.TestCase):
    def test_help_names_every_option_once(self):
        done = share("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for option in ("model", "layout", "granule", "extent", "window", "max-tokens", "prefix",
                       "sequences", "budget", "private", "tp", "format", "help"):
            self.assertEqual(done.stdout.count(f"--{option}"), 1, option)
        self.assertEqual(done.stdout.count("Exit code 1"), 1)

    def test_bad_input_is_one_line_that_says_what_would_work(self):
        good = ["--model=phi-4", "--prefix=9000"]
        rows = [
            ([], "--model is missing; --model=llama-3-8b would work"),
            (["--model", "phi-4"], "--prefix is missing; --prefix=4096 would work"),
            (["--model"], "--model needs a value"),
            (["--modle=phi-4"], "did you mean --model?"),
            (["--zzz"], "unknown option '--zzz'; --help lists"),
            (["-x"], "unknown option '-x'"),
            (good + ["-xy"], "unknown option '-xy'"),
            (["--help=1"], "takes no value"),
            (good + ["extra"], "unexpected argument 'extra'"),
            (["--model=lama-3-8b"], "did you mean 'llama-3-8b'"),
            (["--model=layers=0"], "layers=0 is out of range; 1 to 4096 would work"),
            (["--model="], "known are llama-3-8b"),
            (["--layout=seqmajor"], "(nearest: seq-major)"),
            (["--format=jsn"], "human and json would work (nearest: json)"),
            (["--format=xml"], "'xml' is unknown; human and json would work"),
            (["--prefix="], "'' is empty; a whole number from 1 to"),
            (["--prefix=-4"], "'-4' is negative"),
            (["--prefix=0"], "'0' is too small; 1 to"),
            (["--prefix=4k"], "'4k' has an unknown unit"),
            (["--prefix=2000000000000"], "is too large; a whole number from 1 to"),
            (["--prefix=99999999999999999999"], "is too large; a whole number from 1 to"),
            (["--granule=0"], "'0' is too small; at least 1 would work"),
            (["--granule=-2MiB"], "is negative"),
            (["--granule=2M"], "'2M' has an unknown unit"),
            (["--granule=2MiBx"], "'2MiBx' has an unknown unit"),
            (["--granule=1.5GiB"], "is not a whole number"),
            (["--granule=8EiB"], "has an unknown unit"),
            (["--granule=9000000TiB"], "is too large"),
            (["--granule=a\nb"], "'a?b' is not a number"),
            (good + ["--granule=8388607TiB"], "--granule: granule"),
            (good + ["--layout=seq-major", "--extent=3MiB"], "4194304 would work"),
            (good + ["--extent=3MiB"], "windows of"),
            (good + ["--tp=3"], "does not divide 10 heads; 2 does"),
            (good + ["--tp=0"], "'0' is too small; 1 to 4096"),
            (good + ["--sequences=0"], "'0' is too small"),
            (good + ["--max-tokens=8999"], "at least 9000 would work"),
            (good + ["--max-tokens=9500", "--private=501", "--budget=1GiB"],
             "at least 9501 would work"),
            (good + ["--private=5"], "--budget=80GiB"),
            (good + ["--budget=2097151"],
             "--budget: '2097151' is below one granule of 2097152 bytes; at least that would work"),
            (good + ["--layout=seq-major", "--window=16"],
             "--window: this layout has none; --layout=window-major would work"),
            (["--model=\x9b31m"], "unknown model '?31m'"),
            (["--model=layers=4096,heads=4096,dim=65536,bytes=16,planes=2", "--prefix=131073",
              "--layout=token-major"], "--max-tokens: max-tokens 262144"),
        ]
        for arguments, says in rows:
            done = share(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertEqual(done.stdout, "", arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertTrue(done.stderr.startswith("membrane share: "), done.stderr)
            self.assertIn(says, done.stderr, arguments)

    def test_groups_beyond_64_bits_are_refused(self):
        group = "layers=4096,heads=4096,dim=65536,bytes=16,planes=2"
        done = share("--model", "+".join([group] * 4), "--prefix=131072", "--layout=token-major")
        self.assertEqual(done.returncode, 2)
        self.assertIn("more than 2^64 - 1 bytes", done.stderr)

    def test_saving_beyond_64_bits_names_the_most(self):
        big = ["--model=layers=4096,heads=4096,dim=65536,bytes=16,planes=2", "--prefix=131072",
               "--layout=token-major"]
        done = share(*big, "--sequences=5")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--sequences: sequences 5 save more than 2^64 - 1 bytes; up to 4 would work",
                      done.stderr)
        code, answer = share_json(*big, "--sequences=4")
        self.assertEqual((code, answer["saving"]["bytes"]), (0, 3.0 * 2**62))


class Answers(unittest.TestCase):
    def test_table_of_one_group(self):
        done = share("--model=qwen2.5-14b", "--layout=seq-major", "--prefix=2500")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [line for line in done.stdout.splitlines() if line]
        self.assertEqual(lines[0],
                         "qwen2.5-14b, seq-major, granule 2 MiB, prefix 2500 of 131072 tokens")
        self.assertEqual(len({len(line) for line in lines[1:]}), 1, "the columns are aligned")
        table = {line[:24].strip(): line[24:].strip() for line in lines[1:]}
        self.assertEqual(table["a token"], "192 KiB")
        self.assertEqual(table["fragments"], "96")
        self.assertEqual(table["one-token floor"], "192 MiB")
        self.assertEqual(table["shared"], "384 MiB")
        self.assertEqual(table["extents to map a sharer"], "192")
        self.assertEqual(table["shareable"], "yes")

    def test_table_of_two_groups_has_a_total(self):
        done = share("--model=gemma-3-4b", "--prefix=8192", "--tp=2", "--sequences=3",
                     "--budget=8GiB")
        self.assertEqual(done.returncode, 0)
        self.assertIn("one of 2 devices", done.stdout)
        heads = done.stdout.splitlines()[2].split()
        self.assertEqual(heads, ["window", "1024", "full", "total"])
        layers = done.stdout.splitlines()[3].split()
        self.assertEqual(layers, ["layers", "29", "5", "34"])

    def test_thresholds_of_the_specification(self):
        for model, layout, threshold in (("qwen2.5-14b", "head-major", 8192),
                                         ("qwen2.5-14b", "seq-major", 1024)):
            done = share("--model", model, "--layout", layout, "--prefix", str(threshold - 1))
            self.assertEqual(done.returncode, 1)
            self.assertIn("no whole extent (2 MiB) lies inside", done.stderr)
            self.assertIn(f"would work: a prefix of {threshold} tokens", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(f"from {threshold}", done.stdout)
            done = share("--model", model, "--layout", layout, "--prefix", str(threshold))
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_refusal_in_json_names_every_remedy(self):
        code, answer = share_json("--model=qwen2.5-14b", "--layout=seq-major", "--prefix=2500",
                                  "--extent=16MiB")
        self.assertEqual((code, answer["shareable"]), (1, False))
        refusal = answer["groups"][0]["refusal"]
        self.assertEqual(refusal["condition"], "extent")
        self.assertEqual(refusal["prefix_tokens"], 8192)
        self.assertEqual(refusal["extent_bytes"], 4 * MIB)
        self.assertEqual(refusal["layouts"], ["token-major", "window-major"])
        self.assertIn("16 MiB", refusal["text"])

    def test_nearest_refusal_is_the_shortest_prefix(self):
        done = share("--model", "layers=2,heads=1,dim=64,bytes=2,planes=2+"
                     "layers=2,heads=8,dim=128,bytes=2,planes=2+"
                     "layers=2,heads=2,dim=128,bytes=2,planes=2", "--layout=seq-major",
                     "--prefix=10", "--max-tokens=131072")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a prefix of 1024 tokens", done.stderr)

    def test_nothing_in_this_reservation_works(self):
        done = share("--model=layers=1,heads=1,dim=64,bytes=2,planes=1", "--prefix=10",
                     "--max-tokens=64", "--layout=token-major")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a reservation for more tokens, or a smaller granule", done.stderr)
        self.assertRegex(done.stdout, r"shareable +no\n")

    def test_json_shape_and_sums(self):
        code, answer = share_json("--model=gemma-3-4b", "--prefix=8192", "--sequences=4",
                                  "--budget=16GiB", "--private=1000")
        self.assertEqual(code, 0)
        self.assertEqual(set(answer), {"model", "tensor_parallel", "layout", "granule_bytes",
                                       "max_tokens", "prefix_tokens", "private_tokens", "shareable",
                                       "groups", "total", "saving", "capacity"})
        self.assertEqual((answer["model"], answer["layout"]), ("gemma-3-4b", "window-major"))
        self.assertEqual((answer["granule_bytes"], answer["max_tokens"]), (2 * MIB, 131072))
        self.assertEqual(len(answer["groups"]), 2)
        for group in answer["groups"]:
            self.assertEqual(set(group), {
                "layers", "heads", "dim", "element_bytes", "planes", "window_tokens", "token_bytes",
                "fragments", "row_bytes", "layout_window_tokens", "layout_window_bytes",
                "reservation_bytes", "extents", "shareable", "refusal", "prefix_bytes",
                "shared_bytes", "shared_extents", "boundary_bytes", "floor_bytes",
                "private_bytes"})
            self.assertEqual(set(group["extents"]), {"unit_bytes", "max_bytes", "divisor"})
            self.assertTrue(group["shareable"])
            self.assertIsNone(group["refusal"])
            self.assertEqual(group["fragments"] * group["row_bytes"], group["token_bytes"])
        total = answer["total"]
        for key in total:
            self.assertEqual(total[key], sum(group[key] for group in answer["groups"]), key)
        self.assertEqual(answer["saving"], {"sequences": 4, "bytes": 3 * total["shared_bytes"]})
        prefix, own = total["shared_bytes"], total["private_bytes"]
        self.assertEqual(answer["capacity"], {
            "budget_bytes": 16 << 30, "unshared_sequences": (16 << 30) // (prefix + own),
            "shared_sequences": ((16 << 30) - prefix) // own})

    def test_nothing_private_is_unbounded(self):
        arguments = ("--model=llama-3-8b", "--prefix=4096", "--budget=16GiB")
        code, answer = share_json(*arguments)
        self.assertEqual((code, answer["capacity"]["unshared_sequences"]), (0, 32))
        self.assertIsNone(answer["capacity"]["shared_sequences"])
        self.assertRegex(share(*arguments).stdout, r"sequences shared +unbounded\n")

    def test_budget_below_one_sequence_is_zero(self):
        _, answer = share_json("--model=llama-3-8b", "--prefix=4096", "--budget=511MiB")
        self.assertEqual(answer["capacity"]["unshared_sequences"], 0)
        self.assertEqual(answer["capacity"]["shared_sequences"], 0)

    def test_room_grows_to_the_next_power_of_two(self):
        _, answer = share_json("--model=llama-3-8b", "--prefix=131000", "--private=1000",
                               "--budget=80GiB")
        self.assertEqual(answer["max_tokens"], 262144)

    def test_window_and_granule_are_taken(self):
        _, answer = share_json("--model=llama-3-8b", "--prefix=4096", "--granule=64KiB",
                               "--window=24")
        group = answer["groups"][0]
        self.assertEqual(group["layout_window_tokens"], 24)
        self.assertEqual(group["layout_window_bytes"], 24 * 128 * 1024)


if __name__ == "__main__":
    unittest.main()
