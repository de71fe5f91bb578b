/* A manager over libmembrane-seams.so, driven by the client interface in steps. A step that fails
 * does so because of the fault, with a documented status; then every oracle holds, the fault is
 * lifted, and the step is made again.
 *
 * The oracles: the books against those that the plugin keeps of its outcomes (O1), the audit (O2),
 * the contents of all that lives (O3), and at the end that nothing is out (O4). */
#ifndef MEMBRANE_TESTS_FAULTS_WORLD_H
#define MEMBRANE_TESTS_FAULTS_WORLD_H

#include "membrane/membrane.h"
#include "tests/faults/seams.h"

#include <setjmp.h>

#define WORLD_BLOCK_COUNT 64
#define WORLD_STREAM_COUNT 2
#define PAGE UINT64_C(4096)
#define KIB UINT64_C(1024)
#define MIB UINT64_C(1048576)

/* How a world is made; zeroes are the usual one. */
struct setup {
    bool is_bare;         /* nothing is made: the scenario does all */
    bool counts_setup;    /* the faults are also those of making it */
    bool is_plain;        /* a mechanism without virtual memory */
    bool is_of_host;      /* of memory that the processor reaches: not for a device's */
    bool dies;            /* a lost device takes its memory along */
    bool outlives;        /* memory is given back after a loss, which HIP never promises */
    bool threads;         /* a reaper of the EP's own */
    bool is_measured;     /* the authority's limit is bounded by free bytes */
    bool populates;       /* what is owned is taken at once */
    bool is_shared;       /* the authority joins a shared ledger */
    uint64_t limit_bytes; /* 0: 64 MiB */
    uint64_t keep_bytes;  /* of the cache; 0: all */
};

/* What lives and is written to. */
struct block {
    uint64_t address, bytes, seed; /* bytes 0: free */
    mbr_allocation_handle allocation;
};

struct step {
    const char *text;
    uint64_t met_before;
    uint32_t try_count;
    uint64_t holder_bytes, queued_count, quarantined_count; /* before it */
    bool may_give;     /* it gives back before it takes, also where it is refused then */
    bool may_owe;      /* what a second failure keeps it from giving back, it gives next time */
    mbr_status status; /* of the last try */
    bool was_residual; /* something is left, and its place is not used any more */
};

struct world {
    const struct setup *setup;
    mbr_manager *manager;
    mbr_plugin_handle plugin;
    mbr_mechanism_handle mechanism;
    mbr_authority_handle authority;
    mbr_holder_handle holder, prefix_holder;
    mbr_ep_handle ep;
    mbr_stream_handle streams[WORLD_STREAM_COUNT];
    mbr_binding_handle binding;
    mbr_error error;
    struct block blocks[WORLD_BLOCK_COUNT];
    uint64_t seed;
    struct step step;
    mbr_status also_documented; /* a further status of the step under way */
    bool has_residue;           /* something is withheld for good, as documented */
    bool is_kept;               /* and the mechanism cannot be closed for it */
    bool has_abandoned;         /* a binding, which ends by itself */
    bool has_lost; /* an EP was lost: its lines are open for good, and the instance is given up */
    mbr_holder_handle late_holders[2]; /* that could not be ended before */
    uint32_t late_holder_count;
    jmp_buf *failed;
    char failure[1024];
};

extern struct fault_hooks fault_hooks;
extern const char *fault_plugin_path;

/* Leaves the run. */
void world_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
#define CHECK(world, condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            world_fail(world, "%s:%d: %s", __FILE__, __LINE__, #condition);                        \
    } while (0)

/* One step: a call of the client interface that must be MBR_OK without a fault. */
#define STEP(world, call)                                                                          \
    do {                                                                                           \
        step_begin(world, #call);                                                                  \
        while (step_again(world, call))                                                            \
            ;                                                                                      \
    } while (0)
/* The same, where `status` is documented, too. */
#define STEP_OR(world, status, call)                                                               \
    do {                                                                                           \
        (world)->also_documented = status;                                                         \
        STEP(world, call);                                                                         \
        (world)->also_documented = MBR_OK;                                                         \
    } while (0)
/* The end of something that a residue may keep: MBR_RESIDUAL and MBR_IN_USE then are the last word.
 */
#define END(world, call)                                                                           \
    do {                                                                                           \
        step_begin(world, #call);                                                                  \
        while (end_again(world, call))                                                             \
            ;                                                                                      \
    } while (0)
void step_begin(struct world *world, const char *text);
bool end_again(struct world *world, mbr_status status);
bool step_again(struct world *world, mbr_status status);
/* Oracles O1 to O3, now. */
void world_check(struct world *world);

void world_build(struct world *world, const struct setup *setup);
void world_end(struct world *world); /* everything is given back in steps; O4 */

/* Where the test reads and writes what is at an address of the mechanism's. */
uint64_t *word_at(uint64_t address);

/* ---- Memory; each a step or some ------------------------------------------------------------- */
struct block *block_write(struct world *world, uint64_t address, uint64_t bytes);
void block_forget(struct world *world, struct block *block);

struct block *alloc_on(struct world *world, uint64_t bytes, uint32_t flags, uint32_t stream);
struct block *alloc_now(struct world *world, uint64_t bytes); /* used by the host alone */
void free_now(struct world *world, struct block *block);
void free_after(struct world *world, struct block *block, uint32_t stream_count);

struct range {
    mbr_range_handle handle;
    uint64_t address, bytes, committed_bytes, unit_bytes;
    mbr_binding_handle binding;
    struct block *block;
};
void range_reserve(struct world *world, struct range *range, uint64_t bytes, uint64_t unit_bytes);
/* After a residual the range is given back and another one grows in its place. */
void range_grow(struct world *world, struct range *range, uint64_t to_bytes);
void range_shrink(struct world *world, struct range *range, uint64_t to_bytes, uint32_t streams);
void range_release(struct world *world, struct range *range, uint32_t stream_count);
/* Of a part of the range. */
mbr_prefix_handle prefix_seal(
    struct world *world, const struct range *range, uint64_t offset, uint64_t bytes);
void prefix_end(struct world *world, mbr_prefix_handle prefix);

void streams_run(void); /* all their work is done */
void world_poll(struct world *world);
void world_drain(struct world *world);
void world_trim(struct world *world);
mbr_bind_request world_bind_request(const struct world *world);
mbr_mechanism_figures world_mechanism(struct world *world);
mbr_authority_figures world_books(struct world *world);

/* ---- Scenarios ------------------------------------------------------------------------------- */
struct scenario {
    const char *name;
    void (*run)(struct world *world);
    struct setup setup;
};
extern const struct scenario alloc_scenarios[], range_scenarios[], prefix_scenarios[],
    ep_scenarios[], plugin_scenarios[], budget_scenarios[], kv_scenarios[], paged_scenarios[],
    sleep_scenarios[]; /* NULL at the end */

#endif
