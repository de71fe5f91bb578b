/* A page that is zero in a forked child, and the process id where there is none. Registers nothing
 * with the process: it decides when it is asked. */
#include "abi/base/fork.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void *map_wiped(size_t bytes)
{
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, bytes, MADV_WIPEONFORK) == 0)
        return page;
    munmap(page, bytes);
    return NULL;
}

void mbr_fork_guard_init_with(mbr_fork_guard *guard, void *(*map)(size_t bytes))
{
    unsigned char *page = map(page_bytes());
    if (page != NULL)
        *page = 1;
    *guard = (mbr_fork_guard){.mark = page, .owner = getpid()};
}

void mbr_fork_guard_init(mbr_fork_guard *guard)
{
    mbr_fork_guard_init_with(guard, map_wiped);
}

void mbr_fork_guard_finish(mbr_fork_guard *guard)
{
    if (guard->mark != NULL)
        munmap((void *)(size_t)guard->mark, page_bytes());
    guard->mark = NULL;
}

mbr_fork_flag *mbr_fork_guard_flag(const mbr_fork_guard *guard)
{
    return guard->mark == NULL ? NULL : (mbr_fork_flag *)(size_t)(guard->mark + 1);
}

bool mbr_fork_guard_has_other_owner(const mbr_fork_guard *guard)
{
    return getpid() != guard->owner;
}
