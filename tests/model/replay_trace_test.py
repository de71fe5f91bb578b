#!/usr/bin/python3
"""The journals of many schedules of the governor's own code hold against the rules in words; those of twins,
which lack a step, and journals with one line changed are refused, each for its reason."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import journals  # noqa: E402
import replay_trace  # noqa: E402


class Sound(unittest.TestCase):
    def check(self, program, edges):
        lines = journals.journal_of(program, '--gtest_filter=' + journals.SOUND)
        seen = replay_trace.replay(lines)
        scenarios = {line.split()[2] for line in lines if ' schedule ' in line}
        self.assertGreater(len(scenarios), 2)
        self.assertEqual(seen.schedule_count, (journals.SCHEDULES + journals.REHEARSALS) * len(scenarios))
        self.assertEqual(seen.edges & edges, edges)
        print(f'{program}: {seen.schedule_count} schedules, {seen.arbitration_count} arbitrations, '
              f'{seen.move_count} moves')

    def test_tickets_every_line_is_as_the_rules_say(self):
        self.check('ticket_test', {(before, after) for before, afters in replay_trace.EDGES.items()
                                   for after in afters})

    def test_pressure_every_line_is_as_the_rules_say(self):
        self.check('pressure_test', {('waiting', 'granted'), ('granted', 'claimed'), ('waiting', 'cancelled')})

    def test_reach_every_line_is_as_the_rules_say(self):
        self.check('reach_test', {('waiting', 'granted'), ('granted', 'claimed'), ('waiting', 'refused')})


class Twins(journals.Refused):
    replay = replay_trace.replay

    def test_late_ticket_granted(self):
        self.check_twin('late_ticket_granted', 'Sched_TimeOutAtGrant.DeadlineAndBytes*',
                   r'the verdict on ticket 1 is (grant|wait) in the journal, time out by the rules')

    def test_ticket_wakes_unbooked(self):
        self.check_twin('ticket_wakes_unbooked', 'Sched_CancelAgainstGrant.ClaimsToo*',
                   'ticket 1 is told before its bytes are booked')

    def test_release_wakes_nobody(self):
        self.check_twin('release_wakes_nobody', 'Sched_SubmitAgainstRelease.AnyOrder*',
                   r'ticket 1 of \d+ bytes is left waiting with \d+ free .*: grant')

    def test_limit_settles_nobody(self):
        self.check_twin('limit_settles_nobody', 'Sched_LimitAgainstTicket.LoweredAndRaised*',
                   r'ticket 1 of \d+ bytes is left waiting with \d+ free .*: (grant|refuse)')

    def test_limit_passes_claims(self):
        self.check_twin('limit_passes_claims', 'Sched_Lowering.AgainstClaims*',
                   r'free before this is -?\d+ in the journal, -?\d+ by the rules')


class Edited(journals.Edits):
    replay = replay_trace.replay
    program = 'ticket_test'

    def test_verdict_flipped(self):
        self.edit(r' verdict (\d+) (\d+) 1 0$', [r' verdict \1 \2 0 0'],
                  'the verdict on ticket 1 is wait in the journal, grant by the rules')

    def test_grant_without_verdict(self):
        self.edit(r'^(.) arbitrate (\d+) (.*)$', [r'\1 moves \2 1 0 1', r'\1 arbitrate \2 \3'],
                  'ticket 1 was never arbitrated')

    def test_state_skipped(self):
        self.edit(r' moves (\d+) (\d+) 0 1$', [r' moves \1 \2 0 2'], 'ticket 1 went from waiting to claimed')

    def test_claim_doubled(self):
        self.edit(r' moves (\d+) (\d+) 1 2$', [r' moves \1 \2 1 2'] * 2,
                  'the state of ticket 1 is granted in the journal, claimed by the rules')

    def test_grant_not_carried_out(self):
        self.edit(r' moves (\d+) (\d+) 0 1$', [], "verdicts are not carried out: {1: 'grant'}")

    def test_held_byte_lost(self):
        self.edit(r' arbitrated (\d+) ([1-9]\d*) 0 ', [lambda found: f' arbitrated {found[1]} {int(found[2]) - 1} 0 '],
                  r'what is held is \d+ in the journal, \d+ by the rules')

    def test_return_lost(self):
        self.edit(r' returns .*$', [], r'whether ticket 1 gave its bytes back is False in the journal')

    def test_room_changed_unseen(self):
        self.edit(r' room (\d+) (\d+) 0 credit.c$', [], r'free is \d+ in the journal, 0 by the rules')

    def test_end_missing(self):
        self.refuse(self.lines[:-1], 'the journal ends inside of a schedule')


class EditedReach(journals.Edits):
    replay = replay_trace.replay
    program = 'reach_test'

    def test_withheld_unseen(self):
        self.edit(r' withheld .*$', [], r'(what can be had|withheld before this) is \d+ in the journal, (0|one of .*) by the rules')

    def test_withheld_less(self):
        self.edit(r' withheld (\d+) 0 (\d+) (.*)$', [r' withheld \1 0 0 \3'],
                  r'(what can be had is|withheld before this is) \d+ in the journal')

    def test_measured_higher(self):
        self.edit(r' limits (\d+) 18446744073709551615 (\d+) ', [r' limits \1 18446744073709551615 1\2 '],
                  r'the limit in force is \d+ in the journal, \d+ by the rules')

    def test_leasable_lost(self):
        self.edit(r' limits (\d+) (\d+) (\d+) (\d+) (\d+) [1-9]\d* (\d+)$', [r' limits \1 \2 \3 \4 \5 0 \6'],
                  r'what can be had is \d+ in the journal, one of')

    def test_ledger_lower(self):
        self.edit(r' limits (.*) 20000$', [r' limits \1 19999'],
                  r'the set limit is 20000 in the journal, 19999 by the rules')


if __name__ == '__main__':
    unittest.main(verbosity=1)
