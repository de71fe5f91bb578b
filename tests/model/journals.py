"""What the tests of replaying checkers share: journals of programs of tests/sched, and journals that are refused."""
import os
import re
import subprocess
import tempfile
import unittest

from replay_trace import Difference

SCHEDULES = 200
REHEARSALS = 2  # of each scenario, before the seeds
# Schedules that a seed makes, in a product without a fault.
SOUND = '-*Caught:*EverySchedule*'


def journal_of(program, *arguments):
    """What the program writes, whatever comes of it."""
    with tempfile.NamedTemporaryFile('r', encoding='ascii') as journal:
        environment = dict(os.environ, MEMBRANE_JOURNAL=journal.name, MEMBRANE_SCHEDULES=str(SCHEDULES))
        for unwanted in ('MEMBRANE_SCHEDULE', 'TESTBRIDGE_TEST_ONLY', 'XML_OUTPUT_FILE'):
            environment.pop(unwanted, None)
        done = subprocess.run([f'tests/sched/{program}', *arguments], env=environment, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        if done.returncode != 0:
            raise AssertionError(f'{program}: status {done.returncode}\n{done.stdout[-4000:]}')
        return journal.read().splitlines()


class Refused(unittest.TestCase):
    replay = None  # the checker, of a list of lines

    def refuse(self, lines, reason):
        with self.assertRaisesRegex(Difference, reason):
            type(self).replay(lines)

    def check_twin(self, twin, scenario, reason):
        self.refuse(journal_of(twin + '_twin_test', scenario), reason)


class Edits(Refused):
    """A sound journal with one line changed."""
    program = None
    scenarios = SOUND

    @classmethod
    def setUpClass(cls):
        cls.lines = journal_of(cls.program, '--gtest_filter=' + cls.scenarios)

    def edit(self, pattern, replacement, reason):
        """The first line of the pattern becomes what is given: several lines, or none."""
        at = next(number for number, line in enumerate(self.lines) if re.search(pattern, line))
        changed = [re.sub(pattern, text, self.lines[at]) for text in replacement]
        self.refuse(self.lines[:at] + changed + self.lines[at + 1:], reason)
