/* The shared ledger (governor/shared.h, governor/lease.c): processes that lease chunks of one limit by
 * a file, and may be killed at any point.
 *
 * One step of the model is one system call of the product, or one act on memory of its own; the unit
 * is a chunk. A process is killed between any two steps; the system then drops its locks, and the
 * driver takes its memory back some time later, within the second that the rule waits for. (The rule's
 * other way, that the driver's free figure has risen, is the same event here: that it rose because of
 * this end, and not because another member released, is assumed.)
 *
 * What must hold at every instant:
 *     used <= leased, of each record, whoever has or had it: no device byte without a lease
 *     sum of leased <= limit after every lease; while the limit never fell, over all files that the
 *     path has led to
 * and, when all processes have ended or were killed, two looks bring every chunk back.
 *
 * Each TWIN_ removes one step and must fail. */

#define PROCESSES 2 /* numbers 1 and 2; 0 is nobody */
#define LIVES 2     /* of each: it may join once more, however it ended */
#define KILLS 2     /* in all */
#define RECORDS 2   /* of a file */
#define FILES 2     /* one after another; numbers 1 and 2, 0 is none */
#define LIMIT 2
#define LOWERED 1

typedef file_state {
    bool written; /* its page is there */
    bool linked;  /* the path leads to it */
    byte limit;
    byte lock     /* who holds the lock on its head */
}
typedef record_state {
    bool taken;
    byte leased; /* the one truth */
    bool noted;  /* somebody saw that its member is gone */
    byte life;   /* who holds the lock on its byte */
    byte used    /* device memory of the process that has, or had, the record */
}
file_state files[FILES + 1];
record_state records[(FILES + 1) * RECORDS];
byte path, files_made;
bool lowered; /* sums may be above the limit since */

/* A process: its record (0: none), and the lease that is in force in it. */
byte own_record[PROCESSES + 1], in_force[PROCESSES + 1];
bool killed[PROCESSES + 1];
byte ended;

/* Of file f; 0 and 1 belong to no file. */
#define FIRST(f) ((f) * RECORDS)
#define SECOND(f) ((f) * RECORDS + 1)
#define LEASED(f) (records[FIRST(f)].leased + records[SECOND(f)].leased)

inline check_record(r)
{
    assert(records[r].used <= records[r].leased)
}

/* ---- The file; `f` is the one that this process has open */
inline take_lock()
{
#ifndef TWIN_NO_LOCK
    atomic { files[f].lock == 0 -> files[f].lock = me }
#else
    skip
#endif
}

inline drop_lock()
{
    atomic {
        if
        :: files[f].lock == me -> files[f].lock = 0
        :: else
        fi
    }
}

inline open_file()
{
    atomic {
        if
        :: path == 0 && files_made < FILES ->
            files_made++;
            path = files_made;
            files[path].linked = true
        :: path == 0 && files_made == FILES -> goto done
        :: path != 0
        fi;
        f = path
    }
}

/* Until the lock is held of the file that the path leads to, with its page. */
inline open_and_lock()
{
    do
    :: open_file();
        take_lock();
        if
#ifndef TWIN_NO_LINK_CHECK
        :: !files[f].linked -> drop_lock()
#endif
        :: else -> break
        fi
    od;
    if
    :: !files[f].written -> atomic {
        files[f].limit = LIMIT;
        files[f].written = true
    }
    :: else
    fi
}

/* ---- Members that are gone */
inline free_record(r)
{
    atomic {
        records[r].taken = false;
        records[r].leased = 0;
        records[r].noted = false;
        check_record(r)
    }
}

#ifdef TWIN_NO_LIFE
#define GONE(r) (records[r].taken && r != own_record[me])
#else
#define GONE(r) (records[r].taken && records[r].life == 0)
#endif
#ifdef TWIN_NO_GRACE
#define IS_OVER(r) true
#else
#define IS_OVER(r) (records[r].used == 0)
#endif
#ifdef TWIN_NEVER_BACK
#define MAY_GO_BACK false
#else
#define MAY_GO_BACK true
#endif

inline look_after(r)
{
    if
    :: GONE(r) && records[r].leased == 0 -> free_record(r)
    :: GONE(r) && records[r].leased != 0 && !records[r].noted -> records[r].noted = true
    :: GONE(r) && records[r].leased != 0 && records[r].noted && IS_OVER(r) && MAY_GO_BACK ->
        free_record(r)
    :: else
    fi
}

inline look_after_all()
{
    look_after(FIRST(f));
    look_after(SECOND(f))
}

/* ---- A member */
inline try_record(r)
{
    atomic { !records[r].taken && records[r].life == 0 -> records[r].life = me; x = r }
}

inline take_record()
{
    if
    :: try_record(FIRST(f))
    :: try_record(SECOND(f))
    :: else -> drop_lock(); goto done /* as many members as there can be */
    fi;
    atomic {
        records[x].taken = true;
        records[x].leased = 0;
        records[x].noted = false
    };
    atomic {
        own_record[me] = x;
        in_force[me] = 0
    }
}

/* A lease is stored before it comes into force. */
inline lease_more()
{
    take_lock();
    look_after_all();
#ifdef TWIN_USE_FIRST
    in_force[me]++;
#endif
    if
    :: LEASED(f) < files[f].limit ->
        atomic {
            records[x].leased++;
            assert(LEASED(f) <= files[f].limit);
            assert(lowered || LEASED(1) + LEASED(2) <= LIMIT)
        };
        drop_lock();
#ifndef TWIN_USE_FIRST
        in_force[me]++
#endif
    :: else -> drop_lock()
    fi
}

/* Bytes are given up here before their return is stored there. */
inline return_some()
{
#ifndef TWIN_RETURN_FIRST
    atomic { in_force[me] > records[x].used -> in_force[me]-- };
#endif
    take_lock();
    atomic {
        records[x].leased--;
        check_record(x)
    };
    drop_lock()
#ifdef TWIN_RETURN_FIRST
    ;
    in_force[me]--
#endif
}

inline leave()
{
    take_lock();
    free_record(x);
    records[x].life = 0;
    if
    :: !records[FIRST(f)].taken && !records[SECOND(f)].taken -> atomic {
        if
        :: path == f -> path = 0; files[f].linked = false
        :: else
        fi
    }
    :: else
    fi;
    drop_lock()
}

proctype member(byte me)
{
    byte f, x, life;
    do
    :: life < LIVES ->
        life++;
        {
            open_and_lock();
            look_after_all();
            take_record();
            drop_lock();
            do
            :: lease_more()
            :: in_force[me] > records[x].used -> return_some()
            :: atomic { records[x].used == 0 -> own_record[me] = 0; in_force[me] = 0 };
                leave();
                break
            od
        } unless { killed[me] };
done:
        /* What the system does for one who ended, however that was. */
        atomic {
            drop_lock();
            if
            :: records[x].life == me -> records[x].life = 0
            :: else
            fi;
            own_record[me] = 0;
            in_force[me] = 0;
            killed[me] = false;
            f = 0;
            x = 0
        }
    :: life == LIVES -> break
    od;
    ended++
}

/* Its other threads: they use what is in force. */
proctype worker(byte me)
{
end:
    do
    :: atomic { own_record[me] != 0 && records[own_record[me]].used < in_force[me] ->
        records[own_record[me]].used++;
        check_record(own_record[me]) }
    :: atomic { own_record[me] != 0 && records[own_record[me]].used > 0 ->
        records[own_record[me]].used-- }
    od
}

proctype killer()
{
    byte kills;
end:
    do
    :: atomic { kills < KILLS && own_record[1] != 0 -> killed[1] = true; kills++ }
    :: atomic { kills < KILLS && own_record[2] != 0 -> killed[2] = true; kills++ }
    :: atomic { kills < KILLS && files[path].lock == 1 -> killed[1] = true; kills++ }
    od
}

#define RECLAIMABLE(r) (records[r].used > 0 && own_record[1] != r && own_record[2] != r)

/* The driver takes the memory of the dead back, by and by. */
proctype driver()
{
end:
    do
    :: atomic { RECLAIMABLE(FIRST(1)) -> records[FIRST(1)].used = 0 }
    :: atomic { RECLAIMABLE(SECOND(1)) -> records[SECOND(1)].used = 0 }
    :: atomic { RECLAIMABLE(FIRST(2)) -> records[FIRST(2)].used = 0 }
    :: atomic { RECLAIMABLE(SECOND(2)) -> records[SECOND(2)].used = 0 }
    od
}

/* membrane limit, once. */
proctype setter()
{
    byte f, me = 3;
    if
    :: path != 0 -> f = path;
        take_lock();
        if
        :: files[f].linked && files[f].written -> atomic {
            lowered = true;
            files[f].limit = LOWERED
        }
        :: else
        fi;
        drop_lock()
    :: true
    fi
}

inline check_empty(f)
{
    assert(files[f].lock == 0);
    assert(!records[FIRST(f)].taken && records[FIRST(f)].life == 0);
    assert(!records[SECOND(f)].taken && records[SECOND(f)].life == 0)
}

init {
    byte f, me = 4;
    atomic {
        run member(1);
        run member(2);
        run worker(1);
        run worker(2);
        run killer();
        run driver();
        run setter()
    };
    timeout; /* nobody else can go on */
    assert(ended == PROCESSES);
    atomic {
        if
        :: path != 0 -> f = path; look_after_all(); look_after_all()
        :: else
        fi;
        check_empty(1);
        check_empty(2)
    }
}
