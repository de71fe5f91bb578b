/* Plain device memory, which is a reservation, a handle and a mapping at once, and host memory that
 * devices reach. */
#include "tests/standin/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <utlist.h>

#define PAGE_BYTES 4096

static struct sim_host_block *blocks;

/* ---- Plain memory ---- */

static int place(uint64_t address, uint64_t limit_bytes, struct sim_handle *handle)
{
    struct span span = {.address = address,
        .bytes = handle->bytes,
        .limit_bytes = limit_bytes,
        .kind = SPAN_PLAIN,
        .handle = handle};
    struct span *mapping = sim_span_add(&sim_mappings, span);
    if (!mapping)
        return SIM_OUT_OF_MEMORY;
    handle->mapping_count++;
    return sim_show(mapping, handle->device, SIM_ACCESS_READ_WRITE) ? SIM_OK : SIM_OUT_OF_MEMORY;
}

static void remove_at(size_t reservation_index)
{
    uint64_t address = sim_reservations.items[reservation_index].address;
    if (sim_span_at(&sim_mappings, address))
        sim_mapping_remove(sim_span_index(&sim_mappings, address));
    sim_span_remove(&sim_reservations, reservation_index);
}

int sim_allocate(uint64_t *address, uint64_t bytes)
{
    if (bytes == 0)
        return SIM_INVALID_VALUE;
    uint64_t whole = bytes > UINT64_MAX - PAGE_BYTES
        ? UINT64_MAX
        : (bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    struct sim_handle *handle;
    int status = sim_handle_new(&handle, whole, sim_current()->device);
    if (status != SIM_OK)
        return status;
    handle->is_plain = true;
    uint64_t found = sim_range_take(whole, PAGE_BYTES, SPAN_PLAIN);
    status = found ? place(found, bytes, handle) : SIM_OUT_OF_MEMORY;
    if (status != SIM_OK && found)
        remove_at(sim_span_index(&sim_reservations, found));
    handle->reference_count = 0; /* the mapping alone keeps it */
    sim_handle_drop(handle);
    if (status != SIM_OK)
        return status;
    sim.ledger.plain_count++;
    sim.ledger.plain_bytes += bytes;
    *address = found;
    return SIM_OK;
}

static size_t index_of(uint64_t address)
{
    size_t index = sim_span_index(&sim_reservations, address);
    const struct span *span = &sim_reservations.items[index];
    bool is_plain =
        index < sim_reservations.count && span->address == address && span->kind == SPAN_PLAIN;
    return is_plain ? index : sim_reservations.count;
}

bool sim_is_plain(uint64_t address)
{
    return index_of(address) < sim_reservations.count;
}

int sim_free_now(uint64_t address)
{
    size_t index = index_of(address);
    if (index == sim_reservations.count)
        return SIM_INVALID_VALUE;
    sim.ledger.plain_count--;
    sim.ledger.plain_bytes -= sim_span_at(&sim_mappings, address)->limit_bytes;
    remove_at(index);
    return SIM_OK;
}

/* Waits for the device first, as the driver does. */
int sim_free(uint64_t address)
{
    if (address == 0)
        return SIM_OK;
    if (sim_host_find(address))
        return sim_managed_free(address);
    sim_await_context(sim_current());
    return sim_current_loss() != SIM_OK ? sim_current_loss() : sim_free_now(address);
}

void sim_plain_finish(uint32_t device)
{
    for (size_t i = sim_reservations.count; i-- > 0;) {
        const struct span *span = &sim_reservations.items[i];
        if (span->kind != SPAN_PLAIN)
            continue;
        const struct span *mapping = sim_span_at(&sim_mappings, span->address);
        if (mapping->handle->device != device)
            continue;
        sim.ledger.plain_count--;
        sim.ledger.plain_bytes -= mapping->limit_bytes;
        remove_at(i);
    }
}

/* ---- Host memory ---- */

struct sim_host_block *sim_host_find(uint64_t address)
{
    struct sim_host_block *block;
    DL_FOREACH(blocks, block)
    if (address - block->address < block->bytes)
        return block;
    return NULL;
}

static bool overlaps(uint64_t address, uint64_t bytes)
{
    struct sim_host_block *block;
    DL_FOREACH(blocks, block)
    if (address < block->address + block->bytes && block->address < address + bytes)
        return true;
    return false;
}

static int add(uint64_t address, uint64_t bytes, uint32_t flags, enum sim_host_kind kind)
{
    struct sim_host_block *block = calloc(1, sizeof *block);
    if (!block)
        return SIM_OUT_OF_MEMORY;
    *block = (struct sim_host_block){.address = address,
        .bytes = bytes,
        .flags = flags,
        .device = sim_current()->device,
        .kind = kind};
    DL_APPEND(blocks, block);
    uint64_t *count = kind == SIM_MANAGED ? &sim.ledger.plain_count : &sim.ledger.pinned_count;
    uint64_t *sum = kind == SIM_MANAGED ? &sim.ledger.plain_bytes : &sim.ledger.pinned_bytes;
    *count += 1;
    *sum += bytes;
    return SIM_OK;
}

static void drop(struct sim_host_block *block)
{
    bool is_managed = block->kind == SIM_MANAGED;
    uint64_t *count = is_managed ? &sim.ledger.plain_count : &sim.ledger.pinned_count;
    uint64_t *sum = is_managed ? &sim.ledger.plain_bytes : &sim.ledger.pinned_bytes;
    *count -= 1;
    *sum -= block->bytes;
    if (block->kind != SIM_REGISTERED)
        munmap(sim_pointer(block->address), block->bytes);
    DL_DELETE(blocks, block);
    free(block);
}

int sim_host_allocate(void **address, uint64_t bytes, uint32_t flags, enum sim_host_kind kind)
{
    if (bytes == 0) {
        *address = NULL;
        return kind == SIM_PINNED ? SIM_OK : SIM_INVALID_VALUE;
    }
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return SIM_OUT_OF_MEMORY;
    int status = add((uintptr_t)start, bytes, flags, kind);
    if (status != SIM_OK)
        munmap(start, bytes);
    else
        *address = start;
    return status;
}

static struct sim_host_block *block_of(uint64_t address, enum sim_host_kind kind)
{
    struct sim_host_block *block = sim_host_find(address);
    return block && block->kind == kind && block->address == address ? block : NULL;
}

int sim_host_free(void *address)
{
    if (!address)
        return SIM_OK;
    sim_await_context(sim_current());
    struct sim_host_block *block = block_of((uintptr_t)address, SIM_PINNED);
    if (!block)
        return SIM_INVALID_VALUE;
    drop(block);
    return SIM_OK;
}

int sim_managed_free(uint64_t address)
{
    sim_await_context(sim_current());
    struct sim_host_block *block = block_of(address, SIM_MANAGED);
    if (!block)
        return SIM_INVALID_VALUE;
    drop(block);
    return SIM_OK;
}

int sim_host_register(void *address, uint64_t bytes, uint32_t flags)
{
    if (!address || bytes == 0)
        return SIM_INVALID_VALUE;
    if (overlaps((uintptr_t)address, bytes))
        return SIM_HOST_ALREADY_REGISTERED;
    return add((uintptr_t)address, bytes, flags, SIM_REGISTERED);
}

int sim_host_unregister(void *address)
{
    struct sim_host_block *block = sim_host_find((uintptr_t)address);
    if (!block || block->kind != SIM_REGISTERED)
        return SIM_HOST_NOT_REGISTERED;
    if (block->address != (uintptr_t)address)
        return SIM_INVALID_VALUE;
    drop(block);
    return SIM_OK;
}

void sim_host_finish(void)
{
    while (blocks)
        drop(blocks);
}
