/* Virtual memory: reservations, handles, mappings and access, by the processor's own page tables
 * (see model.h). Waits for nobody and looks at no stream (D24, D27). */
#include "tests/standin/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POISON 0xA5
#define NO_DESCRIPTOR (-1)
#define POISON_MAX_BYTES ((uint64_t)8 << 20) /* at either end of a handle */

struct spans sim_reservations;
struct spans sim_mappings;

static struct sim_handle *handles; /* by id */
static uint64_t handle_last_id;
static uint64_t rising_address;

/* ---- Sorted spans ---- */

size_t sim_span_index(const struct spans *spans, uint64_t address)
{
    size_t low = 0;
    size_t high = spans->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans->items[middle].address + spans->items[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct span *sim_span_at(const struct spans *spans, uint64_t address)
{
    size_t index = sim_span_index(spans, address);
    bool is_inside = index < spans->count && spans->items[index].address <= address;
    return is_inside ? &spans->items[index] : NULL;
}

struct span *sim_span_add(struct spans *spans, struct span span)
{
    if (spans->count == spans->room) {
        size_t room = spans->room ? 2 * spans->room : 64;
        struct span *items = realloc(spans->items, room * sizeof *items);
        if (!items)
            return NULL;
        spans->items = items;
        spans->room = room;
    }
    size_t index = sim_span_index(spans, span.address);
    memmove(&spans->items[index + 1], &spans->items[index],
        (spans->count - index) * sizeof *spans->items);
    spans->items[index] = span;
    spans->count++;
    return &spans->items[index];
}

void sim_span_remove(struct spans *spans, size_t index)
{
    spans->count--;
    memmove(&spans->items[index], &spans->items[index + 1],
        (spans->count - index) * sizeof *spans->items);
}

/* ---- Addresses ---- */

/* The range for all devices, at the first need: a process that asks nothing pays nothing. */
static bool has_addresses(void)
{
    if (sim.base)
        return true;
    uint64_t bytes = sim.options.address_bytes * (1 + (uint64_t)sim.options.device_count);
    const uint64_t granule = (uint64_t)1 << 30;
    void *start =
        mmap(NULL, bytes + granule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return false;
    sim.base = ((uintptr_t)start + granule - 1) & ~(granule - 1);
    /* What is around goes back: else each restart would want a larger hole than the last one left.
     */
    uint64_t head_bytes = sim.base - (uintptr_t)start;
    if (head_bytes)
        munmap(start, head_bytes);
    munmap(sim_pointer(sim.base + bytes), granule - head_bytes);
    madvise(sim_pointer(sim.base), bytes, MADV_DONTDUMP);
    return true;
}

bool sim_is_device_address(uint64_t address)
{
    return sim.base && address - sim.base < sim.options.address_bytes;
}

bool sim_is_fault(uint64_t address)
{
    return sim.base &&
        address - sim.base < sim.options.address_bytes * (1 + (uint64_t)sim.options.device_count);
}

uint64_t sim_view(uint32_t device, uint64_t address)
{
    if (!sim_is_device_address(address))
        return address;
    return address + (1 + (uint64_t)device) * sim.options.address_bytes;
}

static bool is_aligned(uint64_t value)
{
    return value % sim.options.granule_min_bytes == 0;
}

/* The first free range at or above `from`; 0 for none. */
static uint64_t free_range(uint64_t from, uint64_t bytes, uint64_t align_bytes)
{
    uint64_t end = sim.base + sim.options.address_bytes;
    uint64_t address = (from + align_bytes - 1) & ~(align_bytes - 1);
    for (size_t i = sim_span_index(&sim_reservations, address); i < sim_reservations.count; i++) {
        const struct span *taken = &sim_reservations.items[i];
        if (address + bytes <= taken->address)
            break;
        address = (taken->address + taken->bytes + align_bytes - 1) & ~(align_bytes - 1);
    }
    return address >= from && address + bytes >= address && address + bytes <= end ? address : 0;
}

uint64_t sim_range_take(uint64_t bytes, uint64_t align_bytes, enum span_kind kind)
{
    if (!has_addresses() || bytes > sim.options.address_bytes)
        return 0;
    uint64_t address = 0;
    if (sim.options.addresses == STANDIN_RISING && rising_address >= sim.base)
        address = free_range(rising_address, bytes, align_bytes);
    if (!address)
        address = free_range(sim.base, bytes, align_bytes);
    struct span span = {.address = address, .bytes = bytes, .kind = kind};
    if (!address || !sim_span_add(&sim_reservations, span))
        return 0;
    rising_address = address + bytes;
    return address;
}

int sim_reserve(uint64_t *address, uint64_t bytes, uint64_t align_bytes, uint64_t flags)
{
    if (align_bytes == 0)
        align_bytes = sim.options.granule_min_bytes;
    bool is_power = (align_bytes & (align_bytes - 1)) == 0;
    if (flags || bytes == 0 || !is_aligned(bytes) || !is_power)
        return SIM_INVALID_VALUE;
    if (align_bytes < sim.options.granule_min_bytes)
        align_bytes = sim.options.granule_min_bytes;
    uint64_t found = sim_range_take(bytes, align_bytes, SPAN_VIRTUAL);
    if (!found)
        return SIM_OUT_OF_MEMORY;
    sim.ledger.reservation_count++;
    sim.ledger.reservation_bytes += bytes;
    *address = found;
    return SIM_OK;
}

bool sim_has_mapping(uint64_t address, uint64_t bytes)
{
    size_t index = sim_span_index(&sim_mappings, address);
    return index < sim_mappings.count && sim_mappings.items[index].address < address + bytes;
}

/* D23 */
int sim_unreserve(uint64_t address, uint64_t bytes)
{
    size_t index = sim_span_index(&sim_reservations, address);
    const struct span *span = &sim_reservations.items[index];
    if (index == sim_reservations.count || span->address != address || span->bytes != bytes ||
        span->kind != SPAN_VIRTUAL || sim_has_mapping(address, bytes))
        return SIM_INVALID_VALUE;
    for (uint32_t device = 0; device < sim.options.device_count; device++)
        sim.devices[device].used_bytes -= span->late_bytes[device];
    sim_span_remove(&sim_reservations, index);
    sim.ledger.reservation_count--;
    sim.ledger.reservation_bytes -= bytes;
    return SIM_OK;
}

/* ---- Handles ---- */

struct sim_handle *sim_handle_find(uint64_t id)
{
    struct sim_handle *handle = NULL;
    HASH_FIND(hh, handles, &id, sizeof id, handle);
    return handle;
}

static void poison(const struct sim_device *device, uint64_t offset_bytes, uint64_t bytes)
{
    void *view =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, device->file, (off_t)offset_bytes);
    if (view == MAP_FAILED)
        return;
    memset(view, POISON, bytes);
    munmap(view, bytes);
}

static void fill_fresh(const struct sim_device *device, const struct sim_handle *handle)
{
    uint64_t bytes = handle->bytes;
    if (sim.options.content != STANDIN_POISON)
        return;
    if (bytes <= 2 * POISON_MAX_BYTES) {
        poison(device, handle->offset_bytes, bytes);
        return;
    }
    poison(device, handle->offset_bytes, POISON_MAX_BYTES);
    poison(device, handle->offset_bytes + bytes - POISON_MAX_BYTES, POISON_MAX_BYTES);
}

static void give_descriptor(int descriptor)
{
    if (descriptor >= 0)
        close(descriptor);
}

static bool take_descriptor(int *descriptor)
{
    *descriptor =
        sim.options.takes_descriptors ? open("/dev/null", O_RDONLY | O_CLOEXEC) : NO_DESCRIPTOR;
    return !sim.options.takes_descriptors || *descriptor >= 0;
}

/* D6, D20: charged here, given back with the last reference. */
int sim_handle_new(struct sim_handle **made, uint64_t bytes, uint32_t ordinal)
{
    struct sim_device *device = &sim.devices[ordinal];
    if (bytes > sim.options.capacity_bytes - device->used_bytes)
        return SIM_OUT_OF_MEMORY;
    int descriptor;
    if (!take_descriptor(&descriptor))
        return SIM_OUT_OF_MEMORY;
    struct sim_handle *handle = calloc(1, sizeof *handle);
    if (!handle || ftruncate(device->file, (off_t)(device->file_end_bytes + bytes)) != 0) {
        give_descriptor(descriptor);
        free(handle);
        return SIM_OUT_OF_MEMORY;
    }
    *handle = (struct sim_handle){.id = ++handle_last_id,
        .device = ordinal,
        .bytes = bytes,
        .offset_bytes = device->file_end_bytes,
        .descriptor = descriptor,
        .reference_count = 1};
    device->file_end_bytes += bytes;
    device->used_bytes += bytes;
    fill_fresh(device, handle);
    HASH_ADD(hh, handles, id, sizeof handle->id, handle);
    *made = handle;
    return SIM_OK;
}

/* Some drivers free memory with the addresses where it was mapped last. */
static void handle_free(const struct sim_handle *handle)
{
    struct span *place =
        sim.options.frees_late ? sim_span_at(&sim_reservations, handle->last_place) : NULL;
    if (place && place->kind == SPAN_VIRTUAL)
        place->late_bytes[handle->device] += handle->bytes;
    else
        sim.devices[handle->device].used_bytes -= handle->bytes;
}

static void handle_forget(struct sim_handle *handle)
{
    struct sim_device *device = &sim.devices[handle->device];
    handle_free(handle);
    give_descriptor(handle->descriptor);
    fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)handle->offset_bytes,
        (off_t)handle->bytes);
    if (!handle->is_plain) {
        sim.ledger.handle_count--;
        sim.ledger.handle_bytes -= handle->bytes;
    }
    HASH_DEL(handles, handle);
    free(handle);
}

void sim_handle_drop(struct sim_handle *handle)
{
    if (handle->reference_count == 0 && handle->mapping_count == 0)
        handle_forget(handle);
}

int sim_create(uint64_t *id, uint64_t bytes, int device, bool is_exportable)
{
    if (!sim_device(device))
        return SIM_INVALID_DEVICE;
    if (bytes == 0 || !is_aligned(bytes))
        return SIM_INVALID_VALUE;
    struct sim_handle *handle;
    int status = sim_handle_new(&handle, bytes, (uint32_t)device);
    if (status != SIM_OK)
        return status;
    handle->is_exportable = is_exportable;
    sim.ledger.handle_count++;
    sim.ledger.handle_bytes += bytes;
    *id = handle->id;
    return SIM_OK;
}

int sim_release_handle(uint64_t id)
{
    struct sim_handle *handle = sim_handle_find(id);
    if (!handle || handle->reference_count == 0)
        return SIM_INVALID_VALUE;
    handle->reference_count--;
    sim_handle_drop(handle);
    return SIM_OK;
}

int sim_handle_retain(uint64_t id)
{
    struct sim_handle *handle = sim_handle_find(id);
    if (!handle)
        return SIM_INVALID_VALUE;
    handle->reference_count++;
    return SIM_OK;
}

int sim_handle_device(uint64_t id, int *device, bool *is_exportable)
{
    const struct sim_handle *handle = sim_handle_find(id);
    if (!handle && id != 0 && id <= handle_last_id)
        sim_misuse("handle %llu is asked about after it was released", (unsigned long long)id);
    if (!handle || handle->reference_count == 0)
        return SIM_INVALID_VALUE;
    *device = (int)handle->device;
    *is_exportable = handle->is_exportable;
    return SIM_OK;
}

int sim_handle_at(uint64_t *id, uint64_t address)
{
    const struct span *mapping = sim_span_at(&sim_mappings, address);
    if (!mapping || mapping->kind != SPAN_VIRTUAL)
        return SIM_INVALID_VALUE;
    mapping->handle->reference_count++;
    *id = mapping->handle->id;
    return SIM_OK;
}

/* ---- Mappings ---- */

/* The handle, where it may be mapped; ends the process where the driver would crash or worse. */
static struct sim_handle *handle_to_map(uint64_t id)
{
    struct sim_handle *handle = sim_handle_find(id);
    if (!handle && id != 0 && id <= handle_last_id)
        sim_misuse("D11: handle %llu is mapped after it was released", (unsigned long long)id);
    if (handle && handle->reference_count == 0 && !sim.options.maps_released)
        sim_misuse(
            "D12: handle %llu is mapped again after it was released", (unsigned long long)id);
    return handle;
}

/* D8 to D12 */
int sim_map(uint64_t address, uint64_t bytes, uint64_t offset_bytes, uint64_t id)
{
    struct sim_handle *handle = handle_to_map(id);
    if (!handle || bytes == 0 || !is_aligned(address))
        return SIM_INVALID_VALUE;
    if (offset_bytes != 0 || bytes != handle->bytes)
        return SIM_NOT_SUPPORTED;
    const struct span *reservation = sim_span_at(&sim_reservations, address);
    if (!reservation || reservation->kind != SPAN_VIRTUAL || sim_has_mapping(address, bytes))
        return SIM_INVALID_VALUE;
    if (address + bytes > reservation->address + reservation->bytes)
        sim_misuse("D10: %llu bytes are mapped past the end of their reservation",
            (unsigned long long)bytes);
    struct span span = {.address = address, .bytes = bytes, .kind = SPAN_VIRTUAL, .handle = handle};
    if (!sim_span_add(&sim_mappings, span))
        return SIM_OUT_OF_MEMORY;
    handle->mapping_count++;
    handle->last_place = address;
    sim.ledger.mapping_count++;
    sim.ledger.mapping_bytes += bytes;
    return SIM_OK;
}

static int protection_of(enum sim_access access)
{
    return access == SIM_ACCESS_NONE ? PROT_NONE
        : access == SIM_ACCESS_READ  ? PROT_READ
                                     : PROT_READ | PROT_WRITE;
}

/* Makes the mapping visible in a device's part, or changes what it may do there. */
bool sim_show(struct span *mapping, uint32_t device, enum sim_access access)
{
    if (mapping->access[device] == access)
        return true;
    void *view = sim_pointer(sim_view(device, mapping->address));
    int protection = protection_of(access);
    bool was_shown = mapping->is_shown[device];
    bool is_done = was_shown ? mprotect(view, mapping->bytes, protection) == 0
                             : mmap(view, mapping->bytes, protection, MAP_SHARED | MAP_FIXED,
                                   sim.devices[mapping->handle->device].file,
                                   (off_t)mapping->handle->offset_bytes) == view;
    if (!is_done)
        return false;
    madvise(view, mapping->bytes, MADV_DONTFORK);
    mapping->is_shown[device] = true;
    mapping->access[device] = (uint8_t)access;
    return true;
}

void sim_mapping_remove(size_t index)
{
    struct span *mapping = &sim_mappings.items[index];
    for (uint32_t device = 0; device < sim.options.device_count; device++)
        if (mapping->is_shown[device] &&
            mmap(sim_pointer(sim_view(device, mapping->address)), mapping->bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
            sim_misuse("the process has no mapping left (%s)", strerror(errno));
    struct sim_handle *handle = mapping->handle;
    handle->mapping_count--;
    sim_span_remove(&sim_mappings, index);
    sim_handle_drop(handle);
}

/* Whether the range begins and ends at mappings, or in holes; counts what it covers. */
static bool covers_whole(uint64_t address, uint64_t bytes, uint64_t *covered_bytes)
{
    uint64_t end = address + bytes;
    *covered_bytes = 0;
    for (size_t i = sim_span_index(&sim_mappings, address); i < sim_mappings.count; i++) {
        const struct span *mapping = &sim_mappings.items[i];
        if (mapping->address >= end)
            break;
        if (mapping->address < address || mapping->address + mapping->bytes > end ||
            mapping->kind != SPAN_VIRTUAL)
            return false;
        *covered_bytes += mapping->bytes;
    }
    return true;
}

/* D21, D22; past the end of the reservation is one more hole. */
int sim_unmap(uint64_t address, uint64_t bytes)
{
    uint64_t covered_bytes;
    const struct span *reservation = sim_span_at(&sim_reservations, address);
    if (address + bytes <= address || !reservation || reservation->kind != SPAN_VIRTUAL ||
        !covers_whole(address, bytes, &covered_bytes))
        return SIM_INVALID_VALUE;
    uint64_t end = reservation->address + reservation->bytes;
    if (address + bytes > end && sim_has_mapping(end, address + bytes - end))
        sim_misuse("D22: an unmap reaches past the end of its reservation, into another's mapping");
    sim.ledger.lenient_unmap_count += covered_bytes != bytes;
    size_t index = sim_span_index(&sim_mappings, address);
    while (index < sim_mappings.count && sim_mappings.items[index].address < address + bytes) {
        sim.ledger.mapping_count--;
        sim.ledger.mapping_bytes -= sim_mappings.items[index].bytes;
        sim_mapping_remove(index);
    }
    return SIM_OK;
}

/* A range of access begins and ends at mappings; a hole inside is passed over. */
static bool has_ends(uint64_t address, uint64_t bytes)
{
    const struct span *first = sim_span_at(&sim_mappings, address);
    const struct span *last = sim_span_at(&sim_mappings, address + bytes - 1);
    return first && last && first->address == address &&
        last->address + last->bytes == address + bytes;
}

/* D15: all or nothing. */
int sim_set_access(
    uint64_t address, uint64_t bytes, int device, enum sim_access access, bool is_dry)
{
    uint64_t covered_bytes;
    if (!sim_device(device) || bytes == 0 || !has_ends(address, bytes) ||
        !covers_whole(address, bytes, &covered_bytes))
        return SIM_INVALID_VALUE;
    sim.ledger.lenient_access_count += is_dry && covered_bytes != bytes;
    size_t index = sim_span_index(&sim_mappings, address);
    for (; !is_dry && index < sim_mappings.count; index++) {
        if (sim_mappings.items[index].address >= address + bytes)
            break;
        if (!sim_show(&sim_mappings.items[index], (uint32_t)device, access))
            return SIM_OUT_OF_MEMORY;
    }
    return SIM_OK;
}

int sim_get_access(uint64_t address, int device, enum sim_access *access)
{
    const struct span *mapping = sim_span_at(&sim_mappings, address);
    if (!sim_device(device))
        return SIM_INVALID_DEVICE;
    if (!mapping)
        return SIM_INVALID_VALUE;
    *access = mapping->access[device];
    return SIM_OK;
}

bool sim_mapping_at(uint64_t address, uint64_t *bytes, uint32_t *device)
{
    const struct span *mapping = sim_span_at(&sim_mappings, address);
    if (!mapping || mapping->address != address)
        return false;
    *bytes = mapping->bytes;
    *device = mapping->handle->device;
    return true;
}

bool sim_is_mapped_somewhere(uint64_t id)
{
    const struct sim_handle *handle = sim_handle_find(id);
    return handle && handle->mapping_count > 0;
}

int sim_free_bytes(uint64_t *free_bytes, uint64_t *total_bytes)
{
    const struct sim_device *device = &sim.devices[sim_current()->device];
    *total_bytes = sim.options.capacity_bytes;
    *free_bytes = sim.options.capacity_bytes - device->used_bytes;
    return SIM_OK;
}

/* ---- Questions ---- */

bool sim_may(uint32_t device, uint64_t address, uint64_t bytes, enum sim_access access)
{
    uint64_t end = address + bytes;
    while (address < end) {
        const struct span *mapping = sim_span_at(&sim_mappings, address);
        if (!mapping || mapping->access[device] < access)
            return false;
        uint64_t limit = mapping->limit_bytes ? mapping->limit_bytes : mapping->bytes;
        if (address >= mapping->address + limit)
            return false;
        address = mapping->address + limit;
        if (mapping->limit_bytes && address < end)
            return false;
    }
    return true;
}

int sim_viewer(uint32_t device, uint64_t address, uint64_t bytes, enum sim_access access)
{
    if (sim_may(device, address, bytes, access))
        return (int)device;
    const struct span *mapping = sim_span_at(&sim_mappings, address);
    bool is_plain = mapping && mapping->kind == SPAN_PLAIN;
    uint32_t owner = is_plain ? mapping->handle->device : device;
    return owner != device && sim_may(owner, address, bytes, access) ? (int)owner : -1;
}

/* Nobody knows of a mapping before somebody may use it. */
static bool is_granted(const struct span *mapping)
{
    for (uint32_t device = 0; device < sim.options.device_count; device++)
        if (mapping->is_shown[device])
            return true;
    return false;
}

int sim_piece(uint64_t address, uint64_t *start, uint64_t *bytes, uint32_t *device)
{
    const struct span *mapping = sim_span_at(&sim_mappings, address);
    uint64_t limit = mapping && mapping->limit_bytes ? mapping->limit_bytes : UINT64_MAX;
    if (!mapping || address - mapping->address >= limit || !is_granted(mapping))
        return SIM_NOT_FOUND;
    *start = mapping->address;
    *bytes = mapping->limit_bytes ? mapping->limit_bytes : mapping->bytes;
    *device = mapping->handle->device;
    return SIM_OK;
}

void sim_memory_finish(void)
{
    struct sim_handle *handle;
    struct sim_handle *next;
    HASH_ITER(hh, handles, handle, next)
    {
        HASH_DEL(handles, handle);
        give_descriptor(handle->descriptor);
        free(handle);
    }
    free(sim_mappings.items);
    free(sim_reservations.items);
    sim_mappings = sim_reservations = (struct spans){0};
    if (sim.base)
        munmap(sim_pointer(sim.base),
            sim.options.address_bytes * (1 + (uint64_t)sim.options.device_count));
    sim.base = 0;
    rising_address = 0;
}
