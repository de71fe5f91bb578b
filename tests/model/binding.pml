/* The switch of a binding (host/bind/binding.c): generations of it, handles that end, allocations that go
 * home to the generation that made them, walks over all generations, and the end of old ones.
 *
 * One step of the model is one atomic operation on the table, or what the product does under the manager's
 * lock. As clients promise, no call begins on the binding while it is being unbound; all else may meet.
 *
 *     a call through a superseded or ended generation is stale; another is served by its own generation
 *     an allocation is freed where it was made, and a generation is freed with none left, once
 *     a walk touches no freed generation, and misses none that was there all the time
 *
 * Two switch and one unbinds; WITH_CALLS has one allocate and free meanwhile, WITH_WALKS one walk (each or
 * the other).
 * WITH_ABANDON has abandon.pml: one abandons it, another switches.
 *
 * Each TWIN_ removes one step and must fail. */

#define RECORDS 3 /* generations: numbers from 1; 0 is none */
#define ENTRIES 3 /* of the table: numbers from 1 */
#define LIVES 2
#define WALKS 1
#define UNBINDS 1

byte entry[ENTRIES + 1];  /* the generation whose handle stands there */
byte reserved;            /* a bit for each entry: it is unused */
byte place[RECORDS + 1];  /* the entry of its handle */
byte older[RECORDS + 1], next_one[RECORDS + 1], live[RECORDS + 1];
bool published[RECORDS + 1], superseded[RECORDS + 1], gone[RECORDS + 1], freed[RECORDS + 1];
byte head, made;          /* the list of generations, the newest first */
byte current;             /* what clients hold */
byte inside;              /* calls of clients on it */
bool unbinding, closing;
byte walking;             /* a bit for each walk */
byte ended;
bool mapped = true;       /* the mechanism's code */
byte coming;              /* generations that are being made: they refer to it */

#ifndef WITH_ABANDON
#define BODIES 4
#else
#define BODIES 5
#endif

#define FINDS(r) (entry[place[r]] == (r))

/* ---- The list, changed under the lock */
inline unlist(r)
{
    d_step {
        if
        :: head == r -> head = next_one[r]
        :: else ->
            if :: next_one[1] == r && published[1] && !gone[1] -> next_one[1] = next_one[r] :: else fi;
            if :: next_one[2] == r && published[2] && !gone[2] -> next_one[2] = next_one[r] :: else fi;
            if :: next_one[3] == r && published[3] && !gone[3] -> next_one[3] = next_one[r] :: else fi
        fi;
        gone[r] = true
    }
}

#ifdef TWIN_NO_AWAIT
#define WALKING 0
#else
#define WALKING walking
#endif

inline await_walks()
{
    atomic { before = WALKING };
    atomic { (walking & before) == 0 -> before = 0 }
}

inline free_record(r)
{
    assert(!freed[r]);
    assert(live[r] == 0);
    freed[r] = true
}

/* ---- Who switches */
inline reserve(r)
{
    if
    :: (reserved & 2) == 0 -> place[r] = 1
    :: (reserved & 4) == 0 -> place[r] = 2
    :: (reserved & 8) == 0 -> place[r] = 3
    fi;
    reserved = reserved | (1 << place[r])
}

inline end_handle(r)
{
    entry[place[r]] = 0;
    reserved = reserved & ~(1 << place[r])
}

inline publish(r)
{
    atomic {
        made++;
        r = made;
        reserve(r)
    };
    atomic {
        next_one[r] = head;
        head = r;
        published[r] = true
    };
    entry[place[r]] = r
}

/* Of racing switches one finds the handle. */
inline supersede(old, new)
{
    atomic { !closing ->
        if
#ifndef TWIN_TWO_WINNERS
        :: FINDS(old) ->
#else
        :: true ->
#endif
            older[new] = old;
            superseded[old] = true;
#ifndef TWIN_STALE_SERVES
            end_handle(old);
#endif
            current = new
        :: !FINDS(old) -> lost_race = true
        fi
    }
}

inline end_record(r)
{
    atomic { unlist(r) };
    await_walks();
    atomic { free_record(r) }
}

proctype switcher(byte me)
{
    byte old, new, before;
    bool lost_race;
    if
    :: atomic { !unbinding && current != 0 && mapped -> old = current; inside++; coming++ };
        publish(new);
        supersede(old, new);
        if
        :: lost_race -> atomic { end_handle(new) };
            end_record(new)
        :: !lost_race
        fi;
        atomic { inside--; coming-- }
    :: atomic { !unbinding && (current == 0 || !mapped) }
    fi;
    ended++
}

/* ---- Who allocates */
inline free_at_home()
{
    atomic {
#ifdef TWIN_FREE_TO_CURRENT
        mine = (current != 0 -> current : mine);
#endif
        assert(!freed[mine] && live[mine] > 0);
        live[mine]--;
        mine = 0
    }
}

proctype client(byte me)
{
    byte life, known, mine;
    known = 1;
    do
    :: life < LIVES ->
        life++;
        if
        :: atomic { !unbinding && current != 0 -> inside++ };
            if
            :: atomic { FINDS(known) -> mine = known; assert(!superseded[mine] && !gone[mine]) };
                atomic { assert(!freed[mine]); live[mine]++ }
            :: atomic { !FINDS(known) -> assert(superseded[known] || gone[known]) }
            fi;
            atomic { inside--; known = (mine == 0 && current != 0 -> current : known) };
            if
            :: mine != 0 -> free_at_home()
            :: mine == 0
            fi
        :: atomic { unbinding || current == 0 }
        fi
    :: life == LIVES -> break
    od;
    ended++
}

/* ---- Who ends them: the oldest first, and only what is used no more */
#ifdef TWIN_NO_LOOK
#define IS_UNUSED(r) true
#else
#define IS_UNUSED(r) (live[r] == 0)
#endif

/* x: the oldest from r on; above: whose older one it is. */
inline find_oldest()
{
    d_step {
        x = r;
        above = 0;
        do
        :: older[x] != 0 -> above = x; x = older[x]
        :: else -> break
        od
    }
}

inline unbind()
{
    atomic { inside == 0 -> unbinding = true; closing = true; r = current };
    do
    :: r == 0 -> break
    :: r != 0 ->
        atomic {
            find_oldest();
            if
            :: !IS_UNUSED(x) -> x = 0 /* MBR_IN_USE */
            :: IS_UNUSED(x) && x != r -> older[above] = 0
            :: IS_UNUSED(x) && x == r -> end_handle(r); current = 0; r = 0
            fi
        };
        if
        :: x == 0 -> break
        :: x != 0 -> end_record(x)
        fi
    od;
    atomic { unbinding = false; closing = false; r = 0; x = 0; above = 0 }
}

proctype unbinder()
{
    byte r, x, above, before, tries;
    do
    :: tries < UNBINDS -> tries++; unbind()
    :: true -> break
    od;
    ended++
}

/* ---- Who looks at all of them */
#define THERE(r) ((published[r] && !gone[r]) << (r))
#define MISSED(r) ((must >> (r) & 1) == 1 && !gone[r] && (seen >> (r) & 1) == 0)

inline visit(r)
{
    atomic {
        assert(!freed[r]);
        seen = seen | (1 << r)
    }
}

inline walk_all()
{
#ifndef TWIN_BY_TABLE
    at = head;
    do
    :: at != 0 -> visit(at); at = next_one[at]
    :: at == 0 -> break
    od
#else
    at_entry = 1;
    do
    :: at_entry <= ENTRIES ->
        at = entry[at_entry];
        do
        :: at != 0 -> visit(at); at = older[at]
        :: at == 0 -> break
        od;
        at_entry++
    :: at_entry > ENTRIES -> break
    od;
    at_entry = 0
#endif
}

proctype walker(byte me)
{
    byte must, seen, at, at_entry, walks;
    do
    :: walks < WALKS ->
        walks++;
        atomic {
            walking = walking | (1 << me);
            must = THERE(1) | THERE(2) | THERE(3)
        };
        walk_all();
        atomic {
            assert(!MISSED(1) && !MISSED(2) && !MISSED(3));
            walking = walking & ~(1 << me);
            must = 0;
            seen = 0
        }
    :: walks == WALKS -> break
    od;
    ended++
}

#ifdef WITH_ABANDON
#include "abandon.pml"
#endif

init {
    byte r, x, above, before;
#ifdef WITH_ABANDON
    byte rest, word;
#endif
    atomic {
        made = 1;
        place[1] = 1;
        reserved = 2;
        head = 1;
        published[1] = true;
        entry[1] = 1;
        current = 1;
#ifndef WITH_LOSS
        run switcher(0);
#else
        run loser();
#endif
#ifdef WITH_ABANDON
        run keeper();
        run freer();
        run abandoner();
        run remover()
#else
        run switcher(1);
#ifdef WITH_CALLS
        run client(0);
#endif
#ifdef WITH_WALKS
        run walker(0);
#endif
        run unbinder()
#endif
    };
    timeout; /* nobody else can go on */
    assert(ended == BODIES && inside == 0);
#ifdef WITH_ABANDON
    judge()
#else
    if
    :: current != 0 -> unbind()
    :: else
    fi;
    assert(current == 0 && reserved == 0 && head == 0);
    assert(freed[1] && (freed[2] || !published[2]) && (freed[3] || !published[3]))
#endif
}
