/* Knowing that one is in a forked child (rule 27) at the price of one load: a page that the kernel
 * wipes there. Nothing runs at the fork itself. */
#ifndef MEMBRANE_BASE_FORK_H
#define MEMBRANE_BASE_FORK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#ifndef __cplusplus
#include <stdatomic.h>
#endif

typedef struct mbr_fork_guard {
    const volatile unsigned char *mark; /* 1, and 0 in a child; NULL: the process id is compared */
    pid_t owner;
} mbr_fork_guard;

/* Cannot fail: where the system has no such page, every look asks for the process id. */
void mbr_fork_guard_init(mbr_fork_guard *guard);
/* As above, with the page from `map` (NULL on failure, as long as a page of the machine). */
void mbr_fork_guard_init_with(mbr_fork_guard *guard, void *(*map)(size_t bytes));
void mbr_fork_guard_finish(mbr_fork_guard *guard);

bool mbr_fork_guard_has_other_owner(const mbr_fork_guard *guard);

/* Whether this process is a child of the one that called init. */
static inline bool mbr_fork_guard_is_child(const mbr_fork_guard *guard)
{
    return guard->mark != NULL ? *guard->mark == 0 : mbr_fork_guard_has_other_owner(guard);
}

/* A flag in the guard's page, for the guard's owner: down until it is set, and down in every child.
 */
typedef struct mbr_fork_flag mbr_fork_flag;

#ifndef __cplusplus /* which has no _Atomic */
struct mbr_fork_flag {
    _Atomic bool is_up;
};

static inline bool mbr_fork_flag_is_up(const mbr_fork_flag *flag)
{
    return atomic_load_explicit(&flag->is_up, memory_order_acquire);
}

static inline void mbr_fork_flag_set(mbr_fork_flag *flag, bool is_up)
{
    atomic_store_explicit(&flag->is_up, is_up, memory_order_release);
}
#endif

/* NULL: the system has no such page. */
mbr_fork_flag *mbr_fork_guard_flag(const mbr_fork_guard *guard);

#endif
