/* Asks the dynamic linker and the kernel what was really mapped. Between judging a path and loading
 * it the file can be replaced, and the linker answers a path that it knows with the old object
 * without looking at the disk. Decides nothing about what follows. */
#include "host/loader/image.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The object is the one whose segments hold the dynamic table that the linker's record names. */
static int take_segments(struct dl_phdr_info *info, size_t bytes, void *context)
{
    mbr_image *image = context;
    (void)bytes;
    mbr_image found = *image;
    found.base = info->dlpi_addr;
    found.segments = info->dlpi_phdr;
    found.segment_count = info->dlpi_phnum;
    if (!mbr_image_holds(&found, image->dynamic, sizeof(Elf64_Dyn)))
        return 0;
    *image = found;
    return 1;
}

/* The linker's record may have been made by another thread that opened the same file. The linker's
 * own lock orders that before dlopen returned here, which ThreadSanitizer cannot see. */
__attribute__((noinline, no_sanitize("thread"))) static void read_record(
    const struct link_map *map, mbr_image *image)
{
    image->link_map = map;
    image->dynamic = map->l_ld;
}

void mbr_image_find(void *handle, mbr_image *image)
{
    struct link_map *map = NULL;
    *image = (mbr_image){0};
    /* Neither can fail for a handle that dlopen has just given. */
    MBR_CHECK(dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0);
    read_record(map, image);
    MBR_CHECK(dl_iterate_phdr(take_segments, image) == 1);
}

/* Program headers lie where the linker mapped them, perhaps over what another object left there;
 * its lock orders that too. */
__attribute__((no_sanitize("thread"))) bool mbr_image_holds(
    const mbr_image *image, const void *address, uint64_t bytes)
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
    const uintptr_t start = (uintptr_t)text; /* NULL or any number: no pointer to count from yet */
    for (uint64_t i = 0; i < bytes; i++) {
        if (!mbr_image_holds(image, (const void *)(start + i), 1))
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
    MBR_CHECK(dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) != 0);
    *file = info.dli_fname;
    return map;
}

/* ---- Is it the judged file? ------------------------------------------------------------------ */

typedef struct mapping {
    dev_t device;
    ino_t inode;
} mapping;

/* The file behind an address, as the kernel tells it. */
static bool find_mapping(const mbr_loader_os *os, uintptr_t address, mapping *out)
{
    FILE *maps = os->open_maps();
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
        if (!mbr_elf_read_at(elf, segment->p_vaddr, done, file, now) ||
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
        bool is_constant = segment->p_type == PT_LOAD && (segment->p_flags & (PF_R | PF_W)) == PF_R;
        if (is_constant && !is_segment_equal(image, elf, segment))
            return false;
    }
    return true;
}

bool mbr_image_is_file(const mbr_image *image, const mbr_judged *judged)
{
    const mbr_loader_os *os = judged->os;
    const struct stat *file = &judged->stat;
    mapping mapped;
    if (find_mapping(os, (uintptr_t)image->dynamic, &mapped) && mapped.device == file->st_dev &&
        mapped.inode == file->st_ino)
        return true;
    struct stat now;
    return os->stat(judged->resolved, &now) == 0 && now.st_dev == file->st_dev &&
        now.st_ino == file->st_ino && mbr_image_has_code_of(image, &judged->elf);
}
