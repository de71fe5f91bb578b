/* Tickets at one authority (governor/ticket.c): submitted, granted, claimed, cancelled, late, retired,
 * while others claim and release without a lock and the limit moves.
 *
 * One step of the model is one atomic operation of the product, or what it does under the authority's
 * lock between two of them that others can see. Who gets what is decided by the product's own
 * mbr_arbitrate, which is compiled in. Not here: credit (the schedules of tests/sched show it), and the
 * holders that are asked.
 *
 *     limit - room = held + taken + charged + passing + sum of owned      at every instant
 *     a claim leaves room >= 0
 *     a ticket that is claimed owns its bytes; one that ended otherwise owns none
 *     at rest the arbiter has nothing more to decide: no wake-up was lost
 *
 * WITH_ says who takes part besides two tickets and one who releases. Each TWIN_ removes one step and
 * must fail. */

c_decl {
\#include "governor/arbiter.h"
\#include "membrane/pressure.h"
\#define MATURITY_NS (UINT64_C(1) * MBR_AGEING_NS * MBR_PRIORITY_COUNT)
};

#define TICKETS 2
#define LIMIT 3

/* governor/membrane/pressure.h; 0 is a ticket that is not submitted yet. */
#define NEW 0
#define WAITING 1
#define GRANTED 2
#define CLAIMED 3
#define RETURNED 4
#define CANCELLED 5
#define TIMED_OUT 6
#define STALE 7
#define REFUSED 8

byte state[TICKETS], bytes[TICKETS], deadline[TICKETS], generation_of[TICKETS], verdict[TICKETS];
byte owned[TICKETS]; /* booked to the ticket's holder */

short room;
byte held, taken;      /* kept for a ticket; in the hands of who decides */
byte charged, passing; /* of a holder, and of one who claims and releases */
byte limit = LIMIT;
byte waiting_count, generation, time, lock;
byte held_next, left; /* what the arbiter says */

inline check()
{
    assert(limit - room == held + taken + charged + passing + owned[0] + owned[1])
}

inline take_lock()
{
    atomic { lock == 0 -> lock = 1 }
}

inline drop_lock()
{
    lock = 0
}

/* ---- The arbiter. Deadlines are where tickets mature. */
c_code {
    static void judge(void)
    {
        mbr_arbiter_ticket tickets[TICKETS];
        uint32_t count = 0;
        for (int i = 0; i < TICKETS; i++) {
            if (now.state[i] == WAITING)
                tickets[count++] = (mbr_arbiter_ticket){
                    .number = (uint64_t)i,
                    .bytes = now.bytes[i],
                    .deadline_ns = now.deadline[i] != 0 ? MATURITY_NS : UINT64_MAX,
                    .holder_id = (uint64_t)i + 1,
                    .lease_left_bytes = UINT64_MAX,
                    .owner = &now.verdict[i],
                };
        }
        mbr_arbiter_pool pool = {
            .now_ns = now.time * MATURITY_NS,
            .free_bytes = now.taken,
            .set_limit_bytes = now.limit,
            .limit_bytes = now.limit,
        };
        mbr_arbitration made = mbr_arbitrate(&pool, tickets, count);
        for (uint32_t i = 0; i < count; i++)
            *(uchar *)tickets[i].owner = (uchar)tickets[i].verdict;
        now.held_next = (uchar)made.held_bytes;
        now.left = (uchar)made.left_bytes;
    }
};

inline arbitrate()
{
    c_code { judge(); }
}

inline leave(t, to)
{
    atomic {
        assert(state[t] == WAITING);
        waiting_count--;
        state[t] = to;
        verdict[t] = 0
    }
}

inline carry_out(t)
{
    if
    :: state[t] == WAITING && verdict[t] == 1 ->
#ifdef TWIN_BOOK_LATE
        leave(t, GRANTED);
#endif
        atomic {
            taken = taken - bytes[t];
            owned[t] = owned[t] + bytes[t];
            check()
        };
#ifndef TWIN_BOOK_LATE
        leave(t, GRANTED)
#endif
    :: state[t] == WAITING && verdict[t] == 2 -> leave(t, TIMED_OUT)
    :: state[t] == WAITING && verdict[t] == 3 -> leave(t, REFUSED)
    :: else
    fi
}

inline settle_locked()
{
    if
    :: waiting_count == 0 && held == 0
    :: else ->
        atomic {
            room = room + held;
            held = 0;
            check()
        };
#ifndef TWIN_FREE_IN_REACH
        atomic {
            if
            :: room > 0 -> taken = room; room = 0
            :: else -> taken = 0
            fi;
            check()
        };
#else
        atomic {
            if
            :: room > 0 -> taken = room
            :: else -> taken = 0
            fi
        };
        room = room - taken;
        check();
#endif
        arbitrate();
        carry_out(0);
        carry_out(1);
        atomic {
            held = held_next;
            taken = taken - held_next;
            held_next = 0;
            check()
        };
        atomic {
            room = room + left;
            taken = taken - left;
            left = 0;
            check();
            assert(taken == 0)
        }
    fi
}

inline settle()
{
    take_lock();
    settle_locked();
    drop_lock()
}

/* ---- Releases. The bytes are free before it looks who waits. */
inline wake()
{
    if
    :: waiting_count != 0 -> settle()
    :: else
    fi
}

inline release(from, n)
{
    atomic {
        from = from - (n);
        room = room + (n);
        check()
    }
#ifndef TWIN_NO_WAKE
    ;
    wake()
#endif
}

/* ---- A ticket */
inline submit(t)
{
    take_lock();
    atomic {
        generation_of[t] = generation;
        state[t] = WAITING;
#ifndef TWIN_COUNT_LATE
        waiting_count++
#endif
    };
    settle_locked();
#ifdef TWIN_COUNT_LATE
    waiting_count++;
#endif
    drop_lock()
}

inline try_return(t)
{
    if
#ifndef TWIN_TORN_RETURN
    :: atomic { state[t] == GRANTED -> state[t] = RETURNED };
#else
    :: state[t] == GRANTED -> state[t] = RETURNED;
#endif
        release(owned[t], bytes[t])
    :: else
    fi
}

inline cancel(t)
{
    take_lock();
    if
    :: state[t] == WAITING ->
        leave(t, CANCELLED);
#ifndef TWIN_CANCEL_KEEPS
        settle_locked();
#endif
        drop_lock()
    :: else -> drop_lock(); try_return(t)
    fi
}

inline claim(t)
{
    was_retired = generation_of[t] != generation;
    if
#ifndef TWIN_STALE_CLAIM
    :: generation_of[t] != generation -> try_return(t)
#endif
    :: else ->
        if
        :: atomic { state[t] == GRANTED ->
            assert(owned[t] == bytes[t]);
            assert(!was_retired);
            state[t] = CLAIMED };
            release(owned[t], bytes[t]) /* used, and given back */
        :: else
        fi
    fi;
    was_retired = false
}

proctype owner(byte t)
{
    bool was_retired;
    submit(t);
end:
    if
    :: state[t] != WAITING -> claim(t)
    :: state[t] == WAITING && deadline[t] != 0 && time != 0 -> settle(); claim(t)
    :: claim(t) /* without waiting */
    fi;
end_2:
    do
    :: state[t] == GRANTED -> claim(t)
    :: state[t] == WAITING && deadline[t] != 0 && time != 0 -> settle()
    :: state[t] != WAITING && state[t] != GRANTED -> break
    od
}

proctype canceller()
{
    if
    :: cancel(0)
    :: true
    fi
}

/* ---- Others */
proctype releaser()
{
    if
    :: release(charged, 1); release(charged, LIMIT - 1)
    :: release(charged, LIMIT)
    :: release(charged, 2) /* and keeps the rest */
    fi
}

proctype passer()
{
    if
    :: atomic { room >= 2 -> room = room - 2; passing = 2; check() }; release(passing, 2)
    :: atomic { room >= 1 -> room = room - 1; passing = 1; check() }; release(passing, 1)
    :: true
    fi
}

proctype retirer()
{
    if
    :: take_lock();
        generation++;
        if
        :: state[0] == WAITING -> leave(0, STALE)
        :: else
        fi;
        if
        :: state[1] == WAITING -> leave(1, STALE)
        :: else
        fi;
        settle_locked();
        drop_lock()
    :: true
    fi
}

inline set_limit(bytes_now)
{
    take_lock();
    atomic {
        room = room + bytes_now - limit;
        limit = bytes_now;
        check()
    };
#ifndef TWIN_LIMIT_UNSEEN
    settle_locked();
#endif
    drop_lock()
}

proctype setter()
{
    if
    :: set_limit(1)
    :: set_limit(1); set_limit(LIMIT + 1)
    :: true
    fi
}

proctype clock()
{
    if
    :: time = 1
    :: true
    fi
}

#define OWNS_NOTHING(t) (owned[t] == 0 || state[t] == WAITING || state[t] == GRANTED)

init {
    atomic {
        charged = LIMIT;
        if
        :: bytes[0] = 1; bytes[1] = 2; deadline[0] = 1
        :: bytes[0] = 2; bytes[1] = 2; deadline[0] = 1
        :: bytes[0] = LIMIT; bytes[1] = 1
        fi;
        run owner(0);
        run owner(1);
#ifdef WITH_CANCELS
        run canceller();
#endif
        run releaser();
#ifdef WITH_PASSES
        run passer();
#endif
#ifdef WITH_RETIRES
        run retirer();
#endif
#ifdef WITH_LIMITS
        run setter();
#endif
#ifdef WITH_TIME
        run clock();
#endif
        skip
    };
    timeout;
    atomic {
        assert(lock == 0 && passing == 0);
        assert(OWNS_NOTHING(0) && OWNS_NOTHING(1));
        assert(state[0] != GRANTED && state[1] != GRANTED);
        room = room + held;
        held = 0;
        taken = (room > 0 -> room : 0);
        arbitrate();
        assert(state[0] != WAITING || verdict[0] == 0);
        assert(state[1] != WAITING || verdict[1] == 0);
        assert(waiting_count == (state[0] == WAITING) + (state[1] == WAITING))
    }
}
