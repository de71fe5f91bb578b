/* The loader: finds plugin files, judges them before their code runs, opens them, negotiates, and
 * copies their vtables. It knows no binding, no EP, no budget.
 *
 * A plugin file passes these gates in order; each refusal is a typed reason:
 *   found -> regular and trusted -> read as ELF -> note -> mapped -> same file -> entry -> minor
 *   agreed -> tables valid -> open
 * Nothing is ever passed to dlopen by a bare name (rule 28). */
#ifndef MEMBRANE_HOST_LOADER_H
#define MEMBRANE_HOST_LOADER_H

#include "abi/base/fork.h"
#include "abi/base/seam.h"
#include "membrane/membrane_plugin.h"

#include <stdbool.h>

#define MBR_LOADER_PATH_BYTES 4096
#define MBR_LOADER_REASON_BYTES 512

/* Why a candidate was or was not used; printed by `membrane plugins --explain`. */
typedef enum mbr_reason {
    MBR_REASON_USED = 0,
    MBR_REASON_NOT_FOUND,        /* no such path; for a name: the folders that were tried */
    MBR_REASON_NOT_REGULAR,      /* a directory, a device, a dangling link */
    MBR_REASON_UNTRUSTED_FILE,   /* owner or mode of the file */
    MBR_REASON_UNTRUSTED_FOLDER, /* the file's own folder is writable by group or world, or a
                                  * search path names a relative or empty folder */
    MBR_REASON_NOT_ELF,          /* no ELF file, or cut short */
    MBR_REASON_WRONG_MACHINE,    /* class, byte order or machine of another system */
    MBR_REASON_NOT_SHARED,       /* an executable or an object file */
    MBR_REASON_NO_NOTE,          /* the text says how to build a plugin */
    MBR_REASON_BAD_NOTE,
    MBR_REASON_OTHER_MAJOR,
    MBR_REASON_NO_COMMON_MINOR, /* both ranges in the text */
    MBR_REASON_DIGEST,          /* built against a header that differs from the published one */
    MBR_REASON_EXEC_STACK,
    MBR_REASON_TEXT_RELOCATIONS,
    MBR_REASON_RELATIVE_RPATH,
    MBR_REASON_NAME_MISMATCH, /* the note's name is not the file's */
    MBR_REASON_SHADOWED,      /* an earlier folder offers the same name */
    MBR_REASON_DLOPEN,        /* the dynamic linker's text */
    MBR_REASON_FILE_CHANGED,  /* the mapped object is not the file that was judged */
    MBR_REASON_NO_ENTRY,      /* the symbol is missing, or comes from a dependency */
    MBR_REASON_NEGOTIATION,   /* the entry refused or answered outside the offer */
    MBR_REASON_BAD_TABLE,     /* kind, size, a NULL required slot, a reserved field */
    MBR_REASON_COUNT
} mbr_reason;

/* "untrusted-file" …: a stable word for scripts. */
const char *mbr_reason_word(mbr_reason reason);

/* What the file says of itself, read without running it. */
typedef struct mbr_note_facts {
    uint16_t major, minor_min, minor_max, flags;
    char name[MBR_NOTE_NAME_BYTES];
    char vendor[MBR_NOTE_NAME_BYTES];
    uint64_t digest; /* of the highest minor that both sides know */
    /* Each of these pins the code: it is never really unmapped, whatever its note says. */
    bool has_tls;        /* thread-local variables of its own */
    bool has_static_tls; /* the static model, which needs room in every thread */
    bool has_thread_key; /* makes keys of pthread, whose destructors threads run at their end */
    bool has_unique_symbol;
    char unique_symbol[64]; /* the first one's name, cut */
} mbr_note_facts;

typedef struct mbr_candidate {
    char path[MBR_LOADER_PATH_BYTES]; /* as found; links are resolved for judging */
    char name[MBR_NOTE_NAME_BYTES];   /* from the file name */
    mbr_reason reason;
    char detail[MBR_LOADER_REASON_BYTES]; /* what, which value, what would work; "" if used */
    mbr_note_facts note;                  /* valid once the note was read */
} mbr_candidate;

/* Everything that the operating system tells the loader; a seam. NULL: the process's own. */
typedef struct mbr_loader_environment {
    const char *plugin_path;  /* MEMBRANE_PLUGIN_PATH */
    const char *data_home;    /* XDG_DATA_HOME, or ~/.local/share */
    const char *data_dirs;    /* XDG_DATA_DIRS, or its default */
    const char *built_in_dir; /* fixed at build time */
    bool secure;              /* AT_SECURE: environment and user folders are ignored */
    const char *trace;        /* MEMBRANE_TRACE: "calls", or NULL */
    const char *trace_file;   /* MEMBRANE_TRACE_FILE; NULL: stderr */
} mbr_loader_environment;

/* The process's own environment, for a caller that replaces a part of it. `storage` keeps the
 * composed string and outlives the use. */
void mbr_loader_environment_read(
    mbr_loader_environment *environment, char storage[MBR_LOADER_PATH_BYTES]);

/* Lists every candidate in search order, loading nothing. The array is the caller's, released by
 * mbr_loader_list_release. Errors: MBR_OUT_OF_HOST_MEMORY. */
mbr_status mbr_loader_list(const mbr_loader_environment *environment, const mbr_heap *heap,
    mbr_candidate **candidates, uint32_t *count, mbr_error *error);
void mbr_loader_list_release(const mbr_heap *heap, mbr_candidate *candidates);

/* Judges one file by path, loading nothing; `trusted` skips owner and mode. Always fills
 * *candidate; MBR_OK only with MBR_REASON_USED. */
mbr_status mbr_loader_judge(const char *path, bool trusted, mbr_candidate *candidate);

/* A loaded plugin file. */
typedef struct mbr_module mbr_module;

typedef struct mbr_module_options {
    const char *name_or_path; /* with a '/': a path; else a name that is searched */
    bool trusted; /* a path given in code or with --trust: owner and mode are not asked */
    const mbr_loader_environment *environment; /* NULL: the process's own */
    const mbr_heap *heap;                      /* NULL: libc */
} mbr_module_options;

/* Loads and negotiates. On failure nothing stays open, and *candidate (may be NULL) holds the
 * reason (zeroed with MBR_OUT_OF_HOST_MEMORY: nothing was judged). The same file opened twice is
 * one mapping and two modules. */
mbr_status mbr_module_open(const mbr_module_options *options, mbr_module **module,
    mbr_candidate *candidate, mbr_error *error);

/* Ends the module. The caller has closed every instance. Where an instance could not be closed, its
 * code stays mapped (I3). */
void mbr_module_close(mbr_module *module);

/* Whether an instance could not be closed: it may still call what it was opened with. */
bool mbr_module_is_kept(const mbr_module *module);

const mbr_candidate *mbr_module_candidate(const mbr_module *module);
const mbr_plugin_vtable *mbr_module_plugin(const mbr_module *module); /* the host's own copy */
uint16_t mbr_module_minor(const mbr_module *module);

/* Describes mechanism `index`, from 0, with every string bounded. MBR_OUT_OF_RANGE past the last,
 * MBR_NO_DEVICE without a driver or device, MBR_CONTRACT_BROKEN for a description that the contract
 * does not allow. */
mbr_status mbr_module_describe(
    mbr_module *module, uint32_t index, mbr_mechanism_description *description, mbr_error *error);

/* An opened mechanism: the host's private copies of its tables, absent optional slots and absent
 * capabilities filled with stubs that answer MBR_UNSUPPORTED (rule 3). Owned by the caller of open.
 * Slots are called as mechanism->virtual_.map(mechanism->instance, …), with no lock held. */
typedef struct mbr_mechanism {
    mbr_module *module;
    mbr_instance *instance;        /* what the tables here are called with */
    mbr_instance *plugin_instance; /* the plugin's own, for a third party's tables: the same unless
                                    * calls are traced */
    mbr_mechanism_description description;
    mbr_plugin_vtable plugin;
    mbr_allocator_vtable allocator;
    mbr_virtual_vtable virtual_;
    mbr_shared_vtable shared;
    mbr_order_vtable order;
    mbr_transfer_vtable transfer;
    bool has_virtual, has_shared, has_order, has_transfer;
    bool is_traced;             /* the tables and the instance are those of the trace */
    const mbr_fork_guard *fork; /* NULL: the note says that a forked child may call it */
    /* Facts, read once at open, with the conservative default of an unknown one. */
    uint64_t granule_min_bytes;
    uint64_t granule_recommended_bytes;
    uint64_t extent_max_bytes;
    uint64_t reservation_max_bytes;
    uint64_t allocation_align_bytes;
    uint64_t allocation_round_bytes;
    uint32_t fresh_content; /* MBR_CONTENT_… */
    uint32_t past_physical_size;
    uint64_t descriptors_per_extent;
    bool usable_after_protect;
    bool unmap_spans_mappings;
    bool unmap_waits_for_device;
    bool protect_may_fail_spuriously;
    bool aliasing;
    bool read_only_enforced;
    bool releasable_after_loss;
    bool host_accessible;
    bool fork_safe;
    bool populated;
    uint64_t quirks;
} mbr_mechanism;

typedef struct mbr_mechanism_options {
    const char *mechanism; /* NULL: the plugin's first */
    const mbr_option *options;
    uint32_t option_count;
    mbr_native native_context;
    mbr_log_function log; /* NULL: dropped */
    void *log_context;
} mbr_mechanism_options;

/* Opens a mechanism and fetches its capabilities. What the plugin handed over is closed again if
 * the host then refuses it (I2). Facts are validated: a granule that is no power of two, or a
 * `shared` without `virtual`, is MBR_CONTRACT_BROKEN with the fact named. */
mbr_status mbr_mechanism_open(mbr_module *module, const mbr_mechanism_options *options,
    mbr_mechanism *mechanism, mbr_error *error);

/* One slot of a third party's table. */
typedef struct mbr_slot_spec {
    const char *name;
    uint16_t offset;
    uint16_t minor; /* since which; 0: required (rule 19) */
} mbr_slot_spec;

/* A third party's capability, as whoever asks for it was written for. The table begins with
 * mbr_vtable_head. */
typedef struct mbr_foreign_table {
    const char *id; /* with the third party's own prefix: MBR_INVALID_ARGUMENT for "membrane." */
    uint16_t minor; /* the highest that the asker can use */
    uint16_t min_bytes;  /* of a table of minor 0 */
    uint16_t own_bytes;  /* of the asker's struct */
    uint16_t reserved_0; /* 0 */
    const void *stub;    /* own_bytes, head included: what stands in the place of an absent slot */
    const mbr_slot_spec *slots;
    uint32_t slot_count;
} mbr_foreign_table;

/* Fetches a third party's table by its id (rule 2) into *own, with the same validation and the same
 * stubs as the contract's own tables. MBR_UNSUPPORTED: the plugin does not offer it.
 * MBR_CONTRACT_BROKEN: its kind is not that of the id, it is too small, a required slot is NULL.
 * On failure every slot of *own is the stub's. Its slots are called with plugin_instance.
 * [any-thread] */
mbr_status mbr_mechanism_fetch_foreign(
    const mbr_mechanism *mechanism, const mbr_foreign_table *wanted, void *own, mbr_error *error);

/* MBR_STALE in a forked child of the process that loaded the plugin, unless its note says that it
 * is fork-safe (rule 27): precedes every call of a slot. */
mbr_status mbr_mechanism_refuse_child(const mbr_mechanism *mechanism, mbr_error *error);
static inline mbr_status mbr_mechanism_check_process(
    const mbr_mechanism *mechanism, mbr_error *error)
{
    return mechanism->fork != NULL && mbr_fork_guard_is_child(mechanism->fork)
        ? mbr_mechanism_refuse_child(mechanism, error)
        : MBR_OK;
}

/* Quiesces and closes. MBR_IN_USE with the plugin's tally while its report is not zero: the
 * mechanism then goes on, as after any other refusal. Where the plugin says that nobody knows
 * whether it ended (MBR_STATE_QUARANTINED), and with MBR_CONTRACT_BROKEN, the instance is given up:
 * `instance` is NULL then. */
mbr_status mbr_mechanism_close(mbr_mechanism *mechanism, mbr_error *error);

/* Gives up on an instance that cannot be closed (a lost device, objects that nobody can release):
 * it is leaked on purpose and its code stays mapped for good. Calls no slot. */
void mbr_mechanism_abandon(mbr_mechanism *mechanism);

#endif
