"""libmembrane.so exports exactly what the public headers declare with MBR_API, under one version
and the soname of this major; and the checker that says so notices each kind of difference."""

import re
import subprocess
import sys
import unittest

LIBRARY, SCRIPT, VERSIONS, HEADERS = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
NODE = "LIBMEMBRANE_0"


def declared():
    listed = subprocess.run(
        ["/usr/bin/python3", "-B", SCRIPT, "--list"] + HEADERS, stdout=subprocess.PIPE, check=True)
    return listed.stdout.decode().split()


def allowed(text):
    """Names of the version script."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.findall(r"(\w+);", text[text.index("global:"):text.index("local:")])


def exported():
    """(name, version) of every global symbol that the file defines, the version's own left out."""
    listed = subprocess.run(["nm", "-D", "--defined-only", "--extern-only", LIBRARY],
                            stdout=subprocess.PIPE, check=True)
    symbols = [line.split()[-1] for line in listed.stdout.decode().splitlines()]
    pairs = [tuple(re.split("@+", symbol + "@")[:2]) for symbol in symbols]
    return [(name, version) for name, version in pairs if name != NODE]


def differences(headers, script, library):
    """One line for each name that is not in all three."""
    found = []
    for name in sorted(set(headers) | set(script) | set(library)):
        places = {"a header": headers, "libmembrane.lds": script, "the library": library}
        missing = [place for place, names in places.items() if name not in names]
        if missing:
            found.append(f"{name} is not in {' and '.join(missing)}")
    return found


class Exports(unittest.TestCase):
    def setUp(self):
        with open(VERSIONS, encoding="utf-8") as file:
            self.script = allowed(file.read())
        self.headers = declared()
        self.library = exported()

    def test_the_three_lists_are_one(self):
        names = [name for name, _ in self.library]
        self.assertEqual([], differences(self.headers, self.script, names))
        self.assertGreater(len(names), 60)

    def test_every_symbol_carries_the_version(self):
        self.assertEqual({NODE}, {version for _, version in self.library})

    def test_the_soname_is_of_the_major(self):
        dynamic = subprocess.run(
            ["readelf", "-d", LIBRARY], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertEqual(["libmembrane.so.0"], re.findall(r"SONAME.*\[(.*)\]", dynamic))
        needed = [name.split(".")[0] for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic)]
        sanitizers = {"libasan", "libubsan", "libtsan"} # of builds that test
        own = {"libc", "libm", "libdl", "libpthread", "ld-linux-x86-64"}
        self.assertEqual(set(), set(needed) - own - sanitizers)

    def test_nothing_runs_at_a_fork_or_at_the_end_of_the_process(self):
        """Rule 27. The compiler's own start-up files bring one entry, which ends frames."""
        listed = subprocess.run(["nm", "-D", "--undefined-only", LIBRARY], stdout=subprocess.PIPE,
                                check=True).stdout.decode()
        taken = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
        self.assertIn("pthread_create", taken)
        self.assertEqual(set(), taken & {"atexit", "__cxa_atexit", "on_exit", "at_quick_exit",
                                         "pthread_atfork", "__register_atfork"})
        if any(re.match("__[at]san_", name) for name in taken):
            return # a sanitizer registers each object that it looks after
        sections = subprocess.run(["readelf", "-SW", LIBRARY], stdout=subprocess.PIPE,
                                  check=True).stdout.decode()
        size = re.search(r"\.fini_array\s+FINI_ARRAY\s+\w+ \w+ (\w+)", sections)
        self.assertEqual(8, int(size.group(1), 16))

    def test_it_stays_in_the_process(self):
        """A thread that ends after a dlclose runs code of it, and no destructor prevents that."""
        dynamic = subprocess.run(
            ["readelf", "-d", LIBRARY], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertRegex(dynamic, r"FLAGS_1.*NODELETE")

    def test_the_checker_notices(self):
        names = [name for name, _ in self.library]
        first = names[0]
        self.assertEqual([f"{first} is not in the library"],
                         differences(self.headers, self.script, names[1:]))
        self.assertEqual(["mbr_new is not in libmembrane.lds and the library"],
                         differences(self.headers + ["mbr_new"], self.script, names))
        self.assertEqual(["mbr_leaked is not in a header and libmembrane.lds"],
                         differences(self.headers, self.script, names + ["mbr_leaked"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
