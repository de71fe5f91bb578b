/* The contract table: sequences of driver calls, and what each call answers. One program runs it on
 * the driver and on the stand-in; both must write the same transcript. */
#ifndef MEMBRANE_TESTS_STANDIN_CONTRACT_H
#define MEMBRANE_TESTS_STANDIN_CONTRACT_H

#include "tests/standin/calls.h"

#include <stdbool.h>

#define CONTRACT_DECLARE_MEMBER(member, exported, parameters) mbr_cuda_result(*member) parameters;
struct calls {
    MBR_CUDA_FUNCTIONS(CONTRACT_DECLARE_MEMBER)
    MBR_CUDA_FUNCTIONS_OF_TESTS(CONTRACT_DECLARE_MEMBER)
    STANDIN_FUNCTIONS(CONTRACT_DECLARE_MEMBER)
};
#undef CONTRACT_DECLARE_MEMBER

enum row_kind {
    ROW_SHARED,  /* leaves the process as it found it */
    ROW_ALONE,   /* leaves a context that is lost, or worse: in a process of its own */
    ROW_RUNNING, /* the same, about a kernel that runs meanwhile */
    ROW_BARE,    /* in a process of its own, before cuInit */
    ROW_MISUSE,  /* alone; the driver does not protect from it, and the stand-in ends the process */
    ROW_CRASH,   /* the same, and the driver crashed: `expected` is what was seen, and asked no more
                  */
    ROW_TWO,     /* wants two devices that reach each other's memory; else like ROW_SHARED */
    ROW_TWO_ALONE, /* the same, in a process of its own */
};

struct row {
    const char *name;
    void (*run)(void);
    const char *expected; /* the words that the row says, separated by ", " */
    enum row_kind kind;
};

/* One table per file, ended by a row without a name. */
extern const struct row contract_device_rows[];
extern const struct row contract_context_rows[];
extern const struct row contract_handle_rows[];
extern const struct row contract_map_rows[];
extern const struct row contract_access_rows[];
extern const struct row contract_lost_rows[];
extern const struct row contract_stream_rows[];
extern const struct row contract_capture_rows[];
extern const struct row contract_graph_rows[];
extern const struct row contract_plain_rows[];
extern const struct row contract_more_rows[];
extern const struct row contract_two_rows[];

#define HALF_A_PAGE 2048 /* no multiple of any granule */

extern struct calls cu;

/* What a row has to work with on a device; contract_world.c makes it once a process. A row begins
 * on device 0. */
struct world {
    int device;
    mbr_cuda_context context; /* the device's primary one, retained once and current */
    mbr_cuda_stream stream;   /* both non-blocking */
    mbr_cuda_stream other;
    size_t granule_bytes; /* recommended granularity */
    /* Pinned words, the same for each device: */
    volatile uint32_t *flag;    /* `spin` goes on while it is 0 */
    volatile uint32_t *started; /* `hammer` has begun */
    volatile uint32_t *wrong;   /* the answer of `verify` */
    mbr_cuda_function spin;
    mbr_cuda_function store;
    mbr_cuda_function fill;
    mbr_cuda_function verify;
    mbr_cuda_function hammer;
};

extern struct world world;

/* Memory that is mapped at a reservation of its own. */
struct place {
    mbr_cuda_address at;
    mbr_cuda_handle handle;
};

/* Opens the library; says what is missing and ends the process where it cannot serve. */
void contract_open(const char *library);
bool contract_is_standin(void);
void contract_world_init(void);
void contract_two_worlds_init(void);
/* Whether the next row finds what it needs: after a row that was stopped, or that lost a context,
 * not. */
bool contract_is_well(void);
/* What two devices that reach each other's memory are lacking here, or NULL. */
const char *contract_lack_of_two(void);

/* ---- What a row says ---- */

/* Adds a word to the row's line. */
void say(const char *word);
/* Adds the name of a status, and hands it back. */
mbr_cuda_result see(mbr_cuda_result code);
/* Adds one of two words. */
void say_if(bool condition, const char *yes, const char *no);
/* Ends the row unless the call succeeded: it was not what the row is about. */
#define NEED(call) need((call), #call, __LINE__)
void need(mbr_cuda_result code, const char *call, int line);
const char *status_name(mbr_cuda_result code);

/* ---- Steps that many rows have ---- */

mbr_cuda_address reserve(size_t granules);
mbr_cuda_handle create(size_t granules);
mbr_cuda_result create_bytes(mbr_cuda_handle *handle, size_t bytes);
void map(mbr_cuda_address at, size_t granules, mbr_cuda_handle handle);
/* From here on, in a row that wants two: memory, streams, kernels and what is current are this
 * device's. */
void turn_to(int device);
mbr_cuda_result access_to(mbr_cuda_address at, size_t bytes, uint32_t flags);
void grant(mbr_cuda_address at, size_t granules);
struct place take(size_t granules);
void give(struct place place, size_t granules);
/* Unmaps what is mapped of the range, and frees it. */
void drop(mbr_cuda_address at, size_t granules);
/* Says which access the device has there. */
void say_access(mbr_cuda_address at, int device);
/* What is free on the device; and whether it was `before` but for so many granules. */
size_t free_now(void);
void say_moved(size_t before, size_t granules_gone);
/* Says what each step of a granule's life answers, from its address to the end of that. */
void see_memory(void);

/* Occupies the stream until let_go. */
void hold(mbr_cuda_stream stream);
void let_go(void);
mbr_cuda_result launch_store(mbr_cuda_address at, uint32_t value, mbr_cuda_stream stream);
mbr_cuda_result launch_fill(
    mbr_cuda_address at, uint32_t words, uint32_t value, mbr_cuda_stream stream);
mbr_cuda_result launch_verify(
    mbr_cuda_address at, uint32_t words, uint32_t value, mbr_cuda_stream stream);
mbr_cuda_result launch_hammer(mbr_cuda_address at, mbr_cuda_stream stream);
/* Waits until `hammer` has begun. */
void await_started(void);

mbr_cuda_stream stream_new(void);
mbr_cuda_event event_new(void);
/* One word of device memory, read by a copy; 0xDEAD where the copy fails, which is said. */
uint32_t word_at(mbr_cuda_address at);
/* Says `same` where the word is `value`, else `other`. */
void say_word(mbr_cuda_address at, uint32_t value);

/* Runs `work` on another thread and waits for its end. */
void on_thread(void (*work)(void *argument), void *argument);

struct mbr_cuda_properties properties_of(int device);

#endif
