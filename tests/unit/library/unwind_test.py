"""The functions of every library whose files call a slot stand in libmembrane.so without an unwind
table (rule 26), so that no exception passes them; and the reader that says so sees the tables of
other functions."""

import bisect
import re
import subprocess
import sys
import unittest

LIBRARY = sys.argv[1]
ARCHIVES = sys.argv[2:]
WITH_TABLES = "mbr_grant"  # of the governor, which calls no slot


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


def functions(path):
    """Name to addresses of the functions that the file defines; a static name may have several."""
    found = {}
    for line in output("nm", "--defined-only", path).splitlines():
        match = re.match(r"([0-9a-f]+) [tT] (\w+)$", line)
        if match:
            found.setdefault(match.group(2), []).append(int(match.group(1), 16))
    return found


def covered_ranges(path):
    """[start, end) of all unwind tables, in order. Those of .debug_frame are for debuggers only."""
    listed = output("readelf", "--debug-dump=frames", path)
    listed = listed.split("Contents of the .eh_frame section:")[1].split("Contents of the ")[0]
    return sorted((int(start, 16), int(end, 16)) for start, end in re.findall(
        r"FDE cie=\w+ pc=([0-9a-f]+)\.\.([0-9a-f]+)", listed))


def is_covered(ranges, address):
    place = bisect.bisect_right(ranges, (address, sys.maxsize)) - 1
    return place >= 0 and ranges[place][0] <= address < ranges[place][1]


class Unwind(unittest.TestCase):
    def test_every_function_that_calls_a_slot_has_no_unwind_table(self):
        self.assertEqual(len(ARCHIVES), 4, ARCHIVES)
        library, ranges = functions(LIBRARY), covered_ranges(LIBRARY)
        for archive in ARCHIVES:
            names = [name for name in functions(archive) if len(library.get(name, [])) == 1]
            self.assertGreater(len(names), 5, archive)
            for name in names:
                self.assertFalse(is_covered(ranges, library[name][0]), f"{name} of {archive}")

    def test_the_reader_sees_tables(self):
        address = functions(LIBRARY)[WITH_TABLES][0]
        self.assertTrue(is_covered(covered_ranges(LIBRARY), address))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
