/* Group ALC, second part: figures. Three sources are compared: the plugin's own, the tool's ledger
 * and the system's. */
#include "tools/check/alc.h"
#include "tools/check/oracle.h"

#include <string.h>
#include <sys/resource.h>

#define PAGE_BYTES UINT64_C(4096)
#define MIB (UINT64_C(1) << 20)
#define LARGE_BYTES (8 * MIB) /* beside it the slack of the oracle is nothing */
#define LARGE_MIN_BYTES (2 * MIB)

/* ---- Outcomes -------------------------------------------------------------------------------- */

static void run_refund(mbr_trial *trial)
{
    enum { COUNT = 40 };
    mbr_alc live[COUNT];
    static const uint64_t sizes[] = {1, 7, 100, 4095, 4096, 4097, 65535, 65537, 1048577};
    const uint32_t size_count = sizeof sizes / sizeof sizes[0];
    for (uint32_t i = 0; i < COUNT; i++)
        live[i] = mbr_alc_take(
            trial, i < size_count ? sizes[i] : 1 + mbr_trial_random(trial) % (64 * PAGE_BYTES));
    for (uint32_t left = COUNT; left > 0; left--) {
        uint32_t at = (uint32_t)(mbr_trial_random(trial) % left);
        mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
        mbr_need_ok(trial,
            mbr_alc_release(trial, &trial->subject, live[at].id, live[at].address, &outcome),
            "release");
        MBR_EXPECT(trial, outcome.released_bytes == live[at].owned_bytes,
            "released_bytes equals what allocate owned", "%lu bytes: owned %lu, released %lu",
            live[at].bytes, live[at].owned_bytes, outcome.released_bytes);
        live[at] = live[left - 1];
    }
}

static void run_mapped(mbr_trial *trial)
{
    static const uint64_t sizes[] = {1, 4096, 5000, 1048576};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t before = mbr_alc_stats(trial).mapped_bytes;
        mbr_alc allocation = mbr_alc_take(trial, sizes[i]);
        uint64_t during = mbr_alc_stats(trial).mapped_bytes;
        mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
        MBR_EXPECT(trial, allocation.mapped_bytes >= sizes[i],
            "newly_mapped_bytes counts every byte that became reachable", "%lu of %lu",
            allocation.mapped_bytes, sizes[i]);
        mbr_need_ok(trial,
            mbr_alc_release(trial, &trial->subject, allocation.id, allocation.address, &outcome),
            "release");
        MBR_EXPECT(trial, outcome.unmapped_bytes == allocation.mapped_bytes,
            "release unmaps what allocate mapped", "mapped %lu, unmapped %lu",
            allocation.mapped_bytes, outcome.unmapped_bytes);
        MBR_EXPECT(trial,
            before == MBR_UNKNOWN_BYTES ||
                (during - before == allocation.mapped_bytes &&
                    mbr_alc_stats(trial).mapped_bytes == before),
            "the mapped_bytes of stats follow each call", "%lu, then %lu with %lu mapped", before,
            during, allocation.mapped_bytes);
    }
}

static void run_rounded(mbr_trial *trial)
{
    uint64_t round = mbr_subject_fact(trial, &trial->subject, MBR_FACT_ALLOCATION_ROUND_BYTES, 1);
    static const uint64_t sizes[] = {1, 7, 100, 4097, 10000};
    MBR_EXPECT(trial, round != 0, "the fact is above 0", "MBR_FACT_ALLOCATION_ROUND_BYTES is 0");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_alc allocation = mbr_alc_take(trial, sizes[i]);
        MBR_EXPECT(trial, allocation.owned_bytes % round == 0,
            "allocate owns whole multiples of MBR_FACT_ALLOCATION_ROUND_BYTES",
            "%lu bytes own %lu, the fact is %lu", sizes[i], allocation.owned_bytes, round);
    }
}

/* ---- Stats ----------------------------------------------------------------------------------- */

static void expect_owned(mbr_trial *trial, uint64_t base, const char *when)
{
    uint64_t owned = mbr_alc_stats(trial).owned_bytes;
    if (owned == MBR_UNKNOWN_BYTES)
        return;
    MBR_EXPECT(trial, owned == base + trial->subject.ledger.owned_bytes,
        "the owned_bytes of stats are the sum of what the calls said", "%s: %lu, the sum is %lu",
        when, owned, base + trial->subject.ledger.owned_bytes);
}

static void run_stats(mbr_trial *trial)
{
    enum { COUNT = 64, STEPS = 300 };
    mbr_alc live[COUNT];
    uint64_t base = mbr_alc_stats(trial).owned_bytes;
    memset(live, 0, sizeof live);
    for (uint32_t step = 0; step < STEPS; step++) {
        mbr_alc *one = &live[mbr_trial_random(trial) % COUNT];
        if (one->id == 0) {
            *one = mbr_alc_take(trial, 1 + mbr_trial_random(trial) % (32 * PAGE_BYTES));
        } else {
            mbr_alc_give(trial, one);
            one->id = 0;
        }
        expect_owned(trial, base, one->id == 0 ? "after a release" : "after an allocate");
    }
    for (uint32_t i = 0; i < COUNT; i++)
        if (live[i].id != 0)
            mbr_alc_give(trial, &live[i]);
    expect_owned(trial, base, "with nothing live");
}

static void run_totals(mbr_trial *trial)
{
    for (uint32_t i = 0; i < 2; i++) {
        mbr_mechanism_stats stats = mbr_alc_stats(trial);
        MBR_EXPECT(trial, stats.total_bytes != 0,
            "a figure that cannot be told is MBR_UNKNOWN_BYTES, never 0", "total_bytes is 0");
        MBR_EXPECT(trial,
            stats.total_bytes == MBR_UNKNOWN_BYTES || stats.free_bytes == MBR_UNKNOWN_BYTES ||
                stats.free_bytes <= stats.total_bytes,
            "no more is free than there is", "free %lu of %lu", stats.free_bytes,
            stats.total_bytes);
        mbr_alc_take(trial, MIB);
    }
}

static void run_trim(mbr_trial *trial)
{
    mbr_alc live = mbr_alc_take(trial, 100000);
    for (uint32_t i = 0; i < 10; i++) {
        mbr_alc gone = mbr_alc_take(trial, (i + 1) * 30000);
        mbr_alc_give(trial, &gone);
    }
    for (uint64_t keep = UINT64_C(1) << 40;; keep >>= 10) {
        const mbr_trim_request request = {MBR_SIZED(mbr_trim_request), .keep_bytes = keep};
        mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
        uint64_t before = mbr_alc_stats(trial).owned_bytes;
        mbr_expect_status(
            trial, mbr_drive_trim(trial, &trial->subject, &request, &outcome), MBR_OK, "trim");
        uint64_t after = mbr_alc_stats(trial).owned_bytes;
        MBR_EXPECT(trial, before - after == outcome.released_bytes,
            "released_bytes of trim is what the mechanism owns less now",
            "keep %lu: owned %lu, then %lu, released %lu", keep, before, after,
            outcome.released_bytes);
        if (keep == 0)
            break;
    }
    mbr_alc_give(trial, &live);
}

/* ---- What the system says -------------------------------------------------------------------- */

/* Page by page, so that a mechanism that takes its pages late has taken them. */
static void touch(const mbr_alc *allocation)
{
    for (uint64_t at = 0; at < allocation->bytes; at += PAGE_BYTES)
        *mbr_alc_at(allocation, at) = 1;
}

/* The size of one of `count`, and nothing of less than the slack says anything. */
static uint64_t large_bytes(mbr_trial *trial, uint64_t count)
{
    uint64_t bytes = mbr_subject_share_of_free(trial, &trial->subject, LARGE_BYTES, count + 1);
    if (bytes < LARGE_MIN_BYTES)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "%lu bytes are too few to tell", bytes);
    return bytes;
}

static void run_never_below(mbr_trial *trial)
{
    mbr_oracle before, after;
    mbr_oracle_read(trial, &before);
    uint64_t base = mbr_alc_stats(trial).owned_bytes, bytes = large_bytes(trial, 3);
    for (uint32_t i = 0; i < 3; i++) {
        mbr_alc allocation = mbr_alc_take(trial, bytes + i);
        touch(&allocation);
        mbr_oracle_read(trial, &after);
        uint64_t grown = after.owned_bytes - before.owned_bytes;
        uint64_t stats = mbr_alc_stats(trial).owned_bytes;
        MBR_EXPECT(trial, trial->subject.ledger.owned_bytes + MBR_ORACLE_SLACK_BYTES >= grown,
            "outcomes own at least what the system counts", "%lu, the system says %lu",
            trial->subject.ledger.owned_bytes, grown);
        MBR_EXPECT(trial,
            stats == MBR_UNKNOWN_BYTES || stats - base + MBR_ORACLE_SLACK_BYTES >= grown,
            "stats own at least what the system counts", "%lu, the system says %lu", stats - base,
            grown);
    }
}

static void run_never_above(mbr_trial *trial)
{
    uint64_t round = mbr_subject_fact(trial, &trial->subject, MBR_FACT_ALLOCATION_ROUND_BYTES, 1);
    uint64_t slack = MBR_ORACLE_SLACK_BYTES + round;
    mbr_oracle before, after;
    mbr_oracle_read(trial, &before);
    mbr_alc allocation = mbr_alc_take(trial, large_bytes(trial, 1));
    touch(&allocation);
    mbr_oracle_read(trial, &after);
    uint64_t grown = after.owned_bytes - before.owned_bytes;
    MBR_EXPECT(trial, allocation.owned_bytes <= grown + slack,
        "outcomes own what was taken from the system and no more", "%lu, the system says %lu",
        allocation.owned_bytes, grown);
}

static void run_gives_back(mbr_trial *trial)
{
    mbr_oracle before, after;
    uint64_t bytes = large_bytes(trial, 1);
    mbr_alc first = mbr_alc_take(trial, bytes); /* tables of the plugin's own */
    touch(&first);
    mbr_alc_give(trial, &first);
    mbr_oracle_read(trial, &before);
    for (uint32_t i = 0; i < 3; i++) {
        mbr_alc allocation = mbr_alc_take(trial, bytes);
        touch(&allocation);
        mbr_alc_give(trial, &allocation);
        mbr_oracle_read(trial, &after);
        MBR_EXPECT(trial, mbr_oracle_grew_by(&before, &after, 0),
            "release gives the memory back to the system at once",
            "the process holds %ld bytes more after allocate and release of %lu",
            (long)(after.owned_bytes - before.owned_bytes), allocation.bytes);
    }
}

/* Without a touch of the tool's. */
static void run_populated(mbr_trial *trial)
{
    mbr_oracle before, after;
    if (mbr_subject_fact(trial, &trial->subject, MBR_FACT_POPULATED, 0) != 1)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "MBR_FACT_POPULATED is not 1");
    mbr_oracle_read(trial, &before);
    mbr_alc allocation = mbr_alc_take(trial, large_bytes(trial, 1));
    mbr_oracle_read(trial, &after);
    uint64_t grown = after.owned_bytes - before.owned_bytes;
    MBR_EXPECT(trial, grown + MBR_ORACLE_SLACK_BYTES >= allocation.bytes,
        "what allocate owns is taken when it returns, where that is said",
        "of %lu bytes the process holds %lu", allocation.bytes, grown);
}

/* ---- The most that may be owned -------------------------------------------------------------- */

static const uint64_t budget_sizes[] = {1, 100, 4096, 4097, 70001, 1048576};

static void run_budget(mbr_trial *trial)
{
    for (size_t i = 0; i < sizeof budget_sizes / sizeof budget_sizes[0]; i++) {
        mbr_alc whole = mbr_alc_take(trial, budget_sizes[i]);
        mbr_alc_give(trial, &whole);
        const uint64_t limits[] = {whole.owned_bytes - 1, whole.bytes, whole.bytes - 1, 0};
        for (size_t j = 0; j < sizeof limits / sizeof limits[0]; j++) {
            mbr_allocate_request request = mbr_alc_request(trial, budget_sizes[i]);
            mbr_alc allocation;
            request.max_owned_bytes = limits[j];
            if (mbr_alc_ask(trial, &trial->subject, request, &allocation) != MBR_OK)
                continue;
            MBR_EXPECT(trial, allocation.owned_bytes <= limits[j],
                "a plugin refuses rather than own more than max_owned_bytes",
                "%lu bytes, at most %lu: granted, owns %lu", request.bytes, limits[j],
                allocation.owned_bytes);
            mbr_alc_give(trial, &allocation);
        }
    }
}

static void run_budget_exact(mbr_trial *trial)
{
    for (size_t i = 0; i < sizeof budget_sizes / sizeof budget_sizes[0]; i++) {
        mbr_alc whole = mbr_alc_take(trial, budget_sizes[i]);
        mbr_alc_give(trial, &whole);
        mbr_allocate_request request = mbr_alc_request(trial, budget_sizes[i]);
        mbr_alc allocation;
        request.max_owned_bytes = whole.owned_bytes;
        mbr_status status = mbr_alc_ask(trial, &trial->subject, request, &allocation);
        MBR_EXPECT(trial, status == MBR_OK, "a budget of exactly what a call owns is enough",
            "%lu bytes owned %lu; with that as max_owned_bytes: %s", request.bytes,
            whole.owned_bytes, mbr_status_name(status));
        mbr_alc_give(trial, &allocation);
    }
}

static void run_refused_id(mbr_trial *trial)
{
    mbr_allocate_request request = mbr_alc_request(trial, PAGE_BYTES);
    mbr_alc allocation;
    request.max_owned_bytes = 0;
    for (uint32_t i = 0; i < 3; i++)
        MBR_NEED(trial, mbr_alc_ask(trial, &trial->subject, request, &allocation) != MBR_OK,
            "a budget of 0 was granted");
    request.max_owned_bytes = UINT64_MAX;
    mbr_status status = mbr_alc_ask(trial, &trial->subject, request, &allocation);
    MBR_EXPECT(trial, status == MBR_OK,
        "a refused allocate leaves nothing: the same call works when the budget allows it", "%s",
        mbr_status_name(status));
    mbr_alc_give(trial, &allocation);
}

/* ---- Exhaustion ------------------------------------------------------------------------------ */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1 /* shadow memory is address space too */
#else
#define IS_SANITIZED 0
#endif

#define BLOCK_BYTES (2 * MIB)
#define ROOM_BYTES (16 * MIB)
#define BLOCK_MAX 64

typedef struct exhausted {
    mbr_alc blocks[BLOCK_MAX];
    uint32_t count;
    mbr_status status; /* of the refusal */
} exhausted;

/* Leaves the process room for a few blocks and takes them until one is refused. */
static void exhaust(mbr_trial *trial, exhausted *self, bool is_written)
{
    struct rlimit limit;
    mbr_alc first = mbr_alc_take(trial, BLOCK_BYTES);
    mbr_alc_give(trial, &first);
    uint64_t in_use = mbr_oracle_address_bytes(trial);
    if (IS_SANITIZED || getrlimit(RLIMIT_AS, &limit) != 0 || in_use + ROOM_BYTES > limit.rlim_max)
        mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "the address space cannot be limited here");
    limit.rlim_cur = in_use + ROOM_BYTES;
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "setrlimit of RLIMIT_AS");
    self->status = MBR_OK;
    for (self->count = 0; self->count < BLOCK_MAX; self->count++) {
        mbr_alc *block = &self->blocks[self->count];
        self->status =
            mbr_alc_ask(trial, &trial->subject, mbr_alc_request(trial, BLOCK_BYTES), block);
        if (self->status != MBR_OK)
            break;
        if (is_written)
            touch(block);
    }
}

static void run_exhausted(mbr_trial *trial)
{
    static exhausted self;
    exhaust(trial, &self, true);
    MBR_EXPECT(trial, self.count < BLOCK_MAX, "memory that is not there is refused",
        "%u blocks of %lu bytes in room for %lu", self.count, BLOCK_BYTES, ROOM_BYTES);
    for (uint32_t i = 0; i < self.count; i++)
        MBR_EXPECT(trial, *mbr_alc_at(&self.blocks[i], BLOCK_BYTES - PAGE_BYTES) == 1,
            "what was granted before stays", "block %u lost its contents", i);
}

static void run_recovered(mbr_trial *trial)
{
    static exhausted self;
    exhaust(trial, &self, false);
    MBR_NEED(trial, self.count < BLOCK_MAX && self.count > 0, "%u blocks", self.count);
    for (uint32_t round = 0; round < 3; round++) {
        mbr_alc_give(trial, &self.blocks[0]);
        mbr_status status = mbr_alc_ask(
            trial, &trial->subject, mbr_alc_request(trial, BLOCK_BYTES), &self.blocks[0]);
        MBR_EXPECT(trial, status == MBR_OK,
            "after something is given back as much is granted again", "round %u: %s", round,
            mbr_status_name(status));
        mbr_alc more;
        (void)mbr_alc_ask(trial, &trial->subject, mbr_alc_request(trial, BLOCK_BYTES), &more);
    }
}

static void run_exhausted_books(mbr_trial *trial)
{
    static exhausted self;
    uint64_t base = mbr_alc_stats(trial).owned_bytes;
    exhaust(trial, &self, false);
    MBR_NEED(trial, self.count < BLOCK_MAX, "%u blocks", self.count);
    expect_owned(trial, base, "after a refusal");
    for (uint32_t i = 0; i < self.count; i++)
        mbr_alc_give(trial, &self.blocks[i]);
    expect_owned(trial, base, "after a refusal, with nothing live");
}

static const mbr_check checks[] = {
    {"ALC-030", 2, MBR_STAGE_OPENED, 0, "C5", "release returns what allocate owned",
        "The host charges by the one figure and refunds by the other: a difference is a tenant's "
        "budget that drifts.",
        run_refund, 0, 0},
    {"ALC-031", 2, MBR_STAGE_OPENED, 0, "C5", "what becomes reachable and unreachable is counted",
        "Owned and mapped are two axes of the ledger, each with its own limit.", run_mapped, 0, 0},
    {"ALC-032", 2, MBR_STAGE_OPENED, 0, "C4, C5", "owned bytes are multiples of the rounding fact",
        "The host asks for sizes by this fact, so that nothing is wasted in rounding.", run_rounded,
        0, 0},
    {"ALC-033", 2, MBR_STAGE_OPENED, 0, "C5", "stats equal the ledger at each step",
        "The governor compares the two to find lost bytes.", run_stats, 0, 0},
    {"ALC-034", 2, MBR_STAGE_OPENED, 0, "C4", "total and free are plausible or unknown",
        "A limit in percent of a total of 0 refuses everything.", run_totals, 0, 0},
    {"ALC-035", 2, MBR_STAGE_OPENED, 0, "C5", "trim says what it gave back",
        "Under pressure the host counts on these bytes.", run_trim, 0, 0},
    {"ALC-036", 3, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ACCESS | MBR_NEEDS_HOST_ORACLE, "C5",
        "owned is never below what the system counts",
        "Who owns more than it says is killed with the whole process, or starves its neighbours.",
        run_never_below, 0, 0},
    {"ALC-037", 3, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ACCESS | MBR_NEEDS_HOST_ORACLE, "C5",
        "owned is not above what the system counts",
        "Bytes that are charged and that nobody has are a budget for nothing.", run_never_above, 0,
        0},
    {"ALC-038", 3, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ACCESS | MBR_NEEDS_HOST_ORACLE, "C24",
        "release gives the memory back to the system",
        "The host refunds at once; another process may take the bytes at once.", run_gives_back, 0,
        0},
    {"ALC-039", 3, MBR_STAGE_OPENED, 0, "C24", "max_owned_bytes is never passed",
        "The host has a lease for exactly these bytes. The plugin's rounding is a part of them.",
        run_budget, 0, 0},
    {"ALC-040", 3, MBR_STAGE_OPENED, 0, "C24", "a budget of exactly what is owned is enough",
        "The host asks by the facts' rounding with no byte to spare.", run_budget_exact, 0, 0},
    {"ALC-041", 3, MBR_STAGE_OPENED, 0, "C5, C22", "a refused allocate leaves its id free",
        "UNCHANGED means that nothing happened: the host presses its holders and asks again.",
        run_refused_id, 0, 0},
    {"ALC-042", 3, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ACCESS | MBR_NEEDS_HOST_ORACLE, "C6",
        "exhausted memory is a status",
        "A plugin that does not look at its system's answer hands out an address of nothing.",
        run_exhausted, 0, 0},
    {"ALC-043", 3, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ORACLE, "C6", "it works again after a release",
        "Exhaustion is an ordinary day: the host gives back and asks once more.", run_recovered, 0,
        0},
    {"ALC-044", 3, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ORACLE, "C5",
        "a refusal by exhaustion changes no figure",
        "Bytes that were counted before they were taken must be taken off again.",
        run_exhausted_books, 0, 0},
    {"ALC-045", 3, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ORACLE, "C4, C5",
        "an allocation's memory is there at once, where that is said",
        "Memory that is taken by the first touch is refused with a signal, in the runtime's code.",
        run_populated, 0, 0},
};

const mbr_group mbr_group_alc_books =
    MBR_GROUP("ALC", "allocate, release, stats, trim: figures", checks);
