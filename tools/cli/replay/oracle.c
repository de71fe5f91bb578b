/* The system's own figures of memory files: /proc/self/fd and /proc/self/smaps. Changes nothing. */
#include "tools/cli/replay/oracle.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 512
#define STAT_BLOCK_BYTES 512 /* st_blocks counts these */

static bool is_memory_file(int folder, const char *name)
{
    char target[LINE_BYTES];
    ssize_t length = readlinkat(folder, name, target, sizeof(target) - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    return strncmp(target, "/memfd:", strlen("/memfd:")) == 0;
}

static bool read_blocks(uint64_t *bytes)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return false;
    bool found = false;
    *bytes = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct stat file;
        if (!is_memory_file(dirfd(folder), entry->d_name) ||
            fstatat(dirfd(folder), entry->d_name, &file, 0) != 0)
            continue;
        *bytes += (uint64_t)file.st_blocks * STAT_BLOCK_BYTES;
        found = true;
    }
    closedir(folder);
    return found;
}

static bool read_pss(uint64_t *bytes)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    if (maps == NULL)
        return false;
    char line[LINE_BYTES];
    bool inside = false;
    *bytes = 0;
    while (fgets(line, sizeof(line), maps) != NULL) {
        unsigned long long start, end, kib;
        if (sscanf(line, "%llx-%llx ", &start, &end) == 2)
            inside = strstr(line, "/memfd:") != NULL;
        else if (inside && sscanf(line, "Pss: %llu kB", &kib) == 1)
            *bytes += (uint64_t)kib << 10;
    }
    bool complete = ferror(maps) == 0;
    fclose(maps);
    return complete;
}

bool replay_oracle_read(uint64_t *block_bytes, uint64_t *pss_bytes)
{
    return read_blocks(block_bytes) && read_pss(pss_bytes);
}
