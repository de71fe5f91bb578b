"""`membrane new-plugin` from outside: the folder that it writes builds against installed headers alone,
with make and with Bazel, and opens as a plugin; what it cannot write leaves nothing."""

import errno
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.abspath(sys.argv.pop())
HEADERS = os.path.abspath(sys.argv.pop())
PROGRAM = os.path.abspath(sys.argv.pop())
FILES = ["BUILD", "Makefile", "WORKSPACE", "defs.bzl", "native_rules.bzl", "plugin.c", "plugin.lds"]


class NewPlugin(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        os.umask(0o022)

    def run_in_folder(self, *command, under="", **options):
        return subprocess.run(command, cwd=os.path.join(self.folder, under), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, check=False, **options)

    def new_plugin(self, *arguments, **options):
        return self.run_in_folder(PROGRAM, "new-plugin", *arguments, **options)

    def installed(self):
        """A folder with the headers and nothing else of the tree."""
        include = os.path.join(self.folder, "include")
        shutil.copytree(HEADERS, os.path.join(include, "membrane"))
        return include

    def test_the_folder_builds_with_installed_headers_alone_and_opens(self):
        done = self.new_plugin("acme-gpu", "--include", self.installed())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(f"{self.folder}/acme-gpu")), FILES)
        made = self.run_in_folder("make", "-C", "acme-gpu", "CFLAGS=-O2 -Werror")
        self.assertEqual(made.returncode, 0, made.stderr)
        inspected = self.run_in_folder(PROGRAM, "inspect", "--format", "json",
                                       "acme-gpu/libmembrane-acme-gpu.so")
        self.assertEqual(inspected.returncode, 0, inspected.stderr)
        self.assertIn("acme-gpu", json.dumps(json.loads(inspected.stdout)))

    def test_the_folder_builds_with_bazel_and_no_network_and_conforms(self):
        """The test's own sandbox has no network: its tag `block-network`."""
        with self.assertRaises(OSError) as refused:
            socket.create_connection(("192.0.2.1", 80), timeout=1)
        self.assertEqual(refused.exception.errno, errno.ENETUNREACH)  # with a network it would time out
        done = self.new_plugin("acme-gpu", "--include", self.installed())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        home = os.path.join(self.folder, "home")  # a user without a .bazelrc
        self.addCleanup(subprocess.run, ["chmod", "-R", "u+w", home], check=True)
        made = self.run_in_folder("bazel", "--batch", f"--output_user_root={home}", "build", "//...",
                                  under="acme-gpu", env=dict(os.environ, HOME=home))
        self.assertEqual(made.returncode, 0, made.stderr)
        checked = self.run_in_folder(
            CHECK, "acme-gpu/bazel-bin/libmembrane-acme-gpu.so", "--level", "3")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_no_file_keeps_the_words_of_the_template(self):
        include = self.installed()
        self.assertEqual(self.new_plugin("x", "--include", include).returncode, 0)
        for name in FILES:
            with open(f"{self.folder}/x/{name}", encoding="utf-8") as file:
                text = file.read()
            self.assertNotIn("template", text, name)
            self.assertNotIn("/usr/local/include", text, name)
            self.assertNotIn("//plugins", text, name)
        with open(f"{self.folder}/x/WORKSPACE", encoding="utf-8") as file:
            self.assertIn(f'path = "{include}"', file.read())

    def test_without_headers_make_says_what_would_work(self):
        self.assertEqual(self.new_plugin("x").returncode, 0)
        made = self.run_in_folder("make", "-C", "x", f"MEMBRANE_INCLUDE={self.folder}/none")
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("make MEMBRANE_INCLUDE=DIR", made.stderr)

    def test_a_folder_that_is_there_is_left_alone(self):
        os.mkdir(f"{self.folder}/acme")
        done = self.new_plugin("acme")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("a new folder would work", done.stderr)
        self.assertEqual(os.listdir(f"{self.folder}/acme"), [])
        self.assertEqual(self.new_plugin("acme", "--folder", "other").returncode, 0)
        self.assertEqual(sorted(os.listdir(f"{self.folder}/other")), FILES)

    def test_a_write_that_fails_half_way_leaves_nothing(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

        done = self.new_plugin("acme", preexec_fn=small_files)
        self.assertEqual(done.returncode, 1)
        self.assertIn("plugin.c': File too large; nothing is left of it", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_folder_that_cannot_be_made_says_what_would_work(self):
        for folder in ("no/x", "y" * 300):
            done = self.new_plugin("acme", "--folder", folder)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("would work, --folder DIR names another", done.stderr)

    def test_bad_arguments_are_one_line_and_write_nothing(self):
        long_name = "a" * 32
        for arguments in ((), ("",), ("Acme",), ("a_b",), ("-",), ("a-",), ("../x",), (long_name,),
                          ("a", "b"), ("a", "--include", "/nowhere"), ("a", "--what"), ("a", "--folder", "")):
            done = self.new_plugin(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
