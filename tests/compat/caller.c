/* Plays a host of the minor that its headers have: negotiates with the plugin whose path is its
 * argument, then calls every slot that it offers, each request, outcome and error against a guard
 * page. Uses the contract's headers and nothing of the host, so that it can be kept as a file.
 * Prints the number of slots called; a refusal that should not be ends it with the line. */
#include "guard.h"
#include "membrane/membrane_plugin.h"

#include <dlfcn.h>
#include <time.h>

static unsigned call_count;
static mbr_instance *instance;
static mbr_plugin_vtable plugin;

/* Calls a slot and wants MBR_OK, or says what was said. */
#define WANT(call)                                                                                 \
    do {                                                                                           \
        mbr_error *error = OUT(mbr_error);                                                         \
        mbr_status status = (call);                                                                \
        call_count++;                                                                              \
        if (status != MBR_OK)                                                                      \
            fprintf(stderr, "%d: %.*s\n", status, MBR_ERROR_TEXT_BYTES, error->text);              \
        CHECK(status == MBR_OK);                                                                   \
    } while (0)

static void log_line(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)level;
    *(uint64_t *)context += text_bytes + (uint64_t)TOUCH(text);
}

/* A table's known prefix, never more than it states. */
static void take_table(
    void *own, uint32_t own_bytes, uint32_t min_bytes, uint16_t kind, const void *foreign)
{
    mbr_vtable_head head;
    memcpy(&head, foreign, sizeof(head));
    CHECK(head.kind == kind && head.struct_size >= min_bytes);
    memcpy(own, foreign, head.struct_size < own_bytes ? head.struct_size : own_bytes);
}

static void negotiate(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(handle != NULL);
    mbr_entry_function entry;
    void *symbol = dlsym(handle, MBR_ENTRY_SYMBOL);
    CHECK(symbol != NULL);
    memcpy(&entry, &symbol, sizeof(entry));
    mbr_reply *reply = OUT(mbr_reply);
    WANT(entry(IN(mbr_hello, .minor_min = MBR_MINOR_0, .minor_max = MBR_MINOR_0), reply, error));
    CHECK(reply->minor == MBR_MINOR_0 && reply->minor_min == MBR_MINOR_0);
    take_table(&plugin, sizeof(plugin), MBR_MIN_SIZE_PLUGIN_VTABLE_MINOR_0, MBR_KIND_PLUGIN,
        reply->plugin);

    mbr_reply *refused = OUT(mbr_reply);
    mbr_error *error = OUT(mbr_error);
    mbr_status status =
        entry(IN(mbr_hello, .minor_min = 65535, .minor_max = 65535), refused, error);
    CHECK(status == MBR_VERSION_MISMATCH && refused->minor_max == reply->minor_max);
}

static void open_first(uint64_t *logged)
{
    mbr_mechanism_description *first = OUT(mbr_mechanism_description);
    WANT(plugin.mechanisms(NULL, IN(mbr_mechanisms_request, .index = 0), first, error));
    CHECK(first->count >= 1 && memchr(first->name, '\0', sizeof(first->name)) != NULL);
    mbr_error *error = OUT(mbr_error);
    CHECK(plugin.mechanisms(NULL, IN(mbr_mechanisms_request, .index = first->count),
              OUT(mbr_mechanism_description), error) == MBR_OUT_OF_RANGE);
    CHECK(error->text[0] != '\0');
    mbr_open_outcome *opened = OUT(mbr_open_outcome);
    WANT(plugin.open(NULL,
        IN(mbr_open_request, .mechanism = first->name, .log = log_line, .log_context = logged),
        opened, error));
    instance = opened->instance;
    CHECK(instance != NULL);
}

static int fetch(const char *id, void *own, uint32_t own_bytes, uint32_t min_bytes, uint16_t kind)
{
    mbr_capability_outcome *answer = OUT(mbr_capability_outcome);
    mbr_status status = plugin.capability(instance,
        IN(mbr_capability_request, .minor = MBR_MINOR_0, .id = id), answer, OUT(mbr_error));
    call_count++;
    CHECK(status == MBR_OK || status == MBR_UNSUPPORTED);
    if (status == MBR_OK)
        take_table(own, own_bytes, min_bytes, kind, answer->table);
    return status == MBR_OK;
}

#define FETCH(table, lower, UPPER)                                                                 \
    fetch(MBR_ID_##UPPER, table, sizeof(mbr_##lower##_vtable),                                     \
        MBR_MIN_SIZE_##UPPER##_VTABLE_MINOR_0, MBR_KIND_##UPPER)

static uint64_t fact(const mbr_allocator_vtable *table, uint32_t id)
{
    mbr_fact_outcome *answer = OUT(mbr_fact_outcome);
    mbr_status status =
        table->fact(instance, IN(mbr_fact_request, .fact = id), answer, OUT(mbr_error));
    call_count++;
    CHECK(status == MBR_OK || status == MBR_UNSUPPORTED);
    return answer->value;
}

static void use_allocator(const mbr_allocator_vtable *table)
{
    mbr_outcome *taken = OUT(mbr_outcome);
    WANT(table->allocate(instance,
        IN(mbr_allocate_request, .allocation_id = 1, .bytes = 100, .align_bytes = 64,
            .max_owned_bytes = UINT64_MAX),
        taken, error));
    CHECK(taken->state == MBR_STATE_DONE && taken->address % 64 == 0);
    TOUCH(taken->address) = 7;

    mbr_outcome *refused = OUT(mbr_outcome);
    mbr_error *why = OUT(mbr_error);
    mbr_status status = table->allocate(instance,
        IN(mbr_allocate_request, .allocation_id = 2, .bytes = UINT64_MAX - 10,
            .max_owned_bytes = UINT64_MAX),
        refused, why);
    CHECK(MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER ||
        MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED);
    CHECK(refused->state == MBR_STATE_UNCHANGED && refused->address == 0);
    CHECK(why->status == status && memchr(why->text, '\0', sizeof(why->text)) != NULL);

    mbr_mechanism_stats *stats = OUT(mbr_mechanism_stats);
    WANT(table->stats(instance, IN(mbr_stats_request, .reserved_0 = 0), stats, error));
    CHECK(stats->owned_bytes >= 100);
    mbr_outcome *gone = OUT(mbr_outcome);
    WANT(table->release(instance,
        IN(mbr_release_request, .allocation_id = 1, .address = taken->address), gone, error));
    CHECK(gone->released_bytes == taken->newly_owned_bytes);
    WANT(table->trim(instance, IN(mbr_trim_request, .keep_bytes = 0), OUT(mbr_outcome), error));
}

static void map_again(const mbr_shared_vtable *table, uint64_t offset_bytes, uint64_t address)
{
    const mbr_access *read = guard(&(mbr_access){0, MBR_ACCESS_READ}, sizeof(mbr_access));
    WANT(table->map_shared(instance,
        IN(mbr_map_shared_request, .access_count = 1, .reservation_id = 3,
            .offset_bytes = offset_bytes, .extent_id = 4, .access = read),
        OUT(mbr_outcome), error));
    CHECK(TOUCH(address + offset_bytes) == TOUCH(address));
}

static void unmap(const mbr_virtual_vtable *table, uint64_t offset_bytes, uint64_t bytes)
{
    mbr_outcome *gone = OUT(mbr_outcome);
    WANT(table->unmap(instance,
        IN(mbr_unmap_request, .reservation_id = 3, .offset_bytes = offset_bytes, .bytes = bytes),
        gone, error));
    CHECK(gone->unmapped_bytes == bytes);
}

static void use_virtual(
    const mbr_virtual_vtable *table, const mbr_shared_vtable *shared, uint64_t granule_bytes)
{
    mbr_outcome *place = OUT(mbr_outcome), *extent = OUT(mbr_outcome);
    WANT(table->reserve(instance,
        IN(mbr_reserve_request, .reservation_id = 3, .bytes = 4 * granule_bytes), place, error));
    WANT(table->extent_create(instance,
        IN(mbr_extent_create_request, .extent_id = 4, .bytes = granule_bytes,
            .max_owned_bytes = UINT64_MAX),
        extent, error));
    WANT(table->map(instance, IN(mbr_map_request, .reservation_id = 3, .extent_id = 4),
        OUT(mbr_outcome), error));
    const mbr_access *both = guard(&(mbr_access){0, MBR_ACCESS_READ_WRITE}, sizeof(mbr_access));
    WANT(table->protect(instance,
        IN(mbr_protect_request, .access_count = 1, .reservation_id = 3, .bytes = granule_bytes,
            .access = both),
        OUT(mbr_outcome), error));
    TOUCH(place->address) = 42;
    mbr_query_outcome *found = OUT(mbr_query_outcome);
    WANT(table->query(instance, IN(mbr_query_request, .reservation_id = 3), found, error));
    CHECK(found->extent_id == 4 && found->bytes == granule_bytes);
    if (shared != NULL) {
        map_again(shared, 2 * granule_bytes, place->address);
        unmap(table, 2 * granule_bytes, granule_bytes);
    }
    unmap(table, 0, granule_bytes);
    mbr_outcome *gone = OUT(mbr_outcome);
    WANT(table->extent_destroy(
        instance, IN(mbr_extent_destroy_request, .extent_id = 4), gone, error));
    CHECK(gone->released_bytes == extent->newly_owned_bytes);
    WANT(table->unreserve(
        instance, IN(mbr_unreserve_request, .reservation_id = 3), OUT(mbr_outcome), error));
}

static void leave(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t deadline_ns = ((uint64_t)now.tv_sec + 10) * UINT64_C(1000000000);
    mbr_report *report = OUT(mbr_report);
    WANT(plugin.report(instance, IN(mbr_report_request, .reserved_0 = 0), report, error));
    CHECK(report->allocation_count + report->reservation_count + report->extent_count +
            report->mapping_count ==
        0);
    WANT(plugin.quiesce(
        instance, IN(mbr_quiesce_request, .deadline_ns = deadline_ns), OUT(mbr_outcome), error));
    WANT(plugin.close(instance, IN(mbr_close_request, .flags = 0), OUT(mbr_outcome), error));
}

int main(int count, char **arguments)
{
    uint64_t logged = 0;
    mbr_allocator_vtable allocator;
    mbr_virtual_vtable virtual_;
    mbr_shared_vtable shared;
    CHECK(count == 2);
    negotiate(arguments[1]);
    open_first(&logged);
    CHECK(FETCH(&allocator, allocator, ALLOCATOR));
    for (uint32_t id = MBR_FACT_GRANULE_MIN_BYTES; id <= MBR_FACT_QUIRKS; id++)
        fact(&allocator, id);
    use_allocator(&allocator);
    if (FETCH(&virtual_, virtual, VIRTUAL)) {
        int has_shared = FETCH(&shared, shared, SHARED);
        uint64_t granule_bytes = fact(&allocator, MBR_FACT_GRANULE_MIN_BYTES);
        use_virtual(&virtual_, has_shared ? &shared : NULL, granule_bytes);
    }
    leave();
    printf("%u slots called\n", call_count);
    return 0;
}
