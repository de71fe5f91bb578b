/* Responsible for what fibers wait for and share in place of the system's: mutexes, conditions,
 * threads, keys and the buffers of stores. Never chooses who goes on. */
#include "tests/sched/inside.h"

#include <errno.h>
#include <string.h>

#define POINT(kind, object) sched_point(kind, object, __FILE__, __LINE__)

void sched_make_ready(const void *waited_for, sched_state state)
{
    for (int i = 0; i < sched.thread_count; i++) {
        sched_thread *thread = &sched.threads[i];
        if (thread->state == state && thread->waits_for == waited_for)
            thread->state = SCHED_READY;
    }
}

bool sched_is_looking(void)
{
    return sched.looking;
}

/* ---- Mutexes */
static int own_mark(void)
{
    return sched_number(sched.current) + 1;
}

static void acquire(sched_mutex *mutex)
{
    while (mutex->holder_plus_one != 0 && sched.fault != SCHED_OPEN_LOCK) {
        if (sched.current == &sched.outside)
            sched_fail("a lock is still held by %c", 'A' + mutex->holder_plus_one - 1);
        if (mutex->holder_plus_one == own_mark())
            sched_fail("%c takes a lock that it holds", 'A' + own_mark() - 1);
        sched.current->waits_for = mutex;
        sched.current->state = SCHED_LOCKED_OUT;
        sched_leave();
    }
    mutex->holder_plus_one = own_mark();
}

static void release(sched_mutex *mutex)
{
    sched_land_stores();
    if (mutex->holder_plus_one != own_mark() && sched.fault != SCHED_OPEN_LOCK)
        sched_fail("%c drops a lock that it does not hold", 'A' + own_mark() - 1);
    mutex->holder_plus_one = 0;
    sched_make_ready(mutex, SCHED_LOCKED_OUT);
}

int sched_mutex_lock(sched_mutex *mutex)
{
    POINT(SCHED_TAKE, mutex);
    sched_land_stores();
    acquire(mutex);
    return 0;
}

int sched_mutex_unlock(sched_mutex *mutex)
{
    POINT(SCHED_DROP, mutex);
    release(mutex);
    return 0;
}

int sched_mutex_destroy(sched_mutex *mutex)
{
    return mutex->holder_plus_one == 0 ? 0 : EBUSY;
}

/* ---- Conditions */
static uint64_t ns_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * UINT64_C(1000000000) + (uint64_t)time->tv_nsec;
}

int sched_condition_wait(
    sched_condition *condition, sched_mutex *mutex, const struct timespec *deadline)
{
    POINT(SCHED_WAIT, condition);
    sched_thread *self = sched.current;
    if (self == &sched.outside)
        sched_fail("a wait outside of all bodies, where nobody could end it");
    self->waits_for = condition;
    bool stays = sched.rules.waits_stay, fires = deadline != NULL && !stays;
    self->deadline_ns = fires ? ns_of(deadline) : UINT64_MAX;
    self->fires_at_step = fires ? sched_choice_fires_at(sched.choice, sched.step) : SCHED_NEVER;
    self->wakes_at_step = stays ? SCHED_NEVER : sched_choice_wakes_at(sched.choice, sched.step);
    self->timed_out = false;
    release(mutex);
    self->state = SCHED_WAITING;
    sched_leave();
    bool timed_out = self->timed_out;
    acquire(mutex);
    return timed_out ? ETIMEDOUT : 0;
}

int sched_condition_broadcast(sched_condition *condition)
{
    POINT(SCHED_SIGNAL, condition);
    if (sched.fault != SCHED_LOST_SIGNAL)
        sched_make_ready(condition, SCHED_WAITING);
    return 0;
}

/* ---- Threads of the product */
unsigned long sched_self(void)
{
    return (unsigned long)own_mark();
}

int sched_thread_create(
    unsigned long *thread, const void *attributes, void *(*run)(void *argument), void *argument)
{
    (void)attributes;
    *thread = (unsigned long)sched_number(sched_begin_product_thread(run, argument)) + 1;
    return 0;
}

int sched_thread_join(unsigned long thread, void **result)
{
    (void)result;
    const sched_thread *other = &sched.threads[thread - 1];
    POINT(SCHED_WAIT, other);
    while (other->state != SCHED_ENDED) {
        if (sched.current == &sched.outside)
            sched_fail("a join outside of all bodies, where %c cannot end", 'A' + (int)thread - 1);
        sched.current->waits_for = other;
        sched.current->state = SCHED_LOCKED_OUT;
        sched_leave();
    }
    return 0;
}

int sched_clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = (time_t)(sched.now_ns / UINT64_C(1000000000)),
        .tv_nsec = (long)(sched.now_ns % UINT64_C(1000000000))};
    return 0;
}

/* ---- Keys: a value for each fiber, and what is called at its end */
static void (*key_ends[SCHED_KEY_LIMIT])(void *value);
static unsigned key_count;

int sched_key_create(unsigned *key, void (*at_end)(void *value))
{
    if (key_count == SCHED_KEY_LIMIT)
        return EAGAIN;
    key_ends[key_count] = at_end;
    *key = key_count++;
    return 0;
}

int sched_key_set(unsigned key, const void *value)
{
    sched.current->values[key] = (void *)(size_t)value;
    return 0;
}

void sched_run_key_ends(sched_thread *thread)
{
    for (unsigned key = 0; key < key_count; key++) {
        void *value = thread->values[key];
        thread->values[key] = NULL;
        if (value != NULL && key_ends[key] != NULL)
            key_ends[key](value);
    }
}

/* ---- Stores that wait */
bool sched_changes_are_torn;

static void land_oldest(sched_thread *self)
{
    sched_waiting_store *oldest = &self->stores[0];
    memcpy(oldest->object, &oldest->value, oldest->bytes);
    memmove(self->stores, self->stores + 1, (size_t)--self->store_count * sizeof(*oldest));
}

void sched_land_stores(void)
{
    while (sched.current->store_count > 0)
        land_oldest(sched.current);
}

bool sched_store_waits(void *object, const void *value, size_t bytes)
{
    sched_thread *self = sched.current;
    if (self == &sched.outside ||
        (self->store_count == 0 && sched_choice_store_lands(sched.choice)))
        return false;
    while (self->store_count > 0 &&
        (self->store_count == SCHED_STORE_LIMIT || sched_choice_store_lands(sched.choice)))
        land_oldest(self);
    sched_waiting_store *newest = &self->stores[self->store_count++];
    *newest = (sched_waiting_store){.object = object, .bytes = bytes};
    memcpy(&newest->value, value, bytes);
    return true;
}

void sched_read_own(const void *object, void *value, size_t bytes)
{
    const sched_thread *self = sched.current;
    if (sched.looking)
        return; /* who watches sees what everybody sees */
    for (int i = self->store_count - 1; i >= 0; i--) {
        if (self->stores[i].object == object) {
            memcpy(value, &self->stores[i].value, bytes);
            return;
        }
    }
}
