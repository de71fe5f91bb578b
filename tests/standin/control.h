/* How a test steers the stand-in driver. The functions are exported by the driver's library itself
 * (dlsym), beside the driver's own; each option also has an environment variable, which is read
 * when the library is loaded, for whole programs that know nothing of all this. Safe from any
 * thread but for standin_restart, which wants to be the only caller. */
#ifndef MEMBRANE_TESTS_STANDIN_CONTROL_H
#define MEMBRANE_TESTS_STANDIN_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STANDIN_DEVICE_MAX_COUNT 8

enum standin_mode {
    STANDIN_THREADED, /* a thread a stream, as soon as it has work */
    STANDIN_MANUAL,   /* nothing runs but by standin_step, and by a call that waits for it */
    STANDIN_LAZY,     /* the same, and a query that answers "not ready" is followed by one step: the
                       * latest that a device can be, for whole programs */
};

/* What a fresh handle holds, which the driver promises nothing about (D18). */
enum standin_content {
    STANDIN_POISON, /* bytes 0xA5 in the first and the last 8 MiB */
    STANDIN_ZEROS,  /* what the driver was seen to do */
};

enum standin_addresses {
    STANDIN_LOWEST, /* the lowest free ones: given back, they soon serve somebody else */
    STANDIN_RISING, /* never the same twice, while there are others */
};

struct standin_options {
    uint32_t device_count;      /* STANDIN_DEVICES, 1; with 0 the start answers "no device" */
    uint64_t capacity_bytes;    /* STANDIN_CAPACITY_BYTES, 1 GiB a device */
    uint64_t granule_min_bytes; /* STANDIN_GRANULE_MIN_BYTES, 2 MiB */
    uint64_t granule_recommended_bytes; /* STANDIN_GRANULE_RECOMMENDED_BYTES, the least */
    uint64_t address_bytes;             /* STANDIN_ADDRESS_BYTES, what all devices share; with each
                                         * device's own view of them at most 2^39 */
    uint32_t mode;                      /* STANDIN_MODE=threaded|manual|lazy */
    uint32_t content;                   /* STANDIN_CONTENT=poison|zeros */
    uint32_t addresses;                 /* STANDIN_ADDRESSES=lowest|rising */
    int start_code;                     /* STANDIN_START_CODE: what cuInit answers instead */
    bool can_export;                    /* STANDIN_EXPORT=1: "handle export is possible" */
    bool maps_released;                 /* STANDIN_MAPS_RELEASED=1: D12 is answered, not ended */
    bool has_no_virtual_memory;         /* STANDIN_NO_VIRTUAL_MEMORY=1: the attribute says so */
    bool has_no_peers;                  /* STANDIN_NO_PEERS=1: none reaches another's memory */
    bool has_no_managed_memory;         /* STANDIN_NO_MANAGED_MEMORY=1 */
    /* What HIP's runtime does in one version or another. */
    bool has_no_aliasing;         /* STANDIN_HIP_NO_ALIASING=1: a handle is mapped once */
    bool has_no_read_only;        /* STANDIN_HIP_NO_READ_ONLY=1: such access is refused */
    bool takes_descriptors;       /* STANDIN_HIP_DESCRIPTORS=1: one a handle; without one there is
                                   * no memory */
    bool frees_late;              /* STANDIN_HIP_FREES_LATE=1: with the addresses of the last use */
    bool refuses_long_access;     /* STANDIN_HIP_SINGLE_ACCESS=1: over several mappings at once */
    bool wants_own_last;          /* STANDIN_HIP_OWN_LAST=1: in a list of accesses */
    uint32_t refuses_access_each; /* STANDIN_HIP_REFUSES_ACCESS=N: a thread's N-th time each, for no
                                     reason */
    uint64_t granule_told_bytes;  /* STANDIN_HIP_GRANULE_TOLD_BYTES: instead of the true ones */
    uint64_t handle_max_bytes;    /* STANDIN_HIP_HANDLE_MAX_BYTES: for more there is no memory */
    int hip_version;              /* STANDIN_HIP_VERSION, 71400000: of 7.14 */
};

/* The options that the environment asks for. */
void standin_options(struct standin_options *options);

/* Forgets everything, as if the library had just been loaded with these options. Waits for what
 * runs; work that nobody ever ran is dropped. */
void standin_restart(const struct standin_options *options);

/* Runs up to `count` pieces of work that are ready; how many there were. Manual mode only. */
uint32_t standin_step(uint32_t count);

/* ---- Faults ---- */

struct standin_fault {
    const char *function; /* as exported, such as "cuMemMap"; "*" is every one */
    uint64_t call_index;  /* 1 is the next call of it */
    bool is_sticky;       /* and all calls after it */
    bool is_after;        /* the call takes effect, and fails all the same */
    int code;             /* what it answers */
};

/* The same by somebody who looks at each call, on the thread that makes it: how it goes and, where
 * it fails, what it answers. Under the stand-in's lock: it may call neither the driver nor what is
 * here. NULL: nobody looks any more. */
enum standin_verdict { STANDIN_GOES_ON, STANDIN_FAILS_BEFORE, STANDIN_FAILS_AFTER };
typedef enum standin_verdict standin_judge(const char *function, int *code);
void standin_ask(standin_judge *judge);

/* Several may be planned. STANDIN_FAULTS="cuMemCreate:3:once:before:2;cuMemMap:1:sticky:after:304"
 */
void standin_plan_fault(const struct standin_fault *fault);
void standin_forget_faults(void);

/* The device is lost when the `call_index`-th call from now is made, and answers `code` to all that
 * asks for it from then on; with `is_whole` to calls of virtual memory, too. 0: at once.
 * STANDIN_LOSE="device:call_index:code:context|whole" */
void standin_lose(uint32_t device, uint64_t call_index, int code, bool is_whole);

/* The `record_index`-th record of an event from now is never seen done. STANDIN_HANG_EVENT=index */
void standin_hang_event(uint64_t record_index);
/* Lets such events be done. */
void standin_release_events(void);

/* Each call of the function takes that long more, before anything else of it. "*" is every one.
 * STANDIN_LATENCY="cuMemMap:1000;cuMemUnmap:24000" */
void standin_set_latency(const char *function, uint64_t nanoseconds);

/* The library has no such symbol, for dlsym and for the driver's own search. STANDIN_MISSING="a;b"
 * False where it never had one. */
bool standin_hide(const char *function);

/* ---- What happened ---- */

struct standin_ledger {
    uint64_t handle_count;  /* not released to the last reference, or still mapped */
    uint64_t handle_bytes;  /* their bytes: what the device has given away in handles */
    uint64_t mapping_count; /* handles at addresses */
    uint64_t mapping_bytes;
    uint64_t reservation_count;
    uint64_t reservation_bytes;
    uint64_t plain_count; /* plain and managed allocations */
    uint64_t plain_bytes;
    uint64_t pinned_count; /* pinned and registered host memory */
    uint64_t pinned_bytes;
    uint64_t stream_count; /* made by a caller and not destroyed */
    uint64_t event_count;
    uint64_t graph_count; /* graphs, and those made ready */
    uint64_t module_count;
    uint64_t retain_count;         /* of primary contexts */
    uint64_t pending_count;        /* pieces of work that have not run */
    uint64_t lenient_unmap_count;  /* unmaps that met a hole (D22): the driver forgives it, no test
                                      should */
    uint64_t lenient_access_count; /* the same of access that is set over a hole (D15) */
    uint64_t lenient_mode_count;   /* the same of a capture mode that is none (C3) */
    uint64_t refused_count; /* calls with an argument that is none: of the product there should be
                               none */
    uint64_t call_count;    /* of every function, ever */
};

void standin_read_ledger(struct standin_ledger *ledger);

/* How often the function was called since the start. */
uint64_t standin_calls(const char *function);

/* Ends the process with a list of what is left, unless all is given back, no unmap met a hole, and
 * nothing is pending. STANDIN_CLEAN=1: at the end of the process. */
void standin_assert_clean(void);

/* Each call as a line `FUNCTION CODE`, appended to the file. NULL ends it. STANDIN_JOURNAL=file */
bool standin_journal(const char *path);

/* Device memory as the device itself would see it, now, past all queues. False where it is not
 * mapped, or access was not granted. */
bool standin_peek(uint32_t device, uint64_t address, void *bytes, size_t count);
bool standin_poke(uint32_t device, uint64_t address, const void *bytes, size_t count);

/* Where this process has what the device has at the address, with the access that the device has: a
 * load or store of the test's own there is one of the device's, past all queues. Host memory is
 * where it is. */
void *standin_view(uint32_t device, uint64_t address);

/* Work of the test's own behind what the stream has, as cuLaunchHostFunc enqueues it, but without a
 * call of the driver. False where there is no such stream. */
bool standin_submit(uint64_t stream, void (*function)(void *argument), void *argument);

#ifdef __cplusplus
}
#endif

#endif
