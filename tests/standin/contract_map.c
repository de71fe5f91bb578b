/* Rows about mapping and unmapping, and about addresses given back. */
#include "tests/standin/contract.h"

static const struct place nowhere;

/* D8 */
static void map_windows(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(4);
    mbr_cuda_handle handle = create(2);
    see(cu.map(at, granule, granule, handle, 0));
    see(cu.map(at, granule, 0, handle, 0));
    see(cu.map(at, 4 * granule, 0, handle, 0));
    see(cu.map(at, 2 * granule, 0, handle, 0));
    drop(at, 4);
    NEED(cu.handle_release(handle));
}

static void map_flags(void)
{
    mbr_cuda_address at = reserve(1);
    mbr_cuda_handle handle = create(1);
    see(cu.map(at, world.granule_bytes, 0, handle, 1));
    see(cu.map(at, world.granule_bytes, 0, 0, 0));
    NEED(cu.handle_release(handle));
    NEED(cu.address_free(at, world.granule_bytes));
}

/* D9 */
static void map_unaligned_or_empty(void)
{
    mbr_cuda_address at = reserve(2);
    mbr_cuda_handle handle = create(1);
    see(cu.map(at + HALF_A_PAGE, world.granule_bytes, 0, handle, 0));
    see(cu.map(at, 0, 0, handle, 0));
    NEED(cu.handle_release(handle));
    NEED(cu.address_free(at, 2 * world.granule_bytes));
}

static void map_overlapping(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(3);
    mbr_cuda_handle there = create(1);
    mbr_cuda_handle handle = create(2);
    map(at + granule, 1, there);
    see(cu.map(at + granule, granule, 0, there, 0));
    see(cu.map(at, 2 * granule, 0, handle, 0));
    see(cu.map(at + granule, 2 * granule, 0, handle, 0));
    drop(at, 3);
    NEED(cu.handle_release(there));
    NEED(cu.handle_release(handle));
}

static void map_outside(void)
{
    mbr_cuda_address at = reserve(1);
    mbr_cuda_handle handle = create(1);
    NEED(cu.address_free(at, world.granule_bytes));
    see(cu.map(at, world.granule_bytes, 0, handle, 0));
    see(cu.map(world.granule_bytes, world.granule_bytes, 0, handle, 0));
    see(cu.map(0, world.granule_bytes, 0, handle, 0));
    NEED(cu.handle_release(handle));
}

/* D10 */
static void map_past_the_end(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(2);
    mbr_cuda_handle handle = create(2);
    see(cu.map(at + granule, 2 * granule, 0, handle, 0));
    see(cu.address_free(at, 2 * granule));
}

/* D11 */
static void map_released(void)
{
    mbr_cuda_address at = reserve(1);
    mbr_cuda_handle handle = create(1);
    NEED(cu.handle_release(handle));
    see(cu.map(at, world.granule_bytes, 0, handle, 0));
}

/* D12 */
static void map_released_but_mapped(void)
{
    struct place place = take(1);
    mbr_cuda_address also = reserve(1);
    NEED(cu.handle_release(place.handle));
    see(cu.map(also, world.granule_bytes, 0, place.handle, 0));
    see(cu.unmap(also, world.granule_bytes));
}

/* D13 */
static void alias(void)
{
    struct place place = take(1);
    mbr_cuda_address also = reserve(1);
    map(also, 1, place.handle);
    grant(also, 1);
    NEED(launch_store(place.at + 64, 21, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    say_word(also + 64, 21);
    NEED(cu.fill(also + 64, 7, 4));
    NEED(cu.context_synchronize());
    say_word(place.at + 64, 0x07070707);
    drop(also, 1);
    give(place, 1);
}

static void alias_outlives(void)
{
    struct place place = take(1);
    mbr_cuda_address also = reserve(1);
    map(also, 1, place.handle);
    grant(also, 1);
    NEED(launch_store(place.at, 22, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    NEED(cu.handle_release(place.handle));
    see(cu.unmap(place.at, world.granule_bytes));
    say_word(also, 22);
    see(cu.fill(place.at, 0, 4));
    drop(also, 1);
    NEED(cu.address_free(place.at, world.granule_bytes));
}

/* A handle's contents belong to it, not to the address. */
static void contents_move(void)
{
    struct place place = take(1);
    mbr_cuda_address other = reserve(1);
    NEED(launch_store(place.at, 23, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    NEED(cu.unmap(place.at, world.granule_bytes));
    map(other, 1, place.handle);
    grant(other, 1);
    say_word(other, 23);
    drop(other, 1);
    NEED(cu.handle_release(place.handle));
    NEED(cu.address_free(place.at, world.granule_bytes));
}

/* Access belongs to the mapping: it is gone with it. */
static void access_is_not_kept(void)
{
    struct place place = take(1);
    NEED(cu.unmap(place.at, world.granule_bytes));
    map(place.at, 1, place.handle);
    see(cu.fill(place.at, 0, 4));
    grant(place.at, 1);
    see(cu.fill(place.at, 0, 4));
    NEED(cu.context_synchronize());
    give(place, 1);
}

/* D21 */
static void unmap_parts(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(4);
    mbr_cuda_handle first = create(2);
    mbr_cuda_handle second = create(2);
    map(at, 2, first);
    map(at + 2 * granule, 2, second);
    see(cu.unmap(at, granule));
    see(cu.unmap(at + granule, 3 * granule));
    see(cu.unmap(at, 3 * granule));
    see(cu.unmap(at, 4 * granule));
    NEED(cu.handle_release(first));
    NEED(cu.handle_release(second));
    NEED(cu.address_free(at, 4 * granule));
}

/* D22 */
static void unmap_holes(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(4);
    mbr_cuda_handle handle = create(1);
    map(at + granule, 1, handle);
    see(cu.unmap(at + 2 * granule, granule));
    see(cu.unmap(at, 3 * granule));
    see(cu.unmap(at, 3 * granule));
    NEED(cu.handle_release(handle));
    NEED(cu.address_free(at, 4 * granule));
}

static void unmap_wrong(void)
{
    mbr_cuda_address at = reserve(2);
    see(cu.unmap(at, 0));
    see(cu.unmap(at + 4096, world.granule_bytes));
    see(cu.unmap(at, 4096));
    NEED(cu.address_free(at, 2 * world.granule_bytes));
}

static void unmap_unreserved(void)
{
    mbr_cuda_address at = reserve(1);
    NEED(cu.address_free(at, world.granule_bytes));
    see(cu.unmap(at, world.granule_bytes));
}

/* D23 */
static void free_mapped(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(2);
    mbr_cuda_handle handle = create(1);
    map(at + granule, 1, handle);
    see(cu.address_free(at, 2 * granule));
    see(cu.address_free(at, granule));
    see(cu.address_free(at + granule, granule));
    NEED(cu.unmap(at + granule, granule));
    see(cu.address_free(at, granule));
    see(cu.address_free(at, 3 * granule));
    see(cu.address_free(at + granule, granule));
    see(cu.address_free(at, 2 * granule));
    see(cu.address_free(at, 2 * granule));
    NEED(cu.handle_release(handle));
}

static void free_wrong(void)
{
    see(cu.address_free(nowhere.at, world.granule_bytes));
    mbr_cuda_address at = reserve(1);
    see(cu.address_free(at, 0));
    see(cu.address_free(at, world.granule_bytes));
}

/* Which piece an address belongs to; none before access is granted. */
static void address_range(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(4);
    mbr_cuda_handle first = create(1);
    mbr_cuda_handle second = create(2);
    mbr_cuda_address start = 0;
    size_t bytes = 0;
    map(at, 1, first);
    map(at + granule, 2, second);
    see(cu.address_range(&start, &bytes, at + granule + 4096));
    grant(at, 3);
    see(cu.address_range(&start, &bytes, at + granule + 4096));
    say_if(start == at + granule && bytes == 2 * granule, "one piece", "otherwise");
    see(cu.address_range(&start, &bytes, at + 3 * granule));
    drop(at, 4);
    NEED(cu.handle_release(first));
    NEED(cu.handle_release(second));
}

const struct row contract_map_rows[] = {
    {"D8 map-window-part-or-more-of-a-handle", map_windows,
        "NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED, OK", ROW_SHARED},
    {"D8.wrong map-with-flags-or-no-handle", map_flags, "INVALID_VALUE, INVALID_VALUE", ROW_SHARED},
    {"D9 map-unaligned-or-empty", map_unaligned_or_empty, "INVALID_VALUE, INVALID_VALUE",
        ROW_SHARED},
    {"D9.overlap map-over-a-mapping", map_overlapping,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE", ROW_SHARED},
    {"D9.outside map-in-no-reservation", map_outside, "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE",
        ROW_SHARED},
    {"D10 map-past-the-end-of-a-reservation", map_past_the_end, "OK, INVALID_VALUE", ROW_MISUSE},
    {"D11 map-of-a-handle-released-and-unmapped", map_released, "ended by SIGSEGV", ROW_CRASH},
    {"D12 map-of-a-handle-released-but-mapped", map_released_but_mapped, "OK, OK", ROW_MISUSE},
    {"D13 one-handle-at-two-addresses", alias, "same, same", ROW_SHARED},
    {"D13.outlives second-address-outlives-the-first", alias_outlives, "OK, same, INVALID_VALUE",
        ROW_SHARED},
    {"D13.move contents-follow-the-handle", contents_move, "same", ROW_SHARED},
    {"D13.access access-is-the-mappings", access_is_not_kept, "INVALID_VALUE, OK", ROW_SHARED},
    {"D21 unmap-parts-then-the-whole", unmap_parts,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, OK", ROW_SHARED},
    {"D22 unmap-of-holes-and-twice", unmap_holes, "OK, OK, OK", ROW_SHARED},
    {"D22.wrong unmap-empty-unaligned-short", unmap_wrong, "INVALID_VALUE, OK, OK", ROW_SHARED},
    {"D22.unreserved unmap-of-addresses-given-back", unmap_unreserved, "INVALID_VALUE", ROW_SHARED},
    {"D23 free-of-mapped-part-interior-larger-twice", free_mapped,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, "
        "OK, INVALID_VALUE",
        ROW_SHARED},
    {"D23.wrong free-of-nothing-and-of-no-bytes", free_wrong, "INVALID_VALUE, INVALID_VALUE, OK",
        ROW_SHARED},
    {"map.piece address-range-before-access-after-it-and-of-a-hole", address_range,
        "NOT_FOUND, OK, one piece, NOT_FOUND", ROW_SHARED},
    {0},
};
