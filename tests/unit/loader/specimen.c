/* A plugin for the loader's tests: well behaved unless told otherwise. What is wrong with the file
 * is chosen when it is built (SPECIMEN_…, see BUILD); what is wrong with its answers is chosen by
 * the environment variable SPECIMEN_FAULT, one word of the lists below. Its counts are exported, so
 * that a test sees what the host called. It holds no memory of any device. */
#include "tests/unit/loader/specimen.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef SPECIMEN_NAME
#define SPECIMEN_NAME "specimen"
#endif
#ifndef SPECIMEN_FLAGS
#define SPECIMEN_FLAGS 0
#endif
#ifndef SPECIMEN_TABLE_MINOR
#define SPECIMEN_TABLE_MINOR MBR_MINOR_0
#endif

#if defined(SPECIMEN_NO_NOTE)
#elif defined(SPECIMEN_MINOR_MIN)
/* A note of other minors, which the macro of today's header cannot write. */
__attribute__((section(MBR_NOTE_SECTION), used, aligned(4))) static const struct {
    uint32_t owner_bytes, description_bytes, type;
    char owner[12];
    mbr_note_head head;
    mbr_note_digest digest[SPECIMEN_MINOR_MAX + 1];
} specimen_note = {
    sizeof(MBR_NOTE_OWNER),
    sizeof(mbr_note_head) + sizeof(mbr_note_digest) * (SPECIMEN_MINOR_MAX + 1),
    MBR_NOTE_TYPE,
    MBR_NOTE_OWNER,
    {MBR_MAJOR, SPECIMEN_MINOR_MIN, SPECIMEN_MINOR_MAX, SPECIMEN_FLAGS, SPECIMEN_NAME, "tests"},
    {
        {(uint32_t)MBR_DIGEST_MINOR_0, (uint32_t)(MBR_DIGEST_MINOR_0 >> 32)},
#ifdef SPECIMEN_DIGEST_1
        {(uint32_t)SPECIMEN_DIGEST_1, (uint32_t)(SPECIMEN_DIGEST_1 >> 32)},
#endif
    },
};
#else
MBR_PLUGIN_NOTE(SPECIMEN_NAME, "tests", SPECIMEN_FLAGS);
#endif

#ifdef SPECIMEN_SECOND_NOTE
__attribute__((section(MBR_NOTE_SECTION), used, aligned(4))) static const struct {
    uint32_t owner_bytes, description_bytes, type;
    char owner[12];
    mbr_note_head head;
    mbr_note_digest digest[1];
} second_note = {sizeof(MBR_NOTE_OWNER), sizeof(mbr_note_head) + sizeof(mbr_note_digest),
    MBR_NOTE_TYPE, MBR_NOTE_OWNER, {SPECIMEN_SECOND_NOTE, 0, 0, 0, SPECIMEN_NAME, "tests"},
    {{0, 0}}};
#endif

#ifdef SPECIMEN_TLS
static __thread int per_thread __attribute__((tls_model("global-dynamic")));
#endif
#ifdef SPECIMEN_STATIC_TLS
static __thread int per_thread __attribute__((tls_model("initial-exec")));
#endif
#ifdef SPECIMEN_UNIQUE
__asm__(".pushsection .data\n"
        ".globl specimen_unique\n"
        ".type specimen_unique, @gnu_unique_object\n"
        ".size specimen_unique, 4\n"
        "specimen_unique: .long 1\n"
        ".popsection\n");
#endif
#ifdef SPECIMEN_KEY
static void append(const char *variable);
#include <pthread.h>
static pthread_key_t thread_key;
static void thread_ends(void *unused)
{
    append((const char *)unused);
}
#endif
#ifdef SPECIMEN_UNDEFINED
void specimen_missing_symbol(void);
#endif
#ifdef SPECIMEN_DEPENDENCY
int specimen_dependency(void);
#endif

static void append(const char *variable)
{
    const char *path = getenv(variable);
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    if (file == NULL)
        return;
    fputs("loaded\n", file);
    fclose(file);
}

/* Gives the file of SPECIMEN_TOUCH another time of its last change: one second of the epoch, or its
 * own second with another nanosecond. */
static void touch(void)
{
    const char *path = getenv("SPECIMEN_TOUCH");
    struct stat now;
    if (path == NULL || stat(path, &now) != 0)
        return;
    struct timespec times[2] = {now.st_atim, now.st_mtim};
    if (strcmp(getenv("SPECIMEN_TOUCH_SECONDS"), "0") != 0)
        times[1].tv_sec = 1;
    else
        times[1].tv_nsec = times[1].tv_nsec == 0 ? 1 : times[1].tv_nsec - 1;
    utimensat(AT_FDCWD, path, times, 0);
}

/* Makes its mark, so that a test knows whether code of this file ran before it should. */
__attribute__((constructor)) static void at_load(void)
{
#ifdef SPECIMEN_ILLEGAL
    __builtin_trap();
#endif
    append("SPECIMEN_MARK");    /* a file beside it */
    append("SPECIMEN_REWRITE"); /* this very file */
    touch();
}

#ifndef SPECIMEN_NO_ENTRY

MBR_EXPORT specimen_counts specimen_count;

/* In static storage, so that an instance that a test leaks on purpose is no leak of the heap. */
struct mbr_instance {
    uint32_t is_open;
};
static struct mbr_instance instances[256];

static mbr_instance *take_instance(void)
{
    for (unsigned i = 0; i < sizeof instances / sizeof *instances; i++) {
        uint32_t closed = 0;
        if (__atomic_compare_exchange_n(
                &instances[i].is_open, &closed, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return &instances[i];
    }
    return NULL;
}

static int fault(const char *word)
{
    const char *told = getenv("SPECIMEN_FAULT");
    return told != NULL && strcmp(told, word) == 0;
}

/* The plugin takes the process along: whoever loads it must be able to tell. */
static void end_where(const char *aborts, const char *exits)
{
    if (fault(aborts))
        abort();
    if (fault(exits))
        _exit(0);
}

/* The number behind "word=" in the fault, if it begins so. */
static int fault_number(const char *word, uint64_t *value)
{
    const char *told = getenv("SPECIMEN_FAULT");
    size_t length = strlen(word);
    if (told == NULL || strncmp(told, word, length) != 0 || told[length] != '=')
        return 0;
    *value = strtoull(told + length + 1, NULL, 0);
    return 1;
}

static mbr_status fail(mbr_error *error, mbr_status status, const char *text)
{
    if (error != NULL) {
        error->status = status;
        if (fault("text-unterminated"))
            memset(error->text, 'x', sizeof error->text);
        else if (fault("text-empty"))
            error->text[0] = '\0';
        else
            snprintf(error->text, sizeof error->text, "%s", text);
    }
    return status;
}

/* ---- plugin ---------------------------------------------------------------------------------- */

static mbr_status mechanisms(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    (void)none;
    uint32_t count = fault("describe-none") ? 0 : 2;
    if (fault("describe-no-device"))
        return fail(error, MBR_NO_DEVICE, "no driver library");
    outcome->count = count;
    if (request->index >= count && !fault("describe-endless"))
        return fail(error, MBR_OUT_OF_RANGE, "past the last");
    snprintf(outcome->name, sizeof outcome->name, "unit%u", request->index);
    snprintf(outcome->description, sizeof outcome->description, "specimen\nunit");
    outcome->domain = MBR_DOMAIN_HOST;
    outcome->tier = MBR_TIER_HOST;
    if (fault("describe-unterminated"))
        memset(outcome->name, 'n', sizeof outcome->name);
    if (fault("describe-text-unterminated"))
        memset(outcome->description, 'd', sizeof outcome->description);
    if (fault("describe-pci-unterminated"))
        memset(outcome->pci, 'p', sizeof outcome->pci);
    if (fault("describe-nameless"))
        outcome->name[0] = '\0';
    uint64_t value;
    if (fault_number("describe-domain", &value))
        outcome->domain = (uint32_t)value;
    if (fault_number("describe-tier", &value))
        outcome->tier = (uint32_t)value;
    return MBR_OK;
}

static mbr_status open_mechanism(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    (void)none;
    __atomic_add_fetch(&specimen_count.opens, 1, __ATOMIC_SEQ_CST);
    outcome->instance = NULL;
    end_where("open-aborts", "open-exits");
    if (fault("open-null"))
        return MBR_OK;
    if (fault("open-fails"))
        return fail(error, MBR_OUT_OF_MEMORY, "no memory\tfor an instance");
    uint64_t value;
    if (fault_number("open-status", &value))
        return (mbr_status)(uint32_t)value;
    for (uint32_t i = 0; i < request->option_count; i++)
        if (strcmp(request->options[i].key, "size") != 0)
            return fail(error, MBR_UNKNOWN_KEY, "unknown option; known: size");
    mbr_instance *instance = take_instance();
    if (instance == NULL)
        return fail(error, MBR_OUT_OF_HOST_MEMORY, "no memory");
    __atomic_add_fetch(&specimen_count.live, 1, __ATOMIC_SEQ_CST);
    request->log(request->log_context, MBR_LOG_INFO, "opened", 6);
    outcome->instance = instance;
    return MBR_OK;
}

static mbr_status capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error);

static mbr_status close_instance(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)request;
    __atomic_add_fetch(&specimen_count.closes, 1, __ATOMIC_SEQ_CST);
    outcome->state = MBR_STATE_UNCHANGED;
    if (fault("close-in-use"))
        return fail(error, MBR_IN_USE, "a thing lives");
    if (fault("close-quarantined")) {
        outcome->state = MBR_STATE_QUARANTINED;
        return MBR_SYSTEM;
    }
    if (fault("close-lost"))
        return fail(error, MBR_DEVICE_LOST, "the device is gone");
    __atomic_sub_fetch(&specimen_count.live, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&instance->is_open, 0, __ATOMIC_SEQ_CST);
    outcome->state = fault("close-unchanged") ? MBR_STATE_UNCHANGED : MBR_STATE_DONE;
    return MBR_OK;
}

static mbr_status report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    uint64_t value = 0;
    __atomic_add_fetch(&specimen_count.reports, 1, __ATOMIC_SEQ_CST);
    if (fault("report-fails"))
        return fail(error, MBR_INTERNAL, "no counts");
    if (fault_number("report-allocations", &value))
        outcome->allocation_count = value;
    if (fault_number("report-reservations", &value))
        outcome->reservation_count = value;
    if (fault_number("report-extents", &value))
        outcome->extent_count = value;
    if (fault_number("report-mappings", &value))
        outcome->mapping_count = value;
    if (fault_number("report-lines", &value))
        outcome->line_count = value;
    if (fault_number("report-streams", &value))
        outcome->stream_count = value;
    if (fault_number("report-threads", &value))
        outcome->thread_count = (uint32_t)value;
    return MBR_OK;
}

static mbr_status quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    __atomic_add_fetch(&specimen_count.quiesces, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&specimen_count.last_deadline_ns, request->deadline_ns, __ATOMIC_SEQ_CST);
    outcome->state = MBR_STATE_UNCHANGED;
    if (fault("open-and-quiesce-unsupported"))
        return fail(error, MBR_UNSUPPORTED, "no threads");
    if (fault("quiesce-fails") || fault("open-and-quiesce-fail"))
        return fail(error, MBR_TIMED_OUT, "still busy");
    outcome->state = MBR_STATE_DONE;
    return MBR_OK;
}

static const mbr_plugin_vtable plugin_table = {MBR_SIZED(mbr_plugin_vtable), MBR_KIND_PLUGIN,
    MBR_MINOR_0, SPECIMEN_NAME, "1.2.3", mechanisms, open_mechanism, capability, close_instance,
    report, quiesce};

/* ---- allocator and the rest ------------------------------------------------------------------ */

static const uint64_t facts[] = {
    [MBR_FACT_GRANULE_MIN_BYTES] = 4096,
    [MBR_FACT_GRANULE_RECOMMENDED_BYTES] = 65536,
    [MBR_FACT_FRESH_CONTENT] = MBR_CONTENT_ZERO,
    [MBR_FACT_HOST_ACCESSIBLE] = 1,
    [MBR_FACT_QUIRKS] = 0,
};

static mbr_status fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    (void)instance;
    char word[32];
    snprintf(word, sizeof word, "fact-%u", request->fact);
    outcome->value = 0;
    if (fault("fact-fails"))
        return fail(error, MBR_INTERNAL, "no facts today");
    if (fault_number(word, &outcome->value))
        return MBR_OK;
    snprintf(word, sizeof word, "no-fact-%u", request->fact);
    if (fault("no-facts") || fault(word) || request->fact >= sizeof facts / sizeof *facts ||
        facts[request->fact] == 0)
        return fail(error, MBR_UNSUPPORTED, "unknown fact");
    outcome->value = facts[request->fact];
    return MBR_OK;
}

/* No test of the loader calls these; they refuse. */
#define REFUSING(name, request_type, outcome_type)                                                 \
    static mbr_status name(mbr_instance *instance, const request_type *request,                    \
        outcome_type *outcome, mbr_error *error)                                                   \
    {                                                                                              \
        (void)instance;                                                                            \
        (void)request;                                                                             \
        (void)outcome;                                                                             \
        return fail(error, MBR_OUT_OF_MEMORY, "the specimen has no memory to give");               \
    }

REFUSING(allocate, mbr_allocate_request, mbr_outcome)
REFUSING(release, mbr_release_request, mbr_outcome)
REFUSING(stats, mbr_stats_request, mbr_mechanism_stats)
REFUSING(trim, mbr_trim_request, mbr_outcome)
REFUSING(reserve, mbr_reserve_request, mbr_outcome)
REFUSING(unreserve, mbr_unreserve_request, mbr_outcome)
REFUSING(extent_create, mbr_extent_create_request, mbr_outcome)
REFUSING(extent_destroy, mbr_extent_destroy_request, mbr_outcome)
REFUSING(map, mbr_map_request, mbr_outcome)
REFUSING(protect, mbr_protect_request, mbr_outcome)
REFUSING(unmap, mbr_unmap_request, mbr_outcome)
REFUSING(query, mbr_query_request, mbr_query_outcome)
REFUSING(map_shared, mbr_map_shared_request, mbr_outcome)

static const mbr_allocator_vtable allocator_table = {MBR_SIZED(mbr_allocator_vtable),
    MBR_KIND_ALLOCATOR, MBR_MINOR_0, fact, allocate, release, stats, trim};
#ifdef MBR_MINOR_1
/* Of the grown headers (tests/compat). */
static mbr_status newer(mbr_instance *instance, const mbr_reserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    (void)error;
    outcome->state = MBR_STATE_DONE;
    return MBR_OK;
}
#define SPECIMEN_NEWER , newer
#else
#define SPECIMEN_NEWER
#endif
static const mbr_virtual_vtable virtual_table = {MBR_SIZED(mbr_virtual_vtable), MBR_KIND_VIRTUAL,
    SPECIMEN_TABLE_MINOR, reserve, unreserve, extent_create, extent_destroy, map, protect, unmap,
    query SPECIMEN_NEWER};
static const mbr_shared_vtable shared_table = {
    MBR_SIZED(mbr_shared_vtable), MBR_KIND_SHARED, MBR_MINOR_0, map_shared};

static const mbr_virtual_vtable *choose_virtual(void)
{
    static mbr_virtual_vtable bad;
    if (getenv("SPECIMEN_FAULT") == NULL)
        return &virtual_table;
    bad = virtual_table;
    if (fault("virtual-kind"))
        bad.kind = MBR_KIND_ORDER;
    if (fault("virtual-null-slot"))
        bad.unmap = NULL;
    if (fault("virtual-minor"))
        bad.minor = 999;
    if (fault("virtual-small"))
        bad.struct_size -= 8;
    return &bad;
}

/* ---- a third party's capability */

static mbr_status compress(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)error;
    outcome->state = MBR_STATE_DONE;
    outcome->value = request->keep_bytes / 2;
    return MBR_OK;
}

static const specimen_compress_vtable *choose_compress(void)
{
    static specimen_compress_vtable table;
    table = (specimen_compress_vtable){
        MBR_SIZED(specimen_compress_vtable), SPECIMEN_KIND_COMPRESS, 1, compress, compress};
    if (fault("foreign-kind"))
        table.kind ^= 1;
    if (fault("foreign-own-kind"))
        table.kind = MBR_KIND_ORDER;
    if (fault("foreign-null-slot"))
        table.compress = NULL;
    if (fault("foreign-small"))
        table.struct_size = offsetof(specimen_compress_vtable, compress);
    if (fault("foreign-minor-0"))
        table.minor = 0;
    return &table;
}

static mbr_status capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    (void)instance;
    const void *table = NULL;
    __atomic_store_n(&specimen_count.last_minor, request->minor, __ATOMIC_SEQ_CST);
    if (strcmp(request->id, MBR_ID_ALLOCATOR) == 0 && !fault("no-allocator"))
        table = &allocator_table;
    if (strcmp(request->id, MBR_ID_VIRTUAL) == 0 && !fault("no-virtual") &&
        !fault("shared-without-virtual"))
        table = &virtual_table;
    if (strcmp(request->id, MBR_ID_SHARED) == 0 && !fault("no-virtual"))
        table = &shared_table;
    if (strcmp(request->id, MBR_ID_VIRTUAL) == 0) {
        if (fault("capability-fails") || fault("open-and-quiesce-fail") ||
            fault("open-and-quiesce-unsupported"))
            return fail(error, MBR_INTERNAL, "the driver broke");
        if (fault("capability-null"))
            return MBR_OK;
        table = table == NULL ? NULL : choose_virtual();
    }
    if (strcmp(request->id, SPECIMEN_ID_COMPRESS) == 0)
        table = choose_compress();
    outcome->table = table;
    return table != NULL ? MBR_OK : fail(error, MBR_UNSUPPORTED, "not offered");
}

/* ---- entry ----------------------------------------------------------------------------------- */

/* Larger than the contract's struct, as a newer plugin's is. */
static struct {
    mbr_plugin_vtable known;
    void (*newer[4])(void);
} grown_table;

static const mbr_plugin_vtable *choose_table(void)
{
    static mbr_plugin_vtable bad;
    static const char endless[MBR_NOTE_NAME_BYTES * 8] = {[0 ... sizeof endless - 1] = 'v'};
    if (getenv("SPECIMEN_FAULT") == NULL)
        return &plugin_table;
    bad = plugin_table;
    if (fault("table-null"))
        return NULL;
    if (fault("table-stack"))
        return (const mbr_plugin_vtable *)__builtin_frame_address(0);
    if (fault("table-misaligned"))
        return (const mbr_plugin_vtable *)((const char *)&plugin_table + 4);
    if (fault("table-grown")) {
        grown_table.known = plugin_table;
        grown_table.known.struct_size = sizeof grown_table;
        grown_table.known.minor = 999;
        return &grown_table.known;
    }
    if (fault("table-kind"))
        bad.kind = MBR_KIND_ORDER;
    else if (fault("table-small"))
        bad.struct_size = offsetof(mbr_plugin_vtable, quiesce);
    else if (fault("table-null-slot"))
        bad.report = NULL;
    else if (fault("table-name"))
        bad.name = "other";
    else if (fault("table-null-name"))
        bad.name = NULL;
    else if (fault("table-version"))
        bad.version = endless;
    else if (fault("table-control"))
        bad.version = "1\x1b[2J";
    else
        return &plugin_table;
    return &bad;
}

mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    uint64_t value;
    end_where("entry-aborts", "entry-exits");
    __atomic_add_fetch(&specimen_count.entries, 1, __ATOMIC_SEQ_CST);
#ifdef SPECIMEN_TLS
    per_thread++;
#endif
#ifdef SPECIMEN_STATIC_TLS
    per_thread++;
#endif
#ifdef SPECIMEN_KEY
    if (pthread_key_create(&thread_key, thread_ends) == 0)
        pthread_setspecific(thread_key, "SPECIMEN_THREAD_MARK");
#endif
#ifdef SPECIMEN_UNDEFINED
    specimen_missing_symbol();
#endif
#ifdef SPECIMEN_DEPENDENCY
    specimen_dependency();
#endif
    (void)hello;
    reply->minor = MBR_MINOR_0;
    reply->minor_min = MBR_MINOR_0;
    reply->minor_max = MBR_MINOR_0;
#ifdef SPECIMEN_DIGEST_1
    reply->minor_max = MBR_MINOR_1;
    if (hello->minor_max >= MBR_MINOR_1)
        reply->minor = MBR_MINOR_1;
#endif
    if (fault("entry-refuses"))
        return fail(error, MBR_NO_DEVICE, "no driver library\nhere");
    if (fault("entry-nonsense"))
        return (mbr_status)65535;
    if (fault("entry-version")) {
        reply->minor_min = 5;
        reply->minor_max = 7;
        return fail(error, MBR_VERSION_MISMATCH, "minors 5 to 7");
    }
    if (fault_number("entry-minor", &value))
        reply->minor = reply->minor_max = (uint16_t)value;
    if (fault("entry-range"))
        reply->minor_min = 1, reply->minor_max = 2;
    if (fault_number("entry-reply", &value))
        reply->struct_size = (uint32_t)value;
    if (fault("entry-overruns"))
        memset(reply, 0, sizeof *reply + 16);
    reply->plugin = choose_table();
    return MBR_OK;
}

#endif
