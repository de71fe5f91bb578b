/* The gate before a plugin's code goes (host/bind/plugin.c, host/loader/mechanism.c, module.c): mechanisms
 * are opened, used, looked at and closed, and the plugin is closed, from several threads; then its code is
 * unmapped. It has two sides: the host begins no call any more and waits for those that run; the plugin
 * says by its report that it holds nothing, and by quiesce that no thread of its own runs in its code.
 *
 * One step of the model is a slot's begin or end, or what the product does under the manager's lock.
 *
 *     code runs only while it is mapped: the host's calls, and the plugin's own thread
 *     a slot is called on an instance that is open, which is closed once, with no call inside
 *     nobody looks at a record that is freed
 *     at the end the code is gone, or a mechanism is still open, or an instance could not be closed
 *
 * A close may fail for good (WITH_LEAK): then the code stays. Each TWIN_ removes one step and must fail. */

#define CLOSERS 2
#define CLIENTS 1

/* The mechanism that is there from the beginning, and the plugin */
bool m_found = true, m_closing, m_freed;
bool p_found = true, p_closing, p_freed;
byte references, mechanisms = 1;
/* In the plugin */
bool mapped = true, instance = true, own_thread = true;
byte objects, other_instances;
byte inside;   /* calls in the instance */
byte entering; /* calls in code without one */
byte leaked;
byte walking;  /* a bit for each walk */
bool unmapped;

inline call()
{
    atomic { assert(mapped && instance); inside++ };
    atomic { assert(mapped && instance); inside-- }
}

inline begin_walk()
{
    atomic { walking = walking | (1 << me) }
}

inline end_walk()
{
    atomic { walking = walking & ~(1 << me) }
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

/* ---- Clients: something of the mechanism's lives meanwhile. A client begins with no handle that another
 * of its threads closes: finding and referring are one step. */
proctype client(byte me)
{
    if
    :: atomic { m_found && !m_closing ->
#ifndef TWIN_NO_REFERENCE
        references++
#endif
        };
        atomic { assert(mapped && instance); inside++ };
        atomic { inside--; objects++ };
        call();
        atomic { assert(mapped && instance); inside++ };
        atomic { inside--; objects-- };
#ifndef TWIN_NO_REFERENCE
        atomic { references-- }
#endif
    :: atomic { !m_found || m_closing }
    fi
}

/* Figures: looks and calls within a walk. */
proctype reader(byte me)
{
    begin_walk();
    if
    :: atomic { m_found && !m_closing };
        atomic { assert(!m_freed) };
        call()
    :: atomic { !m_found || m_closing }
    fi;
    end_walk()
}

/* A further mechanism, which opens or is refused, and is closed by who opened it. */
proctype opener(byte me)
{
    bool counted;
    if
    :: atomic { p_found && !p_closing ->
#ifndef TWIN_NO_COUNT
        mechanisms++
#endif
        };
        counted = true
    :: atomic { !p_found || p_closing }
    fi;
    if
    :: counted ->
        atomic { assert(mapped); entering++ };
        atomic {
            assert(mapped);
            entering--;
            if
            :: other_instances++
            :: true /* refused */
            fi
        };
        if
        :: other_instances > 0 ->
            atomic { assert(mapped); entering++ };
            atomic { assert(mapped); entering--; other_instances-- }
        :: else
        fi;
#ifndef TWIN_NO_COUNT
        atomic { mechanisms-- }
#endif
    :: !counted
    fi
}

/* ---- Who closes. Two at once: one does it, the other is refused. */
#ifdef TWIN_NOT_MARKED
#define IS_MARKED m_closing
#else
#define IS_MARKED true
#endif

inline mark_mechanism()
{
    begin_walk();
    atomic { found = m_found };
#ifdef TWIN_NO_WALK
    end_walk();
#endif
    if
    :: found -> atomic {
        assert(!m_freed);
        mine = references == 0 && !m_closing;
        if
        :: mine -> m_closing = IS_MARKED
        :: else
        fi }
    :: !found
    fi;
    end_walk();
    found = false
}

/* The report, quiesce, the report again with threads, close. */
inline close_instance()
{
    atomic { assert(mapped && instance); holds_none = objects == 0 };
    if
    :: holds_none ->
#ifndef TWIN_NO_QUIESCE
        atomic { assert(mapped && instance); own_thread = false };
        atomic { assert(mapped && instance); holds_none = objects == 0 && !own_thread }
#else
        skip
#endif
    :: !holds_none
    fi;
    if
    :: holds_none -> atomic {
        assert(mapped && instance && inside == 0);
        if
        :: instance = false; over = true
#ifdef WITH_LEAK
        :: leaked++; over = true /* given up: nobody knows what still runs */
#endif
        fi }
    :: !holds_none
    fi;
    holds_none = false
}

inline close_mechanism()
{
    mark_mechanism();
    if
    :: mine ->
        await_walks();
        close_instance();
        if
        :: !over -> atomic { m_closing = false }
        :: over ->
            atomic { m_found = false };
            await_walks();
            atomic { mechanisms-- };
            atomic { m_freed = true }
        fi
    :: !mine
    fi;
    mine = false;
    over = false
}

inline mark_plugin()
{
    begin_walk();
    atomic { found = p_found };
#ifdef TWIN_PLUGIN_NO_WALK
    end_walk();
#endif
    if
    :: found -> atomic {
        assert(!p_freed);
        mine = mechanisms == 0 && !p_closing;
        if
        :: mine -> p_closing = true
        :: else
        fi }
    :: !found
    fi;
    end_walk();
    found = false
}

#ifdef TWIN_UNMAP_LEAKED
#define MAY_GO true
#else
#define MAY_GO (leaked == 0)
#endif

inline close_plugin()
{
    mark_plugin();
    if
    :: mine ->
        atomic { p_found = false };
        await_walks();
        if
        :: MAY_GO -> atomic {
            assert(!instance && other_instances == 0 && objects == 0);
            assert(inside == 0 && entering == 0 && !own_thread);
            mapped = false }
        :: !MAY_GO
        fi;
        atomic { p_freed = true }
    :: !mine
    fi;
    mine = false
}

proctype closer(byte me)
{
    bool found, mine, holds_none, over;
    byte before;
    close_mechanism();
    close_plugin()
}

init {
    bool found, mine, holds_none, over;
    byte before, me = 7;
    atomic {
        run closer(0);
        run closer(1);
        run client(2);
        run reader(3);
        run opener(4)
    };
    timeout; /* nobody else can go on */
    assert(walking == 0 && references == 0 && objects == 0);
    if
    :: !m_freed -> close_mechanism()
    :: m_freed
    fi;
    if
    :: !p_freed -> close_plugin()
    :: p_freed
    fi;
    assert(m_freed && p_freed && (!mapped || leaked == 1))
}
