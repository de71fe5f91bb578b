/* Scenarios of paged stores: sequences that fork, copy, go and come back, with every row looked at.
 */
#include "tests/faults/world.h"

#define ROW_BYTES 256
#define PAGE_TOKENS 4 /* four pages an extent */

static mbr_paged *make_store(struct world *world)
{
    mbr_paged_request request = {MBR_SIZED(mbr_paged_request), .binding = world->binding,
        .holder = world->holder, .saved_binding = world->binding,
        .saved_holder = world->prefix_holder, .token_bytes = ROW_BYTES, .page_tokens = PAGE_TOKENS,
        .extent_bytes = PAGE, .max_pages = 64, .max_tokens = 1000};
    mbr_paged *store;
    STEP(world, mbr_paged_create(world->manager, &request, &store, &world->error));
    return store;
}

static uint64_t *row_of(
    struct world *world, mbr_paged *store, mbr_paged_sequence sequence, uint64_t token)
{
    uint64_t address;
    CHECK(world, mbr_paged_locate(store, sequence, token, &address, NULL, &world->error) == MBR_OK);
    return (uint64_t *)(uintptr_t)address;
}

static void write_rows(struct world *world, mbr_paged *store, mbr_paged_sequence sequence,
    uint64_t first, uint64_t end, uint64_t mark)
{
    for (uint64_t token = first; token < end; token++)
        *row_of(world, store, sequence, token) = mark + token;
}

static void check_rows(struct world *world, mbr_paged *store, mbr_paged_sequence sequence,
    uint64_t first, uint64_t end, uint64_t mark)
{
    for (uint64_t token = first; token < end; token++)
        CHECK(world, *row_of(world, store, sequence, token) == mark + token);
}

static void append(struct world *world, mbr_paged *store, mbr_paged_sequence sequence,
    uint64_t first, uint64_t end, uint64_t mark)
{
    STEP(world, mbr_paged_append(store, sequence, end - first, NULL, &world->error));
    write_rows(world, store, sequence, first, end, mark);
}

static void forks_and_copies(struct world *world)
{
    mbr_paged *store = make_store(world);
    mbr_paged_sequence parent, child;
    STEP(world, mbr_paged_begin(store, &parent, &world->error));
    append(world, store, parent, 0, 18, 1000);
    STEP(world, mbr_paged_fork(store, parent, &child, &world->error));
    append(world, store, child, 18, 40, 2000);
    append(world, store, parent, 18, 20, 3000);
    STEP(world, mbr_paged_prepare(store, child, 2, 9, NULL, &world->error));
    write_rows(world, store, child, 2, 11, 4000);
    check_rows(world, store, parent, 0, 18, 1000);
    check_rows(world, store, parent, 18, 20, 3000);
    STEP(world, mbr_paged_rewind(store, parent, 3, &world->error));
    check_rows(world, store, child, 0, 2, 1000);
    check_rows(world, store, child, 2, 11, 4000);
    check_rows(world, store, child, 11, 18, 1000);
    check_rows(world, store, child, 18, 40, 2000);
    STEP(world, mbr_paged_end(store, parent, &world->error));
    STEP(world, mbr_paged_end(store, child, &world->error));
    STEP(world, mbr_paged_destroy(store, &world->error));
}

static void preempts(struct world *world)
{
    mbr_paged *store = make_store(world);
    mbr_paged_sequence parent, child;
    STEP(world, mbr_paged_begin(store, &parent, &world->error));
    append(world, store, parent, 0, 10, 1000);
    STEP(world, mbr_paged_fork(store, parent, &child, &world->error));
    append(world, store, child, 10, 30, 2000);
    STEP(world, mbr_paged_preempt(store, child, NULL, &world->error));
    STEP(world, mbr_paged_end(store, parent, &world->error));
    STEP(world, mbr_paged_preempt(store, child, NULL, &world->error)); /* the rest, too */
    STEP(world, mbr_paged_restore(store, child, NULL, &world->error));
    check_rows(world, store, child, 0, 10, 1000);
    check_rows(world, store, child, 10, 30, 2000);
    STEP(world, mbr_paged_end(store, child, &world->error));
    STEP(world, mbr_paged_destroy(store, &world->error));
}

const struct scenario paged_scenarios[] = {
    {.name = "paged_forks_and_copies", .run = forks_and_copies, .setup = {.is_of_host = true}},
    {.name = "paged_forks_and_copies_nothing_kept",
        .run = forks_and_copies,
        .setup = {.is_of_host = true, .keep_bytes = 1}},
    {.name = "paged_preempts", .run = preempts, .setup = {.is_of_host = true}},
    {.name = NULL},
};
