/* The desk of the server: lets requests in through the governor, grows their sequences in time, and
 * says to those that cannot be in now when to come again. Knows nothing of HTTP.
 *
 * A request is in exactly one state:
 *
 *   NEW --enter--> RUNNING --its tokens are made--> ANSWERED
 *          |----> STANDING --let in--> RUNNING
 *          |          `--stood long enough--> ANSWERED (come again)
 *          `----> ANSWERED (come again, never, no host memory, closing) */
#ifndef MEMBRANE_EXAMPLES_SERVER_DESK_H
#define MEMBRANE_EXAMPLES_SERVER_DESK_H

#include "line.h"

#include "membrane/membrane.h"

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NS_PER_SECOND UINT64_C(1000000000)

typedef enum request_state {
    REQUEST_NEW,
    REQUEST_STANDING,
    REQUEST_RUNNING,
    REQUEST_ANSWERED,
} request_state;

typedef enum answer_kind {
    ANSWER_SERVED,
    ANSWER_COME_AGAIN, /* after retry_after_ns, with the key */
    ANSWER_NEVER,      /* more bytes than the limit */
    ANSWER_NO_MEMORY,  /* of the host: nothing that a budget could have said before */
    ANSWER_CLOSING,
    ANSWER_COUNT,
} answer_kind;

typedef struct request {
    /* The caller's. */
    uint64_t prompt_tokens, output_tokens; /* each above 0 */
    uint64_t key;                          /* of the place that it was given before; 0: none */
    void *owner;
    /* The desk's; the answer is the caller's to read once the state is ANSWERED. */
    request_state state;
    answer_kind answer;
    uint64_t most_bytes;
    double work_byte_seconds;
    uint64_t number; /* in line */
    bool returned;   /* it came with a place */
    uint64_t entered_ns, began_ns, ended_ns;
    uint64_t due_ns; /* running: its next tokens; standing: until when */
    uint64_t member;
    uint64_t made_tokens; /* of the output */
    uint64_t committed_bytes;
    uint64_t retry_after_ns;      /* COME_AGAIN: when its turn is */
    uint64_t retry_after_seconds; /* the same, rounded up */
    mbr_sequence *sequence;
    struct request *prev, *next;
} request;

/* Called with the desk's lock held, so that no request is woken before it is parked. */
typedef struct desk_hooks {
    void (*park)(request *request); /* it is not answered yet */
    void (*wake)(request *request); /* it is */
} desk_hooks;

typedef struct desk_options {
    mbr_manager *manager;
    mbr_authority_handle authority;
    mbr_holder_handle holder;
    mbr_binding_handle binding;
    uint64_t tokens_per_second; /* of each request */
    uint64_t max_tokens;        /* of one sequence */
    uint64_t stand_ns;          /* how long a request stands in line before it is sent away */
    desk_hooks hooks;
} desk_options;

/* Since the desk was opened. */
typedef struct desk_figures {
    mbr_authority_figures authority;
    uint64_t admitted_bytes;  /* the most that the running requests said */
    uint64_t committed_bytes; /* what their sequences have */
    uint64_t running_count, standing_count, away_count;
    uint64_t answer_counts[ANSWER_COUNT];
    uint64_t returned_count, returned_served_count; /* of those that came with a place */
    double admitted_byte_seconds, committed_byte_seconds;
    double uptime_seconds;
} desk_figures;

typedef struct desk desk;

/* Starts the thread that grows sequences. */
mbr_status desk_open(const desk_options *options, desk **opened, mbr_error *error);
/* Answers those that stand; the running ones go on for at most drain_ns. Then nothing is in. */
void desk_close(desk *desk, uint64_t drain_ns);
/* After desk_close, and when no request is in use any more. */
mbr_status desk_destroy(desk *desk, mbr_error *error);
/* True: the request is answered. False: it is parked, and may be woken before this returns. It
 * stays where it is until it is answered. */
bool desk_enter(desk *desk, request *request);
mbr_status desk_read(desk *desk, desk_figures *figures, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
