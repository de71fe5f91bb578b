/* What good_stream.c and good_line.c share. Everything is guarded by the order's lock. */
#ifndef MEMBRANE_TESTS_BADPLUGINS_GOOD_PARTS_H
#define MEMBRANE_TESTS_BADPLUGINS_GOOD_PARTS_H

#include "tests/badplugins/good_order.h"

#include <pthread.h>

enum kind { FILL, COPY, SIGNAL, WAIT };

struct operation {
    struct operation *next;
    enum kind kind;
    struct line *line; /* SIGNAL, WAIT; referred to */
    uint64_t value;    /* SIGNAL, WAIT; the pattern of FILL */
    uint64_t to, from, bytes;
};

/* Freed once it is neither open nor referred to by a line, and its worker is joined. */
struct stream {
    struct stream *next;
    struct order *order;
    uint64_t value; /* unique among open ones */
    bool is_open, has_worker, is_done;
    uint32_t line_count;
    pthread_t worker;
    struct operation *first, **end;
};

struct line {
    struct line *next; /* of open ones */
    uint64_t id, signalled, reached;
    uint32_t reference_count; /* itself while open, operations, waiters */
    struct stream *stream;
};

struct order {
    struct order *next;
    mbr_instance *instance;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct stream *streams;
    struct line *lines;
    bool is_ending;
};

/* Locked; NULL where the instance has none, or for want of memory. leave gives `status` back. */
struct order *good_enter(mbr_instance *instance, bool may_create);
mbr_status good_leave(struct order *order, mbr_status status);

/* Whether good_enter finds it. */
void good_attach(struct order *order, bool is_attached);

/* Waits for a change; false when the deadline has passed. */
bool good_await(struct order *order, uint64_t deadline_ns);

/* One reference less. */
void good_line_drop(struct line *line);

/* Joins workers that are done, and frees what nobody refers to. */
void good_reap(struct order *order);

/* An open stream, or NULL. */
struct stream *good_stream_find_value(struct order *order, uint64_t value);
struct stream *good_stream_find(
    struct order *order, mbr_native native, mbr_status *status, mbr_error *error);

/* Enqueues a copy of `operation`; where it is refused nothing has happened. */
mbr_status good_submit(struct stream *stream, const struct operation *operation, mbr_error *error);

#endif
