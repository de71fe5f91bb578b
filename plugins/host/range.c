/* Address ranges: taking, filling, hiding and giving up, also where the process has as many
 * mappings as it may. Never looks into the books.
 *
 * Linux lets a process reach vm.max_map_count + 1 mappings and then refuses every mmap, also one
 * that would leave fewer, and every munmap of a mapping's middle. A process that ran into the limit
 * could not give anything back. So each instance keeps a few mappings whose only use is that they
 * can be dropped first: the ballast. */
#include "plugins/host/core.h"

#include <errno.h>
#include <sys/mman.h>

#define BALLAST_PAGES 8

int mbr_host_range_take(const mbr_instance *instance, struct mbr_object *object,
    uint64_t align_bytes, int protection, int flags)
{
    const struct mbr_host_os *os = &instance->os;
    uint64_t outer_bytes = object->bytes + (align_bytes - os->page_bytes);
    bool is_padded = outer_bytes > object->bytes;
    int code = os->mmap(os->context, &object->outer_address, outer_bytes,
        is_padded ? PROT_NONE : protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (code != 0)
        return code;
    object->outer_bytes = outer_bytes;
    object->address = object->outer_address + (-object->outer_address & (align_bytes - 1));
    if (is_padded && protection != PROT_NONE)
        code = os->mprotect(os->context, object->address, object->bytes, protection);
    return code;
}

int mbr_host_range_hide(const mbr_instance *instance, uint64_t address, uint64_t bytes)
{
    return instance->os.madvise(instance->os.context, address, bytes, MADV_DONTFORK);
}

int mbr_host_range_populate(
    const mbr_instance *instance, uint64_t address, uint64_t bytes, int protection, bool fresh)
{
    if (!instance->populate || protection == PROT_NONE)
        return 0;
    /* Of the two the writing kind is a quarter faster on shared memory, and changes no byte. */
    int advice = protection & PROT_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    int code = instance->os.madvise(instance->os.context, address, bytes, advice);
    if (code != EINVAL)
        return code;
    /* Before Linux 5.14: by hand. Reading makes a page of shared memory present for writes too; a
     * private one must be written, which only its first user may. */
    for (uint64_t offset = 0; offset < bytes; offset += instance->os.page_bytes) {
        volatile char *byte = (volatile char *)(uintptr_t)(address + offset);
        if (fresh)
            *byte = 0;
        else
            (void)*byte;
    }
    return 0;
}

enum mbr_host_range_kind mbr_host_range_look(
    const mbr_instance *instance, uint64_t address, uint64_t bytes)
{
    struct mbr_host_range range;
    if (instance->os.inspect(instance->os.context, address, bytes, instance->inode, &range) != 0)
        return MBR_HOST_RANGE_OTHER;
    return range.kind;
}

/* ---- Ballast -------------------------------------------------------------------------------- */

/* Neighbouring pages with different access are mappings of their own. They stand behind the end of
 * the file, where no extent's mapping can merge with them, and nobody touches them. */
void mbr_host_ballast_fill_locked(mbr_instance *instance)
{
    const struct mbr_host_os *os = &instance->os;
    uint64_t bytes = BALLAST_PAGES * os->page_bytes;
    if (instance->ballast_address != 0 ||
        os->mmap(os->context, &instance->ballast_address, bytes, PROT_NONE, MAP_SHARED,
            instance->file, MBR_HOST_FILE_MAX_BYTES) != 0)
        return;
    (void)mbr_host_range_hide(instance, instance->ballast_address, bytes);
    for (uint64_t page = 1; page < BALLAST_PAGES; page += 2) /* as many as there may be */
        (void)os->mprotect(os->context, instance->ballast_address + page * os->page_bytes,
            os->page_bytes, PROT_READ);
}

int mbr_host_ballast_drop_locked(mbr_instance *instance)
{
    uint64_t address = instance->ballast_address, bytes = BALLAST_PAGES * instance->os.page_bytes;
    int code = address != 0 ? instance->os.munmap(instance->os.context, address, bytes) : 0;
    if (code != 0 && mbr_host_range_look(instance, address, bytes) != MBR_HOST_RANGE_HOLE)
        return code;
    instance->ballast_address = 0;
    return 0;
}

/* ---- Giving up ------------------------------------------------------------------------------ */

static int vacate(const mbr_instance *instance, uint64_t address, uint64_t bytes, bool is_kept)
{
    const struct mbr_host_os *os = &instance->os;
    if (!is_kept)
        return os->munmap(os->context, address, bytes);
    return os->mmap(os->context, &address, bytes, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Whether a failed call left the range as it was, so that it may be made once more. *code becomes 0
 * where it failed after its effect. Without a look nothing is touched again: the addresses may have
 * become somebody else's. */
static bool is_untouched(
    const mbr_instance *instance, uint64_t address, uint64_t bytes, bool is_kept, int *code)
{
    struct mbr_host_range range;
    if (instance->os.inspect(instance->os.context, address, bytes, instance->inode, &range) != 0)
        return false;
    if (range.kind == (is_kept ? MBR_HOST_RANGE_RESERVED : MBR_HOST_RANGE_HOLE))
        *code = 0;
    return *code != 0 && (!is_kept || range.kind == MBR_HOST_RANGE_FILE);
}

static int vacate_at_limit(mbr_instance *instance, uint64_t address, uint64_t bytes, bool is_kept)
{
    int code = vacate(instance, address, bytes, is_kept);
    bool is_at_limit = code == ENOMEM && is_untouched(instance, address, bytes, is_kept, &code);
    mbr_objects_lock(&instance->objects);
    if (is_at_limit && instance->ballast_address != 0 &&
        mbr_host_ballast_drop_locked(instance) == 0)
        code = vacate(instance, address, bytes, is_kept);
    mbr_host_ballast_fill_locked(instance);
    mbr_objects_unlock(&instance->objects);
    return code;
}

int mbr_host_range_give(mbr_instance *instance, struct mbr_object *object)
{
    int code = vacate_at_limit(instance, object->outer_address, object->outer_bytes, false);
    if (code != 0 &&
        mbr_host_range_look(instance, object->outer_address, object->outer_bytes) !=
            MBR_HOST_RANGE_HOLE)
        return code;
    return 0; /* also where it failed after its effect */
}

int mbr_host_range_empty(mbr_instance *instance, uint64_t address, uint64_t bytes)
{
    int code = vacate_at_limit(instance, address, bytes, true);
    if (code == 0) /* a child that sees a range without pages and access sees nothing */
        (void)mbr_host_range_hide(instance, address, bytes);
    return code;
}
