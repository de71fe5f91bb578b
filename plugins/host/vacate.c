/* Gives address ranges up, also where the process has as many mappings as it may. Never looks at
 * what stood there.
 *
 * Linux lets a process reach vm.max_map_count + 1 mappings and then refuses every mmap, also one
 * that would leave fewer, and every munmap of a mapping's middle. A process that ran into the limit
 * could not give anything back. So each instance keeps a few mappings whose only use is that they
 * can be dropped first: the ballast. */
#include "plugins/host/core.h"

#include <errno.h>
#include <sys/mman.h>

#define BALLAST_PAGES 8

static uint64_t ballast_bytes(const mbr_instance *instance)
{
    return BALLAST_PAGES * instance->os.page_bytes;
}

/* Neighbouring pages with different access are mappings of their own. They stand behind the end of
 * the file, where no extent's mapping can merge with them, and nobody touches them. */
void mbr_host_ballast_fill_locked(mbr_instance *instance)
{
    const struct mbr_host_os *os = &instance->os;
    if (instance->ballast_address != 0 ||
        os->mmap(os->context, &instance->ballast_address, ballast_bytes(instance), PROT_NONE,
            MAP_SHARED, instance->file, MBR_HOST_FILE_MAX_BYTES) != 0)
        return;
    (void)mbr_host_hide(instance, instance->ballast_address, ballast_bytes(instance));
    for (uint64_t page = 1; page < BALLAST_PAGES; page += 2) /* as many as there may be */
        (void)os->mprotect(os->context, instance->ballast_address + page * os->page_bytes,
            os->page_bytes, PROT_READ);
}

int mbr_host_ballast_drop_locked(mbr_instance *instance)
{
    const struct mbr_host_os *os = &instance->os;
    if (instance->ballast_address == 0)
        return 0;
    int code = os->munmap(os->context, instance->ballast_address, ballast_bytes(instance));
    if (code != 0 &&
        mbr_host_look_at(instance, instance->ballast_address, ballast_bytes(instance)) !=
            MBR_HOST_RANGE_HOLE)
        return code;
    instance->ballast_address = 0;
    return 0;
}

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

int mbr_host_vacate(mbr_instance *instance, uint64_t address, uint64_t bytes, bool is_kept)
{
    int code = vacate(instance, address, bytes, is_kept);
    bool is_at_limit = code == ENOMEM && is_untouched(instance, address, bytes, is_kept, &code);
    mbr_host_lock(instance);
    if (is_at_limit && instance->ballast_address != 0 &&
        mbr_host_ballast_drop_locked(instance) == 0)
        code = vacate(instance, address, bytes, is_kept);
    mbr_host_ballast_fill_locked(instance);
    mbr_host_unlock(instance);
    return code;
}
