/* The system's calls, and nothing that knows of objects, books or statuses. */
#include "tests/author/anon.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* Linux 5.7; older C libraries do not name it */
#endif

uint64_t anon_page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t anon_machine_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * anon_page_bytes();
}

/* MemAvailable, because free pages alone leave out what the page cache would give back. */
uint64_t anon_available_bytes(void)
{
    static const char label[] = "MemAvailable:";
    char text[512]; /* the line is the third */
    int file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return MBR_UNKNOWN_BYTES;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *line = strstr(text, label);
    return line ? strtoull(line + sizeof label - 1, NULL, 10) * 1024 : MBR_UNKNOWN_BYTES;
}

bool anon_area_take(anon_area *area, uint64_t bytes, uint64_t align_bytes)
{
    uint64_t page_bytes = anon_page_bytes();
    uint64_t extra_bytes = align_bytes > page_bytes ? align_bytes - page_bytes : 0;
    void *start = mmap(
        NULL, bytes + extra_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return false;
    area->mapped_start = start;
    area->mapped_bytes = bytes + extra_bytes;
    uint64_t beyond_bytes = align_bytes ? (uintptr_t)start & (align_bytes - 1) : 0;
    area->start = area->mapped_start + (beyond_bytes ? align_bytes - beyond_bytes : 0);
    return true;
}

bool anon_area_give(const anon_area *area)
{
    return munmap(area->mapped_start, area->mapped_bytes) == 0;
}

bool anon_memory_take(const anon_area *area, uint64_t bytes)
{
    if (!anon_memory_access(area->start, bytes, MBR_ACCESS_READ_WRITE))
        return false;
    uint64_t page_bytes = anon_page_bytes();
    for (uint64_t at = 0; at < bytes; at += page_bytes)
        *(volatile uint8_t *)(area->start + at) = 0;
    return true;
}

bool anon_memory_access(uint8_t *start, uint64_t bytes, uint32_t access)
{
    int protection = access == MBR_ACCESS_NONE ? PROT_NONE
        : access == MBR_ACCESS_READ            ? PROT_READ
                                               : PROT_READ | PROT_WRITE;
    return mprotect(start, bytes, protection) == 0;
}

/* MREMAP_DONTUNMAP leaves no hole that another thread's mmap could fall into. */
bool anon_memory_move(uint8_t *to, uint8_t *from, uint64_t bytes)
{
    return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) !=
        MAP_FAILED;
}
