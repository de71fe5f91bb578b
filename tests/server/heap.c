/* A heap that fails every so many calls while the program it is loaded into serves: between the
 * call of sigwait and its return. Beside that it is libc's. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define EVERY 499

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);

static atomic_bool failing;
static atomic_uint calls;

static bool fails(void)
{
    if (!atomic_load(&failing) || atomic_fetch_add(&calls, 1) % EVERY != EVERY - 1)
        return false;
    errno = ENOMEM;
    return true;
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *block, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(block, bytes);
}

__attribute__((visibility("default"))) int sigwait(const sigset_t *set, int *which)
{
    int (*real)(const sigset_t *, int *);
    *(void **)&real = dlsym(RTLD_NEXT, "sigwait");
    atomic_store(&failing, true);
    int answer = real(set, which);
    atomic_store(&failing, false);
    return answer;
}
