/* A binding that is abandoned (mbr_manager_abandon in host/bind/binding.c, host/alloc/quarantine.c): a part of
 * binding.pml, which has the generations. What was allocated from it lives on in nobody's use: it is freed
 * after all, or its device is lost and the end of that confirmed. Who removes the mechanism first ends what is
 * abandoned and left by all, as a poll does.
 *
 *     charged = live + queued + quarantined + lost, at every instant: each is refunded once
 *     nothing comes from a binding that is abandoned: no handle names it
 *     its generations end once, each after all that came from it, and the mechanism's code after them
 *     no slot is called after a loss, or in code that is gone
 *     at the end no generation, charge and code is left; but where a loss is not confirmed, what it took along
 *
 * One allocates, one frees, one abandons, one removes the mechanism, and one switches; WITH_LOSS, instead of
 * the switch, has the device lost. */

#define BLOCKS 2

/* ---- What is allocated from it, and left */
#define NONE 0
#define LIVE 1
#define QUEUED 2
#define QUARANTINED 3
#define LOST 4
#define RELEASED 5

byte block[BLOCKS], home[BLOCKS]; /* its state, and the generation that made it */
bool entry_of[BLOCKS];            /* it is in the release queue */
byte charged;
byte allocating;                  /* calls of clients: none begins while it is being abandoned */
bool is_abandoned;                /* the call has returned */
byte abandoned;                   /* a bit for each generation in the list: the newest of its chain */
bool lost, confirmed;

#define IS_CHARGED(b)                                                                              \
    (block[b] == LIVE || block[b] == QUEUED || block[b] == QUARANTINED || block[b] == LOST)
#define EXISTS(r) (published[r] && !freed[r])
#define IS_HELD (lost && !confirmed) /* what it keeps stays charged to somebody */

inline check()
{
    assert(charged == IS_CHARGED(0) + IS_CHARGED(1))
}

inline refund(b)
{
    block[b] = RELEASED;
    charged--;
    live[home[b]]--;
    check()
}

inline allocate(b)
{
    if
    :: atomic { current != 0 -> allocating++; known = current };
        atomic {
            if
            :: FINDS(known) ->
                assert(EXISTS(known) && !is_abandoned);
                home[b] = known;
                block[b] = LIVE;
                live[known]++;
                charged++;
                check()
            :: !FINDS(known)
            fi;
            allocating--
        }
    :: atomic { current == 0 }
    fi
}

/* The first free has it, in whatever state it finds it; a loss before it is entered settles it as lost. */
inline free_block(b)
{
    atomic { word = block[b] };
    if
    :: word == LIVE || word == QUARANTINED ->
        if
        :: atomic { block[b] == word -> block[b] = QUEUED; entry_of[b] = true; check() }
        :: atomic { block[b] != word } /* abandoned, or confirmed, meanwhile: once more */
        fi
    :: else
    fi
}

/* Its streams are done, and its span goes back; or the loss is seen. */
inline settle_block(b)
{
    if
    :: atomic { entry_of[b] ->
        entry_of[b] = false;
        assert(block[b] == QUEUED);
        if
        :: !lost -> assert(mapped && EXISTS(home[b])); refund(b) /* the slot */
        :: lost && confirmed -> refund(b)
        :: lost && !confirmed -> block[b] = LOST; check()
        fi }
    :: atomic { !entry_of[b] }
    fi
}

proctype keeper()
{
    byte known;
    allocate(0);
    allocate(1);
    ended++
}

/* Who frees after all, perhaps long after. */
proctype freer()
{
    byte word;
    free_block(0);
    settle_block(0);
    free_block(1);
    settle_block(1);
    ended++
}

/* ---- The confirmed end of a lost context */
inline confirm(b)
{
#ifndef TWIN_CONFIRM_LOOKS_FIRST
    atomic {
#else
    {
#endif
        if
        :: block[b] == LOST || block[b] == QUARANTINED -> refund(b)
        :: else
        fi
    }
}

/* ---- Who abandons it */
inline quarantine(b)
{
    atomic {
        if
#ifndef TWIN_ABANDON_OVERTAKES
        :: home[b] == x && block[b] == LIVE ->
#else
        :: home[b] == x && (block[b] == LIVE || block[b] == QUEUED) ->
#endif
            block[b] = QUARANTINED;
#ifdef TWIN_ABANDON_REFUNDS
            charged--;
#endif
            check()
        :: else
        fi
    }
}

/* The oldest of each chain first, as far as nothing is left. One thread at a time has the list. */
inline end_abandoned()
{
    atomic {
        rest = abandoned;
#ifndef TWIN_ENDED_BY_TWO
        abandoned = 0
#endif
    };
    do
    :: atomic { rest != 0 -> r = (rest & 2 -> 1 : (rest & 4 -> 2 : 3)); rest = rest & ~(1 << r) };
        do
        :: r == 0 -> break
        :: r != 0 ->
            atomic {
                find_oldest();
                if
                :: !IS_UNUSED(x) || IS_HELD -> abandoned = abandoned | (1 << r); x = 0; r = 0
                :: IS_UNUSED(x) && !IS_HELD && x != r -> older[above] = 0
                :: IS_UNUSED(x) && !IS_HELD && x == r -> r = 0
                fi
            };
            if
            :: x != 0 -> end_abandoned_record()
            :: x == 0
            fi
        od
    :: atomic { rest == 0 } -> break
    od;
    atomic { x = 0; above = 0 }
}

/* What it keeps goes back, in calls; its code is referred to until then. */
inline end_abandoned_record()
{
    atomic { unlist(x) };
    await_walks();
    atomic { assert(mapped || lost); free_record(x); x = 0 }
}

inline abandon()
{
    atomic { allocating == 0 && current != 0 -> closing = true; r = current };
    atomic {
#ifndef TWIN_STILL_NAMED
        end_handle(r);
#endif
        current = 0;
        closing = false
    };
    x = r;
    do
    :: x != 0 -> quarantine(0); quarantine(1); x = older[x]
    :: x == 0 -> break
    od;
#ifndef TWIN_CONFIRM_ONCE
    if
    :: confirmed -> confirm(0); confirm(1) /* who confirms may have passed before */
    :: else
    fi;
#endif
    atomic { is_abandoned = true; abandoned = abandoned | (1 << r); r = 0 };
    end_abandoned()
}

proctype abandoner()
{
    byte r, x, above, before, rest;
    if
    :: abandon()
    :: true
    fi;
    ended++
}

/* ---- Who removes the mechanism: refused while a generation refers to it */
#ifdef TWIN_UNREFERRED
#define IS_REFERRED(r) (EXISTS(r) && FINDS(r))
#else
#define IS_REFERRED(r) EXISTS(r)
#endif

inline remove()
{
    end_abandoned();
    atomic {
        if
        :: coming == 0 && !IS_REFERRED(1) && !IS_REFERRED(2) && !IS_REFERRED(3) -> mapped = false
        :: else
        fi
    }
}

proctype remover()
{
    byte r, x, above, before, rest;
    remove();
    ended++
}

/* ---- A loss */
proctype loser()
{
    if
    :: true
    :: atomic { mapped -> lost = true };
        if
        :: true
        :: atomic { confirmed = true };
            confirm(0);
            confirm(1)
        fi
    fi;
    ended++
}

/* Nobody need free what is abandoned once its device is known to be gone. */
inline judge()
{
    if
    :: !(is_abandoned && confirmed) ->
        free_block(0);
        settle_block(0);
        free_block(1);
        settle_block(1)
    :: else
    fi;
    if
    :: current != 0 && !IS_HELD -> unbind()
    :: else
    fi;
    end_abandoned();
    if
    :: !IS_HELD ->
        remove();
        assert(current == 0 && reserved == 0 && head == 0 && charged == 0 && !mapped)
    :: else
    fi
}
