#!/usr/bin/python3
"""Reads the journal of schedules of a release queue that tests/sched writes, and checks each line against an idea
of its own of every stream, line and entry. The rules are those that docs/ordering.md states in words; no code is
shared with what wrote the journal.

    replay_releases.py JOURNAL        one line with counts; or the first difference, and status 1

A line begins with who did it: a letter for a fiber, `-` for code outside of all of them. Then, of EP number E:

    schedule NAME SEED             a new world
    ep E
    calls E LINE                   a slot is entered, of the line or of none (0)
    opens E LINE STREAM            what it answered; a line is of one stream
    signals E LINE VALUE
    answers E LINE VALUE           so far the line is reached
    waits E LINE VALUE STREAM      what is submitted to the stream later comes behind the value
    closes E LINE
    lost E                         the device is lost
    loses E, lose E                the client says so; that has returned
    defers E N STREAMS FIRST LAST  entry N is to wait for the set of streams, and for graphs FIRST to LAST
    deferred E N TAKEN             it is in the queue (1) or its caller's again (0)
    settles E N HOW, settled E N   released (0) or lost (1); its function has returned
    takes E N STREAM               new work on the stream has it
    captures E G, gone E G         a graph is there, and let go
    drains E, drained E WHETHER
    synchronizes E STREAM, synchronized E STREAM WHETHER
    rest                           no fiber can go on by itself
    end                            all ended, and everybody has given back
"""
import sys

import replay_trace
from replay_trace import require


class Entry:
    def __init__(self, number, at, streams, graphs):
        self.number, self.begun_at, self.graphs = number, at, graphs
        self.streams = {stream for stream in range(8) if streams >> stream & 1}
        self.is_in_at = None  # defer has returned


class Line:
    def __init__(self, stream):
        self.stream = stream
        self.signalled_at = [0]  # by value
        self.reached = 0
        self.behind = {}  # by stream: what its later work comes after

    def first_behind(self, at):
        """The first value that was signalled after this, or None."""
        return next((value for value, when in enumerate(self.signalled_at) if value and when > at), None)


class Ep:
    def __init__(self):
        self.settler = self.in_settle = None  # who, and of which entry
        self.lines, self.closed = {}, []
        self.entries = {}
        self.settled = set()  # entries that were queued before and are not any more
        self.graphs, self.gone = set(), set()
        self.is_lost = self.is_said_lost = False
        self.wishes = {}  # by stream: entries and synchronizations, each of which may want one signal

    def wish(self, stream, by):
        self.wishes[stream] = self.wishes.get(stream, 0) + by
        require(self.wishes[stream] >= 0, f'more signals on stream {stream} than entries and synchronizations')

    def lines_of(self, stream):
        return [line for line in [*self.lines.values(), *self.closed] if line.stream == stream]

    def is_done(self, stream, at):
        """Whether the work that was submitted to the stream before this is known to be done."""
        values = [(line, line.first_behind(at)) for line in self.lines_of(stream)]
        return any(value is not None and value <= line.reached for line, value in values)

    def is_before(self, stream, at, other):
        """Whether later work on the other stream comes after it."""
        values = [(line, line.first_behind(at)) for line in self.lines_of(stream)]
        return any(value is not None and value <= line.behind.get(other, 0) for line, value in values)


class Replay:
    def __init__(self):
        self.is_open = False
        self.schedule_count = self.settled_count = self.taken_count = self.signal_count = 0
        self.at = 0
        self.who = ''

    def read(self, text):
        self.at += 1
        self.who, word, *words = text.split()
        if word == 'schedule':
            require(not self.is_open, 'a schedule begins inside of another')
            self.is_open, self.eps, self.drains, self.begun = True, {}, {}, {}
            return
        require(self.is_open, 'a line outside of all schedules')
        numbers = [int(number) for number in words]
        if word == 'ep':
            require(numbers[0] not in self.eps, f'EP {numbers[0]} is made twice')
            self.eps[numbers[0]] = Ep()
        elif word in ('rest', 'end'):
            getattr(self, 'on_' + word)()
        else:
            getattr(self, 'on_' + word)(self.eps[numbers[0]], *numbers[1:])

    # ---- Slots
    def on_calls(self, ep, line, _):
        require(not ep.is_said_lost, 'a slot is called after the client has said that the device is lost')
        require(line == 0 or line in ep.lines, f'line {line} is not open')

    def on_opens(self, ep, line, stream):
        require(line not in ep.lines, f'line {line} is opened twice')
        ep.lines[line] = Line(stream)

    def on_closes(self, ep, line, _):
        ep.closed.append(ep.lines.pop(line))

    def on_signals(self, ep, number, value):
        line = ep.lines[number]
        require(value == len(line.signalled_at), f'value {value} follows {len(line.signalled_at) - 1}')
        ep.wish(line.stream, -1)
        line.signalled_at.append(self.at)
        self.signal_count += 1

    def on_answers(self, ep, number, value):
        line = ep.lines[number]
        require(value < len(line.signalled_at), f'value {value} was never signalled')
        require(value >= line.reached, f'{line.reached} was reached before')
        line.reached = value

    def on_waits(self, ep, number, value, stream):
        line = ep.lines[number]
        require(value < len(line.signalled_at), f'value {value} was never signalled')
        line.behind[stream] = max(line.behind.get(stream, 0), value)

    # ---- Losses
    def on_lost(self, ep, *_):
        ep.is_lost = True

    on_loses = on_lost

    def on_lose(self, ep, *_):
        ep.is_said_lost = True
        if ep.settler == self.who:  # out of a settle function: the others follow it
            return
        require(ep.settler is None, f'the EP is lost, and {ep.settler} is not done with what it settles')
        for entry in ep.entries.values():
            require(entry.is_in_at is None, f'entry {entry.number} is left in the queue of a lost EP')

    # ---- Entries
    def on_defers(self, ep, number, streams, first, last):
        require(number not in ep.entries, f'entry {number} is in the queue already')
        ep.entries[number] = Entry(number, self.at, streams, range(first, last + 1) if first else ())
        ep.settled.discard(number)
        for stream in ep.entries[number].streams:
            ep.wish(stream, 1)

    def on_deferred(self, ep, number, is_in):
        entry = ep.entries.get(number)
        if not is_in:
            require(entry is not None, f'entry {number} is refused and settled')
            for stream in ep.entries.pop(number).streams:
                ep.wish(stream, -1)
        elif entry is not None:  # else it is gone before the call returns
            entry.is_in_at = self.at

    def take_out(self, ep, number, what):
        require(number not in ep.settled, f'entry {number} is {what} after it was settled or taken')
        require(number in ep.entries, f'entry {number} is {what}, and nobody has queued it')
        ep.settled.add(number)
        return ep.entries.pop(number)

    def on_settles(self, ep, number, how):
        entry = self.take_out(ep, number, 'settled')
        require(ep.settler is None, f'entry {number} is settled by {self.who} beside {ep.settler}')
        ep.settler, ep.in_settle = self.who, entry
        self.settled_count += 1
        if how:
            require(ep.is_lost, f'entry {number} is settled as lost, and the device is there')
            return
        for stream in entry.streams:
            require(ep.is_done(stream, entry.begun_at),
                    f'entry {number} is settled before the work of stream {stream} was seen done')
        owners = ep.graphs.intersection(entry.graphs)
        require(not owners, f'entry {number} is settled while graphs {sorted(owners)} own it')

    def on_settled(self, ep, *_):
        ep.settler = ep.in_settle = None

    def on_takes(self, ep, number, stream):
        entry = self.take_out(ep, number, 'taken')
        self.taken_count += 1
        require(not entry.graphs, f'entry {number} is taken, and a graph owns it')
        for other in entry.streams - {stream}:
            require(ep.is_done(other, entry.begun_at) or ep.is_before(other, entry.begun_at, stream),
                    f'entry {number} is taken for stream {stream}, which does not come after stream {other}')

    def on_captures(self, ep, graph):
        if graph not in ep.gone:  # lost while it began
            ep.graphs.add(graph)

    def on_gone(self, ep, graph):
        require(graph not in ep.gone, f'graph {graph} is let go twice')
        ep.gone.add(graph)
        ep.graphs.discard(graph)

    # ---- Waits for the whole
    def on_drains(self, ep, *_):
        self.drains[self.who] = [entry for entry in ep.entries.values() if entry.is_in_at is not None]

    def on_drained(self, ep, is_drained, _):
        before = self.drains.pop(self.who)
        for entry in before if is_drained and not ep.is_lost else ():
            held = ep.graphs.intersection(entry.graphs)
            is_left = ep.entries.get(entry.number) is entry or ep.in_settle is entry
            require(not is_left or held, f'entry {entry.number} was queued before the drain and still is')

    def on_synchronizes(self, ep, stream, _):
        ep.wish(stream, 1)
        self.begun[self.who] = self.at

    def on_synchronized(self, ep, stream, is_done):
        begun_at = self.begun.pop(self.who)
        require(not is_done or ep.is_done(stream, begun_at),
                f'stream {stream} is synchronized without a signal and an answer of its own')

    # ---- Nobody is in the middle of anything
    def on_rest(self):
        pass

    def on_end(self):
        for number, ep in self.eps.items():
            require(not ep.entries, f'entries {sorted(ep.entries)} of EP {number} are left in the queue')
            require(ep.is_lost or not ep.lines, f'lines {sorted(ep.lines)} of EP {number} are left open')
        self.schedule_count += 1
        self.is_open = False

    def counts(self):
        return (f'{self.schedule_count} schedules, {self.settled_count} settled, {self.taken_count} taken, '
                f'{self.signal_count} signals')


def replay(lines):
    return replay_trace.replay(lines, Replay())


if __name__ == '__main__':
    sys.exit(replay_trace.main(Replay(), __doc__))
