/* <stdatomic.h> with a point before each operation, for code that runs on fibers. Operators on
 * _Atomic objects are not seen: use the functions, as the product does. */
#ifndef MEMBRANE_TESTS_SCHED_SHIM_STDATOMIC_H
#define MEMBRANE_TESTS_SCHED_SHIM_STDATOMIC_H

#include_next <stdatomic.h>

#include "tests/sched/shim.h"

#if defined(__clang__)
#define SCHED_LOAD_NOW(object) __c11_atomic_load(object, __ATOMIC_SEQ_CST)
#define SCHED_STORE_NOW(object, value) __c11_atomic_store(object, value, __ATOMIC_SEQ_CST)
#else
#define SCHED_LOAD_NOW(object) __atomic_load_n(object, __ATOMIC_SEQ_CST)
#define SCHED_STORE_NOW(object, value) __atomic_store_n(object, value, __ATOMIC_SEQ_CST)
#endif
#define SCHED_TYPE_OF(object) __typeof__(SCHED_LOAD_NOW(object))
#define SCHED_POINT(kind, object) sched_point(kind, (const void *)(object), __FILE__, __LINE__)
#define SCHED_CHANGED(object, before, after)                                                       \
    sched_changed((const void *)(object), (uint64_t)(before), (uint64_t)(after), __FILE__)

/* Each operand is evaluated once, as the system's do. */
#define SCHED_AT(object) __typeof__(object) sched_at = (object)

#undef atomic_load_explicit
#define atomic_load_explicit(object, order)                                                        \
    __extension__({                                                                                \
        SCHED_AT(object);                                                                          \
        SCHED_POINT(SCHED_LOAD, sched_at);                                                         \
        SCHED_TYPE_OF(sched_at) sched_loaded = SCHED_LOAD_NOW(sched_at);                           \
        sched_read_own((const void *)sched_at, &sched_loaded, sizeof(sched_loaded));               \
        (void)(order);                                                                             \
        sched_loaded;                                                                              \
    })

#undef atomic_store_explicit
#define atomic_store_explicit(object, value, order)                                                \
    __extension__({                                                                                \
        SCHED_AT(object);                                                                          \
        SCHED_TYPE_OF(sched_at) sched_stored = (value);                                            \
        SCHED_POINT(SCHED_STORE, sched_at);                                                        \
        if ((order) == memory_order_seq_cst)                                                       \
            sched_land_stores();                                                                   \
        if ((order) == memory_order_seq_cst ||                                                     \
            !sched_store_waits((void *)sched_at, &sched_stored, sizeof(sched_stored)))             \
            SCHED_STORE_NOW(sched_at, sched_stored);                                               \
    })

/* Answers the old value, leaves `changed`, which may use sched_old and sched_operand. Torn, another
 * fiber may come between the two. */
#define SCHED_CHANGE_TO(object, operand, changed)                                                  \
    __extension__({                                                                                \
        SCHED_AT(object);                                                                          \
        SCHED_TYPE_OF(sched_at) sched_operand = (SCHED_TYPE_OF(sched_at))(operand);                \
        SCHED_POINT(SCHED_CHANGE, sched_at);                                                       \
        sched_land_stores();                                                                       \
        SCHED_TYPE_OF(sched_at) sched_old = SCHED_LOAD_NOW(sched_at);                              \
        if (sched_changes_are_torn)                                                                \
            SCHED_POINT(SCHED_CHANGE, sched_at);                                                   \
        SCHED_STORE_NOW(sched_at, (SCHED_TYPE_OF(sched_at))(changed));                             \
        SCHED_CHANGED(sched_at, sched_old, SCHED_LOAD_NOW(sched_at));                              \
        sched_old;                                                                                 \
    })

#undef atomic_exchange_explicit
#define atomic_exchange_explicit(object, value, order)                                             \
    ((void)(order), SCHED_CHANGE_TO(object, value, sched_operand))
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, value, order)                                            \
    ((void)(order), SCHED_CHANGE_TO(object, value, sched_old + sched_operand))
#undef atomic_fetch_sub_explicit
#define atomic_fetch_sub_explicit(object, value, order)                                            \
    ((void)(order), SCHED_CHANGE_TO(object, value, sched_old - sched_operand))
#undef atomic_fetch_and_explicit
#define atomic_fetch_and_explicit(object, value, order)                                            \
    ((void)(order), SCHED_CHANGE_TO(object, value, sched_old & sched_operand))
#undef atomic_fetch_or_explicit
#define atomic_fetch_or_explicit(object, value, order)                                             \
    ((void)(order), SCHED_CHANGE_TO(object, value, sched_old | sched_operand))

#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, expected, desired, success, failure)       \
    __extension__({                                                                                \
        SCHED_AT(object);                                                                          \
        SCHED_TYPE_OF(sched_at) sched_desired = (SCHED_TYPE_OF(sched_at))(desired);                \
        SCHED_TYPE_OF(sched_at) *sched_expected = (expected);                                      \
        SCHED_POINT(SCHED_CHANGE, sched_at);                                                       \
        sched_land_stores();                                                                       \
        SCHED_TYPE_OF(sched_at) sched_found = SCHED_LOAD_NOW(sched_at);                            \
        bool sched_equal = sched_found == *sched_expected;                                         \
        if (sched_equal && sched_changes_are_torn)                                                 \
            SCHED_POINT(SCHED_CHANGE, sched_at);                                                   \
        if (sched_equal) {                                                                         \
            SCHED_STORE_NOW(sched_at, sched_desired);                                              \
            SCHED_CHANGED(sched_at, sched_found, sched_desired);                                   \
        } else {                                                                                   \
            *sched_expected = sched_found;                                                         \
        }                                                                                          \
        (void)(success);                                                                           \
        (void)(failure);                                                                           \
        sched_equal;                                                                               \
    })
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit

#undef atomic_thread_fence
#define atomic_thread_fence(order)                                                                 \
    __extension__({                                                                                \
        SCHED_POINT(SCHED_FENCE, NULL);                                                            \
        if ((order) == memory_order_seq_cst)                                                       \
            sched_land_stores();                                                                   \
    })

#undef atomic_load
#define atomic_load(object) atomic_load_explicit(object, memory_order_seq_cst)
#undef atomic_store
#define atomic_store(object, value) atomic_store_explicit(object, value, memory_order_seq_cst)
#undef atomic_exchange
#define atomic_exchange(object, value) atomic_exchange_explicit(object, value, memory_order_seq_cst)
#undef atomic_fetch_add
#define atomic_fetch_add(object, value)                                                            \
    atomic_fetch_add_explicit(object, value, memory_order_seq_cst)
#undef atomic_fetch_sub
#define atomic_fetch_sub(object, value)                                                            \
    atomic_fetch_sub_explicit(object, value, memory_order_seq_cst)
#undef atomic_fetch_and
#define atomic_fetch_and(object, value)                                                            \
    atomic_fetch_and_explicit(object, value, memory_order_seq_cst)
#undef atomic_fetch_or
#define atomic_fetch_or(object, value) atomic_fetch_or_explicit(object, value, memory_order_seq_cst)
#undef atomic_compare_exchange_strong
#define atomic_compare_exchange_strong(object, expected, desired)                                  \
    atomic_compare_exchange_strong_explicit(                                                       \
        object, expected, desired, memory_order_seq_cst, memory_order_seq_cst)
#undef atomic_compare_exchange_weak
#define atomic_compare_exchange_weak atomic_compare_exchange_strong

#endif
