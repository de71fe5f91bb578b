#!/usr/bin/python3
"""Reads the journal of schedules that tests/sched writes, and checks each line against an idea of its own of
every ticket and of what is free. The rules are those that governor/arbiter.h and membrane/pressure.h state in
words; no code is shared with what wrote the journal.

    replay_trace.py JOURNAL        one line with counts; or the first difference, and status 1

A line begins with who did it: a letter for a fiber, `-` for code outside of all of them. Then:

    schedule NAME SEED                        a new world
    authority A FREE                          with nothing claimed
    holder H A ALLOWANCE BORROWS
    room A BEFORE AFTER FILE                  limit - claimed; limit.c moves the limit, others bytes
    lease H BEFORE AFTER FILE                 of the allowance: granted and charged
    withheld A BEFORE AFTER FILE              charged and quarantined or retained
    limits A SET MEASURED EXHAUSTED LEASED LEASABLE LEDGER
                                              each alone, before each of the next; UNLIMITED: none
    arbitrate A NOW FREE SET LIMIT COUNT      what went in, with COUNT of the next:
    wish A N BYTES SINCE DEADLINE H LEFT OWN PRIORITY ASKING
    verdict A N VERDICT HELD                  what came out, one a wish, and then:
    arbitrated A HELD LEFT LACKING
    books A N H BYTES                         the bytes of ticket N are its holder's
    moves A N FROM TO                         its state
    returns A N H BYTES                       a granted ticket gives its bytes back
    rest                                      no fiber can go on by itself
    end                                       all ended, and everybody has given back
"""
import sys

UNLIMITED = 2**64 - 1
HIGHEST_LIMIT = 2**63 - 1
AGEING_NS = 100_000_000
PRIORITY_COUNT = 8

STATES = ['waiting', 'granted', 'claimed', 'returned', 'cancelled', 'timed out', 'stale', 'refused']
EDGES = {'waiting': {'granted', 'cancelled', 'timed out', 'stale', 'refused'}, 'granted': {'claimed', 'returned'}}
VERDICTS = ['wait', 'grant', 'time out', 'refuse']
# Where a verdict leads; the other states are reached without one.
ENDS = {'granted': 'grant', 'timed out': 'time out', 'refused': 'refuse'}


class Difference(Exception):
    """What the journal says that cannot be."""


def require(holds, text):
    if not holds:
        raise Difference(text)


def same(what, said, own):
    require(said == own, f'{what} is {said} in the journal, {own} by the rules')


class Holder:
    def __init__(self, authority, allowance, borrows):
        self.authority, self.allowance, self.borrows = authority, allowance, borrows
        self.leased = 0
        self.recent = [0]  # what it was since the authority's last arbitration

    def left(self, leased):
        """What it may still lease, and what of its own allowance is left."""
        if self.allowance == UNLIMITED:
            return UNLIMITED, 0
        own = max(0, self.allowance - leased)
        return (UNLIMITED if self.borrows else own), own


class Ticket:
    def __init__(self, size, since, deadline, holder, priority):
        self.facts = (size, since, deadline, holder, priority)
        self.bytes, self.since, self.deadline, self.holder, self.priority = self.facts
        self.state = 'waiting'
        self.asking = False
        self.is_booked = self.is_returned = False


class Authority:
    def __init__(self, free):
        self.limit = self.room = free
        self.withheld = 0
        self.recent_withheld = [0]  # what it was since the last arbitration
        # More is never to be had; and what could be had, if nothing were withheld.
        self.most = self.reach = self.reach_now = free
        self.limits_are_read = False
        self.held = 0     # kept for those that wait
        self.in_hand = 0  # taken out of everybody's reach while it is decided over
        self.tickets = {}
        self.now = 0
        self.steps = {}    # of each fiber: how it changed the room last
        self.decider = ''  # a fiber that has not carried out its verdicts yet
        self.asked = None  # an arbitration of which not all is read
        self.due = {}      # verdicts that are to be carried out

    def waiting(self):
        return {number: ticket for number, ticket in self.tickets.items() if ticket.state == 'waiting'}

    def granted_bytes(self):
        return sum(ticket.bytes for ticket in self.tickets.values() if ticket.state == 'granted')


class Asked:
    """An arbitration while its lines are read."""

    def __init__(self, count):
        self.count = count
        self.wishes, self.verdicts = set(), set()  # numbers of tickets
        self.left = {}    # of each holder, as the journal says
        self.made = None  # the own decision, when all wishes are read


class Decision:
    """One arbitration, by the words of arbiter.h."""

    def __init__(self, tickets, left_of, now, free, most, reach):
        self.verdicts, self.held = {}, {}
        self.left, self.lacking = free, 0
        self.lease = {ticket.holder: left_of[ticket.holder][0] for ticket in tickets.values()}

        def standing(ticket):
            return ticket.priority + max(0, now - ticket.since) // AGEING_NS

        def place(number):
            ticket = tickets[number]
            if standing(ticket) >= PRIORITY_COUNT:
                return (0, 0, 0, ticket.since, number)
            borrows = ticket.bytes > left_of[ticket.holder][1]
            return (1, borrows, -standing(ticket), ticket.since, number)

        for number in sorted(tickets, key=place):
            ticket = tickets[number]
            keeps = ticket.asking or standing(ticket) >= PRIORITY_COUNT
            self.decide(number, ticket, now, most, keeps and ticket.bytes <= reach, ticket.bytes <= reach)

    def decide(self, number, ticket, now, most, keeps, can_hope):
        self.held[number] = 0
        for_bytes_alone = ticket.bytes <= self.lease[ticket.holder]
        if ticket.bytes > most:
            self.verdicts[number] = 'refuse'
        elif ticket.deadline <= now:
            self.verdicts[number] = 'time out'
        elif for_bytes_alone and ticket.bytes <= self.left:
            self.verdicts[number] = 'grant'
            self.left -= ticket.bytes
            if self.lease[ticket.holder] != UNLIMITED:
                self.lease[ticket.holder] -= ticket.bytes
        else:
            self.verdicts[number] = 'wait'
            if for_bytes_alone:
                if can_hope:
                    self.lacking = self.lacking or ticket.bytes
                if keeps:
                    self.held[number] = min(self.left, ticket.bytes)
                    self.left -= self.held[number]


class Replay:
    """One schedule after another. A line WORD calls on_WORD."""

    def __init__(self):
        self.fiber, self.is_open = '-', False
        self.schedule_count = self.arbitration_count = self.move_count = 0
        self.edges = set()  # taken by some ticket
        self.authorities, self.holders = {}, {}

    def read(self, line):
        self.fiber, word, *fields = line.split()
        handler = getattr(self, 'on_' + word, None)
        require(handler is not None, f"no line begins with '{word}'")
        require(word == 'schedule' or self.is_open, 'a line outside of a schedule')
        handler(*(fields if word == 'schedule' else
                  [int(field) if field.lstrip('-').isdigit() else field for field in fields]))

    # ---- The world
    def on_schedule(self, _name, _seed):
        require(not self.is_open, 'the schedule before has no end')
        self.is_open = True
        self.authorities, self.holders = {}, {}

    def on_authority(self, name, free):
        self.authorities[name] = Authority(free)

    def on_holder(self, name, authority, allowance, borrows):
        self.holders[name] = Holder(authority, allowance, bool(borrows))

    # ---- What is free
    def on_room(self, name, before, after, file):
        authority = self.authorities[name]
        same('free before this', before, authority.room)
        authority.room = after
        if file == 'limit.c':
            authority.limit += after - before
            return
        if authority.decider == self.fiber:
            self.put_back(authority, after - before)
        authority.steps[self.fiber] = (authority.steps.get(self.fiber, []) + [(before, after)])[-2:]

    def put_back(self, authority, size):
        """The end of an arbitration: what is neither granted nor held is free again."""
        require(not authority.due, f'verdicts are not carried out: {authority.due}')
        same('what is put back', size, authority.in_hand)
        authority.in_hand, authority.decider = 0, ''

    def on_lease(self, name, before, after, _file):
        holder = self.holders[name]
        same('leased before this', before, holder.leased)
        require(after >= 0, f'{after} bytes are leased')
        holder.leased = after
        holder.recent.append(after)

    def on_withheld(self, name, before, after, _file):
        authority = self.authorities[name]
        same('withheld before this', before, authority.withheld)
        require(after >= 0, f'{after} bytes are withheld')
        authority.withheld = after
        authority.recent_withheld.append(after)

    def on_limits(self, name, set_limit, measured, exhausted, leased, leasable, ledger):
        authority = self.authorities[name]
        unleased = min(set_limit, measured, exhausted, HIGHEST_LIMIT)
        same('the limit in force', min(unleased, leased), authority.limit)
        authority.most = min(set_limit, ledger, HIGHEST_LIMIT)
        authority.reach = min(unleased, leased + leasable)
        authority.limits_are_read = True

    def take_in_hand(self, authority):
        """The fiber has put what was held into the room, and then taken all that was there."""
        steps = authority.steps.pop(self.fiber, [])
        taken = 0
        if steps and steps[-1][1] < steps[-1][0]:
            before, after = steps.pop()
            same('what is left in the room', after, 0)
            taken = before
        require(steps, 'an arbitration before what is free was taken')
        before, after = steps[-1]
        same('what was held and is decided over again', after - before, authority.held)
        authority.held = 0
        return taken

    # ---- Arbitrations
    def on_arbitrate(self, name, now, free, set_limit, limit, count):
        authority = self.authorities[name]
        require(authority.decider == '' and authority.asked is None, 'two arbitrations at once')
        same('free', free, self.take_in_hand(authority))
        require(authority.limits_are_read, 'an arbitration without its limits')
        same('the set limit', set_limit, authority.most)
        possible = {max(0, authority.reach - withheld) for withheld in authority.recent_withheld}
        require(limit in possible, f'what can be had is {limit} in the journal, one of {possible} by the rules')
        authority.limits_are_read, authority.recent_withheld = False, [authority.withheld]
        authority.reach_now = limit
        require(now >= authority.now, f'time went back from {authority.now} to {now}')
        authority.now, authority.in_hand, authority.decider = now, free, self.fiber
        authority.asked = Asked(count)
        self.arbitration_count += 1

    def on_wish(self, name, number, *facts):
        authority = self.authorities[name]
        require(authority.asked is not None and authority.decider == self.fiber, 'a wish that nobody arbitrates')
        size, since, deadline, holder, left, own, priority, asking = facts
        ticket = Ticket(size, since, deadline, holder, priority)
        known = authority.tickets.setdefault(number, ticket)
        require(known is not ticket or number == len(authority.tickets), f'ticket {number} is new and not the next')
        same(f'ticket {number}', ticket.facts, known.facts)
        same(f'the state of ticket {number}, which is arbitrated,', 'waiting', known.state)
        require(number not in authority.asked.wishes, f'ticket {number} is asked for twice')
        known.asking = bool(asking)
        authority.asked.wishes.add(number)
        self.check_lease(authority, holder, (left, own))

    def check_lease(self, authority, name, said):
        """One of what it was since the last arbitration; the same for all tickets of one holder."""
        holder = self.holders[name]
        possible = {holder.left(leased) for leased in holder.recent}
        require(said in possible, f'holder {name} may lease {said} in the journal, one of {possible} by the rules')
        same(f'what holder {name} may lease', said, authority.asked.left.setdefault(name, said))

    def decide(self, name):
        """All wishes are read."""
        authority = self.authorities[name]
        asked = authority.asked
        require(asked is not None, 'a verdict that nobody asked for')
        if asked.made is None:
            waiting = authority.waiting()
            same('the number of tickets', asked.count, len(asked.wishes))
            same('who waits', sorted(asked.wishes), sorted(waiting))
            asked.made = Decision(waiting, asked.left, authority.now, authority.in_hand, authority.most,
                                  authority.reach_now)
            for holder in self.holders.values():
                if holder.authority == name:
                    holder.recent = [holder.leased]
        return authority, asked, asked.made

    def on_verdict(self, name, number, verdict, held):
        _, asked, made = self.decide(name)
        require(number in made.verdicts and number not in asked.verdicts, f'ticket {number} is not to be judged')
        same(f'the verdict on ticket {number}', VERDICTS[verdict], made.verdicts[number])
        same(f'what is held for ticket {number}', held, made.held[number])
        asked.verdicts.add(number)

    def on_arbitrated(self, name, held, left, lacking):
        authority, asked, made = self.decide(name)
        same('who is judged', sorted(asked.verdicts), sorted(made.verdicts))
        same('what is held', held, sum(made.held.values()))
        same('what is left', left, made.left)
        same('what is lacking', lacking, made.lacking)
        authority.due = {number: verdict for number, verdict in made.verdicts.items() if verdict != 'wait'}
        authority.held, authority.in_hand, authority.asked = held, left, None

    # ---- Tickets
    def ticket(self, name, number):
        authority = self.authorities[name]
        require(number in authority.tickets, f'ticket {number} was never arbitrated')
        return authority, authority.tickets[number]

    def on_books(self, name, number, holder, size):
        authority, ticket = self.ticket(name, number)
        require(authority.due.get(number) == 'grant' and authority.decider == self.fiber,
                f'ticket {number} is booked without a verdict')
        require(not ticket.is_booked, f'ticket {number} is booked twice')
        same(f'who has the bytes of ticket {number}', (holder, size), (ticket.holder, ticket.bytes))
        ticket.is_booked = True

    def on_moves(self, name, number, before, after):
        authority, ticket = self.ticket(name, number)
        before, after = STATES[before], STATES[after]
        same(f'the state of ticket {number}', before, ticket.state)
        require(after in EDGES.get(before, ()), f'ticket {number} went from {before} to {after}')
        if after in ENDS:
            require(authority.due.get(number) == ENDS[after] and authority.decider == self.fiber,
                    f'ticket {number} is {after} without a verdict')
            del authority.due[number]
        require(number not in authority.due, f'ticket {number} is {after} against its verdict')
        require(after != 'granted' or ticket.is_booked, f'ticket {number} is told before its bytes are booked')
        ticket.state = after
        self.edges.add((before, after))
        self.move_count += 1

    def on_returns(self, name, number, holder, size):
        _, ticket = self.ticket(name, number)
        same(f'the state of ticket {number}, whose bytes come back,', 'returned', ticket.state)
        require(not ticket.is_returned, f'ticket {number} gives its bytes back twice')
        same(f'what ticket {number} gives back', (holder, size), (ticket.holder, ticket.bytes))
        ticket.is_returned = True

    # ---- Nobody is in the middle of anything
    def on_rest(self):
        for name, authority in self.authorities.items():
            require(authority.decider == '', f'an arbitration of authority {name} has no end')
            claimed = authority.limit - authority.room - authority.held - authority.granted_bytes()
            require(claimed >= 0, f'at rest {-claimed} bytes of authority {name} are two at once')
            self.check_nobody_is_left(authority)

    def check_nobody_is_left(self, authority):
        """As if it were arbitrated now, at the time of the last arbitration."""
        waiting = authority.waiting()
        left = {ticket.holder: self.holders[ticket.holder].left(self.holders[ticket.holder].leased)
                for ticket in waiting.values()}
        free = max(0, authority.room + authority.held)
        made = Decision(waiting, left, authority.now, free, authority.most, authority.reach - authority.withheld)
        for number, verdict in made.verdicts.items():
            require(verdict == 'wait', f'ticket {number} of {waiting[number].bytes} bytes is left waiting with {free} '
                    f'free under a limit of {authority.limit}: {verdict}')

    def on_end(self):
        self.on_rest()
        for name, authority in self.authorities.items():
            same(f'held by authority {name} at the end', authority.held, 0)
            same(f'free of authority {name} at the end', authority.room, authority.limit)
            for number, ticket in authority.tickets.items():
                require(ticket.state not in EDGES, f'ticket {number} is {ticket.state} at the end')
                same(f'whether ticket {number} gave its bytes back', ticket.is_returned, ticket.state == 'returned')
        for name, holder in self.holders.items():
            same(f'leased by holder {name} at the end', holder.leased, 0)
        self.schedule_count += 1
        self.is_open = False

    def counts(self):
        return f'{self.schedule_count} schedules, {self.arbitration_count} arbitrations, {self.move_count} moves'


def replay(lines, state=None):
    """What was seen, in `state` or a Replay of this module; raises Difference with the line."""
    state = state or Replay()
    schedule, number, line = 'no schedule', 0, ''
    try:
        for number, line in enumerate(lines, 1):
            if ' schedule ' in line:
                schedule = line.strip()
            state.read(line)
        require(not state.is_open, 'the journal ends inside of a schedule')
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Difference(f'line {number} ({line.strip()}) of {schedule} cannot be read: {error!r}') from None
    except Difference as difference:
        raise Difference(f'line {number} ({line.strip()}) of {schedule}: {difference}') from None
    return state


def main(state, usage):
    if len(sys.argv) != 2:
        print(usage, file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], encoding='ascii') as journal:
            print(replay(journal, state).counts())
    except Difference as difference:
        print(f'{sys.argv[1]}: {difference}')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(Replay(), __doc__))
