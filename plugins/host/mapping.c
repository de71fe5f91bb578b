/* The primitives behind plugins/common/space.h: reservations as private ranges without access,
 * mappings as shared mappings of the memory file over them. Keeps no books. */
#include "plugins/host/core.h"

#include <sys/mman.h>

static int protection_of(const struct mbr_answer_access *access)
{
    return access->writers ? PROT_READ | PROT_WRITE : access->readers ? PROT_READ : PROT_NONE;
}

static mbr_status reserve(
    mbr_instance *instance, struct mbr_object *reservation, uint64_t align_bytes, mbr_error *error)
{
    int code = mbr_host_range_take(instance, reservation, align_bytes, PROT_NONE, MAP_NORESERVE);
    if (code == 0)
        (void)mbr_host_range_hide(instance, reservation->outer_address, reservation->outer_bytes);
    return mbr_host_fail(
        instance, error, code, MBR_OUT_OF_ADDRESSES, "reserve: mmap", reservation->bytes);
}

static enum mbr_end unreserve(
    mbr_instance *instance, struct mbr_object *reservation, mbr_error *error)
{
    int code = mbr_host_range_give(instance, reservation);
    mbr_host_fail(instance, error, code, MBR_SYSTEM, "unreserve: munmap", reservation->outer_bytes);
    return code == 0 ? MBR_END_GONE : MBR_END_THERE;
}

static mbr_status map(
    mbr_instance *instance, const struct mbr_mapping *mapping, uint64_t address, mbr_error *error)
{
    const struct mbr_host_os *os = &instance->os;
    uint64_t bytes = mapping->place.bytes;
    int protection = protection_of(&mapping->access);
    int code = os->mmap(os->context, &address, bytes, protection, MAP_SHARED | MAP_FIXED,
        instance->file, ((struct mbr_host_extent *)mapping->extent)->part.start);
    if (code == 0)
        code = mbr_host_range_hide(instance, address, bytes);
    if (code == 0 && instance->huge) /* advice: a kernel without huge pages may refuse it */
        (void)os->madvise(os->context, address, bytes, MADV_HUGEPAGE);
    if (code == 0)
        code = mbr_host_range_populate(instance, address, bytes, protection, false);
    return mbr_host_fail(instance, error, code, MBR_OUT_OF_MEMORY, "map: mmap and populate", bytes);
}

static enum mbr_end look(const mbr_instance *instance, uint64_t address, uint64_t bytes)
{
    enum mbr_host_range_kind kind = mbr_host_range_look(instance, address, bytes);
    return kind == MBR_HOST_RANGE_RESERVED ? MBR_END_GONE
        : kind == MBR_HOST_RANGE_FILE      ? MBR_END_THERE
                                           : MBR_END_UNKNOWN;
}

static enum mbr_end unmap(
    mbr_instance *instance, uint64_t address, uint64_t bytes, mbr_error *error)
{
    int code = mbr_host_range_empty(instance, address, bytes);
    enum mbr_end end = code == 0 ? MBR_END_GONE : look(instance, address, bytes);
    if (end != MBR_END_GONE)
        mbr_host_fail(instance, error, code, MBR_SYSTEM, "unmap: mmap", bytes);
    return end;
}

static mbr_status protect(mbr_instance *instance, uint64_t address, uint64_t bytes,
    const struct mbr_answer_access *access, bool is_undo, mbr_error *error)
{
    int protection = protection_of(access);
    int code = instance->os.mprotect(instance->os.context, address, bytes, protection);
    if (code == 0 && !is_undo)
        code = mbr_host_range_populate(instance, address, bytes, protection, false);
    return mbr_host_fail(
        instance, error, code, MBR_OUT_OF_MEMORY, "protect: mprotect and populate", bytes);
}

const struct mbr_space_port mbr_host_port = {
    .reservation_max_bytes = MBR_HOST_OBJECT_MAX_BYTES,
    .reserve = reserve,
    .unreserve = unreserve,
    .map = map,
    .unmap = unmap,
    .look = look,
    .protect = protect,
};

const mbr_virtual_vtable mbr_host_virtual = {
    MBR_SIZED(mbr_virtual_vtable),
    .kind = MBR_KIND_VIRTUAL,
    .minor = MBR_MINOR_0,
    .reserve = mbr_space_slot_reserve,
    .unreserve = mbr_space_slot_unreserve,
    .extent_create = mbr_host_slot_extent_create,
    .extent_destroy = mbr_host_slot_extent_destroy,
    .map = mbr_space_slot_map,
    .protect = mbr_space_slot_protect,
    .unmap = mbr_space_slot_unmap,
    .query = mbr_space_slot_query,
};

const mbr_shared_vtable mbr_host_shared = {
    MBR_SIZED(mbr_shared_vtable),
    .kind = MBR_KIND_SHARED,
    .minor = MBR_MINOR_0,
    .map_shared = mbr_space_slot_map_shared,
};
