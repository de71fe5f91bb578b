/* Group ALC, first part: what allocate hands over - sizes, addresses, alignment, contents, flags.
 * Figures are group_alc_books.c's, ids are group_alc_ids.c's. */
#include "tools/check/alc.h"

#include <pthread.h>
#include <stdlib.h>

#define PAGE_BYTES UINT64_C(4096)
#define MIB (UINT64_C(1) << 20)

/* ---- Sizes ----------------------------------------------------------------------------------- */

static void run_granted(mbr_trial *trial)
{
    mbr_alc allocation;
    mbr_status status = mbr_alc_ask(
        trial, &trial->subject, mbr_alc_request(trial, trial->granule_bytes), &allocation);
    mbr_expect_status(trial, status, MBR_OK, "an allocation of one granule");
    MBR_EXPECT(
        trial, allocation.address != 0, "success comes with an address", "MBR_OK with address 0");
}

static void run_released(mbr_trial *trial)
{
    mbr_alc allocation = mbr_alc_take(trial, trial->granule_bytes);
    mbr_expect_status(trial,
        mbr_alc_release(trial, &trial->subject, allocation.id, allocation.address, NULL), MBR_OK,
        "the release of a live allocation");
}

static void run_sizes(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes;
    (void)mbr_alc_take(trial, granule);
    const uint64_t sizes[] = {1, 7, PAGE_BYTES - 1, PAGE_BYTES + 1, granule - 1, granule,
        granule + 1, 3 * granule + 7, 64 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_alc allocation;
        mbr_status status =
            mbr_alc_ask(trial, &trial->subject, mbr_alc_request(trial, sizes[i]), &allocation);
        /* Memory that is used up is no matter of sizes. */
        if (MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED && sizes[i] > granule + 1)
            continue;
        MBR_EXPECT(trial, status == MBR_OK, "any size above 0 is granted while memory is there",
            "%lu bytes: %s: %s", sizes[i], mbr_status_name(status), mbr_last_error()->text);
        mbr_alc_give(trial, &allocation);
    }
}

static void run_writable(mbr_trial *trial)
{
    const uint64_t sizes[] = {
        1, 7, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, trial->granule_bytes, MIB + 1, 5 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_alc allocation = mbr_alc_take(trial, sizes[i]);
        mbr_alc_paint(&allocation);
        uint64_t changed = mbr_alc_first_changed(&allocation);
        MBR_EXPECT(trial, changed == sizes[i], "every byte holds what was written there",
            "of %lu bytes, the one at %lu does not", sizes[i], changed);
        mbr_alc_give(trial, &allocation);
    }
}

static void run_kept(mbr_trial *trial)
{
    enum { COUNT = 12 };
    mbr_alc kept[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        kept[i] = mbr_alc_take(trial, 1 + mbr_trial_random(trial) % (8 * PAGE_BYTES));
        mbr_alc_paint(&kept[i]);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        mbr_alc other = mbr_alc_take(trial, 1 + mbr_trial_random(trial) % (8 * PAGE_BYTES));
        for (uint64_t at = 0; at < other.bytes; at += 512)
            *mbr_alc_at(&other, at) = 0xEE;
        mbr_alc_give(trial, &other);
    }
    const mbr_trim_request trim = {MBR_SIZED(mbr_trim_request), .keep_bytes = 0};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_need_ok(trial, mbr_drive_trim(trial, &trial->subject, &trim, &outcome), "trim");
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t changed = mbr_alc_first_changed(&kept[i]);
        MBR_EXPECT(trial, changed == kept[i].bytes,
            "contents stay while others come and go and caches are trimmed",
            "allocation %lu of %lu bytes changed at %lu", kept[i].id, kept[i].bytes, changed);
    }
}

static void expect_refused(mbr_trial *trial, mbr_allocate_request request, const char *expected)
{
    mbr_alc allocation;
    mbr_status status = mbr_alc_ask(trial, &trial->subject, request, &allocation);
    MBR_EXPECT(trial, status != MBR_OK, expected,
        "%lu bytes, alignment %lu, flags 0x%x, id %lu: granted at 0x%lx, owned %lu", request.bytes,
        request.align_bytes, request.flags, request.allocation_id, allocation.address,
        allocation.owned_bytes);
}

static void run_zero(mbr_trial *trial)
{
    for (uint64_t align = 0; align <= PAGE_BYTES; align = align == 0 ? 1 : align * 64) {
        mbr_allocate_request request = mbr_alc_request(trial, 0);
        request.align_bytes = align;
        expect_refused(trial, request, "size 0 is refused");
    }
}

static void run_overflow(mbr_trial *trial)
{
    static const uint64_t below[] = {1, 2, 11, 63, 64, 4095, 4096, 65535};
    static const uint64_t aligns[] = {0, 1, 64, 4096, UINT64_C(1) << 21, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++)
        for (size_t j = 0; j < sizeof aligns / sizeof aligns[0]; j++) {
            mbr_allocate_request request = mbr_alc_request(trial, 0 - below[i]);
            request.align_bytes = aligns[j];
            expect_refused(trial, request, "a size whose rounding passes 2^64 is refused");
        }
}

/* More than any device holds and any process can address; every low half is a small size. */
static void run_huge(mbr_trial *trial)
{
    for (uint32_t bit = 48; bit < 64; bit++) {
        expect_refused(trial, mbr_alc_request(trial, (UINT64_C(1) << bit) + PAGE_BYTES),
            "more bytes than there are is refused");
        expect_refused(trial, mbr_alc_request(trial, (UINT64_C(1) << bit) + 1),
            "more bytes than there are is refused");
    }
}

/* ---- Alignment ------------------------------------------------------------------------------- */

static void run_alignment(mbr_trial *trial)
{
    static const uint64_t sizes[] = {1, 5000, 65536};
    for (uint64_t align = 1; align <= 64 * MIB; align *= 2)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            mbr_allocate_request request = mbr_alc_request(trial, sizes[i]);
            mbr_alc allocation = mbr_alc_take(trial, sizes[i]); /* without a wish it works */
            mbr_alc_give(trial, &allocation);
            request.align_bytes = align;
            mbr_status status = mbr_alc_ask(trial, &trial->subject, request, &allocation);
            int32_t class = MBR_STATUS_CLASS(status);
            MBR_EXPECT(trial,
                status == MBR_OK ||
                    (align > PAGE_BYTES &&
                        (class == MBR_CLASS_EXHAUSTED || class == MBR_CLASS_UNSUPPORTED)),
                "a power of two is granted, or refused as more than there is",
                "%lu bytes aligned to %lu: %s", sizes[i], align, mbr_status_name(status));
            if (status != MBR_OK)
                continue;
            MBR_EXPECT(trial, (allocation.address & (align - 1)) == 0,
                "the address is a multiple of the alignment that was asked for",
                "%lu bytes aligned to %lu at 0x%lx", sizes[i], align, allocation.address);
            mbr_alc_give(trial, &allocation);
        }
}

static void run_own_alignment(mbr_trial *trial)
{
    uint64_t own = mbr_subject_fact(trial, &trial->subject, MBR_FACT_ALLOCATION_ALIGN_BYTES, 1);
    static const uint64_t sizes[] = {1, 7, 100, 4095, 4096, 70000};
    MBR_EXPECT(trial, own != 0 && (own & (own - 1)) == 0, "the fact is a power of two",
        "MBR_FACT_ALLOCATION_ALIGN_BYTES is %lu", own);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_alc allocation = mbr_alc_take(trial, sizes[i]);
        MBR_EXPECT(trial, allocation.address % own == 0,
            "without a wish an address has the alignment of MBR_FACT_ALLOCATION_ALIGN_BYTES",
            "%lu bytes at 0x%lx, the fact is %lu", sizes[i], allocation.address, own);
    }
}

static void run_bad_alignment(mbr_trial *trial)
{
    static const uint64_t aligns[] = {
        3, 6, 24, 4095, 4097, 12288, (UINT64_C(1) << 63) + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof aligns / sizeof aligns[0]; i++) {
        mbr_allocate_request request = mbr_alc_request(trial, PAGE_BYTES);
        request.align_bytes = aligns[i];
        expect_refused(trial, request, "an alignment that is no power of two is refused");
    }
}

/* ---- Overlap --------------------------------------------------------------------------------- */

#define LIVE_COUNT 10000
#define RESERVATION_COUNT 16

static int by_address(const void *a, const void *b)
{
    const mbr_alc *left = a, *right = b;
    return (left->address > right->address) - (left->address < right->address);
}

static void reserve_some(mbr_trial *trial, mbr_alc *out, uint32_t *count)
{
    if ((trial->subject.offered & MBR_NEEDS_VIRTUAL) == 0)
        return;
    for (uint32_t i = 0; i < RESERVATION_COUNT; i++) {
        const mbr_reserve_request request = {MBR_SIZED(mbr_reserve_request),
            .reservation_id = mbr_trial_id(trial), .bytes = (i + 1) * trial->granule_bytes};
        mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
        mbr_need_ok(
            trial, mbr_drive_reserve(trial, &trial->subject, &request, &outcome), "reserve");
        out[(*count)++] = (mbr_alc){
            .id = request.reservation_id, .address = outcome.address, .bytes = request.bytes};
    }
}

/* Small ones, every 100th a larger one, every 10th of a second instance; reservations between. */
static void run_overlap(mbr_trial *trial)
{
    static mbr_alc out[LIVE_COUNT + RESERVATION_COUNT];
    mbr_subject second;
    uint32_t count = 0;
    mbr_need_ok(trial, mbr_subject_open(trial, NULL, 0, &second, NULL), "a second open");
    for (uint32_t i = 0; i < LIVE_COUNT; i++) {
        uint64_t most_bytes = i % 100 == 0 ? 32 * PAGE_BYTES : PAGE_BYTES;
        mbr_status status = mbr_alc_ask(trial, i % 10 == 0 ? &second : &trial->subject,
            mbr_alc_request(trial, 1 + mbr_trial_random(trial) % most_bytes), &out[count]);
        if (MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED && i > 100)
            break; /* a device with few bytes, or with a large granule */
        mbr_need_ok(trial, status, "allocate");
        count++;
        if (i == 50)
            reserve_some(trial, out, &count);
    }
    qsort(out, count, sizeof out[0], by_address);
    for (uint32_t i = 1; i < count; i++)
        MBR_EXPECT(trial, out[i].address - out[i - 1].address >= out[i - 1].bytes,
            "what is out does not overlap, of any instance",
            "id %lu at 0x%lx begins inside of id %lu at 0x%lx (%u are out)", out[i].id,
            out[i].address, out[i - 1].id, out[i - 1].address, count);
}

/* ---- Contents and flags ---------------------------------------------------------------------- */

static void run_zero_content(mbr_trial *trial)
{
    for (uint32_t round = 0; round < 8; round++) {
        mbr_allocate_request request =
            mbr_alc_request(trial, 1 + mbr_trial_random(trial) % (40 * PAGE_BYTES));
        mbr_alc allocation;
        request.flags = round % 2 == 0 ? 0 : MBR_ALLOCATE_ZEROED;
        mbr_status status = mbr_alc_ask(trial, &trial->subject, request, &allocation);
        if (status == MBR_UNSUPPORTED && request.flags != 0)
            continue;
        mbr_need_ok(trial, status, "allocate");
        MBR_NEED(trial, allocation.address != 0, "address 0");
        for (uint64_t at = 0; allocation.content == MBR_CONTENT_ZERO && at < request.bytes; at++)
            MBR_EXPECT(trial, *mbr_alc_at(&allocation, at) == 0,
                "memory that is said to be zero is, also where it was used before",
                "round %u: byte %lu of %lu is 0x%02x", round, at, request.bytes,
                *mbr_alc_at(&allocation, at));
        mbr_alc_paint(&allocation);
        mbr_alc_give(trial, &allocation);
    }
}

static void run_content_word(mbr_trial *trial)
{
    uint64_t fresh =
        mbr_subject_fact(trial, &trial->subject, MBR_FACT_FRESH_CONTENT, MBR_CONTENT_UNDEFINED);
    mbr_allocate_request request = mbr_alc_request(trial, PAGE_BYTES);
    mbr_alc plain, zeroed;
    mbr_need_ok(trial, mbr_alc_ask(trial, &trial->subject, request, &plain), "allocate");
    MBR_EXPECT(trial,
        plain.content == MBR_CONTENT_ZERO ||
            (plain.content == MBR_CONTENT_UNDEFINED && fresh != MBR_CONTENT_ZERO),
        "new memory is zero or undefined, and zero where MBR_FACT_FRESH_CONTENT says so",
        "content %u, the fact is %lu", plain.content, fresh);
    request = mbr_alc_request(trial, PAGE_BYTES);
    request.flags = MBR_ALLOCATE_ZEROED;
    mbr_status status = mbr_alc_ask(trial, &trial->subject, request, &zeroed);
    MBR_EXPECT(trial, status == MBR_UNSUPPORTED || status == MBR_OK,
        "MBR_ALLOCATE_ZEROED is granted or MBR_UNSUPPORTED", "%s", mbr_status_name(status));
    MBR_EXPECT(trial,
        status != MBR_OK ||
            (zeroed.content == MBR_CONTENT_ZERO &&
                (zeroed.granted_flags & MBR_ALLOCATE_ZEROED) != 0),
        "what was asked for by a critical flag is granted or refused, never left out",
        "MBR_ALLOCATE_ZEROED: MBR_OK with content %u, granted flags 0x%x", zeroed.content,
        zeroed.granted_flags);
}

static void run_critical_flags(mbr_trial *trial)
{
    for (uint32_t bit = 1; bit < 16; bit++)
        for (uint32_t with = 0; with < 2; with++) {
            mbr_allocate_request request = mbr_alc_request(trial, PAGE_BYTES);
            request.flags = (UINT32_C(1) << bit) | (with != 0 ? UINT32_C(0x80000) : 0);
            expect_refused(trial, request, "an unknown critical flag is refused");
        }
}

static void run_optional_flags(mbr_trial *trial)
{
    (void)mbr_alc_take(trial, PAGE_BYTES);
    for (uint32_t bit = 16; bit <= 32; bit++) {
        mbr_allocate_request request = mbr_alc_request(trial, PAGE_BYTES);
        mbr_alc allocation;
        request.flags = bit == 32 ? UINT32_C(0xFFFF0000) : UINT32_C(1) << bit;
        mbr_status status = mbr_alc_ask(trial, &trial->subject, request, &allocation);
        MBR_EXPECT(trial, status == MBR_OK, "an unknown optional flag is ignored", "flags 0x%x: %s",
            request.flags, mbr_status_name(status));
    }
}

/* Minor 0 knows one flag of allocate: no other can hold. */
static void run_granted_flags(mbr_trial *trial)
{
    static const uint32_t flags[] = {
        0, MBR_ALLOCATE_ZEROED, 0x10000, 0x80000000, 0xFFFF0000, 0xFFFF0000 | MBR_ALLOCATE_ZEROED};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        mbr_allocate_request request = mbr_alc_request(trial, PAGE_BYTES);
        mbr_alc allocation;
        request.flags = flags[i];
        if (mbr_alc_ask(trial, &trial->subject, request, &allocation) != MBR_OK)
            continue;
        MBR_EXPECT(trial, (allocation.granted_flags & ~(flags[i] & MBR_ALLOCATE_ZEROED)) == 0,
            "granted_flags holds those flags of the request that are known and hold",
            "asked for 0x%x, granted 0x%x", flags[i], allocation.granted_flags);
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct handed_over {
    mbr_trial *trial;
    mbr_alc allocation;
    mbr_status status;
} handed_over;

static void *release_there(void *argument)
{
    handed_over *self = argument;
    self->status = mbr_alc_release(
        self->trial, &self->trial->subject, self->allocation.id, self->allocation.address, NULL);
    return NULL;
}

static void run_other_thread(mbr_trial *trial)
{
    handed_over work = {.trial = trial, .allocation = mbr_alc_take(trial, 3 * PAGE_BYTES)};
    pthread_t thread;
    if (pthread_create(&thread, NULL, release_there, &work) != 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread");
    pthread_join(thread, NULL);
    MBR_EXPECT(trial, work.status == MBR_OK,
        "an allocation is released on any thread, also another than its creator's", "%s",
        mbr_status_name(work.status));
}

static const mbr_check checks[] = {
    {"ALC-001", 2, MBR_STAGE_OPENED, 0, "C7", "an allocation of one granule is granted",
        "The host's whole pool is built of such calls. Success with address 0 would be handed to "
        "a runtime, which writes there.",
        run_granted, 0, 0},
    {"ALC-002", 2, MBR_STAGE_OPENED, 0, "C22", "a live allocation is released",
        "Memory that cannot be given back stays charged to its tenant for ever.", run_released, 0,
        0},
    {"ALC-003", 2, MBR_STAGE_OPENED, 0, "C7", "every size above 0 is granted",
        "The contract has no smallest or even size: the plugin rounds, the host charges what the "
        "outcome says.",
        run_sizes, 0, 0},
    {"ALC-004", 2, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ACCESS, "C7",
        "memory is usable at once, to its last byte",
        "A runtime writes the whole of what it was given. A page too few is a crash far away.",
        run_writable, 0, 0},
    {"ALC-005", 2, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ACCESS, "C7",
        "contents stay while others come and go",
        "A trim or a neighbour's release that reaches live memory corrupts weights in silence.",
        run_kept, 0, 0},
    {"ALC-006", 2, MBR_STAGE_OPENED, 0, "C7", "every alignment is kept",
        "Kernels and DMA fault, or read wrong rows, on an address that is not aligned as asked.",
        run_alignment, 0, 0},
    {"ALC-007", 2, MBR_STAGE_OPENED, 0, "C4", "the alignment without a wish is the fact's",
        "The host asks for no alignment where the fact promises enough.", run_own_alignment, 0, 0},
    {"ALC-008", 3, MBR_STAGE_OPENED, 0, "C7", "an alignment that is no power of two is refused",
        "Masks made of such a number give addresses inside of somebody else's memory.",
        run_bad_alignment, 0, 0},
    {"ALC-009", 3, MBR_STAGE_OPENED, 0, "C24", "10 000 live allocations do not overlap",
        "Two tenants on one byte is the worst that an allocator can do.", run_overlap, 0, 0},
    {"ALC-010", 3, MBR_STAGE_OPENED, 0, "C7", "size 0 is refused",
        "It is a caller's bug here; the host's own interface has another answer.", run_zero, 0, 0},
    {"ALC-011", 3, MBR_STAGE_OPENED, 0, "C7", "sizes near 2^64 are refused",
        "Rounding up wraps to a small number, and the caller believes in 2^64 bytes.", run_overflow,
        0, 0},
    {"ALC-012", 3, MBR_STAGE_OPENED, 0, "C7", "more bytes than there can be are refused",
        "A size that is cut to 32 bits somewhere below is granted as a small one.", run_huge, 0, 0},
    {"ALC-013", 2, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ACCESS, "C5",
        "memory that is said to be zero is zero",
        "The host skips its own zeroing then, and one group would read another group's bytes.",
        run_zero_content, 0, 0},
    {"ALC-014", 2, MBR_STAGE_OPENED, 0, "C4, C5, C15", "content and granted ZEROED are said",
        "The host zeroes where nobody promised zeros; a promise that is lost costs a pass over "
        "the memory, one that is wrong leaks bytes.",
        run_content_word, 0, 0},
    {"ALC-015", 3, MBR_STAGE_OPENED, 0, "C15", "unknown critical flags are refused",
        "A newer host that needs the property would believe that it has it.", run_critical_flags, 0,
        0},
    {"ALC-016", 3, MBR_STAGE_OPENED, 0, "C15", "unknown optional flags are ignored",
        "A newer host asks for what is nice to have, and must be served without.",
        run_optional_flags, 0, 0},
    {"ALC-017", 3, MBR_STAGE_OPENED, 0, "C15", "granted_flags says only what holds",
        "A newer host reads there whether its wish came true.", run_granted_flags, 0, 0},
    {"ALC-018", 3, MBR_STAGE_OPENED, 0, "C25", "release works on another thread",
        "The thread that ends a request is seldom the one that began it.", run_other_thread, 0, 0},
};

const mbr_group mbr_group_alc =
    MBR_GROUP("ALC", "allocate, release, stats, trim: what is handed over", checks);
