/* Reads the state of this process. Changes nothing that it does not put back. */
#include "tools/check/process.h"

#include <dirent.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

extern char **environ;

uint64_t mbr_process_count_entries(const char *folder)
{
    DIR *all = opendir(folder);
    uint64_t count = 0;
    const struct dirent *entry;
    if (all == NULL)
        return 0;
    while ((entry = readdir(all)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(all);
    return count;
}

static uint64_t hash_environment(void)
{
    uint64_t hash = 0;
    for (char **at = environ; at != NULL && *at != NULL; at++)
        hash = XXH64(*at, strlen(*at), hash);
    return hash;
}

static void read_signals(mbr_process *process)
{
    for (int i = 1; i < MBR_PROCESS_SIGNALS; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) != 0)
            continue;
        memcpy(&process->actions[i].handler, &action.sa_sigaction, sizeof(void *));
        process->actions[i].flags = (uint64_t)(unsigned)action.sa_flags;
    }
    sigprocmask(SIG_SETMASK, NULL, &process->mask);
}

void mbr_process_read(mbr_process *process)
{
    memset(process, 0, sizeof *process);
    process->thread_count = mbr_process_count_entries("/proc/self/task");
    process->descriptor_count = mbr_process_count_entries("/proc/self/fd");
    process->environment_hash = hash_environment();
    read_signals(process);
    snprintf(process->locale, sizeof process->locale, "%s", setlocale(LC_ALL, NULL));
    if (getcwd(process->directory, sizeof process->directory) == NULL)
        process->directory[0] = '\0';
    process->umask = umask(0);
    umask(process->umask);
    process->rounding = fegetround();
    process->traps = fegetexcept();
    for (int i = 0; i < RLIM_NLIMITS; i++)
        getrlimit((__rlimit_resource_t)i, &process->limits[i]);
}

static bool signals_are_same(
    const mbr_process *before, const mbr_process *after, char *text, uint64_t room)
{
    for (int i = 1; i < MBR_PROCESS_SIGNALS; i++) {
        snprintf(text, room, "the disposition of signal %d changed", i);
        if (before->actions[i].handler != after->actions[i].handler ||
            before->actions[i].flags != after->actions[i].flags)
            return false;
        snprintf(text, room, "signal %d is %s now", i,
            sigismember(&after->mask, i) == 1 ? "blocked" : "not blocked");
        if (sigismember(&before->mask, i) != sigismember(&after->mask, i))
            return false;
    }
    return true;
}

static bool limits_are_same(
    const mbr_process *before, const mbr_process *after, char *text, uint64_t room)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        snprintf(text, room, "limit %d is %lu, was %lu", i, (uint64_t)after->limits[i].rlim_cur,
            (uint64_t)before->limits[i].rlim_cur);
        if (before->limits[i].rlim_cur != after->limits[i].rlim_cur ||
            before->limits[i].rlim_max != after->limits[i].rlim_max)
            return false;
    }
    return true;
}

bool mbr_process_is_same(const mbr_process *before, const mbr_process *after, mbr_aspect aspect,
    char *text, uint64_t room)
{
    switch (aspect) {
    case MBR_ASPECT_THREADS:
        snprintf(text, room, "%lu threads, were %lu", after->thread_count, before->thread_count);
        return after->thread_count == before->thread_count;
    case MBR_ASPECT_DESCRIPTORS:
        snprintf(text, room, "%lu descriptors, were %lu", after->descriptor_count,
            before->descriptor_count);
        return after->descriptor_count == before->descriptor_count;
    case MBR_ASPECT_ENVIRONMENT:
        snprintf(text, room, "a variable was set, changed or removed");
        return after->environment_hash == before->environment_hash;
    case MBR_ASPECT_SIGNALS:
        return signals_are_same(before, after, text, room);
    case MBR_ASPECT_LOCALE:
        snprintf(text, room, "locale %.100s, was %.100s", after->locale, before->locale);
        return strcmp(after->locale, before->locale) == 0;
    case MBR_ASPECT_DIRECTORY:
        snprintf(text, room, "directory %.100s, umask 0%o; were %.100s, 0%o", after->directory,
            after->umask, before->directory, before->umask);
        return strcmp(after->directory, before->directory) == 0 && after->umask == before->umask;
    case MBR_ASPECT_FLOATING_POINT:
        snprintf(text, room, "rounding 0x%x, traps 0x%x; were 0x%x, 0x%x",
            (unsigned)after->rounding, (unsigned)after->traps, (unsigned)before->rounding,
            (unsigned)before->traps);
        return after->rounding == before->rounding && after->traps == before->traps;
    case MBR_ASPECT_LIMITS:
        return limits_are_same(before, after, text, room);
    case MBR_ASPECT_COUNT:
        break;
    }
    return false;
}
