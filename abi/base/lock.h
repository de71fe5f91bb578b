/* Ranked locks. A thread takes locks in rising rank only, and holds none when it calls into a
 * plugin, a driver or a callback of the user (invariant I14). Debug and test builds keep a set of
 * the ranks that a thread holds and end the process on a breach; release builds keep none. */
#ifndef MEMBRANE_BASE_LOCK_H
#define MEMBRANE_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The one order of all locks: a lower rank is taken first. One lock of a rank at a time. */
typedef enum mbr_lock_rank {
    MBR_RANK_MANAGER = 0, /* registries of plugins, mechanisms, EPs, bindings */
    MBR_RANK_CLIENT,      /* one holder of the client's: a KV cache, a prefix */
    MBR_RANK_EP,          /* streams and lines of one EP */
    MBR_RANK_QUEUE,       /* one release queue */
    MBR_RANK_RESERVATION, /* one reservation's extent list and busy mark */
    MBR_RANK_BACKING,     /* pool and parked lists of one mechanism */
    MBR_RANK_THREADS,     /* which threads keep blocks of which arenas */
    MBR_RANK_SLAB,        /* central slab lists of one binding */
    MBR_RANK_TABLE,       /* growth of an object table */
    MBR_RANK_ADDRESSES,   /* which addresses mechanisms have handed out */
    MBR_RANK_ADMISSION,   /* members of one admission */
    MBR_RANK_GOVERNOR,    /* list of authorities and holders */
    MBR_RANK_LEASE,       /* one authority's calls to the shared ledger */
    MBR_RANK_AUTHORITY,   /* slow path of one authority */
    MBR_RANK_STREAM,      /* one worker's FIFO */
    MBR_RANK_GATE,        /* one device: its captures and the calls inside */
    MBR_RANK_JOURNAL,     /* trace and log sinks */
    MBR_RANK_COUNT
} mbr_lock_rank;

#if defined(__clang__)
#define MBR_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define MBR_THREAD_ANNOTATION(x)
#endif
#define MBR_ACQUIRES(...) MBR_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define MBR_RELEASES(...) MBR_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define MBR_REQUIRES(...) MBR_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))

typedef struct MBR_THREAD_ANNOTATION(capability("mutex")) mbr_lock {
    pthread_mutex_t mutex;
    mbr_lock_rank rank;
} mbr_lock;

void mbr_lock_init(mbr_lock *lock, mbr_lock_rank rank);
void mbr_lock_finish(mbr_lock *lock);
void mbr_lock_take(mbr_lock *lock) MBR_ACQUIRES(lock);
void mbr_lock_drop(mbr_lock *lock) MBR_RELEASES(lock);

/* A condition that waits on a ranked lock. deadline_ns is CLOCK_MONOTONIC; UINT64_MAX waits for
 * ever. Returns false when the deadline has passed. */
typedef struct mbr_condition {
    pthread_cond_t condition;
} mbr_condition;

void mbr_condition_init(mbr_condition *condition);
void mbr_condition_finish(mbr_condition *condition);
bool mbr_condition_wait(mbr_condition *condition, mbr_lock *lock, uint64_t deadline_ns)
    MBR_REQUIRES(lock);
void mbr_condition_signal_all(mbr_condition *condition);

/* Precedes every call into a plugin or callback. */
void mbr_lock_assert_none_held(void);

#endif
