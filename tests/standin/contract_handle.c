/* Rows about granularity, physical handles, reservations of addresses, and what is free. */
#include "tests/standin/contract.h"

/* D4 */
static void granularity(void)
{
    struct mbr_cuda_properties properties = properties_of(0);
    size_t least = 0;
    size_t wished = 0;
    see(cu.granularity(&least, &properties, MBR_CUDA_GRANULARITY_MINIMUM));
    see(cu.granularity(&wished, &properties, MBR_CUDA_GRANULARITY_RECOMMENDED));
    say_if(least && (least & (least - 1)) == 0, "power of two", "no power of two");
    say_if(least && wished % least == 0, "divides", "does not divide");
}

static void granularity_wrong(void)
{
    struct mbr_cuda_properties properties = properties_of(0);
    size_t bytes = 0;
    see(cu.granularity(&bytes, &properties, 7));
    see(cu.granularity(NULL, &properties, MBR_CUDA_GRANULARITY_MINIMUM));
    properties.type = 0;
    see(cu.granularity(&bytes, &properties, MBR_CUDA_GRANULARITY_MINIMUM));
    properties = properties_of(0);
    properties.location.type = 0;
    see(cu.granularity(&bytes, &properties, MBR_CUDA_GRANULARITY_MINIMUM));
    properties = properties_of(1000);
    see(cu.granularity(&bytes, &properties, MBR_CUDA_GRANULARITY_MINIMUM));
}

/* D5 */
static void create_sizes(void)
{
    mbr_cuda_handle handle = 0;
    see(create_bytes(&handle, 0));
    see(create_bytes(&handle, 1));
    see(create_bytes(&handle, world.granule_bytes + HALF_A_PAGE));
}

static void create_wrong(void)
{
    mbr_cuda_handle handle = 0;
    struct mbr_cuda_properties properties = properties_of(0);
    see(cu.handle_create(&handle, world.granule_bytes, &properties, 1));
    properties.type = 0;
    see(cu.handle_create(&handle, world.granule_bytes, &properties, 0));
    properties = properties_of(0);
    properties.location.type = 0;
    see(cu.handle_create(&handle, world.granule_bytes, &properties, 0));
    properties = properties_of(1000);
    see(cu.handle_create(&handle, world.granule_bytes, &properties, 0));
}

/* D6 */
static void beyond_capacity(void)
{
    size_t total = 0;
    mbr_cuda_handle handle = 0;
    NEED(cu.device_total(&total, 0));
    total -= total % world.granule_bytes;
    see(create_bytes(&handle, total + world.granule_bytes));
    see(cu.context_synchronize());
    see(create_bytes(&handle, world.granule_bytes));
    see(cu.handle_release(handle));
}

/* Fills the device by halves; what was refused fits after a release. */
static void full_then_released(void)
{
    size_t free_bytes = 0;
    size_t total = 0;
    mbr_cuda_handle large = 0;
    mbr_cuda_handle more = 0;
    NEED(cu.memory_info(&free_bytes, &total));
    size_t half = free_bytes / 2;
    half = half - half % world.granule_bytes + world.granule_bytes;
    see(create_bytes(&large, half));
    see(create_bytes(&more, half));
    see(cu.handle_release(large));
    see(create_bytes(&more, half));
    see(cu.handle_release(more));
}

/* D7 */
static void reserve_sizes(void)
{
    mbr_cuda_address at = 0;
    see(cu.address_reserve(&at, 0, 0, 0, 0));
    see(cu.address_reserve(&at, 1, 0, 0, 0));
    see(cu.address_reserve(&at, world.granule_bytes + HALF_A_PAGE, 0, 0, 0));
    see(cu.address_reserve(NULL, world.granule_bytes, 0, 0, 0));
}

static void reserve_wrong(void)
{
    mbr_cuda_address at = 0;
    see(cu.address_reserve(&at, world.granule_bytes, 3, 0, 0));
    see(cu.address_reserve(&at, world.granule_bytes, 0, 0, 1));
}

static void reserve_aligned(void)
{
    const size_t align = (size_t)1 << 30;
    mbr_cuda_address at = 1;
    see(cu.address_reserve(&at, world.granule_bytes, align, 0, 0));
    say_if(at % align == 0, "aligned", "not aligned");
    see(cu.address_free(at, world.granule_bytes));
    at = reserve(1);
    say_if(at % world.granule_bytes == 0, "on a granule", "off a granule");
    NEED(cu.address_free(at, world.granule_bytes));
}

static void reserve_hint(void)
{
    mbr_cuda_address taken = reserve(1);
    mbr_cuda_address at = 0;
    see(cu.address_reserve(&at, world.granule_bytes, 0, taken, 0));
    say_if(at != taken && at != 0, "another", "the same");
    NEED(cu.address_free(at, world.granule_bytes));
    NEED(cu.address_free(taken, world.granule_bytes));
}

/* Much more than any card has: addresses are not memory. */
static void reserve_large(void)
{
    size_t total = 0;
    mbr_cuda_address at = 0;
    size_t free_before = 0;
    size_t free_after = 1;
    NEED(cu.memory_info(&free_before, &total));
    size_t bytes = total - total % world.granule_bytes + world.granule_bytes;
    see(cu.address_reserve(&at, bytes, 0, 0, 0));
    NEED(cu.memory_info(&free_after, &total));
    say_if(free_before == free_after, "costs nothing", "costs memory");
    see(cu.address_free(at, bytes));
}

/* D19 */
static void release_while_mapped(void)
{
    struct place place = take(1);
    NEED(launch_store(place.at, 12, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    see(cu.handle_release(place.handle));
    say_word(place.at, 12);
    see(cu.handle_release(place.handle));
    say_word(place.at, 12);
    drop(place.at, 1);
}

static void release_twice(void)
{
    mbr_cuda_handle handle = create(1);
    see(cu.handle_release(handle));
    see(cu.handle_release(handle));
    see(cu.handle_release(0));
}

/* D20 */
static void free_figure(void)
{
    mbr_cuda_address at = reserve(8);
    size_t before = free_now();
    mbr_cuda_handle handle = create(8);
    say_moved(before, 8);
    map(at, 8, handle);
    grant(at, 8);
    say_moved(before, 8);
    NEED(cu.handle_release(handle));
    say_moved(before, 8);
    NEED(cu.unmap(at, 8 * world.granule_bytes));
    say_moved(before, 0);
    NEED(cu.address_free(at, 8 * world.granule_bytes));
}

static void free_figure_shared(void)
{
    mbr_cuda_address at = reserve(8);
    mbr_cuda_address also = reserve(8);
    size_t before = free_now();
    mbr_cuda_handle handle = create(8);
    map(at, 8, handle);
    map(also, 8, handle);
    say_moved(before, 8);
    NEED(cu.handle_release(handle));
    NEED(cu.unmap(at, 8 * world.granule_bytes));
    say_moved(before, 8);
    NEED(cu.unmap(also, 8 * world.granule_bytes));
    say_moved(before, 0);
    NEED(cu.address_free(at, 8 * world.granule_bytes));
    NEED(cu.address_free(also, 8 * world.granule_bytes));
}

static void free_figure_kept(void)
{
    mbr_cuda_address at = reserve(8);
    size_t before = free_now();
    mbr_cuda_handle handle = create(8);
    map(at, 8, handle);
    NEED(cu.unmap(at, 8 * world.granule_bytes));
    say_moved(before, 8);
    NEED(cu.handle_release(handle));
    say_moved(before, 0);
    NEED(cu.address_free(at, 8 * world.granule_bytes));
}

/* D32: many at once; how long the driver scrubs is not what the row is about. */
static void many(void)
{
    mbr_cuda_handle handles[64];
    size_t before = free_now();
    for (size_t i = 0; i < 64; i++)
        handles[i] = create(1);
    say_moved(before, 64);
    for (size_t i = 0; i < 64; i++)
        NEED(cu.handle_release(handles[i]));
    say_moved(before, 0);
}

static void properties(void)
{
    struct mbr_cuda_properties told = {0};
    mbr_cuda_handle handle = create(1);
    see(cu.handle_properties(&told, handle));
    say_if(told.type == MBR_CUDA_ALLOCATION_PINNED &&
            told.location.type == MBR_CUDA_LOCATION_DEVICE && told.location.id == 0,
        "as made", "otherwise");
    NEED(cu.handle_release(handle));
    see(cu.handle_properties(&told, 0));
}

/* Of a handle after its end, which is not looked for. */
static void properties_released(void)
{
    struct mbr_cuda_properties told = {0};
    mbr_cuda_handle handle = create(1);
    NEED(cu.handle_release(handle));
    see(cu.handle_properties(&told, handle));
}

static void retain_by_address(void)
{
    struct place place = take(1);
    mbr_cuda_handle again = 0;
    see(cu.handle_retain(&again, (void *)(uintptr_t)place.at));
    say_if(again == place.handle, "same", "another");
    see(cu.handle_release(again));
    NEED(cu.unmap(place.at, world.granule_bytes));
    see(cu.handle_retain(&again, (void *)(uintptr_t)place.at));
    see(cu.handle_release(place.handle));
    see(cu.handle_release(place.handle));
    NEED(cu.address_free(place.at, world.granule_bytes));
}

static void export_unrequested(void)
{
    int file = -1;
    mbr_cuda_handle handle = create(1);
    see(cu.handle_export(&file, handle, MBR_CUDA_HANDLE_POSIX_FD, 0));
    NEED(cu.handle_release(handle));
}

const struct row contract_handle_rows[] = {
    {"D4 granularity", granularity, "OK, OK, power of two, divides", ROW_SHARED},
    {"D4.wrong granularity-of-wrong-properties", granularity_wrong,
        "INVALID_VALUE, INVALID_VALUE, OK, OK, OK", ROW_SHARED},
    {"D5 create-empty-or-no-multiple", create_sizes, "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE",
        ROW_SHARED},
    {"D5.wrong create-with-flags-type-location-device", create_wrong,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_DEVICE", ROW_SHARED},
    {"D6 create-beyond-capacity-then-within", beyond_capacity, "OUT_OF_MEMORY, OK, OK, OK",
        ROW_SHARED},
    {"D6.again create-refused-fits-after-a-release", full_then_released,
        "OK, OUT_OF_MEMORY, OK, OK, OK", ROW_SHARED},
    {"D7 reserve-empty-unaligned-nowhere", reserve_sizes,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE", ROW_SHARED},
    {"D7.wrong reserve-with-alignment-three-and-flags", reserve_wrong,
        "INVALID_VALUE, INVALID_VALUE", ROW_SHARED},
    {"D7.align reserve-aligned-to-a-gibibyte", reserve_aligned, "OK, aligned, OK, on a granule",
        ROW_SHARED},
    {"D7.hint reserve-where-somebody-is", reserve_hint, "OK, another", ROW_SHARED},
    {"D7.large reserve-more-than-the-card-has", reserve_large, "OK, costs nothing, OK", ROW_SHARED},
    {"D19 release-while-mapped-then-again", release_while_mapped, "OK, same, INVALID_VALUE, same",
        ROW_SHARED},
    {"D19.twice release-twice-and-of-nothing", release_twice, "OK, INVALID_VALUE, INVALID_VALUE",
        ROW_SHARED},
    {"D20 free-figure-create-map-release-unmap", free_figure,
        "as before less it, as before less it, as before less it, as before less it", ROW_SHARED},
    {"D20.shared free-figure-of-two-mappings", free_figure_shared,
        "as before less it, as before less it, as before less it", ROW_SHARED},
    {"D20.kept free-figure-unmap-then-release", free_figure_kept,
        "as before less it, as before less it", ROW_SHARED},
    {"D32 many-handles-created-and-released", many, "as before less it, as before less it",
        ROW_SHARED},
    {"handle.properties properties-told-by-a-handle", properties, "OK, as made, INVALID_VALUE",
        ROW_SHARED},
    {"handle.released properties-of-a-released-handle", properties_released, "OK", ROW_MISUSE},
    {"handle.retain retain-by-address-then-unmapped", retain_by_address,
        "OK, same, OK, INVALID_VALUE, OK, INVALID_VALUE", ROW_SHARED},
    {"handle.export export-that-was-not-requested", export_unrequested, "INVALID_VALUE",
        ROW_SHARED},
    {0},
};
