/* A backend for Membrane: page-aligned memory of this process, through the two capabilities that
 * every plugin has. It is complete and conformant as it stands. To make it yours, replace the
 * section "The system below" by the calls of your device, then the facts and the description; grow
 * it by `membrane.virtual` and the other capabilities, one header each, when it passes
 *
 *     membrane check ./libmembrane-template.so --level 3
 */
#include <membrane/membrane_plugin.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLUGIN_NAME "template" /* as in the file's name: libmembrane-template.so */

/* Read from the file before any of this code runs. Unloadable: no threads, no thread-local storage,
 * nothing at exit. */
MBR_PLUGIN_NOTE(PLUGIN_NAME, "unknown vendor", MBR_NOTE_UNLOADABLE);

/* ---- What is kept ---------------------------------------------------------------------------- */
typedef struct allocation {
    uint64_t id, address, bytes;
    struct allocation *next;
} allocation;

#define BUCKET_COUNT 1024u

/* Two opens are two of these; nothing is shared between them. */
struct mbr_instance {
    const char *mark; /* tells an open instance from other memory */
    pthread_mutex_t lock;
    uint64_t page_bytes;
    allocation *buckets[BUCKET_COUNT]; /* the lock's, like what follows */
    uint64_t allocation_count, owned_bytes;
};

static const char open_mark[] = PLUGIN_NAME;
/* For the slots that have no instance yet. */
static const mbr_instance nobody = {.mark = open_mark};

/* ---- The system below ------------------------------------------------------------------------ */
/* `bytes` is whole pages. MAP_NORESERVE and the populating advice together make sure that a success
 * has its pages, so that owning bytes is never a promise. */
static bool system_take(
    uint64_t bytes, uint64_t align_bytes, uint64_t page_bytes, uint64_t *address)
{
    uint64_t outer_bytes = bytes + align_bytes - page_bytes;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *outer = mmap(NULL, outer_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (outer == MAP_FAILED)
        return false;
    uint64_t begin = (uint64_t)(uintptr_t)outer, end = begin + outer_bytes;
    uint64_t start = (begin + align_bytes - 1) & ~(align_bytes - 1);
    if (start != begin)
        munmap(outer, start - begin);
    if (start + bytes != end)
        munmap((void *)(uintptr_t)(start + bytes), end - start - bytes);
    if (madvise((void *)(uintptr_t)start, bytes, MADV_POPULATE_WRITE) != 0) {
        munmap((void *)(uintptr_t)start, bytes);
        return false;
    }
    *address = start;
    return true;
}

static bool system_give(uint64_t address, uint64_t bytes)
{
    return munmap((void *)(uintptr_t)address, bytes) == 0;
}

/* ---- Sized structs ----------------------------------------------------------------------------
 * The other side may be older: what its struct does not reach counts as zero and is not written.
 * Fields fill words of 8 bytes; of a word that struct_size cuts nothing counts. */
static void read_sized(void *copy, size_t size, const void *from)
{
    uint32_t given;
    memcpy(&given, from, sizeof given);
    memset(copy, 0, size);
    memcpy(copy, from, given < size ? given & ~UINT32_C(7) : size);
}

static void write_sized(void *to, const void *answer, size_t size)
{
    uint32_t room;
    memcpy(&room, to, sizeof room);
    size_t count = room < size ? room : size;
    if (count > sizeof room)
        memcpy((char *)to + sizeof room, (const char *)answer + sizeof room, count - sizeof room);
}

/* On failure only, and never beyond the caller's struct. */
__attribute__((format(printf, 4, 5))) static mbr_status fail(
    mbr_error *error, mbr_status status, uint64_t asked_bytes, const char *format, ...)
{
    if (error == NULL)
        return status;
    mbr_error whole = {.status = status, .asked_bytes = asked_bytes};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(whole.text, sizeof whole.text, format, arguments);
    va_end(arguments);
    write_sized(error, &whole, sizeof whole);
    if (error->struct_size > offsetof(mbr_error, text) && error->struct_size < sizeof whole)
        ((char *)error)[error->struct_size - 1] = 0; /* a shorter text ends too */
    return status;
}

/* Every slot begins so: the outcome says that nothing happened, the request is a copy of its own.
 */
static mbr_status begin(const mbr_instance *instance, const void *request, void *copy,
    size_t copy_size, void *outcome, size_t outcome_size, mbr_error *error)
{
    static const char nothing[sizeof(mbr_mechanism_description)];
    _Static_assert(sizeof nothing >= sizeof(mbr_report), "nothing is as large as any outcome");
    if (outcome != NULL)
        write_sized(outcome, nothing, outcome_size);
    if (request == NULL || outcome == NULL)
        return fail(error, MBR_INVALID_ARGUMENT, 0, "the request or the outcome is NULL");
    read_sized(copy, copy_size, request);
    if (instance == NULL || instance->mark != open_mark)
        return fail(error, MBR_INVALID_ARGUMENT, 0, "no open instance of " PLUGIN_NAME);
    return MBR_OK;
}

static mbr_status done(mbr_outcome *outcome, mbr_outcome answer)
{
    answer.state = MBR_STATE_DONE;
    write_sized(outcome, &answer, sizeof answer);
    return MBR_OK;
}

/* ---- The allocator --------------------------------------------------------------------------- */
static mbr_status slot_fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    mbr_fact_request ask;
    mbr_status status = begin(instance, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_fact_outcome answer = {0};
    switch (ask.fact) {
    case MBR_FACT_ALLOCATION_ALIGN_BYTES:
    case MBR_FACT_ALLOCATION_ROUND_BYTES:
        answer.value = instance->page_bytes;
        break;
    case MBR_FACT_FRESH_CONTENT:
        answer.value = MBR_CONTENT_ZERO;
        break;
    case MBR_FACT_PAST_PHYSICAL_SIZE:
        answer.value = MBR_PAST_KILL;
        break;
    case MBR_FACT_HOST_ACCESSIBLE:
    case MBR_FACT_POPULATED:
        answer.value = 1;
        break;
    default: /* the host then uses the default that promises least */
        return fail(error, MBR_UNSUPPORTED, 0, "fact %" PRIu32 " is not known here", ask.fact);
    }
    write_sized(outcome, &answer, sizeof answer);
    return MBR_OK;
}

static allocation **find_locked(mbr_instance *instance, uint64_t id)
{
    allocation **at = &instance->buckets[id % BUCKET_COUNT];
    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

/* Refuses what can be refused by looking at the numbers; *bytes and *align_bytes become whole. */
static mbr_status check(const mbr_instance *instance, const mbr_allocate_request *ask,
    uint64_t *bytes, uint64_t *align_bytes, mbr_error *error)
{
    uint64_t page = instance->page_bytes, outer;
    if ((ask->flags & 0xFFFF & ~(uint32_t)MBR_ALLOCATE_ZEROED) != 0)
        return fail(error, MBR_UNSUPPORTED, 0, "flags 0x%" PRIx32 " are not known", ask->flags);
    if (ask->bytes == 0 || ask->allocation_id == 0)
        return fail(error, MBR_INVALID_ARGUMENT, 0, "size 0 or id 0");
    if ((ask->align_bytes & (ask->align_bytes - 1)) != 0)
        return fail(error, MBR_INVALID_ARGUMENT, 0,
            "an alignment of %" PRIu64 " is no power of two", ask->align_bytes);
    *align_bytes = ask->align_bytes > page ? ask->align_bytes : page;
    *bytes = (ask->bytes + page - 1) & ~(page - 1);
    if (*bytes < ask->bytes || __builtin_add_overflow(*bytes, *align_bytes, &outer))
        return fail(error, MBR_OVERFLOW, ask->bytes, "%" PRIu64 " bytes at %" PRIu64 " overflow",
            ask->bytes, *align_bytes);
    if (*bytes > ask->max_owned_bytes)
        return fail(error, MBR_OVER_BUDGET, *bytes,
            "would own %" PRIu64 " bytes, %" PRIu64 " are allowed", *bytes, ask->max_owned_bytes);
    return MBR_OK;
}

static mbr_status slot_allocate(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_allocate_request ask;
    uint64_t bytes = 0, align_bytes = 0, address = 0;
    mbr_status status = begin(instance, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    if (status == MBR_OK)
        status = check(instance, &ask, &bytes, &align_bytes, error);
    if (status != MBR_OK)
        return status;
    if (!MBR_HAS(mbr_outcome, outcome, address)) /* nobody could give it back */
        return fail(error, MBR_INVALID_ARGUMENT, 0, "the outcome has no room for the address");
    allocation *made = malloc(sizeof *made);
    if (made == NULL)
        return fail(error, MBR_OUT_OF_HOST_MEMORY, 0, "no host memory for an allocation");
    pthread_mutex_lock(&instance->lock);
    allocation **place = find_locked(instance, ask.allocation_id);
    if (*place != NULL)
        status = fail(error, MBR_ALREADY_EXISTS, 0, "id %" PRIu64 " is taken", ask.allocation_id);
    else if (!system_take(bytes, align_bytes, instance->page_bytes, &address))
        status = fail(error, MBR_OUT_OF_MEMORY, bytes, "no %" PRIu64 " bytes to be had", bytes);
    if (status == MBR_OK) {
        *made = (allocation){.id = ask.allocation_id, .address = address, .bytes = bytes};
        *place = made;
        instance->allocation_count++;
        instance->owned_bytes += bytes;
    }
    pthread_mutex_unlock(&instance->lock);
    if (status != MBR_OK) {
        free(made);
        return status;
    }
    return done(outcome,
        (mbr_outcome){.content = MBR_CONTENT_ZERO,
            .granted_flags = ask.flags & MBR_ALLOCATE_ZEROED,
            .address = address,
            .newly_mapped_bytes = bytes,
            .newly_owned_bytes = bytes});
}

static mbr_status slot_release(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_release_request ask;
    mbr_status status = begin(instance, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    if (status != MBR_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    allocation **place = find_locked(instance, ask.allocation_id), *gone = *place;
    if (gone == NULL || gone->address != ask.address)
        status = fail(error, MBR_UNKNOWN_OBJECT, 0, "no allocation %" PRIu64 " at 0x%" PRIx64,
            ask.allocation_id, ask.address);
    else if (!system_give(gone->address, gone->bytes))
        status = fail(error, MBR_SYSTEM, gone->bytes, "the system does not take it back");
    if (status == MBR_OK) {
        *place = gone->next;
        instance->allocation_count--;
        instance->owned_bytes -= gone->bytes;
    }
    pthread_mutex_unlock(&instance->lock);
    if (status != MBR_OK)
        return status;
    uint64_t bytes = gone->bytes;
    free(gone);
    return done(outcome, (mbr_outcome){.unmapped_bytes = bytes, .released_bytes = bytes});
}

static mbr_status slot_stats(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_stats_request ask;
    mbr_status status = begin(instance, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    if (status != MBR_OK)
        return status;
    long pages = sysconf(_SC_PHYS_PAGES), free_pages = sysconf(_SC_AVPHYS_PAGES);
    mbr_mechanism_stats answer = {0};
    answer.total_bytes = pages > 0 ? (uint64_t)pages * instance->page_bytes : MBR_UNKNOWN_BYTES;
    answer.free_bytes =
        free_pages > 0 ? (uint64_t)free_pages * instance->page_bytes : MBR_UNKNOWN_BYTES;
    pthread_mutex_lock(&instance->lock);
    answer.owned_bytes = answer.mapped_bytes = instance->owned_bytes;
    pthread_mutex_unlock(&instance->lock);
    write_sized(outcome, &answer, sizeof answer);
    return MBR_OK;
}

/* Nothing is cached here: pools are the host's. */
static mbr_status slot_trim(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_trim_request ask;
    mbr_status status = begin(instance, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    return status != MBR_OK ? status : done(outcome, (mbr_outcome){0});
}

static const mbr_allocator_vtable allocator = {
    MBR_SIZED(mbr_allocator_vtable),
    .kind = MBR_KIND_ALLOCATOR,
    .minor = MBR_MINOR_0,
    .fact = slot_fact,
    .allocate = slot_allocate,
    .release = slot_release,
    .stats = slot_stats,
    .trim = slot_trim,
};

/* ---- The plugin ------------------------------------------------------------------------------ */
static mbr_status slot_mechanisms(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    (void)none;
    mbr_mechanisms_request ask;
    mbr_status status = begin(&nobody, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_mechanism_description answer = {.count = 1};
    if (ask.index == 0) {
        strcpy(answer.name, PLUGIN_NAME);
        strcpy(answer.description, "pages of this process");
        answer.domain = MBR_DOMAIN_HOST;
        answer.tier = MBR_TIER_HOST;
    } else {
        status = fail(error, MBR_OUT_OF_RANGE, 0, "mechanism %" PRIu32 " of 1", ask.index);
    }
    write_sized(outcome, &answer, sizeof answer);
    return status;
}

static mbr_status slot_open(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    (void)none;
    mbr_open_request ask;
    mbr_status status = begin(&nobody, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    if (status != MBR_OK)
        return status;
    if (ask.mechanism == NULL || strcmp(ask.mechanism, PLUGIN_NAME) != 0)
        return fail(error, MBR_INVALID_ARGUMENT, 0, "the one mechanism is " PLUGIN_NAME);
    if (MBR_HAS(mbr_open_request, request, native_context) &&
        ask.native_context.kind != MBR_NATIVE_STREAM_NONE)
        return fail(error, MBR_INVALID_ARGUMENT, 0, "there are no native contexts here");
    if (ask.option_count != 0 && ask.options == NULL)
        return fail(error, MBR_INVALID_ARGUMENT, 0, "options at address 0");
    if (ask.option_count != 0)
        return fail(error, MBR_UNKNOWN_KEY, 0, "no options are known");
    if (!MBR_HAS(mbr_open_outcome, outcome, instance))
        return fail(error, MBR_INVALID_ARGUMENT, 0, "the outcome cannot hold an instance");
    mbr_instance *instance = calloc(1, sizeof *instance);
    if (instance == NULL)
        return fail(error, MBR_OUT_OF_HOST_MEMORY, 0, "no host memory for an instance");
    instance->mark = open_mark;
    instance->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&instance->lock, NULL);
    mbr_open_outcome answer = {.instance = instance};
    write_sized(outcome, &answer, sizeof answer);
    return MBR_OK;
}

static mbr_status slot_capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    mbr_capability_request ask;
    mbr_status status = begin(instance, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    if (status != MBR_OK)
        return status;
    if (ask.id == NULL || !MBR_HAS(mbr_capability_outcome, outcome, table))
        return fail(error, MBR_INVALID_ARGUMENT, 0, "no id, or no room for the table");
    if (strcmp(ask.id, MBR_ID_ALLOCATOR) != 0)
        return fail(error, MBR_UNSUPPORTED, 0, "'%.64s' is not offered here", ask.id);
    mbr_capability_outcome answer = {.table = (const mbr_vtable_head *)&allocator};
    write_sized(outcome, &answer, sizeof answer);
    return MBR_OK;
}

static mbr_status slot_close(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_close_request ask;
    mbr_status status = begin(instance, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    if (status != MBR_OK)
        return status;
    if ((ask.flags & 0xFFFF) != 0)
        return fail(error, MBR_UNSUPPORTED, 0, "flags 0x%" PRIx32 " are not known", ask.flags);
    if (instance->allocation_count != 0)
        return fail(
            error, MBR_IN_USE, 0, "%" PRIu64 " allocations live", instance->allocation_count);
    instance->mark = NULL;
    pthread_mutex_destroy(&instance->lock);
    free(instance);
    return done(outcome, (mbr_outcome){0});
}

static mbr_status slot_report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    mbr_report_request ask;
    mbr_status status = begin(instance, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_report answer = {0};
    pthread_mutex_lock(&instance->lock);
    answer.allocation_count = instance->allocation_count;
    pthread_mutex_unlock(&instance->lock);
    write_sized(outcome, &answer, sizeof answer);
    return MBR_OK;
}

/* No threads and no work in flight. */
static mbr_status slot_quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_quiesce_request ask;
    mbr_status status = begin(instance, request, &ask, sizeof ask, outcome, sizeof *outcome, error);
    return status != MBR_OK ? status : done(outcome, (mbr_outcome){0});
}

static const mbr_plugin_vtable plugin = {
    MBR_SIZED(mbr_plugin_vtable),
    .kind = MBR_KIND_PLUGIN,
    .minor = MBR_MINOR_0,
    .name = PLUGIN_NAME,
    .version = "0.1",
    .mechanisms = slot_mechanisms,
    .open = slot_open,
    .capability = slot_capability,
    .close = slot_close,
    .report = slot_report,
    .quiesce = slot_quiesce,
};

/* The one exported function. It answers a minor that both know, and its own range also when it
 * refuses. */
MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    mbr_hello offer;
    mbr_status status = begin(&nobody, hello, &offer, sizeof offer, reply, sizeof *reply, error);
    if (status != MBR_OK)
        return status;
    if (!MBR_HAS(mbr_hello, hello, minor_max) || offer.minor_min > offer.minor_max)
        return fail(error, MBR_INVALID_ARGUMENT, 0, "the offered range of minors is empty");
    if (offer.minor_min > MBR_MINOR_0)
        return fail(error, MBR_VERSION_MISMATCH, 0,
            PLUGIN_NAME " offers minors 0 to 0 of version 1, the host wants %d to %d",
            offer.minor_min, offer.minor_max);
    if (!MBR_HAS(mbr_reply, reply, plugin))
        return fail(error, MBR_INVALID_ARGUMENT, 0, "the reply cannot hold the plugin's table");
    mbr_reply answer = {.minor = MBR_MINOR_0, .plugin = &plugin};
    write_sized(reply, &answer, sizeof answer);
    return MBR_OK;
}
