/* Asks the dynamic linker and the kernel what was really mapped. Between judging a path and loading
 * it the file can be replaced, and the linker answers a path that it knows with the old object
 * without looking at the disk. Decides nothing about what follows. */
#include "host/loader/image.h"

#include "abi/base/checked.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

static int take_segments(struct dl_phdr_info *info, size_t bytes, void *context)
{
    mbr_image *image = context;
    (void)bytes;
    if (info->dlpi_addr != image->base)
        return 0;
    mbr_image found = *image;
    found.segments = info->dlpi_phdr;
    found.segment_count = info->dlpi_phnum;
    if (!mbr_image_holds(&found, image->dynamic, sizeof(Elf64_Dyn)))
        return 0; /* another object of the same base, such as the executable's 0 */
    *image = found;
    return 1;
}

/* The linker's record may have been made by another thread that opened the same file. The linker's
 * own lock orders that before dlopen returned here, which ThreadSanitizer cannot see. */
__attribute__((noinline, no_sanitize("thread"))) static void read_record(
    const struct link_map *map, mbr_image *image)
{
    image->link_map = map;
    image->base = map->l_addr;
    image->dynamic = map->l_ld;
}

bool mbr_image_find(void *handle, mbr_image *image)
{
    struct link_map *map = NULL;
    *image = (mbr_image){0};
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == NULL)
        return false;
    read_record(map, image);
    return dl_iterate_phdr(take_segments, image) == 1;
}

bool mbr_image_holds(const mbr_image *image, const void *address, uint64_t bytes)
{
    uintptr_t start = (uintptr_t)address;
    for (uint32_t i = 0; i < image->segment_count; i++) {
        const Elf64_Phdr *segment = &image->segments[i];
        uintptr_t first = image->base + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_R) == 0 || start < first)
            continue;
        if (start - first <= segment->p_memsz && bytes <= segment->p_memsz - (start - first))
            return true;
    }
    return false;
}

bool mbr_image_holds_text(const mbr_image *image, const char *text, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if (!mbr_image_holds(image, text + i, 1))
            return false;
        if (text[i] == '\0')
            return true;
    }
    return false;
}

const void *mbr_image_of_address(const void *address, const char **file)
{
    Dl_info info;
    struct link_map *map = NULL;
    *file = "nowhere";
    if (dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return NULL;
    *file = info.dli_fname == NULL ? "a nameless object" : info.dli_fname;
    return map;
}

/* ---- Is it the judged file? ------------------------------------------------------------------ */

typedef struct mapping {
    dev_t device;
    ino_t inode;
} mapping;

/* The file behind an address, as the kernel tells it. */
static bool find_mapping(uintptr_t address, mapping *out)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL)
        return false;
    char line[512]; /* a path may be longer: the rest of its line does not look like a mapping */
    bool is_found = false;
    while (!is_found && fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, end, inode;
        unsigned major, minor;
        if (sscanf(line, "%lx-%lx %*4c %*x %x:%x %lu", &start, &end, &major, &minor, &inode) != 5)
            continue;
        if (address < start || address >= end)
            continue;
        *out = (mapping){makedev(major, minor), inode};
        is_found = true;
    }
    fclose(maps);
    return is_found;
}

/* The first segment of an object is file-backed from its first byte. */
static uintptr_t first_byte(const mbr_image *image)
{
    for (uint32_t i = 0; i < image->segment_count; i++)
        if (image->segments[i].p_type == PT_LOAD)
            return image->base + image->segments[i].p_vaddr;
    return 0;
}

/* A segment holds all constants of the plugin with what lies between them, where AddressSanitizer
 * keeps poisoned bytes in a plugin that is built with it. */
__attribute__((noinline, no_sanitize("address"))) static bool are_equal(
    const char *a, const char *b, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

static bool is_segment_equal(const mbr_image *image, const mbr_elf *elf, const Elf64_Phdr *segment)
{
    const char *memory = (const char *)(image->base + segment->p_vaddr);
    for (uint64_t done = 0; done < segment->p_filesz;) {
        char file[4096];
        uint64_t now = mbr_min(segment->p_filesz - done, sizeof file);
        if (!mbr_elf_read_at(elf, segment->p_vaddr + done, file, now) ||
            !are_equal(file, memory + done, now))
            return false;
        done += now;
    }
    return true;
}

bool mbr_image_has_code_of(const mbr_image *image, const mbr_elf *elf)
{
    if (image->segment_count != elf->segment_count)
        return false;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (memcmp(&image->segments[i], segment, sizeof *segment) != 0)
            return false;
        bool is_constant = segment->p_type == PT_LOAD && (segment->p_flags & PF_R) != 0 &&
            (segment->p_flags & PF_W) == 0;
        if (is_constant && !is_segment_equal(image, elf, segment))
            return false;
    }
    return true;
}

bool mbr_image_is_file(const mbr_image *image, const mbr_judged *judged)
{
    mapping mapped;
    if (find_mapping(first_byte(image), &mapped) && mapped.device == judged->stat.st_dev &&
        mapped.inode == judged->stat.st_ino)
        return true;
    struct stat now;
    return stat(judged->resolved, &now) == 0 && now.st_dev == judged->stat.st_dev &&
        now.st_ino == judged->stat.st_ino && mbr_image_has_code_of(image, &judged->elf);
}
