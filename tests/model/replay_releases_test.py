#!/usr/bin/python3
"""The journals of many schedules of the release queue's own code hold against the rules in words; those of twins,
which lack a step, and journals with one line changed are refused, each for its reason."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import journals  # noqa: E402
import replay_releases  # noqa: E402

NOT_DONE = r'entry \d+ is settled before the work of stream \d was seen done'


class Sound(unittest.TestCase):
    def check(self, program, takes=False):
        lines = journals.journal_of(program, '--gtest_filter=' + journals.SOUND)
        seen = replay_releases.replay(lines)
        scenarios = {line.split()[2] for line in lines if ' schedule ' in line}
        self.assertGreater(len(scenarios), 2)
        self.assertEqual(seen.schedule_count, (journals.SCHEDULES + journals.REHEARSALS) * len(scenarios))
        self.assertGreater(seen.settled_count, seen.schedule_count // 2)
        self.assertEqual(seen.taken_count != 0, takes)
        print(f'{program}: {seen.schedule_count} schedules, {seen.settled_count} settled, {seen.taken_count} taken, '
              f'{seen.signal_count} signals')

    def test_queue_every_line_is_as_the_rules_say(self):
        self.check('queue_test')

    def test_context_every_line_is_as_the_rules_say(self):
        self.check('context_test')

    def test_reaper_every_line_is_as_the_rules_say(self):
        self.check('reaper_test')

    def test_capture_every_line_is_as_the_rules_say(self):
        self.check('capture_test')

    def test_reactivation_every_line_is_as_the_rules_say(self):
        self.check('reactivate_test', takes=True)


class Twins(journals.Refused):
    replay = replay_releases.replay

    def test_reached_by_any_value(self):
        self.check_twin('reached_by_any_value', 'Sched_Queue.DeferAgainstReap_Each*', NOT_DONE)

    def test_put_back_as_done(self):
        self.check_twin('put_back_as_done', 'Sched_Reactivate.AgainstALoss*', NOT_DONE)

    def test_owned_goes_with_its_streams(self):
        self.check_twin('owned_goes_with_its_streams', 'Sched_Capture.OwnedMemory*',
                        r'entry \d+ is settled while graphs \[1\] own it')

    def test_taken_without_a_wait(self):
        self.check_twin('taken_without_a_wait', 'Sched_Reactivate.ByTwo*',
                        r'entry \d+ is taken for stream \d, which does not come after stream \d')

    def test_drain_leaves_its_epoch(self):
        self.check_twin('drain_leaves_its_epoch', 'Sched_Drain.AgainstDefer_*',
                        r'entry \d+ was queued before the drain and still is')

    def test_settled_before_it_is(self):
        self.check_twin('settled_before_it_is', 'Sched_Drain.TimeOut*',
                        r'entry \d+ was queued before the drain and still is')

    def test_lose_leaves_the_settler(self):
        self.check_twin('lose_leaves_the_settler', 'Sched_Loss.SaidWhile*',
                        r'the EP is lost, and . is not done with what it settles')


class EditedTaken(journals.Edits):
    """I4, I10 and I11 in one journal: released and taken again."""
    program = 'reactivate_test'
    replay = replay_releases.replay

    def test_settled_twice(self):
        self.edit(r'^(.*) settled (\d+) (\d+) 0$', [r'\1 settled \2 \3 0', r'\1 settles \2 \3 0'],
                  r'entry \d+ is settled after it was settled or taken')

    def test_taken_and_settled(self):
        self.edit(r'^(.*) takes (\d+) (\d+) (\d)$', [r'\1 takes \2 \3 \4', r'\1 settles \2 \3 0'],
                  r'entry \d+ is settled after it was settled or taken')

    def test_taken_for_another_stream(self):
        self.edit(r' takes (\d+) (\d+) 0$', [r' takes \1 \2 1'], r'which does not come after stream 0')

    def test_wait_not_enqueued(self):
        self.edit(r' waits .*$', [], r'which does not come after stream \d')

    def test_settle_missing(self):
        self.edit(r' settles .*$', [], r'entr.* (left in the queue|still is|in the queue already)')


class EditedQueue(journals.Edits):
    program = 'queue_test'
    replay = replay_releases.replay

    def test_answered_less(self):
        self.edit(r' answers (\d+) (\d+) [1-9]\d*$', [r' answers \1 \2 0'], NOT_DONE)

    def test_answered_more(self):
        self.edit(r' answers (\d+) (\d+) (\d+)$', [r' answers \1 \2 9\3'], r'value 9\d+ was never signalled')

    def test_value_skipped(self):
        self.edit(r' signals (\d+) (\d+) 1$', [r' signals \1 \2 2'], 'value 2 follows 0')

    def test_one_signal_more(self):
        self.edit(r'^(.*) signals 1 1 1$', [r'\1 signals 1 1 1'] + [rf'\1 signals 1 1 {n}' for n in range(2, 100)],
                  'more signals on stream 0 than entries and synchronizations')

    def test_lost_for_no_reason(self):
        self.edit(r' settles (\d+) (\d+) 0$', [r' settles \1 \2 1'], 'settled as lost, and the device is there')

    def test_settled_beside_another(self):
        self.edit(r' settled .*$', [], r'is settled by . beside .')

    def test_end_missing(self):
        self.refuse(self.lines[:-1], 'the journal ends inside of a schedule')


class EditedCapture(journals.Edits):
    program = 'capture_test'
    scenarios = 'Sched_Capture.OwnedMemory*'
    replay = replay_releases.replay

    def test_graph_stays(self):
        self.edit(r' gone 1 1$', [], r'entry \d+ is settled while graphs \[1\] own it')

    def test_graph_goes_twice(self):
        self.edit(r'^(.*) gone 1 1$', [r'\1 gone 1 1'] * 2, 'graph 1 is let go twice')


if __name__ == '__main__':
    unittest.main(verbosity=1)
