/* Fuzz target: a mechanism whose every answer is drawn from the input (drawn.h), under the port,
 * the backing, the arena and a context, driven by a fixed or an input-drawn sequence of the host's
 * operations.
 *
 * Input: a byte of configuration, how many operations follow (0: the fixed ones), three bytes for
 * each operation, then a byte or more for each answer, where 0 is what the contract wants.
 *
 * Oracles, after each operation: no lock is held, the audits of arena, backing and authority hold,
 * nothing is granted at rest, and charged bytes are those that the port counts as owned. At the
 * end: every illegal answer was counted, everything ends, and without a lie nothing is left. */
#include "abi/base/lock.h"
#include "host/alloc/arena.h"
#include "host/loader/module.h"
#include "tests/fuzz/drawn.h"

#include <stdbool.h>

#define GRANULE DRAWN_GRANULE
#define LIMIT_BYTES (UINT64_C(256) << 20)
#define OPERATION_COUNT_MAX 64
#define RANGE_GRANULES 16
#define IS_KEEPING_LITTLE 64
#define IS_HEAP_FAILING 128

typedef struct operation {
    uint8_t kind, a, b;
} operation;

static struct {
    mbr_module module;
    mbr_governor *governor;
    mbr_authority *authority;
    mbr_holder *holders[2];
    mbr_context *context;
    uint64_t stream;
    mbr_addresses addresses;
    mbr_port *port;
    mbr_backing *backing;
    mbr_backing_user user;
    mbr_alloc_table *table;
    mbr_arena *arena;
    mbr_range *ranges[8];
    mbr_prefix *prefixes[4];
    mbr_span spans[4];
    bool has_span[4];
    mbr_allocation_handle allocations[8];
    bool is_lost;
} host;

static void must_ok(mbr_status status, const mbr_error *error, const char *what)
{
    FUZZ_MUST(status == MBR_OK, "%s: %d: %s", what, status, error->text);
}

static mbr_error new_error(void)
{
    return (mbr_error){MBR_SIZED(mbr_error)};
}

/* What a caller may rely on, whatever the plugin wrote. */
static void check_error(mbr_status status, const mbr_error *error)
{
    int32_t class = MBR_STATUS_CLASS(status);
    if (status == MBR_OK)
        return;
    FUZZ_MUST(class >= MBR_CLASS_CALLER && class <= MBR_CLASS_LOST, "%d is no status", status);
    FUZZ_MUST(memchr(error->text, 0, sizeof error->text) != NULL, "a text without an end");
    FUZZ_MUST(error->status == status && error->text[0] != '\0', "%d: the error says %d, \"%s\"",
        status, error->status, error->text);
}

/* ---- Oracles --------------------------------------------------------------------------------- */

static void check_books(void)
{
    mbr_error error = new_error();
    mbr_authority_figures books = {MBR_SIZED(mbr_authority_figures)};
    mbr_port_figures counts;
    mbr_lock_assert_none_held();
    if (host.arena != NULL) {
        mbr_arena_fold(host.arena);
        must_ok(mbr_arena_audit(host.arena, &error), &error, "arena");
    }
    mbr_authority_collect_credit(host.authority);
    must_ok(mbr_authority_audit(host.authority, &error), &error, "authority");
    must_ok(mbr_backing_audit(host.backing, &error), &error, "backing");
    mbr_authority_figures_read(host.authority, &books);
    mbr_port_read(host.port, &counts);
    FUZZ_MUST(books.granted_bytes == 0, "%llu bytes are granted at rest",
        (unsigned long long)books.granted_bytes);
    FUZZ_MUST(books.charged_bytes == counts.owned_bytes, "%llu bytes are charged, %llu owned",
        (unsigned long long)books.charged_bytes, (unsigned long long)counts.owned_bytes);
    FUZZ_MUST((counts.mapped_bytes | counts.reserved_bytes | counts.extent_count |
                  counts.mapping_count | counts.reservation_count | counts.allocation_count) >>
                63 ==
            0,
        "a count fell below 0");
    FUZZ_MUST(counts.violation_count >= drawn.illegal_count,
        "%llu illegal answers, %llu are counted", (unsigned long long)drawn.illegal_count,
        (unsigned long long)counts.violation_count);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static mbr_holder *holder_of(operation op)
{
    return host.holders[op.a >> 7];
}

static void reserve(operation op)
{
    mbr_range **range = &host.ranges[op.a % 8];
    mbr_error error = new_error();
    mbr_range_options options = {.context = host.context,
        .isolation_group = op.a >> 3 & 3,
        .flags = (op.a & 128) != 0 ? MBR_RANGE_UNPARKED : 0,
        .bytes = (1 + op.b % RANGE_GRANULES) * GRANULE,
        .growth = {GRANULE, GRANULE << (op.b >> 6), 1 + op.b / 16 % 4}};
    if (*range == NULL)
        check_error(mbr_backing_reserve(host.backing, &options, range, &error), &error);
}

static mbr_status refuse_to_publish(void *context)
{
    (void)context;
    return MBR_NOT_READY;
}

static void grow(operation op, uint32_t part_count)
{
    mbr_error error = new_error();
    mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    mbr_range_part parts[2] = {
        {host.ranges[op.a % 8], 0, op.b % 16 * GRANULE, (1 + (op.b >> 4)) * GRANULE},
        {host.ranges[(op.a + 1) % 8], 0, 0, (1 + (op.b >> 4)) * GRANULE}};
    mbr_grow_options options = {.holder = holder_of(op),
        .stream_id = (op.a & 8) != 0 ? 0 : host.stream,
        .flags = (op.a & 16) != 0 ? MBR_GROW_ZEROED : 0,
        .parts = parts,
        .part_count = part_count,
        .publish = (op.a & 96) == 96 ? refuse_to_publish : NULL,
        .refusal = &refusal};
    for (uint32_t i = 0; i < part_count; i++)
        if (parts[i].range == NULL)
            return;
    check_error(mbr_backing_grow(host.backing, &options, &result, &error), &error);
}

static void give_back(operation op)
{
    mbr_error error = new_error();
    mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
    if (host.ranges[op.a % 8] == NULL)
        return;
    bool now = (op.a & 8) == 0;
    check_error(mbr_range_give_back(host.ranges[op.a % 8], op.b % 16 * GRANULE,
                    (1 + (op.b >> 4)) * GRANULE, now, &host.stream, now ? 0 : 1, &result, &error),
        &error);
}

static void end_range(operation op)
{
    mbr_error error = new_error();
    mbr_range **range = &host.ranges[op.a % 8];
    bool now = (op.a & 8) == 0;
    if (*range == NULL)
        return;
    mbr_status status = mbr_range_end(*range, now, &host.stream, now ? 0 : 1, &error);
    check_error(status, &error);
    if (status == MBR_OK)
        *range = NULL;
}

static void make_prefix(operation op)
{
    mbr_error error = new_error();
    mbr_prefix_result result = {MBR_SIZED(mbr_prefix_result)};
    mbr_range_part part = {host.ranges[op.a % 8], 0, 0, (1 + op.b % 16) * GRANULE};
    mbr_prefix **prefix = &host.prefixes[op.b >> 6];
    if (part.range != NULL && *prefix == NULL)
        check_error(
            mbr_backing_make_prefix(host.backing, &part, 1, holder_of(op), prefix, &result, &error),
            &error);
}

static void attach(operation op)
{
    mbr_error error = new_error();
    mbr_prefix_attach_result result = {MBR_SIZED(mbr_prefix_attach_result)};
    mbr_range *target = host.ranges[op.a % 8];
    uint64_t limit = op.b % 16 * GRANULE;
    if (target != NULL && host.prefixes[op.b >> 6] != NULL)
        check_error(mbr_prefix_map_into(host.prefixes[op.b >> 6], &target, 1,
                        (op.b & 32) != 0 ? &limit : NULL, holder_of(op), &result, &error),
            &error);
}

static void end_prefix(operation op)
{
    mbr_prefix **prefix = &host.prefixes[op.a % 4];
    if (*prefix != NULL)
        mbr_prefix_end(*prefix);
    *prefix = NULL;
}

static void take_span(operation op)
{
    uint32_t index = op.a % 4;
    mbr_error error = new_error();
    mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
    if (host.has_span[index])
        return;
    mbr_status status = mbr_backing_take_span(host.backing, host.context, host.stream,
        op.a >> 4 & 3, (1 + op.b % 64) * GRANULE, op.b >= 128 ? 65536 : 0, &host.spans[index],
        &refusal, &error);
    check_error(status, &error);
    host.has_span[index] = status == MBR_OK;
}

static void give_span(operation op)
{
    uint32_t index = op.a % 4;
    if (host.has_span[index])
        mbr_backing_give_span(host.backing, &host.spans[index]);
    host.has_span[index] = false;
}

static void allocate(operation op)
{
    static const uint64_t sizes[] = {0, 1, 100, 4096, 70000, 1 << 20, 3 << 20, 65 << 20};
    mbr_error error = new_error();
    mbr_allocation_handle *handle = &host.allocations[op.a % 8];
    mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    mbr_arena_request request = {.holder = holder_of(op),
        .stream_id = (op.a & 8) != 0 ? host.stream : 0,
        .bytes = sizes[op.b % 8],
        .align_bytes = op.b >= 192 ? 8192 : 0,
        .flags = (op.a & 16) != 0 ? MBR_ALLOC_ZEROED : 0,
        .refusal = &refusal};
    if (handle->value != 0)
        return;
    mbr_status status = mbr_arena_alloc(host.arena, &request, &result, &error);
    check_error(status, &error);
    if (status == MBR_OK)
        *handle = result.allocation;
}

static void free_allocation(operation op)
{
    mbr_error error = new_error();
    mbr_allocation_handle *handle = &host.allocations[op.a % 8];
    bool now = (op.a & 8) == 0;
    if (handle->value == 0)
        return;
    mbr_status status =
        mbr_alloc_free(host.table, *handle, 0, now, &host.stream, now ? 0 : 1, &error);
    check_error(status, &error);
    if (status == MBR_OK)
        handle->value = 0;
}

static void trim(operation op)
{
    if (op.a % 3 == 0)
        mbr_backing_trim(host.backing, op.b * GRANULE);
    else if (op.a % 3 == 1)
        mbr_backing_evict(host.backing, (1 + op.b) * GRANULE);
    else
        mbr_arena_trim(host.arena, op.b * GRANULE);
}

/* The device is lost, and whoever knows says that it took its memory along. */
static void confirm_loss(void)
{
    mbr_context_lose(host.context);
    mbr_context_confirm_end(host.context);
    mbr_arena_confirm_lost(host.arena);
    mbr_backing_confirm_lost(host.backing, host.context);
    host.is_lost = true;
}

static void lose(operation op)
{
    if (op.a % 8 == 7 && op.b % 2 == 1)
        confirm_loss();
    else if (op.a % 8 == 7)
        mbr_context_lose(host.context);
}

static void operate(operation op)
{
    switch (op.kind % 16) {
    case 1:
        reserve(op);
        break;
    case 2:
        grow(op, 1);
        break;
    case 3:
        grow(op, 2);
        break;
    case 4:
        give_back(op);
        break;
    case 5:
        end_range(op);
        break;
    case 6:
        make_prefix(op);
        break;
    case 7:
        attach(op);
        break;
    case 8:
        end_prefix(op);
        break;
    case 9:
        take_span(op);
        break;
    case 10:
        give_span(op);
        break;
    case 11:
        allocate(op);
        break;
    case 12:
        free_allocation(op);
        break;
    case 13:
        trim(op);
        break;
    case 14:
        mbr_context_reap(host.context, true);
        break;
    case 15:
        lose(op);
        break;
    default:
        break;
    }
    check_books();
}

/* Two sequences grow, one shares the other's prefix, all of it ends, allocations beside. */
static const operation fixed[] = {{1, 0, 15}, {1, 1, 15}, {1, 130, 15}, {2, 0, 0x30},
    {2, 129, 0x74}, {6, 0, 3}, {7, 2, 3}, {11, 0, 4}, {11, 129, 6}, {2, 2, 0x18}, {4, 1, 0x15},
    {12, 8, 0}, {5, 0, 0}, {1, 0, 11}, {3, 0, 0x20}, {9, 0, 9}, {8, 0, 0}, {14, 0, 0}, {5, 10, 0},
    {11, 2, 5}, {10, 0, 0}, {13, 0, 2}, {12, 1, 0}, {14, 0, 0}, {13, 2, 0}, {13, 0, 0}, {1, 5, 7},
    {2, 5, 0x70}, {5, 13, 0}};

/* ---- Beginning and end ----------------------------------------------------------------------- */

static void begin_books(void)
{
    mbr_error error = new_error();
    mbr_governor_options governor_options = {&drawn_heap, &drawn_clock};
    mbr_authority_options authority_options = {"pool", MBR_TIER_HOST, LIMIT_BYTES, NULL, 0, NULL};
    must_ok(mbr_governor_create(&governor_options, &host.governor, &error), &error, "governor");
    must_ok(mbr_authority_create(host.governor, &authority_options, &host.authority, &error),
        &error, "authority");
    for (int i = 0; i < 2; i++) {
        mbr_holder_options options = {.name = i == 0 ? "kv" : "bounded",
            .role = MBR_ROLE_KV,
            .allowance_bytes = i == 0 ? MBR_NO_ALLOWANCE : UINT64_C(4) << 20};
        must_ok(mbr_holder_create(host.authority, &options, &host.holders[i], &error), &error,
            "holder");
    }
}

static void begin_parts(unsigned config)
{
    mbr_error error = new_error();
    mbr_context_options context_options = {.name = "drawn",
        .order = &drawn_order,
        .transfer = &drawn_transfer,
        .instance = DRAWN_INSTANCE,
        .queue_entries = 64,
        .heap = &drawn_heap,
        .clock = &drawn_clock};
    mbr_native native = {MBR_NATIVE_STREAM_CPU, 0, 1};
    uint64_t keep = (config & IS_KEEPING_LITTLE) != 0 ? 4 * GRANULE : UINT64_C(32) << 20;
    must_ok(mbr_context_create(&context_options, &host.context, &error), &error, "context");
    must_ok(
        mbr_context_attach_stream(host.context, native, &host.stream, &error), &error, "stream");
    mbr_addresses_init(&host.addresses);
    must_ok(mbr_port_create(&drawn.mechanism, &host.addresses, &drawn_heap, &host.port, &error),
        &error, "port");
    mbr_backing_options options = {host.port, host.authority, "cache", keep, &drawn_heap, 1, 0};
    must_ok(mbr_backing_create(&options, &host.backing, &error), &error, "backing");
    host.user.context = host.context;
    mbr_backing_add_user(host.backing, &host.user);
    must_ok(mbr_alloc_table_create(&drawn_heap, &host.table, &error), &error, "table");
    mbr_arena_options arena_options = {
        host.table, host.backing, host.context, 0, keep, &drawn_heap};
    must_ok(mbr_arena_create(&arena_options, &host.arena, &error), &error, "arena");
}

static void end_objects(void)
{
    for (uint8_t i = 0; i < 8; i++) {
        free_allocation((operation){0, i, 0});
        if (host.ranges[i] != NULL)
            mbr_range_end_now(host.ranges[i]);
        host.ranges[i] = NULL;
    }
    for (uint8_t i = 0; i < 4; i++) {
        end_prefix((operation){0, i, 0});
        give_span((operation){0, i, 0});
    }
    check_books();
}

static uint64_t queued_count(void)
{
    mbr_ep_figures figures = {MBR_SIZED(mbr_ep_figures)};
    mbr_context_read(host.context, &figures);
    return figures.queued_count;
}

/* Lines that lied about their values may never be reached: then the device is given up. */
static void settle(void)
{
    for (int i = 0; i < 4; i++)
        mbr_context_reap(host.context, true);
    check_books();
    if (queued_count() != 0 || mbr_context_state(host.context) == MBR_CONTEXT_LOST)
        confirm_loss();
    FUZZ_MUST(queued_count() == 0, "entries that nothing ends");
    end_objects(); /* frees that a full queue refused before */
    check_books();
}

/* What was leaked on purpose is written off, so that the authority itself can end. */
static void write_off(mbr_holder *holder)
{
    mbr_holder_figures figures = {MBR_SIZED(mbr_holder_figures)};
    mbr_authority_collect_credit(host.authority);
    mbr_holder_figures_read(holder, &figures);
    mbr_quarantine_settle(holder, figures.quarantined_bytes);
    mbr_retain_settle(holder, figures.retained_bytes);
    mbr_mapped_sub(holder, figures.mapped_bytes);
    mbr_refund(holder, figures.charged_bytes);
}

/* Returns whether nothing was left. */
static bool end_backing(void)
{
    mbr_error error = new_error();
    must_ok(mbr_arena_destroy(host.arena, &error), &error, "the arena's end");
    host.arena = NULL;
    mbr_alloc_table_destroy(host.table);
    check_books();
    mbr_backing_remove_user(host.backing, &host.user);
    mbr_backing_trim(host.backing, 0);
    check_books();
    mbr_holder *cache = mbr_backing_cache(host.backing);
    mbr_status status = mbr_backing_destroy(host.backing, &error);
    FUZZ_MUST(status == MBR_OK || status == MBR_RESIDUAL, "the backing's end: %s", error.text);
    if (status == MBR_OK)
        return true;
    FUZZ_MUST(drawn.lie_count != 0, "an honest mechanism left %s", error.text);
    check_books();
    write_off(cache);
    for (int i = 0; i < 2; i++)
        write_off(host.holders[i]);
    must_ok(mbr_holder_destroy(cache, &error), &error, "the cache's end");
    return false;
}

static void end_books(bool is_empty)
{
    mbr_error error = new_error();
    mbr_port_figures counts;
    for (int i = 0; i < 2; i++)
        must_ok(mbr_holder_destroy(host.holders[i], &error), &error, "a holder's end");
    must_ok(mbr_authority_destroy(host.authority, &error), &error, "the authority's end");
    must_ok(mbr_governor_destroy(host.governor, &error), &error, "the governor's end");
    mbr_port_read(host.port, &counts);
    FUZZ_MUST(!is_empty || counts.owned_bytes == 0, "%llu bytes are owned",
        (unsigned long long)counts.owned_bytes);
    mbr_status status = mbr_port_close(host.port, &error);
    FUZZ_MUST(status == MBR_OK || !is_empty, "the port's end: %s", error.text);
    FUZZ_MUST(!is_empty || drawn.block_count == 0, "%llu blocks of the heap are left",
        (unsigned long long)drawn.block_count);
}

static void end_context(void)
{
    mbr_error error = new_error();
    if (mbr_context_state(host.context) != MBR_CONTEXT_LOST)
        must_ok(mbr_context_detach_stream(host.context, host.stream, &error), &error, "the stream");
    must_ok(mbr_context_destroy(host.context, &error), &error, "the context's end");
}

static void run_operations(fuzz_input *input, uint32_t count)
{
    for (uint32_t i = 0; count == 0 && i < sizeof fixed / sizeof *fixed; i++)
        operate(fixed[i]);
    for (uint32_t i = 0; i < count; i++) {
        operation op;
        fuzz_take(input, &op, sizeof op);
        operate(op);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fuzz_input input = fuzz_input_of(data, bytes), answers = input;
    unsigned config = fuzz_u8(&input);
    uint32_t count = fuzz_u8(&input) % (OPERATION_COUNT_MAX + 1);
    size_t at = 2 + count * sizeof(operation);
    answers.at = answers.bytes;
    memset(&host, 0, sizeof host);
    host.module.open_count = 1; /* the drawn mechanism */
    drawn_begin(&host.module, config, answers);
    begin_books();
    begin_parts(config);
    drawn.answers.at = at < answers.bytes ? at : answers.bytes;
    drawn.heap_may_fail = (config & IS_HEAP_FAILING) != 0;
    run_operations(&input, count);
    end_objects();
    drawn_be_honest();
    settle();
    bool is_empty = end_backing();
    end_context();
    end_books(is_empty);
    drawn_end();
    return 0;
}
