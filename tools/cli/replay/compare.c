/* What the same stays would have cost under other ways of holding a KV cache. Pure arithmetic over
 * the run's own schedule; measures nothing. */
#include "tools/cli/replay/compare.h"

#include <stdbool.h>
#include <stdlib.h>

#define PAGE_TOKENS 16

typedef struct change {
    uint64_t at_ns;
    int64_t bytes;
} change;

/* At one instant what is given back goes first: a copy gives its old block back an instant later.
 */
typedef struct change_list {
    change *changes;
    uint64_t count, capacity;
    bool failed;
} change_list;

static void add(change_list *list, uint64_t at_ns, int64_t bytes)
{
    if (list->count == list->capacity) {
        uint64_t capacity = list->capacity == 0 ? 1024 : 2 * list->capacity;
        change *grown = realloc(list->changes, capacity * sizeof(*grown));
        if (grown == NULL) {
            list->failed = true;
            return;
        }
        list->changes = grown;
        list->capacity = capacity;
    }
    list->changes[list->count++] = (change){at_ns, bytes};
}

static int compare_changes(const void *left, const void *right)
{
    const change *a = left, *b = right;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* The highest running sum; 0 if there was no memory for the list. */
static uint64_t peak_of(change_list *list)
{
    int64_t now = 0, peak = 0;
    if (!list->failed && list->count != 0) {
        qsort(list->changes, list->count, sizeof(*list->changes), compare_changes);
        for (uint64_t i = 0; i < list->count; i++) {
            now += list->changes[i].bytes;
            peak = now > peak ? now : peak;
        }
    }
    free(list->changes);
    return (uint64_t)peak;
}

/* When the stay's length first is `tokens`, prompt < tokens <= end. Rounded up, so that it never
 * comes before its token. */
static uint64_t reached_ns(const mbr_replay_stay *stay, uint64_t tokens)
{
    uint64_t grown = stay->end_tokens - stay->prompt_tokens;
    double share = (double)(tokens - stay->prompt_tokens) / (double)grown;
    return stay->decode_ns + (uint64_t)(share * (double)(stay->end_ns - stay->decode_ns));
}

uint64_t mbr_replay_max_prealloc(
    const mbr_replay_stay *stays, uint64_t count, uint64_t max_tokens, uint64_t token_bytes)
{
    change_list list = {0};
    int64_t bytes = (int64_t)(max_tokens * token_bytes);
    for (uint64_t i = 0; i < count; i++) {
        add(&list, stays[i].start_ns, bytes);
        add(&list, stays[i].end_ns, -bytes);
    }
    return peak_of(&list);
}

/* Blocks of a power of two tokens. A copy holds both blocks at its instant. */
uint64_t mbr_replay_grow_and_copy(
    const mbr_replay_stay *stays, uint64_t count, uint64_t token_bytes)
{
    change_list list = {0};
    for (uint64_t i = 0; i < count; i++) {
        uint64_t capacity = PAGE_TOKENS;
        while (capacity < stays[i].prompt_tokens)
            capacity *= 2;
        add(&list, stays[i].start_ns, (int64_t)(capacity * token_bytes));
        while (capacity < stays[i].end_tokens) {
            uint64_t at = reached_ns(&stays[i], capacity + 1);
            add(&list, at, (int64_t)(2 * capacity * token_bytes));
            add(&list, at + 1, -(int64_t)(capacity * token_bytes));
            capacity *= 2;
        }
        add(&list, stays[i].end_ns + 1, -(int64_t)(capacity * token_bytes));
    }
    return peak_of(&list);
}

uint64_t mbr_replay_paged16(const mbr_replay_stay *stays, uint64_t count, uint64_t token_bytes)
{
    change_list list = {0};
    int64_t page = (int64_t)(PAGE_TOKENS * token_bytes);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t pages = (stays[i].prompt_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
        add(&list, stays[i].start_ns, (int64_t)pages * page);
        for (; pages * PAGE_TOKENS < stays[i].end_tokens; pages++)
            add(&list, reached_ns(&stays[i], pages * PAGE_TOKENS + 1), page);
        add(&list, stays[i].end_ns, -(int64_t)pages * page);
    }
    return peak_of(&list);
}
