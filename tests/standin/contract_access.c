/* Rows about access: who may read and write a mapping, checked when work is submitted or when it
 * runs, and what copies and fills do across mappings. */
#include "tests/standin/contract.h"

/* D14 */
static void before_access(void)
{
    mbr_cuda_address at = reserve(1);
    mbr_cuda_handle handle = create(1);
    struct place source = take(1);
    uint32_t word = 0;
    map(at, 1, handle);
    see(cu.fill(at, 0, 4));
    see(cu.copy_to_device(at, &word, sizeof word));
    see(cu.copy_to_host(&word, at, sizeof word));
    see(cu.copy_on_device(at, source.at, 4));
    see(cu.copy_on_device(source.at, at, 4));
    see(cu.fill_async(at, 0, 4, world.stream));
    see(cu.context_synchronize());
    see(access_to(at, world.granule_bytes, MBR_CUDA_ACCESS_READ_WRITE));
    see(cu.fill(at, 0, 4));
    NEED(cu.context_synchronize());
    drop(at, 1);
    NEED(cu.handle_release(handle));
    give(source, 1);
}

/* D15 */
static void set_parts(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(3);
    mbr_cuda_handle handle = create(2);
    map(at, 2, handle);
    see(access_to(at, granule, MBR_CUDA_ACCESS_READ_WRITE));
    see(access_to(at + granule, granule, MBR_CUDA_ACCESS_READ_WRITE));
    see(access_to(at, 3 * granule, MBR_CUDA_ACCESS_READ_WRITE));
    see(cu.fill(at, 0, 4));
    drop(at, 3);
    NEED(cu.handle_release(handle));
}

static void set_over_a_hole(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(3);
    mbr_cuda_handle first = create(1);
    mbr_cuda_handle second = create(1);
    map(at, 1, first);
    map(at + 2 * granule, 1, second);
    see(access_to(at, 3 * granule, MBR_CUDA_ACCESS_READ_WRITE));
    see(cu.fill(at, 0, 4));
    drop(at, 3);
    NEED(cu.handle_release(first));
    NEED(cu.handle_release(second));
}

/* A hole in the middle is passed over; a range that begins or ends in one is not taken. */
static void set_from_a_hole(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(3);
    mbr_cuda_handle handle = create(1);
    map(at + granule, 1, handle);
    see(access_to(at, 2 * granule, MBR_CUDA_ACCESS_READ_WRITE));
    see(access_to(at + granule, 2 * granule, MBR_CUDA_ACCESS_READ_WRITE));
    drop(at, 3);
    NEED(cu.handle_release(handle));
}

static void set_over_neighbours(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(2);
    mbr_cuda_handle first = create(1);
    mbr_cuda_handle second = create(1);
    map(at, 1, first);
    map(at + granule, 1, second);
    see(access_to(at, 2 * granule, MBR_CUDA_ACCESS_READ_WRITE));
    see(cu.fill(at + granule - 4, 1, 8));
    NEED(cu.context_synchronize());
    drop(at, 2);
    NEED(cu.handle_release(first));
    NEED(cu.handle_release(second));
}

static void set_wrong(void)
{
    struct place place = take(1);
    const size_t granule = world.granule_bytes;
    struct mbr_cuda_access access = {{MBR_CUDA_LOCATION_DEVICE, 0}, MBR_CUDA_ACCESS_READ};
    see(access_to(place.at, granule, 2));
    see(cu.set_access(place.at, granule, NULL, 1));
    see(cu.set_access(place.at, granule, &access, 0));
    see(access_to(place.at, 0, MBR_CUDA_ACCESS_READ));
    see(access_to(place.at + 4096, granule, MBR_CUDA_ACCESS_READ));
    access.location.id = 1000;
    see(cu.set_access(place.at, granule, &access, 1));
    access.location = (struct mbr_cuda_location){0, 0};
    see(cu.set_access(place.at, granule, &access, 1));
    see(cu.fill(place.at, 0, 4));
    NEED(cu.context_synchronize());
    give(place, 1);
}

static void set_unmapped(void)
{
    mbr_cuda_address at = reserve(1);
    see(access_to(at, world.granule_bytes, MBR_CUDA_ACCESS_READ_WRITE));
    NEED(cu.address_free(at, world.granule_bytes));
    see(access_to(at, world.granule_bytes, MBR_CUDA_ACCESS_READ_WRITE));
}

static void get_access(void)
{
    mbr_cuda_address at = reserve(2);
    mbr_cuda_handle handle = create(1);
    map(at, 1, handle);
    say_access(at, 0);
    grant(at, 1);
    say_access(at, 0);
    NEED(access_to(at, world.granule_bytes, MBR_CUDA_ACCESS_READ));
    say_access(at + world.granule_bytes / 2, 0);
    say_access(at + world.granule_bytes, 0);
    drop(at, 2);
    NEED(cu.handle_release(handle));
}

/* D16 */
static void read_only(void)
{
    struct place place = take(1);
    struct place other = take(1);
    uint32_t word = 99;
    NEED(launch_store(place.at, 31, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    NEED(access_to(place.at, world.granule_bytes, MBR_CUDA_ACCESS_READ));
    see(cu.fill(place.at, 0, 4));
    see(cu.copy_to_device(place.at, &word, sizeof word));
    see(cu.copy_on_device(place.at, other.at, 4));
    see(cu.copy_on_device(other.at, place.at, 4));
    say_word(other.at, 31);
    say_word(place.at, 31);
    see(cu.context_synchronize());
    give(place, 1);
    give(other, 1);
}

static void read_only_kernel(void)
{
    struct place place = take(1);
    NEED(launch_store(place.at, 32, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    NEED(access_to(place.at, world.granule_bytes, MBR_CUDA_ACCESS_READ));
    see(launch_verify(place.at, 1, 32, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_if(*world.wrong == 0, "same", "other");
    give(place, 1);
}

/* One handle, written at one address and read at another that may only read. */
static void read_only_alias(void)
{
    struct place place = take(1);
    mbr_cuda_address also = reserve(1);
    map(also, 1, place.handle);
    NEED(access_to(also, world.granule_bytes, MBR_CUDA_ACCESS_READ));
    NEED(launch_store(place.at, 33, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    say_word(also, 33);
    see(cu.fill(also, 0, 4));
    see(cu.fill(place.at, 0, 4));
    NEED(cu.context_synchronize());
    say_word(also, 0);
    drop(also, 1);
    give(place, 1);
}

static void fill_over_a_hole(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(3);
    mbr_cuda_handle first = create(1);
    mbr_cuda_handle second = create(1);
    map(at, 1, first);
    map(at + 2 * granule, 1, second);
    grant(at, 1);
    grant(at + 2 * granule, 1);
    NEED(launch_store(at + granule - 4, 34, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    see(cu.fill(at + granule - 4, 0, granule + 8));
    see(cu.fill(at + granule - 4, 0, 8));
    say_word(at + granule - 4, 34);
    see(cu.context_synchronize());
    drop(at, 3);
    NEED(cu.handle_release(first));
    NEED(cu.handle_release(second));
}

/* D17 */
static mbr_cuda_address two_neighbours(mbr_cuda_handle handles[2])
{
    mbr_cuda_address at = reserve(2);
    handles[0] = create(1);
    handles[1] = create(1);
    map(at, 1, handles[0]);
    map(at + world.granule_bytes, 1, handles[1]);
    grant(at, 2);
    return at;
}

static void give_neighbours(mbr_cuda_address at, mbr_cuda_handle handles[2])
{
    drop(at, 2);
    NEED(cu.handle_release(handles[0]));
    NEED(cu.handle_release(handles[1]));
}

static void seam_copy(void)
{
    mbr_cuda_handle handles[2];
    mbr_cuda_address at = two_neighbours(handles);
    mbr_cuda_address seam = at + world.granule_bytes;
    uint64_t written = 0x1122334455667788;
    uint64_t read = 0;
    see(cu.copy_to_device(seam - 4, &written, sizeof written));
    see(cu.copy_to_host(&read, seam - 4, sizeof read));
    say_if(read == written, "same", "other");
    see(cu.copy_on_device(at, seam - 4, 8));
    see(cu.copy_to_host(&read, at, sizeof read));
    say_if(read == written, "same", "other");
    give_neighbours(at, handles);
}

static void seam_kernel(void)
{
    mbr_cuda_handle handles[2];
    mbr_cuda_address at = two_neighbours(handles);
    mbr_cuda_address seam = at + world.granule_bytes;
    see(launch_fill(seam - 128, 64, 35, world.stream));
    see(launch_verify(seam - 128, 64, 35, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_if(*world.wrong == 0, "same", "other");
    give_neighbours(at, handles);
}

/* D18: that it can be read, not what is there. */
static void fresh(void)
{
    struct place place = take(1);
    uint32_t word;
    see(cu.copy_to_host(&word, place.at, sizeof word));
    see(launch_verify(place.at, 64, 0, world.stream));
    see(cu.stream_synchronize(world.stream));
    give(place, 1);
}

/* C5 */
static void change(void)
{
    struct place place = take(1);
    const size_t granule = world.granule_bytes;
    uint32_t word = 0;
    NEED(launch_store(place.at, 36, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    see(access_to(place.at, granule, MBR_CUDA_ACCESS_READ));
    see(access_to(place.at, granule, MBR_CUDA_ACCESS_READ));
    say_word(place.at, 36);
    see(access_to(place.at, granule, MBR_CUDA_ACCESS_NONE));
    see(cu.copy_to_host(&word, place.at, sizeof word));
    see(cu.fill(place.at, 0, 4));
    see(access_to(place.at, granule, MBR_CUDA_ACCESS_READ_WRITE));
    say_word(place.at, 36);
    give(place, 1);
}

const struct row contract_access_rows[] = {
    {"D14 copies-and-fills-before-set-access", before_access,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, "
        "OK, OK, OK",
        ROW_SHARED},
    {"D15 set-access-on-a-part-or-beyond", set_parts,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE", ROW_SHARED},
    {"D15.hole set-access-over-a-hole", set_over_a_hole, "OK, OK", ROW_SHARED},
    {"D15.edge set-access-from-or-to-a-hole", set_from_a_hole, "INVALID_VALUE, INVALID_VALUE",
        ROW_SHARED},
    {"D15.neighbours set-access-over-two-mappings", set_over_neighbours, "OK, OK", ROW_SHARED},
    {"D15.wrong set-access-flags-list-range-device", set_wrong,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, "
        "INVALID_VALUE, "
        "INVALID_VALUE, OK",
        ROW_SHARED},
    {"D15.unmapped set-access-where-nothing-is-mapped", set_unmapped,
        "INVALID_VALUE, INVALID_VALUE", ROW_SHARED},
    {"access.get get-access-none-read-write-read-hole", get_access,
        "OK, none, OK, read-write, OK, read, INVALID_VALUE", ROW_SHARED},
    {"D16 read-only-as-target-and-as-source", read_only,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, OK, same, same, OK", ROW_SHARED},
    {"D16.load kernel-reads-read-only", read_only_kernel, "OK, OK, same", ROW_SHARED},
    {"D16.alias written-here-read-only-there", read_only_alias, "same, INVALID_VALUE, OK, same",
        ROW_SHARED},
    {"D16.hole fill-over-a-hole-writes-nothing", fill_over_a_hole,
        "INVALID_VALUE, INVALID_VALUE, same, OK", ROW_SHARED},
    {"D17 copy-over-the-seam-of-two-mappings", seam_copy, "OK, OK, same, OK, OK, same", ROW_SHARED},
    {"D17.kernel kernel-over-the-seam-of-two-mappings", seam_kernel, "OK, OK, OK, same",
        ROW_SHARED},
    {"D18 fresh-memory-can-be-read", fresh, "OK, OK, OK", ROW_SHARED},
    {"C5 access-read-none-and-back", change,
        "OK, OK, same, OK, INVALID_VALUE, INVALID_VALUE, OK, same", ROW_SHARED},
    {0},
};
