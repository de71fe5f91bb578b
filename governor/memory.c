/* Responsible for one figure: how much host memory this process may still take before the kernel
 * kills something. Never keeps state, never allocates.
 *
 * The outside facts: MemAvailable of /proc/meminfo; for every cgroup from the process's own up to
 * the root of the hierarchy, limit - usage + file pages that the kernel reclaims before it kills.
 * Version 2 keeps them in memory.max, memory.current and memory.stat; version 1 in
 * memory.limit_in_bytes, memory.usage_in_bytes and the total_ rows of memory.stat, where a limit
 * near 2^63 means none. /proc/self/cgroup may name a path that is not visible here (a container
 * sees its own cgroup as the root of the mount, a cgroup namespace answers "/" or "/.."), so every
 * prefix of the path is tried and what does not exist is passed over. */
#include "governor/governor.h"

#include "abi/base/checked.h"
#include "abi/base/system_text.h"

#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 16384                   /* of a file that is read; memory.stat has about 4000 */
#define PATH_BYTES 4096                    /* of a file's path */
#define NO_LIMIT_BYTES (UINT64_C(1) << 62) /* a version 1 limit from here on is none */

/* Where one version keeps its files, below the root. */
typedef struct hierarchy {
    const char *mount;
    const char *limit, *usage;     /* files */
    const char *inactive, *active; /* rows of memory.stat */
} hierarchy;

static const hierarchy version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
    "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "};
static const hierarchy version_2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ", "active_file "};
/* Version 2 beside version 1: systemd mounts it one folder deeper. */
static const hierarchy version_2_beside_1 = {
    "/sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file ", "active_file "};

/* ---- Cgroups */
/* The text of a file of one cgroup; false if the path is too long or the file is not there. */
static bool read_file_of(const char *folder, const char *name, char text[TEXT_BYTES])
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof(path) &&
        mbr_system_text_read(path, text, TEXT_BYTES) == 0;
}

/* File pages that the kernel gives back before it kills; unknown rows count as none. */
static uint64_t reclaimable(const hierarchy *version, const char *folder)
{
    char text[TEXT_BYTES];
    uint64_t inactive = 0, active = 0, sum = 0;
    if (!read_file_of(folder, "memory.stat", text))
        return 0;
    mbr_system_text_row(text, version->inactive, &inactive);
    mbr_system_text_row(text, version->active, &active);
    return mbr_add(inactive, active, &sum) ? sum : 0;
}

/* Lowers *least to this cgroup's headroom, if it has a limit. Without a readable usage the limit
 * itself is the best bound. */
static void take_headroom(const hierarchy *version, const char *folder, uint64_t *least)
{
    char text[TEXT_BYTES];
    uint64_t limit, usage = 0;
    if (!read_file_of(folder, version->limit, text) || !mbr_system_text_number(text, &limit) ||
        limit >= NO_LIMIT_BYTES)
        return;
    if (read_file_of(folder, version->usage, text))
        mbr_system_text_number(text, &usage);
    uint64_t held = usage - mbr_min(usage, reclaimable(version, folder));
    *least = mbr_min(*least, limit - mbr_min(limit, held));
}

/* Tries the cgroup at `path` and every ancestor up to the mount itself. */
static void walk_up(const hierarchy *version, const char *root, const char *path, uint64_t *least)
{
    char folder[PATH_BYTES];
    bool leaves_mount = strstr(path, "/..") != NULL;
    int length =
        snprintf(folder, sizeof(folder), "%s%s%s", root, version->mount, leaves_mount ? "" : path);
    if (length < 0 || (size_t)length >= sizeof(folder))
        return;
    size_t mount_length = strlen(root) + strlen(version->mount);
    for (;;) {
        take_headroom(version, folder, least);
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= mount_length)
            return;
        *slash = '\0';
    }
}

/* Whether the comma-separated list holds "memory". */
static bool names_memory(const char *controllers)
{
    for (const char *word = controllers; word != NULL; word = strchr(word, ',')) {
        word += *word == ',';
        size_t length = strcspn(word, ",");
        if (length == strlen("memory") && strncmp(word, "memory", length) == 0)
            return true;
    }
    return false;
}

/* One line of /proc/self/cgroup: hierarchy-id:controllers:path. */
static void take_line(const char *root, char *line, uint64_t *least)
{
    char *controllers = strchr(line, ':');
    char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL)
        return;
    *controllers++ = '\0';
    *path++ = '\0';
    if (names_memory(controllers)) {
        walk_up(&version_1, root, path, least);
    } else if (*controllers == '\0' && strcmp(line, "0") == 0) {
        walk_up(&version_2, root, path, least);
        walk_up(&version_2_beside_1, root, path, least);
    }
}

static void take_cgroups(const char *root, uint64_t *least)
{
    char text[TEXT_BYTES];
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (length < 0 || (size_t)length >= sizeof(path) ||
        mbr_system_text_read(path, text, TEXT_BYTES) != 0)
        return;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        take_line(root, line, least);
}

bool mbr_host_free_bytes(const char *root, uint64_t *bytes)
{
    uint64_t least = UINT64_MAX, available;
    *bytes = 0;
    if (mbr_system_memory(root, NULL, &available) == 0)
        least = available;
    take_cgroups(root, &least);
    if (least == UINT64_MAX)
        return false;
    *bytes = least;
    return true;
}

static bool probe_host_memory(void *context, uint64_t *bytes)
{
    (void)context;
    return mbr_host_free_bytes("", bytes);
}

const mbr_probe mbr_probe_host_memory = {probe_host_memory, NULL};
