/* Group ALC, third part: who may release what. Here a call is only to be refused or not; which
 * status a refusal carries is group_err.c's. */
#include "tools/check/alc.h"

#define PAGE_BYTES UINT64_C(4096)

static void expect_refused(
    mbr_trial *trial, mbr_subject *subject, uint64_t id, uint64_t address, const char *expected)
{
    mbr_status status = mbr_alc_release(trial, subject, id, address, NULL);
    MBR_EXPECT(
        trial, status != MBR_OK, expected, "release of id %lu at 0x%lx: MBR_OK", id, address);
}

static void run_unknown(mbr_trial *trial)
{
    mbr_alc live = mbr_alc_take(trial, PAGE_BYTES);
    const uint64_t ids[] = {mbr_trial_id(trial), live.id + 1000000, live.id - 1, 1};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        expect_refused(trial, &trial->subject, ids[i], live.address,
            "the release of an id that never was is refused");
        expect_refused(
            trial, &trial->subject, ids[i], 0, "the release of an id that never was is refused");
    }
}

static void run_double(mbr_trial *trial)
{
    static const uint64_t sizes[] = {1, 4096, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_alc gone = mbr_alc_take(trial, sizes[i]);
        mbr_alc_give(trial, &gone);
        for (uint32_t again = 0; again < 3; again++)
            expect_refused(
                trial, &trial->subject, gone.id, gone.address, "a second release is refused");
    }
}

static void run_mismatched(mbr_trial *trial)
{
    mbr_alc one = mbr_alc_take(trial, 3 * PAGE_BYTES), two = mbr_alc_take(trial, 3 * PAGE_BYTES);
    const uint64_t addresses[] = {
        two.address, 0, one.address - PAGE_BYTES, one.address - 1, ~one.address, UINT64_MAX};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        expect_refused(trial, &trial->subject, one.id, addresses[i],
            "the release of a live id with another address is refused");
    expect_refused(trial, &trial->subject, two.id, one.address,
        "the release of a live id with another address is refused");
}

static void run_interior(mbr_trial *trial)
{
    mbr_alc live = mbr_alc_take(trial, 5 * PAGE_BYTES);
    const uint64_t offsets[] = {1, 8, 64, PAGE_BYTES, 2 * PAGE_BYTES, 5 * PAGE_BYTES - 1};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        expect_refused(trial, &trial->subject, live.id, live.address + offsets[i],
            "an address inside of the allocation is refused");
}

/* Allocates until the address comes back; where it never does, the last one stands for it. */
static void run_reused(mbr_trial *trial)
{
    for (uint32_t round = 0; round < 4; round++) {
        mbr_alc old = mbr_alc_take(trial, (round + 1) * PAGE_BYTES), new;
        mbr_alc_give(trial, &old);
        for (uint32_t i = 0;; i++) {
            new = mbr_alc_take(trial, old.bytes);
            if (new.address == old.address || i == 32)
                break;
        }
        expect_refused(trial, &trial->subject, old.id, new.address,
            "the release of a released id is refused, also when its address lives again");
    }
}

static void run_doubled(mbr_trial *trial)
{
    mbr_alc live = mbr_alc_take(trial, PAGE_BYTES), second;
    static const uint64_t sizes[] = {4096, 1, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_allocate_request request = mbr_alc_request(trial, sizes[i]);
        request.allocation_id = live.id;
        mbr_status status = mbr_alc_ask(trial, &trial->subject, request, &second);
        MBR_EXPECT(trial, status != MBR_OK, "an id that lives is refused to a second allocation",
            "id %lu lives at 0x%lx and was granted again at 0x%lx", live.id, live.address,
            second.address);
    }
}

static void run_id_zero(mbr_trial *trial)
{
    mbr_allocate_request request = mbr_alc_request(trial, PAGE_BYTES);
    mbr_alc allocation;
    request.allocation_id = 0;
    mbr_status status = mbr_alc_ask(trial, &trial->subject, request, &allocation);
    MBR_EXPECT(trial, status != MBR_OK, "id 0 names no object: allocate refuses it",
        "granted at 0x%lx", allocation.address);
    expect_refused(trial, &trial->subject, 0, 0, "id 0 names no object: release refuses it");
}

static void run_intact(mbr_trial *trial)
{
    mbr_alc live = mbr_alc_take(trial, 3 * PAGE_BYTES), other = mbr_alc_take(trial, PAGE_BYTES);
    bool is_reached = (trial->subject.offered & MBR_NEEDS_HOST_ACCESS) != 0;
    if (is_reached)
        mbr_alc_paint(&live);
    uint64_t owned = mbr_alc_stats(trial).owned_bytes;
    const uint64_t wrong[][2] = {{live.id, other.address}, {live.id, live.address + PAGE_BYTES},
        {live.id, 0}, {live.id + 1000000, live.address}, {other.id, live.address}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        MBR_NEED(trial,
            mbr_alc_release(trial, &trial->subject, wrong[i][0], wrong[i][1], NULL) != MBR_OK,
            "a wrong release was accepted");
    MBR_EXPECT(trial, mbr_alc_stats(trial).owned_bytes == owned,
        "a refused release changes no figure", "owned %lu, then %lu", owned,
        mbr_alc_stats(trial).owned_bytes);
    MBR_EXPECT(trial, !is_reached || mbr_alc_first_changed(&live) == live.bytes,
        "a refused release leaves the memory as it was", "allocation %lu at 0x%lx changed", live.id,
        live.address);
    mbr_status status = mbr_alc_release(trial, &trial->subject, live.id, live.address, NULL);
    MBR_EXPECT(trial, status == MBR_OK, "the right release works after wrong ones", "%s",
        mbr_status_name(status));
    status = mbr_alc_release(trial, &trial->subject, other.id, other.address, NULL);
    MBR_EXPECT(trial, status == MBR_OK, "the right release works after wrong ones", "%s",
        mbr_status_name(status));
}

static const mbr_check checks[] = {
    {"ALC-060", 3, MBR_STAGE_OPENED, 0, "C22", "an unknown id is not released",
        "A plugin that says MBR_OK to everything hides the host's own mistakes.", run_unknown, 0,
        0},
    {"ALC-061", 3, MBR_STAGE_OPENED, 0, "C22", "a second release is refused",
        "A host that gives back twice after a lost answer must not free another's memory.",
        run_double, 0, 0},
    {"ALC-063", 3, MBR_STAGE_OPENED, 0, "C22", "id and address must go together",
        "One of them is wrong, and nobody knows which: freeing either may be the wrong one.",
        run_mismatched, 0, 0},
    {"ALC-064", 3, MBR_STAGE_OPENED, 0, "C22", "an interior address is refused",
        "It is what a caller has that kept a view and lost the allocation.", run_interior, 0, 0},
    {"ALC-065", 3, MBR_STAGE_OPENED, 0, "C22", "a released id is refused though its address lives",
        "Ids are never used again so that an old handle cannot free a new object (ABA).",
        run_reused, 0, 0},
    {"ALC-066", 3, MBR_STAGE_OPENED, 0, "C22", "a live id is refused to a second allocation",
        "One of the two could never be released.", run_doubled, 0, 0},
    {"ALC-067", 3, MBR_STAGE_OPENED, 0, "C22", "id 0 is refused",
        "It means no object wherever the contract answers an id.", run_id_zero, 0, 0},
    {"ALC-068", 3, MBR_STAGE_OPENED, 0, "C22", "a refused release leaves everything as it was",
        "The object is still the tenant's, with its contents and its charge.", run_intact, 0, 0},
};

const mbr_group mbr_group_alc_ids =
    MBR_GROUP("ALC", "allocate, release, stats, trim: who may release what", checks);
