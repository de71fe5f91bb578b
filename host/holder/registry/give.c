/* Responsible for what of a registry goes for bytes, and for the holders of its prefixes being
 * answered for. Never ends an entry that somebody uses, and calls nobody with a lock held. */
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "host/bind/giver.h"
#include "host/holder/kv/prefix.h"
#include "host/holder/registry/internal.h"

#include <utlist.h>

/* ---- Walking and giving */

/* What ending the entry would free now, and whether it is worth it: what live sequences alone keep
 * is not, nor what a capture does, and what entries keep for each other is, once the last of them
 * goes. */
static uint64_t exclusive_bytes(const mbr_registry_entry *entry, bool *is_worth)
{
    mbr_kv_prefix_figures figures = {MBR_SIZED(mbr_kv_prefix_figures)};
    if (mbr_kv_prefix_is_held(entry->prefix) ||
        mbr_kv_prefix_read(entry->prefix, &figures, NULL) != MBR_OK)
        figures = (mbr_kv_prefix_figures){.sharer_count = 1};
    *is_worth = figures.exclusive_bytes != 0 || figures.sharer_count == 0;
    return figures.exclusive_bytes;
}

/* The least recently used entry of the holder's (0: of anybody's) that nobody uses, counted as
 * used, behind `after` (NULL: the first). It is asked for its bytes with no lock held. */
static mbr_registry_entry *use_next_locked(mbr_registry *registry, mbr_holder_handle holder,
    mbr_registry_entry *after) MBR_REQUIRES(&registry->lock)
{
    mbr_registry_entry *entry = after == NULL ? registry->entries : after->next;
    while (entry != NULL &&
        (entry->user_count != 0 || (holder.value != 0 && entry->holder.value != holder.value)))
        entry = entry->next;
    if (entry != NULL) {
        entry->user_count++;
        registry->used_count++;
    }
    return entry;
}

/* Walks the entries that nobody uses, each at most once or so: who is found meanwhile moves to the
 * end. */
typedef struct mbr_registry_walk {
    mbr_holder_handle holder;  /* whose entries; 0: anybody's */
    mbr_registry_entry *entry; /* in use; NULL: the end */
    uint64_t left_count;
} mbr_registry_walk;

static void walk_on(mbr_registry *registry, mbr_registry_walk *walk)
{
    mbr_registry_entry *before = walk->entry;
    mbr_lock_take(&registry->lock);
    if (before == NULL)
        walk->left_count = registry->entry_count;
    bool ends = walk->left_count == 0;
    walk->left_count -= !ends;
    walk->entry = ends ? NULL : use_next_locked(registry, walk->holder, before);
    mbr_lock_drop(&registry->lock);
    mbr_registry_release(registry, before);
}

/* Its end waits for it. */
static mbr_registry_walk begin_walk(mbr_registry *registry, mbr_holder_handle holder)
{
    mbr_registry_walk walk = {.holder = holder};
    mbr_lock_take(&registry->lock);
    registry->walker_count++;
    mbr_lock_drop(&registry->lock);
    walk_on(registry, &walk);
    return walk;
}

static void end_walk(mbr_registry *registry, const mbr_registry_walk *walk)
{
    mbr_registry_release(registry, walk->entry);
    mbr_lock_take(&registry->lock);
    if (--registry->walker_count == 0)
        mbr_condition_signal_all(&registry->walked);
    mbr_lock_drop(&registry->lock);
}

static uint64_t could_give(mbr_registry *registry, mbr_holder_handle holder, uint64_t wanted_bytes)
{
    uint64_t bytes = 0;
    bool is_worth;
    mbr_registry_walk walk = begin_walk(registry, holder);
    while (walk.entry != NULL && bytes < wanted_bytes) {
        bytes += exclusive_bytes(walk.entry, &is_worth);
        walk_on(registry, &walk);
    }
    end_walk(registry, &walk);
    return bytes < wanted_bytes ? bytes : wanted_bytes;
}

/* Takes the walk's entry out unless another thread found it meanwhile (false), and goes on. */
static bool end_walked(mbr_registry *registry, mbr_registry_walk *walk)
{
    mbr_registry_entry *entry = walk->entry, *gone = NULL;
    mbr_registry_walk next = {walk->holder, NULL, walk->left_count};
    mbr_lock_take(&registry->lock);
    bool is_alone = entry->user_count == 1;
    if (next.left_count != 0) { /* who is found moves to the end: from the first on again */
        next.left_count--;
        next.entry = use_next_locked(registry, next.holder, is_alone ? entry : NULL);
    }
    if (is_alone) {
        entry->user_count = 0;
        registry->used_count--;
        registry->given_count++;
        mbr_entry_take_out_locked(registry, entry, &gone);
    }
    mbr_lock_drop(&registry->lock);
    if (gone == NULL)
        mbr_registry_release(registry, entry);
    mbr_entries_end(registry, gone);
    *walk = next;
    return is_alone;
}

static uint64_t give(mbr_registry *registry, mbr_holder_handle holder, uint64_t wanted_bytes)
{
    uint64_t bytes = 0;
    mbr_registry_walk walk = begin_walk(registry, holder);
    while (walk.entry != NULL && bytes < wanted_bytes) {
        bool is_worth;
        uint64_t freed = exclusive_bytes(walk.entry, &is_worth);
        if (!is_worth)
            walk_on(registry, &walk);
        else if (end_walked(registry, &walk))
            bytes += freed;
    }
    end_walk(registry, &walk);
    return bytes;
}

uint64_t mbr_registry_could_give(mbr_registry *registry, uint64_t wanted_bytes)
{
    return could_give(registry, (mbr_holder_handle){0}, wanted_bytes);
}

uint64_t mbr_registry_give(mbr_registry *registry, uint64_t wanted_bytes)
{
    return give(registry, (mbr_holder_handle){0}, wanted_bytes);
}

/* ---- Answering for holders */

struct mbr_registry_payer {
    mbr_registry *registry;
    mbr_holder_handle holder;
    mbr_giver giver;
    mbr_registry_payer *prev, *next;
};

static uint64_t payer_could_give(void *self, uint64_t wanted_bytes)
{
    const mbr_registry_payer *payer = self;
    return could_give(payer->registry, payer->holder, wanted_bytes);
}

static uint64_t payer_give(void *self, uint64_t wanted_bytes)
{
    const mbr_registry_payer *payer = self;
    return give(payer->registry, payer->holder, wanted_bytes);
}

static const mbr_giver_calls payer_calls = {payer_could_give, payer_give};

static bool answers_locked(mbr_registry *registry, mbr_holder_handle holder)
    MBR_REQUIRES(&registry->lock)
{
    mbr_registry_payer *payer;
    DL_FOREACH(registry->payers, payer)
    if (payer->holder.value == holder.value)
        return true;
    return false;
}

/* Those whose holder has ended go, which nobody calls. */
static void sweep_locked(mbr_registry *registry) MBR_REQUIRES(&registry->lock)
{
    mbr_registry_payer *payer, *next;
    DL_FOREACH_SAFE(registry->payers, payer, next)
    {
        if (mbr_giver_has_joined(&payer->giver))
            continue;
        DL_DELETE(registry->payers, payer);
        mbr_heap_release(registry->heap, payer);
    }
}

/* Unless another thread did it meanwhile, or the client answers for the holder. */
static void keep_payer(mbr_registry *registry, mbr_registry_payer *payer)
{
    mbr_lock_take(&registry->lock);
    sweep_locked(registry);
    bool keeps = mbr_giver_has_joined(&payer->giver) && !answers_locked(registry, payer->holder);
    if (keeps)
        DL_APPEND(registry->payers, payer);
    mbr_lock_drop(&registry->lock);
    if (keeps)
        return;
    mbr_giver_leave(&payer->giver);
    mbr_heap_release(registry->heap, payer);
}

mbr_status mbr_registry_answer_for(mbr_registry *registry, const mbr_kv_prefix *prefix,
    mbr_holder_handle *holder, mbr_error *error)
{
    mbr_manager *manager;
    *holder = mbr_kv_prefix_payer(prefix, &manager);
    mbr_lock_take(&registry->lock);
    bool answers = answers_locked(registry, *holder);
    mbr_lock_drop(&registry->lock);
    if (answers)
        return MBR_OK;
    mbr_registry_payer *payer = mbr_heap_allocate(registry->heap, sizeof(*payer));
    if (payer == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory to answer for the prefix's holder");
    payer->registry = registry;
    payer->holder = *holder;
    mbr_status status = mbr_giver_join(manager, *holder, &payer_calls, payer, &payer->giver, error);
    if (status == MBR_OK)
        keep_payer(registry, payer);
    else
        mbr_heap_release(registry->heap, payer);
    return status;
}

void mbr_registry_answer_nobody(mbr_registry *registry)
{
    mbr_registry_payer *payer, *next;
    DL_FOREACH_SAFE(registry->payers, payer, next)
    {
        mbr_giver_leave(&payer->giver);
        mbr_heap_release(registry->heap, payer);
    }
}
