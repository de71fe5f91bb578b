/* Responsible for the host plugin under the engine: failing its system calls as planned, and what
 * they took. A
 * failure after the effect of a call that nobody could undo any more is one before it: addresses
 * that nobody was told of, a file without a name. */
#include "tests/faults/below.h"
#include "tests/faults/line.h"

#include "plugins/host/core.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define REGION_COUNT 256

struct region {
    uint64_t address, bytes; /* bytes 0: free */
};

/* Linux under one instance; keeps what was taken. */
struct fault_os {
    struct mbr_host_os real;
    struct region regions[REGION_COUNT];   /* where the system chose the place */
    int file;                              /* 0: none */
    uint64_t total_bytes, available_bytes; /* asked of the system once */
};

static const struct fault_hooks *hooks;

static void note(struct fault_os *os, uint64_t address, uint64_t bytes)
{
    for (uint32_t i = 0; i < REGION_COUNT; i++) {
        if (os->regions[i].bytes == 0) {
            os->regions[i] = (struct region){address, bytes};
            return;
        }
    }
    abort();
}

static void strike(struct fault_os *os, uint64_t address)
{
    for (uint32_t i = 0; i < REGION_COUNT; i++)
        if (os->regions[i].address == address)
            os->regions[i] = (struct region){0};
}

/* A call in one statement: its own effect, and the answer that is planned. */
#define MEET(kind, has_after, call)                                                                \
    struct fault_os *os = context;                                                                 \
    enum fault_verdict verdict = hooks->meet(kind, has_after);                                     \
    if (verdict == FAULT_BEFORE)                                                                   \
        return ENOMEM;                                                                             \
    int code = (call);                                                                             \
    if (code == 0 && verdict == FAULT_AFTER)                                                       \
    code = ENOMEM

static int os_mmap(void *context, uint64_t *address, uint64_t bytes, int protection, int flags,
    int file, uint64_t offset_bytes)
{
    bool is_fixed = (flags & MAP_FIXED) != 0;
    MEET(FAULT_OS_MMAP, is_fixed,
        os->real.mmap(NULL, address, bytes, protection, flags, file, offset_bytes));
    if (code == 0 && !is_fixed)
        note(os, *address, bytes);
    return code;
}

static int os_munmap(void *context, uint64_t address, uint64_t bytes)
{
    MEET(FAULT_OS_MUNMAP, true, os->real.munmap(NULL, address, bytes));
    if (code == 0 || verdict == FAULT_AFTER)
        strike(os, address);
    return code;
}

static int os_mprotect(void *context, uint64_t address, uint64_t bytes, int protection)
{
    MEET(FAULT_OS_MPROTECT, true, os->real.mprotect(NULL, address, bytes, protection));
    return code;
}

static int os_madvise(void *context, uint64_t address, uint64_t bytes, int advice)
{
    MEET(FAULT_OS_MADVISE, true, os->real.madvise(NULL, address, bytes, advice));
    return code;
}

static int os_file_create(void *context, int *file, uint64_t *inode)
{
    MEET(FAULT_OS_FILE_CREATE, false, os->real.file_create(NULL, file, inode));
    if (code == 0)
        os->file = *file;
    return code;
}

static int os_file_close(void *context, int file)
{
    struct fault_os *os = context;
    enum fault_verdict verdict = hooks->meet(FAULT_OS_FILE_CLOSE, false);
    os->file = 0;
    int code = os->real.file_close(NULL, file); /* closed, whatever close answers */
    return verdict == FAULT_NONE ? code : EIO;
}

static int os_file_truncate(void *context, int file, uint64_t bytes)
{
    MEET(FAULT_OS_FILE_TRUNCATE, true, os->real.file_truncate(NULL, file, bytes));
    return code;
}

static int os_file_allocate(
    void *context, int file, int mode, uint64_t offset_bytes, uint64_t bytes)
{
    MEET(FAULT_OS_FILE_ALLOCATE, true,
        os->real.file_allocate(NULL, file, mode, offset_bytes, bytes));
    return code;
}

static int os_file_owned(void *context, int file, uint64_t *bytes)
{
    MEET(FAULT_OS_FILE_OWNED, false, os->real.file_owned(NULL, file, bytes));
    return code;
}

static int os_file_size_limit(void *context, uint64_t *limit_bytes)
{
    MEET(FAULT_OS_FILE_SIZE_LIMIT, false, os->real.file_size_limit(NULL, limit_bytes));
    return code;
}

/* /proc/meminfo would be most of the test's time. */
static int read_once(struct fault_os *os)
{
    static uint64_t total_bytes, available_bytes;
    if (total_bytes == 0 && os->real.memory(NULL, &total_bytes, &available_bytes) != 0)
        return EIO;
    os->total_bytes = total_bytes;
    os->available_bytes = available_bytes;
    return 0;
}

static int os_memory(void *context, uint64_t *total_bytes, uint64_t *available_bytes)
{
    MEET(FAULT_OS_MEMORY, false, read_once(os));
    if (code == 0) {
        *total_bytes = os->total_bytes;
        *available_bytes = os->available_bytes;
    }
    return code;
}

static int os_inspect(
    void *context, uint64_t address, uint64_t bytes, uint64_t inode, struct mbr_host_range *range)
{
    MEET(FAULT_OS_INSPECT, false, os->real.inspect(NULL, address, bytes, inode, range));
    return code;
}

static void init(struct fault_os *os, struct mbr_host_os *table)
{
    mbr_host_os_linux(&os->real);
    *table = (struct mbr_host_os){.context = os,
        .mmap = os_mmap,
        .munmap = os_munmap,
        .mprotect = os_mprotect,
        .madvise = os_madvise,
        .file_create = os_file_create,
        .file_close = os_file_close,
        .file_truncate = os_file_truncate,
        .file_allocate = os_file_allocate,
        .file_owned = os_file_owned,
        .file_size_limit = os_file_size_limit,
        .memory = os_memory,
        .inspect = os_inspect,
        .page_bytes = os->real.page_bytes};
}

/* ---- What below.h wants ---------------------------------------------------------------------- */

static void start(const struct fault_hooks *given)
{
    hooks = given;
}

/* Gives back what was taken and not given back. */
static void purge(void *own)
{
    struct fault_os *os = own;
    for (uint32_t i = 0; i < REGION_COUNT; i++) {
        if (os->regions[i].bytes != 0)
            os->real.munmap(NULL, os->regions[i].address, os->regions[i].bytes);
        os->regions[i] = (struct region){0};
    }
    if (os->file != 0)
        os->real.file_close(NULL, os->file);
    os->file = 0;
    free(os);
}

static mbr_status open_host(
    const mbr_open_request *request, mbr_open_outcome *outcome, void **own, mbr_error *error)
{
    struct fault_os *os = calloc(1, sizeof *os);
    struct mbr_host_os table;
    if (os == NULL)
        abort();
    init(os, &table);
    mbr_status status = mbr_host_open(&table, hooks->heap, request, outcome, error);
    if (status == MBR_OK)
        *own = os;
    else
        purge(os);
    return status;
}

static void nothing(void) {}

/* Linux keeps no books of one instance. */
static uint64_t left(void)
{
    return 0;
}

static mbr_native stream(uint64_t number)
{
    return (mbr_native){MBR_NATIVE_STREAM_CPU, 0, number};
}

static uint64_t view(uint64_t address)
{
    return address;
}

const struct fault_below fault_below = {
    .tier = MBR_TIER_HOST,
    .first_kind = FAULT_OS_MMAP,
    .last_kind = FAULT_OS_INSPECT,
    .plugin = &mbr_host_plugin,
    .allocator = &mbr_host_allocator,
    .virtual_ = &mbr_host_virtual,
    .shared = &mbr_host_shared,
    .order = &fault_order,
    .transfer = &fault_transfer,
    .start = start,
    .open = open_host,
    .purge = purge,
    .purge_rest = nothing,
    .run = nothing,
    .left = left,
    .stream = stream,
    .view = view,
};
