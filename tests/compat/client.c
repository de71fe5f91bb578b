/* A client of libmembrane.so that calls everything once: each request, result and error against a
 * guard page, the tables of its EP as well. Uses the public headers alone, so that it can be kept
 * as a file. Arguments: the folder with the host-RAM plugin. Prints what its figures must be. */
#include "guard.h"
#include "membrane/membrane.h"

#define GRANULE UINT64_C(65536) /* a whole number of granules of every machine */

#define TRY(call)                                                                                  \
    do {                                                                                           \
        mbr_error *error = OUT(mbr_error);                                                         \
        mbr_status status = (call);                                                                \
        if (status != MBR_OK)                                                                      \
            fprintf(stderr, "%d: %.*s\n", status, MBR_ERROR_TEXT_BYTES, error->text);              \
        CHECK(status == MBR_OK);                                                                   \
    } while (0)

static mbr_manager *m;
static mbr_plugin_handle plugin;
static mbr_mechanism_handle mechanism;
static mbr_authority_handle authority;
static mbr_holder_handle holder, second_holder;
static mbr_cpu *cpu;
static mbr_native native;
static mbr_ep_handle ep;
static mbr_stream_handle stream;
static mbr_binding_handle binding;

static void log_line(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)level;
    (void)text;
    *(uint64_t *)context += text_bytes;
}

static void open_mechanism(const char *folder, uint64_t *logged)
{
    TRY(mbr_manager_create(IN(mbr_manager_options, .threads = MBR_THREADS_NONE, .log = log_line,
                               .log_context = logged, .plugin_path = folder),
        &m, error));
    mbr_error *why = OUT(mbr_error);
    CHECK(mbr_manager_open_plugin(
              m, IN(mbr_plugin_open_request, .name = "absent-one"), &plugin, why) != MBR_OK);
    CHECK(plugin.value == 0 && strstr(why->text, folder) != NULL);
    TRY(mbr_manager_open_plugin(m, IN(mbr_plugin_open_request, .name = "host"), &plugin, error));
    TRY(mbr_manager_open_mechanism(
        m, IN(mbr_mechanism_open_request, .plugin = plugin), &mechanism, error));
    mbr_mechanism_figures *figures = OUT(mbr_mechanism_figures);
    TRY(mbr_manager_read_mechanism(m, mechanism, figures, error));
    CHECK((figures->capabilities & MBR_CAPABILITY_VIRTUAL) != 0);
    CHECK(figures->granule_min_bytes != 0 && GRANULE % figures->granule_min_bytes == 0);
}

static void make_budget(void)
{
    TRY(mbr_manager_create_authority(m,
        IN(mbr_authority_request, .tier = MBR_TIER_HOST, .name = "pool",
            .limit_bytes = UINT64_C(64) << 20),
        &authority, error));
    TRY(mbr_manager_create_holder(m,
        IN(mbr_holder_request, .role = MBR_ROLE_KV, .authority = authority, .name = "kv",
            .allowance_bytes = MBR_NO_ALLOWANCE),
        &holder, error));
    TRY(mbr_manager_create_holder(m,
        IN(mbr_holder_request, .role = MBR_ROLE_PREFIX, .authority = authority, .name = "prefix",
            .allowance_bytes = MBR_NO_ALLOWANCE),
        &second_holder, error));
    uint64_t over_bytes = 1;
    TRY(mbr_manager_set_limit(m, authority, UINT64_C(32) << 20, &over_bytes, error));
    CHECK(over_bytes == 0);
}

/* One call of each slot of the EP's tables, as a host makes them. */
static void call_tables(const mbr_order_vtable *order, const mbr_transfer_vtable *transfer)
{
    mbr_instance *i = mbr_cpu_instance(cpu);
    mbr_stream_create_outcome *made = OUT(mbr_stream_create_outcome);
    mbr_outcome *signalled = OUT(mbr_outcome), *reached = OUT(mbr_outcome);
    unsigned char bytes[64] = {0};
    TRY(transfer->stream_create(i, IN(mbr_stream_create_request, .flags = 0), made, error));
    TRY(order->line_open(i, IN(mbr_line_open_request, .line_id = 1, .stream = made->stream),
        OUT(mbr_outcome), error));
    TRY(transfer->fill(i,
        IN(mbr_fill_request, .pattern = 9, .stream = made->stream,
            .address = (uint64_t)(uintptr_t)bytes, .bytes = 32),
        OUT(mbr_outcome), error));
    TRY(transfer->copy(i,
        IN(mbr_copy_request, .stream = made->stream,
            .to_address = (uint64_t)(uintptr_t)(bytes + 32),
            .from_address = (uint64_t)(uintptr_t)bytes, .bytes = 32),
        OUT(mbr_outcome), error));
    TRY(order->signal(i, IN(mbr_line_request, .line_id = 1), signalled, error));
    TRY(order->stream_wait(i,
        IN(mbr_stream_wait_request, .line_id = 1, .value = signalled->value,
            .stream = made->stream),
        OUT(mbr_outcome), error));
    TRY(order->wait(i,
        IN(mbr_line_wait_request, .line_id = 1, .value = signalled->value,
            .deadline_ns = UINT64_MAX),
        OUT(mbr_outcome), error));
    TRY(order->reached(i, IN(mbr_line_request, .line_id = 1), reached, error));
    CHECK(reached->value == signalled->value && bytes[63] == 9);
    TRY(order->line_close(i, IN(mbr_line_request, .line_id = 1), OUT(mbr_outcome), error));
    TRY(transfer->stream_destroy(
        i, IN(mbr_stream_destroy_request, .stream = made->stream), OUT(mbr_outcome), error));
}

/* The library's table in the size that this client knows. */
static void take_table(void *own, uint32_t own_bytes, const void *table)
{
    uint32_t stated;
    memcpy(&stated, table, sizeof(stated));
    memcpy(own, table, stated < own_bytes ? stated : own_bytes);
    memcpy(own, &own_bytes, sizeof(own_bytes));
}

/* An EP that gives tables of its own, in the size that this client knows. */
static void make_ep(void)
{
    TRY(mbr_cpu_create(IN(mbr_cpu_options, .stream_limit = 4), &cpu, error));
    TRY(mbr_cpu_stream_create(cpu, &native, error));
    mbr_order_vtable order = {0};
    mbr_transfer_vtable transfer = {0};
    take_table(&order, sizeof(order), mbr_cpu_order(cpu));
    take_table(&transfer, sizeof(transfer), mbr_cpu_transfer(cpu));
    call_tables(&order, &transfer);
    TRY(mbr_ep_create(m,
        IN(mbr_ep_request, .name = "ep", .order = guard(&order, sizeof(order)),
            .transfer = guard(&transfer, sizeof(transfer)), .instance = mbr_cpu_instance(cpu)),
        &ep, error));
    TRY(mbr_ep_attach_stream(m, ep, native, &stream, error));
    TRY(mbr_manager_bind(m,
        IN(mbr_bind_request, .mechanism = mechanism, .ep = ep, .authority = authority), &binding,
        error));
    mbr_binding_handle next;
    TRY(mbr_manager_switch(m, binding,
        IN(mbr_bind_request, .mechanism = mechanism, .ep = ep, .authority = authority), &next,
        error));
    CHECK(mbr_manager_read_binding(m, binding, OUT(mbr_binding_figures), OUT(mbr_error)) ==
        MBR_STALE);
    binding = next;
    mbr_binding_figures *figures = OUT(mbr_binding_figures);
    TRY(mbr_manager_read_binding(m, binding, figures, error));
    CHECK(figures->ep.value == ep.value);
}

static void use_memory(void)
{
    mbr_alloc_result *got = OUT(mbr_alloc_result);
    mbr_refusal *refusal = OUT(mbr_refusal);
    TRY(mbr_alloc(m,
        IN(mbr_alloc_request, .flags = MBR_ALLOC_ZEROED, .binding = binding, .holder = holder,
            .stream = stream, .bytes = 1000, .tag = 5, .refusal = refusal),
        got, error));
    TRY(mbr_ep_copy(m, stream, got->address, got->address + 512, 256, error));
    TRY(mbr_cpu_fill(cpu, native, got->address, 1, 10, error));
    TRY(mbr_cpu_synchronize(cpu, native, UINT64_MAX, error));
    CHECK(TOUCH(got->address) == 1 && TOUCH(got->address + 10) == 0);
    mbr_allocation_figures *figures = OUT(mbr_allocation_figures);
    TRY(mbr_alloc_read(m, (mbr_allocation_handle){0}, got->address + 99, figures, error));
    CHECK(figures->tag == 5 && figures->bytes == 1000);
    mbr_alloc_result *refused = OUT(mbr_alloc_result);
    CHECK(mbr_alloc(m,
              IN(mbr_alloc_request, .binding = binding, .holder = holder,
                  .bytes = UINT64_C(1) << 40, .refusal = refusal),
              refused, OUT(mbr_error)) == MBR_OVER_BUDGET);
    CHECK(refusal->asked_bytes >= UINT64_C(1) << 40 && refused->address == 0);
    TRY(mbr_free(m,
        IN(mbr_free_request, .allocation = got->allocation, .streams = &stream, .stream_count = 1),
        error));
}

static mbr_range_handle reserve(uint64_t bytes)
{
    mbr_range_reserve_result *place = OUT(mbr_range_reserve_result);
    TRY(mbr_range_reserve(m,
        IN(mbr_range_reserve_request, .binding = binding, .bytes = bytes,
            .growth = {GRANULE, GRANULE, 16}),
        place, error));
    CHECK(place->address != 0 && place->bytes >= bytes);
    return place->range;
}

static void release(mbr_range_handle range)
{
    TRY(mbr_range_release(
        m, IN(mbr_range_release_request, .flags = MBR_FREE_NOW, .piece = {range, 0, 0}), error));
}

static void use_ranges(void)
{
    mbr_range_handle range = reserve(8 * GRANULE), sharer = reserve(8 * GRANULE);
    mbr_piece piece = {range, 0, 4 * GRANULE};
    mbr_range_grow_result *grown = OUT(mbr_range_grow_result);
    TRY(mbr_range_grow(m,
        IN(mbr_range_grow_request, .flags = MBR_GROW_ZEROED, .holder = holder, .stream = stream,
            .pieces = &piece, .piece_count = 1, .refusal = OUT(mbr_refusal)),
        grown, error));
    CHECK(grown->new_bytes == 4 * GRANULE);
    mbr_range_figures *figures = OUT(mbr_range_figures);
    TRY(mbr_range_read(m, range, 0, figures, error));
    CHECK(figures->committed_bytes == 4 * GRANULE);
    TOUCH(figures->address) = 77;

    piece.bytes = 2 * GRANULE;
    mbr_prefix_result *prefix = OUT(mbr_prefix_result);
    TRY(mbr_prefix_create(m,
        IN(mbr_prefix_request, .piece_count = 1, .holder = second_holder, .pieces = &piece), prefix,
        error));
    mbr_prefix_attach_result *attached = OUT(mbr_prefix_attach_result);
    TRY(mbr_prefix_attach(m,
        IN(mbr_prefix_attach_request, .target_count = 1, .prefix = prefix->prefix, .holder = holder,
            .targets = &sharer),
        attached, error));
    CHECK(attached->shared_bytes == 2 * GRANULE);
    mbr_range_figures *shared = OUT(mbr_range_figures);
    TRY(mbr_range_read(m, sharer, 0, shared, error));
    CHECK(TOUCH(shared->address) == 77);
    mbr_prefix_figures *counted = OUT(mbr_prefix_figures);
    TRY(mbr_prefix_read(m, prefix->prefix, counted, error));
    CHECK(counted->shared_bytes == 2 * GRANULE);
    TRY(mbr_prefix_release(m, prefix->prefix, error));

    mbr_range_decommit_result *gone = OUT(mbr_range_decommit_result);
    TRY(mbr_range_decommit(m,
        IN(mbr_range_release_request, .flags = MBR_FREE_NOW,
            .piece = {range, 2 * GRANULE, 2 * GRANULE}),
        gone, error));
    CHECK(gone->decommitted_bytes == 2 * GRANULE);
    release(sharer);
    release(range);
}

static void use_kv(void)
{
    mbr_kv *kv;
    mbr_sequence *first, *second;
    mbr_kv_prefix *prefix;
    TRY(mbr_kv_create(m,
        IN(mbr_kv_request, .binding = binding, .holder = holder, .prefix_holder = second_holder,
            .geometry = "layers=2,heads=1,dim=16,bytes=1,planes=2", .max_tokens = 20000,
            .extent_bytes = GRANULE),
        &kv, error));
    TRY(mbr_sequence_create(
        kv, IN(mbr_sequence_request, .stream = stream, .tokens = 4096), &first, error));
    TRY(mbr_sequence_append(first, 10, OUT(mbr_refusal), error));
    mbr_kv_strides *strides = OUT(mbr_kv_strides);
    TRY(mbr_sequence_strides(first, 0, strides, error));
    uint64_t address;
    TRY(mbr_sequence_locate(first, 0, 0, 0, 0, 0, &address, error));
    CHECK(address == strides->address);
    TRY(mbr_kv_prefix_create(first, 4096, &prefix, error));
    TRY(mbr_sequence_create(kv,
        IN(mbr_sequence_request, .stream = stream, .tokens = 5000, .prefix = prefix,
            .prefix_tokens = 4096, .refusal = OUT(mbr_refusal)),
        &second, error));
    mbr_sequence_figures *figures = OUT(mbr_sequence_figures);
    TRY(mbr_sequence_read(second, figures, error));
    CHECK(figures->tokens == 5000 && figures->shared_bytes != 0);
    mbr_kv_prefix_figures *counted = OUT(mbr_kv_prefix_figures);
    TRY(mbr_kv_prefix_read(prefix, counted, error));
    CHECK(counted->sharer_count >= 1 && counted->shared_bytes != 0);
    mbr_kv_figures *all = OUT(mbr_kv_figures);
    TRY(mbr_kv_read(kv, all, error));
    CHECK(all->sequence_count == 2);
    TRY(mbr_sequence_destroy(second, NULL, 0, error));
    TRY(mbr_sequence_destroy(first, &stream, 1, error));
    TRY(mbr_kv_prefix_destroy(prefix, error));
    TRY(mbr_ep_drain(m, ep, UINT64_MAX, error));
    TRY(mbr_kv_destroy(kv, error));
}

/* Lines of the size that this client knows, one behind the other: their struct_size is the stride.
 */
static void read_figures(void)
{
    mbr_authority_figures *all = OUT(mbr_authority_figures);
    TRY(mbr_manager_read_authority(m, authority, all, error));
    CHECK(all->holder_count >= 2 && all->limit_bytes <= UINT64_C(32) << 20);
    mbr_holder_figures *one = OUT(mbr_holder_figures);
    TRY(mbr_manager_read_holder(m, second_holder, one, error));
    CHECK(strcmp(one->name, "prefix") == 0);
    mbr_holder_figures two[2] = {{MBR_SIZED(mbr_holder_figures)}, {MBR_SIZED(mbr_holder_figures)}};
    mbr_holder_figures *lines = (mbr_holder_figures *)guard(two, sizeof(two));
    uint32_t count;
    TRY(mbr_manager_read_holders(m, authority, lines, 2, &count, error));
    CHECK(count >= 2 && lines[0].struct_size == sizeof(two[0]));
    CHECK(lines[1].struct_size == sizeof(two[0]) && lines[1].name[0] != '\0');
    CHECK(lines[0].holder_id != lines[1].holder_id);
    mbr_ep_figures *figures = OUT(mbr_ep_figures);
    TRY(mbr_ep_read(m, ep, figures, error));
    CHECK(figures->violation_count == 0 && figures->stream_count == 1);
    uint64_t released_bytes;
    TRY(mbr_manager_trim(m, mechanism, 0, &released_bytes, error));
    TRY(mbr_manager_audit(m, error));
    mbr_mechanism_figures *books = OUT(mbr_mechanism_figures);
    TRY(mbr_manager_read_mechanism(m, mechanism, books, error));
    printf("owned %lu, violations %lu\n", books->owned_bytes, books->violation_count);
}

static void close_all(void)
{
    mbr_manager_poll(m);
    TRY(mbr_manager_unbind(m, binding, error));
    TRY(mbr_ep_detach_stream(m, stream, error));
    TRY(mbr_ep_retire(m, ep, error));
    TRY(mbr_ep_destroy(m, ep, UINT64_MAX, error));
    TRY(mbr_cpu_stream_destroy(cpu, native, error));
    TRY(mbr_cpu_destroy(cpu, error));
    TRY(mbr_manager_destroy_holder(m, second_holder, error));
    TRY(mbr_manager_destroy_holder(m, holder, error));
    TRY(mbr_manager_destroy_authority(m, authority, error));
    TRY(mbr_manager_close_mechanism(m, mechanism, error));
    TRY(mbr_manager_close_plugin(m, plugin, error));
    TRY(mbr_manager_destroy(m, error));
}

int main(int count, char **arguments)
{
    uint64_t logged = 0;
    CHECK(count == 2);
    open_mechanism(arguments[1], &logged);
    make_budget();
    make_ep();
    use_memory();
    use_ranges();
    use_kv();
    TRY(mbr_ep_drain(m, ep, UINT64_MAX, error));
    read_figures();
    close_all();
    return 0;
}
