/* Calls a function that needs a lock without taking it. Must not compile under -Wthread-safety. */
#include "abi/base/lock.h"

static mbr_lock lock;
static int books;

static void write_locked(void) MBR_REQUIRES(&lock)
{
    books++;
}

void canary_write_without_lock(void);

void canary_write_without_lock(void)
{
    write_locked();
}
