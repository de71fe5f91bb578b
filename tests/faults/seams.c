/* Responsible for the calls of the host that can fail: each asks the engine first. A failure after
 * the effect is told apart where the effect stays: of a file that was opened the descriptor is
 * given back, so only a file that was made stays. */
#include "tests/faults/seams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Heaps ----------------------------------------------------------------------------------- */

struct block {
    struct block *next, *previous;
};

struct heap {
    struct block blocks; /* a ring */
    uint64_t count;
    int kind;
    pthread_mutex_t lock; /* workers give back, too */
};

static struct heap host_heap = {
    {&host_heap.blocks, &host_heap.blocks}, 0, FAULT_HEAP, PTHREAD_MUTEX_INITIALIZER};
static struct heap plugin_heap = {
    {&plugin_heap.blocks, &plugin_heap.blocks}, 0, FAULT_PLUGIN_HEAP, PTHREAD_MUTEX_INITIALIZER};

static void *heap_allocate(void *context, size_t bytes)
{
    struct heap *heap = context;
    if (fault_meet(heap->kind, false) != FAULT_NONE)
        return NULL;
    struct block *block = calloc(1, sizeof *block + bytes);
    if (block == NULL)
        abort();
    pthread_mutex_lock(&heap->lock);
    block->previous = heap->blocks.previous;
    block->next = &heap->blocks;
    block->previous->next = block->next->previous = block;
    heap->count++;
    pthread_mutex_unlock(&heap->lock);
    return block + 1;
}

static void heap_release(void *context, void *memory)
{
    struct heap *heap = context;
    if (memory == NULL)
        return;
    struct block *block = (struct block *)memory - 1;
    pthread_mutex_lock(&heap->lock);
    block->previous->next = block->next;
    block->next->previous = block->previous;
    heap->count--;
    pthread_mutex_unlock(&heap->lock);
    free(block);
}

/* What a residue keeps is referred to by the process (its authority by threads that end): it stays
 * in a list of its own, where a leak checker finds it. */
static struct block kept = {&kept, &kept};

void fault_heap_keep(void)
{
    struct block *ring = &host_heap.blocks;
    if (ring->next == ring)
        return;
    ring->next->previous = kept.previous;
    kept.previous->next = ring->next;
    ring->previous->next = &kept;
    kept.previous = ring->previous;
    ring->next = ring->previous = ring;
    host_heap.count = 0;
}

const mbr_heap fault_heap = {heap_allocate, heap_release, &host_heap};
const mbr_heap fault_plugin_heap = {heap_allocate, heap_release, &plugin_heap};

uint64_t fault_heap_count(void)
{
    return host_heap.count;
}

uint64_t fault_plugin_heap_count(void)
{
    return plugin_heap.count;
}

void fault_plugin_heap_wipe(void)
{
    while (plugin_heap.count != 0)
        heap_release(&plugin_heap, plugin_heap.blocks.next + 1);
}

/* ---- Clock and threads ----------------------------------------------------------------------- */

#define CLOCK_STEP_NS 1000

static _Atomic uint64_t now_ns;
static _Atomic bool follows_real;

static void catch_up(void)
{
    uint64_t real_ns = mbr_clock_now(&mbr_clock_monotonic), seen_ns = now_ns;
    while (seen_ns < real_ns && !atomic_compare_exchange_weak(&now_ns, &seen_ns, real_ns))
        ;
}

static uint64_t clock_now(void *context)
{
    (void)context;
    if (follows_real)
        catch_up();
    return atomic_fetch_add(&now_ns, CLOCK_STEP_NS) + CLOCK_STEP_NS;
}

void fault_clock_advance(uint64_t ns)
{
    now_ns += ns;
}

void fault_clock_follow_real(bool follows)
{
    follows_real = follows;
}

const mbr_clock fault_clock = {clock_now, NULL};

static int thread_start(
    void *context, pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
    (void)context;
    if (fault_meet(FAULT_THREAD, false) != FAULT_NONE)
        return EAGAIN;
    return mbr_threads_system.start(mbr_threads_system.context, thread, name, run, argument);
}

const mbr_threads fault_threads = {thread_start, NULL};

/* ---- Files ----------------------------------------------------------------------------------- */

static int64_t file_count;

int64_t fault_file_count(void)
{
    return file_count;
}

static bool loader_fails(int kind, int code)
{
    if (fault_meet(kind, false) == FAULT_NONE)
        return false;
    errno = code;
    return true;
}

static char *loader_realpath(const char *path, char *resolved)
{
    return loader_fails(FAULT_LOADER_REALPATH, EIO) ? NULL : realpath(path, resolved);
}

static int loader_stat(const char *path, struct stat *out)
{
    return loader_fails(FAULT_LOADER_STAT, EIO) ? -1 : stat(path, out);
}

static int loader_lstat(const char *path, struct stat *out)
{
    return loader_fails(FAULT_LOADER_LSTAT, EIO) ? -1 : lstat(path, out);
}

static ssize_t loader_readlink(const char *path, char *target, size_t bytes)
{
    return loader_fails(FAULT_LOADER_READLINK, EIO) ? -1 : readlink(path, target, bytes);
}

static int loader_open(const char *path, int flags)
{
    if (loader_fails(FAULT_LOADER_OPEN, EMFILE))
        return -1;
    int file = open(path, flags);
    file_count += file >= 0;
    return file;
}

static int loader_fstat(int file, struct stat *out)
{
    return loader_fails(FAULT_LOADER_FSTAT, EIO) ? -1 : fstat(file, out);
}

static ssize_t loader_pread(int file, void *to, size_t bytes, off_t offset)
{
    return loader_fails(FAULT_LOADER_PREAD, EIO) ? -1 : pread(file, to, bytes, offset);
}

/* Linux has closed it, whatever it answers. */
static int loader_close(int file)
{
    bool fails = loader_fails(FAULT_LOADER_CLOSE, EIO);
    file_count--;
    int answer = close(file);
    return fails ? -1 : answer;
}

static FILE *loader_open_maps(void)
{
    return loader_fails(FAULT_LOADER_OPEN_MAPS, EMFILE) ? NULL : mbr_loader_os_libc.open_maps();
}

const mbr_loader_os fault_loader_os = {loader_realpath, loader_stat, loader_lstat, loader_readlink,
    loader_open, loader_fstat, loader_pread, loader_close, loader_open_maps};

/* A call of the shared ledger's in one statement. */
#define SHARED(kind, has_after, call)                                                              \
    (void)context;                                                                                 \
    enum fault_verdict verdict = fault_meet(kind, has_after);                                      \
    if (verdict == FAULT_BEFORE)                                                                   \
        return -EIO;                                                                               \
    int answer = (call);                                                                           \
    return answer >= 0 && verdict == FAULT_AFTER ? -EIO : answer

static int shared_open(void *context, const char *path, int flags, unsigned mode)
{
    (void)context;
    bool makes = (flags & O_CREAT) != 0;
    enum fault_verdict verdict = fault_meet(FAULT_SHARED_OPEN, makes);
    if (verdict == FAULT_BEFORE)
        return -EIO;
    int file = mbr_shared_os_system.open(NULL, path, flags, mode);
    if (file >= 0 && verdict == FAULT_AFTER) {
        mbr_shared_os_system.close(NULL, file);
        return -EIO;
    }
    file_count += file >= 0;
    return file;
}

static int shared_stat(void *context, int file, struct stat *status)
{
    SHARED(FAULT_SHARED_STAT, false, mbr_shared_os_system.stat(NULL, file, status));
}

static int shared_find(void *context, const char *path, struct stat *status)
{
    SHARED(FAULT_SHARED_FIND, false, mbr_shared_os_system.find(NULL, path, status));
}

static int shared_read(void *context, int file, void *to, size_t bytes)
{
    SHARED(FAULT_SHARED_READ, false, mbr_shared_os_system.read(NULL, file, to, bytes));
}

static int shared_write(void *context, int file, const void *from, size_t bytes, uint64_t offset)
{
    SHARED(FAULT_SHARED_WRITE, true, mbr_shared_os_system.write(NULL, file, from, bytes, offset));
}

/* A lock that is given back whole needs nothing that Linux could lack, and one that was not given
 * is not held: others would wait for either for ever. */
static int shared_lock(
    void *context, int file, mbr_shared_lock kind, uint64_t offset, uint64_t bytes)
{
    if (kind == MBR_SHARED_UNLOCK)
        return mbr_shared_os_system.lock(NULL, file, kind, offset, bytes);
    SHARED(FAULT_SHARED_LOCK, false, mbr_shared_os_system.lock(NULL, file, kind, offset, bytes));
}

static int shared_is_locked(void *context, int file, uint64_t offset)
{
    SHARED(FAULT_SHARED_IS_LOCKED, false, mbr_shared_os_system.is_locked(NULL, file, offset));
}

static int shared_remove(void *context, const char *path)
{
    SHARED(FAULT_SHARED_REMOVE, true, mbr_shared_os_system.remove(NULL, path));
}

static int shared_close(void *context, int file)
{
    (void)context;
    enum fault_verdict verdict = fault_meet(FAULT_SHARED_CLOSE, false);
    file_count--;
    int answer = mbr_shared_os_system.close(NULL, file);
    return verdict == FAULT_NONE ? answer : -EIO;
}

const mbr_shared_os fault_shared_os = {shared_open, shared_stat, shared_find, shared_read,
    shared_write, shared_lock, shared_is_locked, shared_remove, shared_close, NULL};

const mbr_manager_seams fault_seams = {
    &fault_heap, &fault_clock, &fault_threads, &fault_loader_os, &fault_shared_os};

void fault_seams_begin(void)
{
    fault_heap_keep();
    fault_plugin_heap_wipe();
    file_count = 0;
    follows_real = false;
    now_ns = mbr_clock_now(&mbr_clock_monotonic); /* some lines wait in real time */
    char ledger[512];
    snprintf(ledger, sizeof ledger, "%s/membrane-%u-pool", getenv("TEST_TMPDIR"), geteuid());
    unlink(ledger);
}
