/* One fault of each kind that the sanitizers and valgrind are there for, chosen by the argument.
 * Each ends with status 0 where no checker sees it. Never part of a test run. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Volatile values and pointers: no compiler may prove a fault and remove or refuse it. */
static volatile int one = 1;
static volatile int sink;
static char *volatile block;
static int raced;

static void use_after_free(void)
{
    block = malloc(16);
    free(block);
    sink = block[3];
}

static void past_the_end(void)
{
    block = malloc(16);
    block[15 + one] = 1;
    free(block);
}

static void leak(void)
{
    block = malloc(16);
    block = NULL;
}

static void signed_overflow(void)
{
    sink = INT_MAX - 1 + one + one;
}

static void wide_shift(void)
{
    sink = 1 << (31 + one);
}

static void *add_without_lock(void *unused)
{
    (void)unused;
    for (int round = 0; round < 1000; round++)
        raced++;
    return NULL;
}

static void race(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, add_without_lock, NULL) != 0)
        exit(3);
    add_without_lock(NULL);
    pthread_join(other, NULL);
}

static void unwritten_value(void)
{
    block = malloc(16);
    if (block[one] > 3)
        puts("more than three");
    free(block);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*commit)(void);
    } faults[] = {
        {"use-after-free", use_after_free},
        {"past-the-end", past_the_end},
        {"leak", leak},
        {"signed-overflow", signed_overflow},
        {"wide-shift", wide_shift},
        {"race", race},
        {"unwritten-value", unwritten_value},
    };
    for (size_t i = 0; argc == 2 && i < sizeof faults / sizeof faults[0]; i++) {
        if (strcmp(argv[1], faults[i].name) == 0) {
            faults[i].commit();
            return 0;
        }
    }
    fprintf(stderr, "usage: faults KIND\n");
    return 2;
}
