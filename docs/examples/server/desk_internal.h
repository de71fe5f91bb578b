/* What the desk's files share: desk.c wakes for what is due, opens and closes; serve.c lets in,
 * grows and ends; wait.c has the line. Every function needs the desk's lock. */
#ifndef MEMBRANE_EXAMPLES_SERVER_DESK_INTERNAL_H
#define MEMBRANE_EXAMPLES_SERVER_DESK_INTERNAL_H

#include "desk.h"

/* 2 KiB a token, 64 KiB a window; an extent is a window, so that what a sequence will have at its
 * end is known beforehand to the byte. Tokens are made eight at a time. */
#define GEOMETRY "layers=4,heads=2,dim=64,bytes=2,planes=2"
#define WINDOW_TOKENS UINT64_C(32)
#define TOKEN_BYTES UINT64_C(2048)
#define STEP_TOKENS UINT64_C(8)

/* Nothing is promised for later than this. */
#define PROMISE_LIMIT_NS (600 * NS_PER_SECOND)
/* Places expire, and the manager is polled where nothing ends, this often. */
#define TICK_NS (NS_PER_SECOND / 4)

typedef struct list {
    request *first;
    uint32_t count;
} list;

struct desk {
    desk_options options;
    mbr_admission_handle admission;
    mbr_kv *kv;
    pthread_t thread;
    pthread_mutex_t lock;   /* guards all below */
    pthread_cond_t earlier; /* something is due before what the thread waits for */
    list running;           /* by due_ns */
    list standing;          /* by number */
    line *line;
    mbr_refusal refusal; /* the last of one that has to wait */
    bool freed;          /* somebody left since the line was served */
    uint64_t tick_ns, wake_ns, close_ns;
    bool closing;
    uint64_t opened_ns, counted_ns;
    desk_figures figures;
};

static inline double seconds(uint64_t ns)
{
    return (double)ns / (double)NS_PER_SECOND;
}

static inline uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- desk.c */
/* By due_ns where it runs, else by number. */
void list_insert(list *list, request *added);
void list_take_out(list *list, request *taken);
void desk_answer(desk *desk, request *request, answer_kind kind);

/* ---- serve.c */
uint64_t tokens_ns(const desk *desk, uint64_t tokens);
/* MBR_OK: it is in, with all that it will need. MBR_BUSY: not now; the refusal says why. Others:
 * not at all, and answer_to says what to answer. */
mbr_status let_in(desk *desk, request *request, mbr_error *error);
answer_kind answer_to(mbr_status status, const mbr_error *error);
void begin(desk *desk, request *request, uint64_t now);
/* The next tokens of one that runs; at the last ones it ends. */
void step(desk *desk, request *request, uint64_t now);
/* Ends all that run, but those whose end fails. */
void cut_off(desk *desk, uint64_t now);

/* ---- wait.c */
/* Its own place where it has one, else a new one behind all others. */
void take_place(desk *desk, request *request, place *before, uint64_t now);
/* One that cannot be in now: it stands, if its turn comes soon, else it is told when. `before` is
 * the place that it came with. */
void stand_or_go(desk *desk, request *request, const place *before, uint64_t now);
/* Answered with COME_AGAIN after so long. */
void send_away(desk *desk, request *request, uint64_t wait_ns, uint64_t now);
/* Lets in those that stand, in the order of their places, until one has to wait. */
void serve_line(desk *desk, uint64_t now);
/* Sends those away that stood long enough. */
void send_tired_away(desk *desk, uint64_t now);
void leave_line(desk *desk, request *request);
void forget_absent(desk *desk, uint64_t now);

#endif
