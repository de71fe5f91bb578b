/* Responsible for finding other allocators; measures nothing. */
#include "tools/bench/rival.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TUNABLES "GLIBC_TUNABLES"
#define TLS_ROOM "glibc.rtld.optional_static_tls"
#define MAX_ARGUMENTS 64

typedef struct library {
    const char *name, *file, *take, *give;
} library;

static void *find(void *handle, const char *symbol)
{
    return dlsym(handle, symbol);
}

static void open_one(mbr_rival *rival, const library *from)
{
    *rival = (mbr_rival){.name = from->name};
    void *handle = dlopen(from->file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror();
        snprintf(rival->reason, sizeof rival->reason, "%s is absent (%.90s)", from->name,
            reason != NULL ? reason : from->file);
        return;
    }
    /* POSIX makes an object pointer a function pointer; C has no word for it. */
    void *take = find(handle, from->take), *give = find(handle, from->give);
    memcpy(&rival->take, &take, sizeof take);
    memcpy(&rival->give, &give, sizeof give);
    if (take == NULL || give == NULL) {
        rival->take = NULL;
        snprintf(rival->reason, sizeof rival->reason, "%s has no %s", from->file, from->take);
    }
}

void mbr_rivals_open(mbr_rival rivals[MBR_RIVAL_COUNT])
{
    static const library others[] = {
        {"mimalloc", "libmimalloc.so.2", "mi_malloc", "mi_free"},
        {"jemalloc", "libjemalloc.so.2", "malloc", "free"},
    };
    rivals[0] = (mbr_rival){.name = "glibc", .take = malloc, .give = free};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        open_one(&rivals[i + 1], &others[i]);
}

void mbr_rivals_make_room(int argc, char **argv)
{
    const char *before = getenv(TUNABLES);
    if ((before != NULL && strstr(before, TLS_ROOM) != NULL) || argc + 2 > MAX_ARGUMENTS)
        return;
    char tunables[512];
    int length = snprintf(tunables, sizeof tunables, "%s%s" TLS_ROOM "=16384",
        before != NULL ? before : "", before != NULL ? ":" : "");
    if (length < 0 || (size_t)length >= sizeof tunables || setenv(TUNABLES, tunables, 1) != 0)
        return;
    char *arguments[MAX_ARGUMENTS] = {(char *)(size_t) "membrane"};
    memcpy(&arguments[1], argv, (size_t)argc * sizeof *argv);
    execv("/proc/self/exe", arguments);
}
