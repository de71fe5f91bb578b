/* The CPU EP inside: streams that are rings of operations, and lines that outlive them.
 *
 * Locks: `lines_lock` (rank EP) guards the table of lines; a stream's lock and a line's lock (rank
 * STREAM) guard their own fields and are never held together. A worker holds none while it runs an
 * operation.
 *
 * Nothing can wait in a circle: an operation that waits for a line's value is accepted only once
 * the signal of that value stands in its own stream, so every wait points at an earlier submission.
 */
#ifndef MEMBRANE_HOST_EP_CPU_INTERNAL_H
#define MEMBRANE_HOST_EP_CPU_INTERNAL_H

#include "abi/base/lock.h"
#include "abi/base/state.h"
#include "host/ep/cpu/seams.h"

#define MBR_CPU_STREAM_LIMIT 64
#define MBR_CPU_STREAM_LIMIT_MAX 4096
#define MBR_CPU_OPERATION_LIMIT 4096
#define MBR_CPU_OPERATION_LIMIT_MAX 1048576
#define MBR_CPU_LINE_BUCKETS 256 /* ids rise, so their low bits spread evenly */

typedef struct mbr_cpu_line mbr_cpu_line;

typedef enum mbr_cpu_operation_kind {
    MBR_CPU_COPY,
    MBR_CPU_FILL,
    MBR_CPU_CALL,
    MBR_CPU_SIGNAL, /* the line has reached `value` */
    MBR_CPU_WAIT,   /* until the line has reached `value` */
} mbr_cpu_operation_kind;

typedef struct mbr_cpu_operation {
    mbr_cpu_operation_kind kind;
    union {
        struct {
            void *to;
            const void *from;
            uint64_t bytes;
        } copy;
        struct {
            void *at;
            uint64_t bytes;
            uint8_t pattern;
        } fill;
        struct {
            void (*function)(void *context);
            void *context;
        } call;
        struct {
            mbr_cpu_line *line; /* one reference, dropped when the operation has run */
            uint64_t value;
        } point;
    };
} mbr_cpu_operation;

/* free -> starting -> open -> closing -> free; starting -> free where a thread or memory is
 * refused. A closing stream finishes its queue, and its worker then frees it for the next one. */
enum {
    MBR_CPU_STREAM_FREE,
    MBR_CPU_STREAM_STARTING,
    MBR_CPU_STREAM_OPEN,
    MBR_CPU_STREAM_CLOSING,
    MBR_CPU_STREAM_STATES
};
extern const mbr_state_table mbr_cpu_stream_table;

/* One place for a stream; the thread and the ring stay with the place. The counts rise for ever:
 * finished_count <= submitted_count <= finished_count + operation_limit, and the operations between
 * the two counts stand in the ring, the running one first. */
typedef struct mbr_cpu_stream {
    mbr_cpu *cpu;
    mbr_lock lock;
    mbr_condition work;     /* for the worker: something to run, or the end */
    mbr_condition progress; /* for callers: an operation has run, or the stream is gone */
    _Atomic uint32_t state;
    uint64_t value; /* the native value; 0: no open stream */
    mbr_cpu_operation *ring;
    uint64_t submitted_count;
    uint64_t finished_count;
    uint32_t waiter_count; /* callers on `progress` */
    bool has_thread;
    bool stop;
    pthread_t thread;
} mbr_cpu_stream;

/* reached <= signalled. Each queued signal or wait, each waiting caller and the table hold a
 * reference. */
struct mbr_cpu_line {
    mbr_cpu_line *next; /* in its bucket */
    uint64_t id;
    mbr_native stream;
    const mbr_heap *heap;
    _Atomic uint64_t reference_count;
    _Atomic uint64_t signalled; /* rises under the stream's lock */
    _Atomic uint64_t reached;   /* rises under `lock` */
    mbr_lock lock;
    mbr_condition progress;
};

struct mbr_cpu {
    const mbr_heap *heap;
    const mbr_threads *threads;
    uint32_t stream_limit;
    uint32_t operation_limit;
    _Atomic uint64_t stream_serial;
    mbr_cpu_stream *streams;
    mbr_lock lines_lock;
    mbr_cpu_line *buckets[MBR_CPU_LINE_BUCKETS];
    uint64_t line_count;
};

/* ---- stream.c ---- */
void mbr_cpu_stream_init(mbr_cpu_stream *stream, mbr_cpu *cpu);
void mbr_cpu_stream_join(mbr_cpu_stream *stream); /* lets the queue finish and ends the worker */
void mbr_cpu_stream_finish(mbr_cpu_stream *stream);

typedef enum mbr_cpu_room {
    MBR_CPU_ROOM_WAIT, /* a full stream makes the caller wait, unless it is a worker */
    MBR_CPU_ROOM_NOW,  /* a full stream is MBR_QUEUE_FULL */
} mbr_cpu_room;

/* Queues a copy of *operation. A signal gets its value here, in the order of the stream. With
 * MBR_OK the operation's reference now belongs to the stream. */
mbr_status mbr_cpu_submit(mbr_cpu *cpu, mbr_native native, mbr_cpu_operation *operation,
    mbr_cpu_room room, mbr_error *error);

/* MBR_UNKNOWN_OBJECT or MBR_INVALID_ARGUMENT unless `native` is an open stream of this EP. */
mbr_status mbr_cpu_stream_check(mbr_cpu *cpu, mbr_native native, mbr_error *error);

/* True if this thread is the worker of that stream. */
bool mbr_cpu_stream_is_mine(const mbr_cpu *cpu, mbr_native native);

/* ---- operations.c ---- */
void mbr_cpu_operation_run(mbr_cpu_operation *operation);
mbr_status mbr_cpu_submit_copy(mbr_cpu *cpu, mbr_native stream, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error);
mbr_status mbr_cpu_submit_fill(mbr_cpu *cpu, mbr_native stream, uint64_t address, uint8_t value,
    uint64_t bytes, mbr_error *error);

/* ---- line.c ---- */
mbr_status mbr_cpu_line_open(mbr_cpu *cpu, uint64_t id, mbr_native stream, mbr_error *error);
mbr_status mbr_cpu_line_close(mbr_cpu *cpu, uint64_t id, mbr_error *error);
/* With a reference for the caller, or NULL and MBR_UNKNOWN_OBJECT in *error. */
mbr_cpu_line *mbr_cpu_line_find(mbr_cpu *cpu, uint64_t id, mbr_error *error);
void mbr_cpu_line_hold(mbr_cpu_line *line);
void mbr_cpu_line_drop(mbr_cpu_line *line);
void mbr_cpu_line_reach(mbr_cpu_line *line, uint64_t value);
bool mbr_cpu_line_wait(mbr_cpu_line *line, uint64_t value, uint64_t deadline_ns); /* false: late */

/* ---- order.c, transfer.c ---- */
extern const mbr_order_vtable mbr_cpu_order_vtable;
extern const mbr_transfer_vtable mbr_cpu_transfer_vtable;

static inline mbr_cpu *mbr_cpu_of(mbr_instance *instance)
{
    return (mbr_cpu *)(void *)instance;
}

#endif
