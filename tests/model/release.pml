/* Deferred release under a budget (host/ep, and what host/alloc and host/backing do around it): memory is
 * allocated, freed behind the streams that may still touch it, and comes back when their values are
 * reached; a device may be lost meanwhile.
 *
 * One step of the model is a slot, one settle, or what the product does under the context's lock between
 * two of them. A stream does its work in order; a value of its line stands for the work that was submitted
 * before the signal. Each allocation is one unit of the budget.
 *
 *     charged = in hands + queued + being settled + retained, at most LIMIT, at every instant
 *     an entry is settled once, and as released only when all work that it stands behind is done
 *     who is refused had nothing left to reap that nobody else was at
 *     after a loss no slot is called, and what is lost stays charged until the end is confirmed: then once
 *     at rest nothing is queued (so no wake-up was lost), and nothing is charged
 *
 * WITH_LOSS has the device lost, WITH_REAPER a thread that sleeps while nothing is queued; without it
 * allocations alone reap. Each TWIN_ removes one step and must fail. */

#define STREAMS 2
#define PRODUCERS 2
#define ENTRIES 4 /* at most: one a producer and life */
#ifdef WITH_REAPER
#define LIMIT 1
#define LIVES 1
#else
#define LIMIT 2
#define LIVES 2
#endif
#define VALUES 5  /* of a line: from 1 */

/* An entry's place */
#define NEW 0
#define IN_HAND 1
#define QUEUED 2
#define READY 3
#define LOST 4
#define TAKEN 5
#define GONE 6
/* Its mark at a stream */
#define NONE 0
#define OPEN 1
#define UNSIGNALLED 2
#define INFLIGHT 3
#define PENDING 4
#define DONE 5

#define MARK(e, s) ((e) * STREAMS + (s))
#define VALUE(s, v) ((s) * VALUES + (v))

byte place[ENTRIES];
byte mark[ENTRIES * STREAMS], value[ENTRIES * STREAMS], work[ENTRIES * STREAMS];
byte submitted[STREAMS], done[STREAMS], signalled[STREAMS], covers[STREAMS * VALUES];

byte charged, retained, lost_count; /* of what was settled as lost, all that was and is retained */
byte in_pass; /* threads */
bool signalling, asking, settling;
bool device_lost, lost, confirmed;
bool reaper_sleeps, reaper_ends;
byte producers_ended;

#define IS(e, where) (place[e] == where)
#define COUNT(where) (IS(0, where) + IS(1, where) + IS(2, where) + IS(3, where))
#define MARKS(s, what)                                                                             \
    (mark[MARK(0, s)] == what || mark[MARK(1, s)] == what || mark[MARK(2, s)] == what ||           \
        mark[MARK(3, s)] == what)
#define IS_MARKED(e, what) (mark[MARK(e, 0)] == what || mark[MARK(e, 1)] == what)

inline check()
{
    assert(charged <= LIMIT);
    assert(charged ==
        COUNT(IN_HAND) + COUNT(QUEUED) + COUNT(READY) + COUNT(LOST) + COUNT(TAKEN) + retained);
    assert(confirmed || retained == lost_count)
}

/* ---- Marks */
inline change(s, from, to)
{
    d_step {
        if :: mark[MARK(0, s)] == from -> mark[MARK(0, s)] = to :: else fi;
        if :: mark[MARK(1, s)] == from -> mark[MARK(1, s)] = to :: else fi;
        if :: mark[MARK(2, s)] == from -> mark[MARK(2, s)] = to :: else fi;
        if :: mark[MARK(3, s)] == from -> mark[MARK(3, s)] = to :: else fi
    }
}

/* What is in flight has the value now. */
inline stamp(e, s, v)
{
    if
    :: mark[MARK(e, s)] == INFLIGHT -> mark[MARK(e, s)] = PENDING; value[MARK(e, s)] = v
#ifdef TWIN_LATE_MARKS
    :: mark[MARK(e, s)] == UNSIGNALLED -> mark[MARK(e, s)] = PENDING; value[MARK(e, s)] = v
#endif
    :: else
    fi
}

inline reach(e, s, v)
{
    if
    :: mark[MARK(e, s)] == PENDING && value[MARK(e, s)] <= v -> mark[MARK(e, s)] = DONE
    :: else
    fi
}

#ifdef TWIN_ANY_STREAM
#define HOLDS(e) (!IS_MARKED(e, DONE))
#else
#define HOLDS(e)                                                                                   \
    (IS_MARKED(e, OPEN) || IS_MARKED(e, UNSIGNALLED) || IS_MARKED(e, INFLIGHT) ||                  \
        IS_MARKED(e, PENDING))
#endif

inline collect(e)
{
    if
    :: IS(e, QUEUED) && !HOLDS(e) -> place[e] = READY
    :: else
    fi
}

/* What stands behind no value that was seen is lost. */
inline lose_entry(e)
{
    if
    :: IS(e, QUEUED) -> place[e] = LOST
#ifdef TWIN_LOSE_TAKEN
    :: IS(e, TAKEN) -> place[e] = LOST
#endif
    :: else
    fi;
    mark[MARK(e, 0)] = NONE;
    mark[MARK(e, 1)] = NONE
}

inline lose()
{
    if
    :: !lost ->
        lost = true;
        reaper_sleeps = false;
#ifndef TWIN_LOSS_KEEPS
        lose_entry(0);
        lose_entry(1);
        lose_entry(2);
        lose_entry(3)
#endif
    :: else
    fi
}

/* ---- One pass */
inline seal()
{
    change(0, OPEN, UNSIGNALLED);
    change(1, OPEN, UNSIGNALLED)
}

inline signal(s)
{
    if
    :: atomic { signalling || lost || !MARKS(s, UNSIGNALLED) }
    :: atomic { !signalling && !lost && MARKS(s, UNSIGNALLED) ->
        signalling = true;
        change(s, UNSIGNALLED, INFLIGHT) };
        /* the slot */
        atomic {
            if
            :: device_lost -> v = 0
            :: else -> signalled[s]++; v = signalled[s]; covers[VALUE(s, v)] = submitted[s]
            fi
        };
        atomic {
            if
            :: lost
            :: !lost && v == 0 -> lose()
            :: !lost && v != 0 -> stamp(0, s, v); stamp(1, s, v); stamp(2, s, v); stamp(3, s, v)
            fi;
            signalling = false;
            v = 0
        }
    fi
}

inline ask(s)
{
    if
    :: atomic { lost || !MARKS(s, PENDING) }
    :: atomic { !lost && MARKS(s, PENDING) ->
        if
        :: device_lost -> v = VALUES
        :: else ->
            v = signalled[s];
            do
            :: v > 0 && covers[VALUE(s, v)] > done[s] -> v--
            :: else -> break
            od
        fi };
        atomic {
            if
            :: lost
            :: !lost && v == VALUES -> lose()
            :: !lost && v != VALUES ->
                reach(0, s, v); reach(1, s, v); reach(2, s, v); reach(3, s, v);
                collect(0); collect(1); collect(2); collect(3)
            fi;
            v = 0
        }
    fi
}

/* One at a time, but for who is about to be refused: what another has asked may be older. */
inline ask_all(now)
{
    if
    :: atomic { asking && !now }
    :: atomic { !asking || now -> asking = true };
        ask(0);
        ask(1);
        asking = false
    fi
}

inline settle_as_released(e)
{
    assert(work[MARK(e, 0)] <= done[0] && work[MARK(e, 1)] <= done[1]);
    charged--
}

inline settle_as_lost()
{
    lost_count++;
#ifdef TWIN_REFUND_LOST
    charged--
#else
    if
    :: confirmed -> charged--
    :: else -> retained++
    fi
#endif
}

inline settle_one(e, from)
{
    atomic { !settling && IS(e, from) -> settling = true; place[e] = TAKEN };
    atomic {
        assert(IS(e, TAKEN));
        place[e] = GONE;
        if
        :: from == READY -> settle_as_released(e)
        :: from == LOST -> settle_as_lost()
        fi;
        work[MARK(e, 0)] = 0;
        work[MARK(e, 1)] = 0;
        check();
        settling = false
    }
}

inline settle()
{
    do
    :: settle_one(0, READY)
    :: settle_one(1, READY)
    :: settle_one(2, READY)
    :: settle_one(3, READY)
    :: settle_one(0, LOST)
    :: settle_one(1, LOST)
    :: settle_one(2, LOST)
    :: settle_one(3, LOST)
    :: atomic { settling || COUNT(READY) + COUNT(LOST) == 0 } -> break
    od
}

inline pass(now)
{
    atomic {
        in_pass++;
#ifndef TWIN_NO_SEAL
        seal()
#endif
    };
    signal(0);
    signal(1);
    ask_all(now);
    settle();
    atomic { in_pass-- }
}

/* ---- Producers */
/* Its values are there, and reached. */
#define IS_COMPLETE(e)                                                                             \
    (IS(e, QUEUED) && !IS_MARKED(e, OPEN) && !IS_MARKED(e, UNSIGNALLED) &&                         \
        !IS_MARKED(e, INFLIGHT) && IS_COVERED(e, 0) && IS_COVERED(e, 1))
#define IS_COVERED(e, s)                                                                           \
    (mark[MARK(e, s)] != PENDING || covers[VALUE(s, value[MARK(e, s)])] <= done[s])
#define BIT(e) (IS_COMPLETE(e) << (e))
#define IS_LEFT(e) ((seen >> (e) & 1) == 1 && IS(e, QUEUED))

#ifdef TWIN_ASK_ONCE
#define ASKS_AGAIN false
#else
#define ASKS_AGAIN true
#endif

inline take(e)
{
    charged++;
    place[e] = IN_HAND;
    check()
}

inline allocate(e)
{
    if
    :: atomic { !lost && charged < LIMIT -> take(e) }
    :: atomic { !lost && charged == LIMIT -> seen = BIT(0) | BIT(1) | BIT(2) | BIT(3) };
#ifndef TWIN_REFUSE_FIRST
        pass(ASKS_AGAIN);
#endif
        atomic {
            if
            :: charged < LIMIT && !lost -> take(e)
            :: else -> assert(lost || in_pass > 0 ||
                    (!IS_LEFT(0) && !IS_LEFT(1) && !IS_LEFT(2) && !IS_LEFT(3)))
            fi;
            seen = 0
        }
    :: atomic { lost }
    fi
}

inline stand_behind(e, s)
{
    submitted[s]++;
    work[MARK(e, s)] = submitted[s];
    mark[MARK(e, s)] = OPEN
}

/* Behind one stream or both. */
inline defer(e)
{
    atomic {
        if
        :: lost -> place[e] = GONE; settle_as_lost()
        :: !lost ->
            if
            :: stand_behind(e, 0)
            :: stand_behind(e, 1)
            :: stand_behind(e, 0); stand_behind(e, 1)
            fi;
            place[e] = QUEUED;
#ifdef TWIN_REFUND_FIRST
            charged--;
#endif
#ifndef TWIN_NO_POKE
            reaper_sleeps = false
#endif
        fi;
        check()
    }
}

proctype producer(byte me)
{
    byte life, e, v, seen;
    do
    :: life < LIVES ->
        e = me * LIVES + life;
        allocate(e);
        if
        :: atomic { IS(e, IN_HAND) } -> defer(e)
        :: atomic { IS(e, NEW) }
        fi;
        life++
    :: life == LIVES -> break
    od;
    atomic { producers_ended++ }
}

/* ---- The others */
#define HAS_WORK                                                                                   \
    (COUNT(READY) + COUNT(LOST) > 0 ||                                                             \
        (!lost && (MARKS(0, OPEN) || MARKS(1, OPEN) || MARKS(0, UNSIGNALLED) ||                    \
            MARKS(1, UNSIGNALLED) || IS_COMPLETE(0) || IS_COMPLETE(1) || IS_COMPLETE(2) ||         \
            IS_COMPLETE(3) || (device_lost && COUNT(QUEUED) > 0))))

/* It looks again by itself while something is queued: the model has it look when there is something new. */
proctype reaper()
{
    byte v;
end:
    do
    :: atomic { !reaper_sleeps && COUNT(QUEUED) + COUNT(READY) + COUNT(LOST) == 0 ->
        reaper_sleeps = true }
    :: atomic { !reaper_sleeps && HAS_WORK && !signalling && !asking && !settling }; pass(false)
    od
}

proctype device()
{
end:
    do
    :: atomic { !device_lost && done[0] < submitted[0] -> done[0]++ }
    :: atomic { !device_lost && done[1] < submitted[1] -> done[1]++ }
    od
}

/* The device is lost at any point; somebody sees it in a slot, or the client says so. Then it confirms the
 * end. */
proctype loser()
{
    byte v;
    if
    :: true
    :: true -> device_lost = true;
        atomic { in_pass++; lose() };
        settle();
        atomic { in_pass-- };
        atomic {
            confirmed = true;
            charged = charged - retained;
            retained = 0;
            check()
        }
    fi
}

init {
    byte v;
    atomic {
        run producer(0);
        run producer(1);
        run device();
#ifdef WITH_REAPER
        run reaper();
#endif
#ifdef WITH_LOSS
        run loser()
#endif
    };
    timeout; /* nobody else can go on */
    assert(producers_ended == PRODUCERS);
#ifndef WITH_REAPER
    pass(true); /* a drain: the device is done with everything */
#endif
    assert(COUNT(IN_HAND) + COUNT(QUEUED) + COUNT(READY) + COUNT(LOST) + COUNT(TAKEN) == 0);
    assert(charged == 0)
}
