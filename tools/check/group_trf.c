/* Group TRF: streams, fills, copies. Nothing is said here of addresses where nothing is: a device
 * cannot be asked, and the contract promises no refusal. Whether a slot waits for its work is not
 * looked at, only that later calls find it done in order. */
#include "tools/check/flow.h"
#include "tools/check/process.h"
#include "tools/check/steps.h"

#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 8u
#define SEEN_ENOUGH 2u /* attempts that had work pending */
#define PAGE_BYTES UINT64_C(4096)
#define ROOM_BYTES (UINT64_C(256) << 10)
#define NEEDS (MBR_NEEDS_ORDER | MBR_NEEDS_TRANSFER)

/* Memory of the mechanism, a picture of what it should hold, and room for what it does hold. */
typedef struct canvas {
    uint64_t address, bytes;
    unsigned char *wanted, *seen;
} canvas;

static unsigned char *host_memory(mbr_trial *trial, uint64_t bytes)
{
    unsigned char *memory = malloc(bytes);
    if (memory == NULL)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no memory for %lu bytes", bytes);
    return memory;
}

static void paint(unsigned char *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)((i * 7 + (i >> 8) * 13 + seed) | 1);
}

static canvas take_canvas(mbr_trial *trial, uint64_t bytes, uint64_t seed)
{
    canvas made = {.address = mbr_alc_take(trial, bytes).address,
        .bytes = bytes,
        .wanted = host_memory(trial, bytes),
        .seen = host_memory(trial, bytes)};
    paint(made.wanted, bytes, seed);
    mbr_step_put(trial, made.address, made.wanted, bytes);
    return made;
}

/* The first byte that is other than the picture, or the size. */
static uint64_t first_other(mbr_trial *trial, const canvas *self)
{
    mbr_step_read(trial, self->address, self->seen, self->bytes);
    if (memcmp(self->seen, self->wanted, self->bytes) == 0)
        return self->bytes;
    uint64_t at = 0;
    while (self->seen[at] == self->wanted[at])
        at++;
    return at;
}

#define EXPECT_PICTURE(trial, self, expected, format, ...)                                         \
    do {                                                                                           \
        uint64_t at_ = first_other((trial), (self));                                               \
        MBR_EXPECT((trial), at_ == (self)->bytes, (expected),                                      \
            format ": byte %lu is 0x%02x, not 0x%02x", __VA_ARGS__, at_, (self)->seen[at_],        \
            (self)->wanted[at_]);                                                                  \
    } while (0)

/* ---- Happy paths ----------------------------------------------------------------------------- */

static void run_stream(mbr_trial *trial)
{
    mbr_native one, two;
    mbr_expect_status(
        trial, mbr_try_stream(trial, &trial->subject, 0, &one), MBR_OK, "stream_create");
    mbr_expect_status(
        trial, mbr_try_stream(trial, &trial->subject, 0, &two), MBR_OK, "stream_create");
    MBR_EXPECT(trial, one.kind != MBR_NATIVE_STREAM_NONE, "a stream has a kind", "kind 0");
    MBR_EXPECT(trial, one.kind != two.kind || one.value != two.value,
        "two streams that live are told apart", "both are %u, 0x%lx", one.kind, one.value);
    mbr_expect_status(
        trial, mbr_try_stream_end(trial, &trial->subject, one), MBR_OK, "stream_destroy");
    mbr_expect_status(
        trial, mbr_try_stream_end(trial, &trial->subject, two), MBR_OK, "stream_destroy");
}

static void run_fill(mbr_trial *trial)
{
    canvas it = take_canvas(trial, 4 * PAGE_BYTES, 3);
    mbr_native stream = mbr_step_stream(trial);
    mbr_expect_status(trial,
        mbr_try_fill(trial, &trial->subject, stream, it.address + PAGE_BYTES, 2 * PAGE_BYTES, 0xC3),
        MBR_OK, "fill");
    mbr_step_drain(trial, stream);
    memset(it.wanted + PAGE_BYTES, 0xC3, 2 * PAGE_BYTES);
    EXPECT_PICTURE(trial, &it, "a fill writes its range and nothing else", "a fill of %lu bytes",
        2 * PAGE_BYTES);
}

static void run_directions(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    canvas one = take_canvas(trial, 2 * PAGE_BYTES, 5), two = take_canvas(trial, one.bytes, 9);
    unsigned char *from = host_memory(trial, one.bytes), *back = host_memory(trial, one.bytes);
    unsigned char *last = host_memory(trial, one.bytes);
    mbr_native stream = mbr_step_stream(trial);
    paint(from, one.bytes, 77);
    const uint64_t ways[][2] = {{one.address, (uint64_t)(uintptr_t)from},
        {two.address, one.address}, {(uint64_t)(uintptr_t)back, two.address},
        {(uint64_t)(uintptr_t)last, (uint64_t)(uintptr_t)back}};
    static const char *const names[] = {"a copy from the host", "a copy inside the mechanism",
        "a copy to the host", "a copy from the host to the host"};
    for (size_t i = 0; i < 4; i++) {
        mbr_expect_status(trial,
            mbr_try_copy(trial, self, stream, ways[i][0], ways[i][1], one.bytes), MBR_OK, names[i]);
        mbr_step_drain(trial, stream);
    }
    memcpy(one.wanted, from, one.bytes);
    memcpy(two.wanted, from, one.bytes);
    EXPECT_PICTURE(trial, &one, "copies go in all directions", "%s", names[0]);
    EXPECT_PICTURE(trial, &two, "copies go in all directions", "%s", names[1]);
    for (size_t i = 0; i < 2; i++)
        MBR_EXPECT(trial, memcmp(i == 0 ? back : last, from, one.bytes) == 0,
            "copies go in all directions", "%s: other contents", names[2 + i]);
}

/* ---- Sizes and places ------------------------------------------------------------------------ */

static uint64_t size_at(const mbr_trial *trial, uint32_t index)
{
    const uint64_t granule = trial->granule_bytes <= ROOM_BYTES / 2 ? trial->granule_bytes : 65536;
    const uint64_t sizes[] = {1, 2, 3, 7, 8, 9, 63, 65, 511, 4095, 4097, granule - 1, granule + 1};
    return index < sizeof sizes / sizeof sizes[0] ? sizes[index] : 0;
}

static void run_fill_sizes(mbr_trial *trial)
{
    canvas it = take_canvas(trial, ROOM_BYTES, 11);
    mbr_native stream = mbr_step_stream(trial);
    for (uint32_t i = 0; size_at(trial, i) != 0; i++) {
        uint64_t bytes = size_at(trial, i), at = i % 3 * 5 + i % 2 * PAGE_BYTES;
        mbr_step_fill(trial, stream, it.address + at, bytes, 0x80 + i);
        mbr_step_drain(trial, stream);
        memset(it.wanted + at, (int)(0x80 + i), bytes);
        EXPECT_PICTURE(trial, &it, "a fill writes its range, byte by byte, and nothing else",
            "a fill of %lu bytes at offset %lu", bytes, at);
    }
}

static void run_copy_sizes(mbr_trial *trial)
{
    canvas from = take_canvas(trial, ROOM_BYTES, 13), to = take_canvas(trial, ROOM_BYTES, 17);
    mbr_native stream = mbr_step_stream(trial);
    for (uint32_t i = 0; size_at(trial, i) != 0; i++) {
        uint64_t bytes = size_at(trial, i), at = i % 2 * PAGE_BYTES;
        mbr_step_copy(trial, stream, to.address + at, from.address + at, bytes);
        mbr_step_drain(trial, stream);
        memcpy(to.wanted + at, from.wanted + at, bytes);
        EXPECT_PICTURE(trial, &to, "a copy writes its range, byte by byte, and nothing else",
            "a copy of %lu bytes at offset %lu", bytes, at);
    }
}

static void run_unaligned(mbr_trial *trial)
{
    static const uint64_t places[][2] = {{1, 0}, {0, 1}, {3, 5}, {7, 8}, {4095, 1}, {2, 4097}};
    canvas from = take_canvas(trial, ROOM_BYTES, 19), to = take_canvas(trial, ROOM_BYTES, 23);
    mbr_native stream = mbr_step_stream(trial);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        uint64_t bytes = 2 * PAGE_BYTES, to_at = places[i][0], from_at = places[i][1];
        mbr_step_copy(trial, stream, to.address + to_at, from.address + from_at, bytes);
        mbr_step_drain(trial, stream);
        memcpy(to.wanted + to_at, from.wanted + from_at, bytes);
        EXPECT_PICTURE(trial, &to, "a copy works at any address", "from offset %lu to offset %lu",
            from_at, to_at);
    }
    EXPECT_PICTURE(trial, &from, "a copy leaves its source", "after %lu copies",
        sizeof places / sizeof places[0]);
}

static void run_pattern(mbr_trial *trial)
{
    static const uint32_t patterns[] = {0x12345678, 0xFFFFFF00, 0x000000FF, 0x80808081, 0x0100};
    canvas it = take_canvas(trial, 2 * PAGE_BYTES, 29);
    mbr_native stream = mbr_step_stream(trial);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        mbr_step_fill(trial, stream, it.address, PAGE_BYTES, patterns[i]);
        mbr_step_drain(trial, stream);
        memset(it.wanted, (int)(patterns[i] & 0xFF), PAGE_BYTES);
        EXPECT_PICTURE(trial, &it, "the low byte of the pattern is written to every byte",
            "pattern 0x%08x", patterns[i]);
    }
}

static void run_large(mbr_trial *trial)
{
    const uint64_t bytes = (UINT64_C(17) << 20) + 5;
    if (mbr_subject_share_of_free(trial, &trial->subject, bytes, 2) < bytes)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "the device has no room for two of %lu bytes", bytes);
    uint64_t from = mbr_alc_take(trial, bytes).address, to = mbr_alc_take(trial, bytes).address;
    mbr_native stream = mbr_step_stream(trial);
    unsigned char last[2] = {0xEE, 0xDD};
    mbr_step_put(trial, from + bytes - sizeof last, last, sizeof last);
    mbr_step_copy(trial, stream, to, from, bytes);
    mbr_step_drain(trial, stream);
    memset(last, 0, sizeof last);
    mbr_step_read(trial, to + bytes - sizeof last, last, sizeof last);
    MBR_EXPECT(trial, last[0] == 0xEE && last[1] == 0xDD, "a large copy is made to its end",
        "the last bytes of %lu are 0x%02x 0x%02x", bytes, last[0], last[1]);
}

/* A range over the seam of two mappings is one range to whoever looks through its addresses. */
static void run_seam(mbr_trial *trial)
{
    uint64_t half = mbr_step_granules(trial, 1) * trial->granule_bytes;
    mbr_place place = mbr_step_reserve(trial, 2);
    mbr_step_commit(trial, &place, 0, 1);
    mbr_step_commit(trial, &place, 1, 1);
    const uint64_t bytes = 3000, at = half - 1000;
    unsigned char wanted[3000], seen[3000] = {0};
    canvas from = take_canvas(trial, PAGE_BYTES, 31);
    mbr_native stream = mbr_step_stream(trial);
    mbr_step_copy(trial, stream, place.address + at, from.address, bytes);
    mbr_step_drain(trial, stream);
    memcpy(wanted, from.wanted, bytes);
    mbr_step_read(trial, place.address + at, seen, bytes);
    MBR_EXPECT(trial, memcmp(seen, wanted, bytes) == 0, "a copy goes over the seam of two mappings",
        "%lu bytes from offset %lu: other contents", bytes, at);
}

/* ---- Order ----------------------------------------------------------------------------------- */

static void run_in_order(mbr_trial *trial)
{
    uint64_t load = mbr_alc_take(trial, MBR_LOAD_BYTES).address;
    uint64_t copy = mbr_alc_take(trial, PAGE_BYTES).address;
    mbr_native stream = mbr_step_stream(trial);
    uint64_t line = mbr_step_line(trial, stream);
    for (uint32_t attempt = 0, seen = 0; attempt < ATTEMPTS && seen < SEEN_ENOUGH; attempt++) {
        unsigned char last;
        uint32_t pattern = 0x31 + attempt;
        uint64_t value = mbr_step_load_signal(trial, stream, line, load, pattern);
        seen += mbr_step_is_pending(trial, line, value);
        mbr_step_copy(trial, stream, copy, load + MBR_LOAD_BYTES - PAGE_BYTES, PAGE_BYTES);
        mbr_step_fill(trial, stream, load + MBR_LOAD_BYTES - PAGE_BYTES, PAGE_BYTES, 0xF0);
        mbr_step_drain(trial, stream);
        mbr_step_read(trial, copy + PAGE_BYTES - 1, &last, 1);
        MBR_EXPECT(trial, last == pattern, "the work of one stream is done in its order",
            "the copy holds 0x%02x; the fill before it wrote 0x%02x, the one behind it 0xf0", last,
            pattern);
    }
}

static void run_destroyed_pending(mbr_trial *trial)
{
    uint64_t load = mbr_alc_take(trial, MBR_LOAD_BYTES).address;
    for (uint32_t attempt = 0, seen = 0; attempt < ATTEMPTS && seen < SEEN_ENOUGH; attempt++) {
        uint32_t pattern = 0x51 + attempt;
        mbr_native stream = mbr_step_stream(trial);
        uint64_t line = mbr_step_line(trial, stream);
        uint64_t value = mbr_step_load_signal(trial, stream, line, load, pattern);
        seen += mbr_step_is_pending(trial, line, value);
        mbr_step_stream_end(trial, stream);
        mbr_step_wait(trial, line, value);
        uint32_t mark = mbr_step_load_mark(trial, load);
        MBR_EXPECT(trial, mark == pattern, "pending work goes on after stream_destroy",
            "the last byte of the fill is 0x%02x, not 0x%02x", mark, pattern);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void run_nothing(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t address = mbr_alc_take(trial, 2 * PAGE_BYTES).address;
    mbr_expect_callers_bug(
        trial, mbr_try_fill(trial, &trial->subject, stream, address, 0, 1), "a fill of 0 bytes");
    mbr_expect_callers_bug(trial,
        mbr_try_copy(trial, &trial->subject, stream, address, address + PAGE_BYTES, 0),
        "a copy of 0 bytes");
}

static void run_wraps(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t address = mbr_alc_take(trial, PAGE_BYTES).address;
    const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - address + 1, UINT64_MAX - 4095};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_expect_callers_bug(trial,
            mbr_try_fill(trial, &trial->subject, stream, address, sizes[i], 1),
            "a fill that ends beyond 64 bits");
        mbr_expect_callers_bug(trial,
            mbr_try_copy(trial, &trial->subject, stream, address, 4096, sizes[i]),
            "a copy that ends beyond 64 bits");
    }
}

static void run_overlap(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t address = mbr_alc_take(trial, 8 * PAGE_BYTES).address, middle = 4 * PAGE_BYTES;
    static const int64_t shifts[] = {0, 1, -1, 4095, -4095};
    for (size_t i = 0; i < sizeof shifts / sizeof shifts[0]; i++)
        mbr_expect_callers_bug(trial,
            mbr_try_copy(trial, &trial->subject, stream, address + middle + (uint64_t)shifts[i],
                address + middle, PAGE_BYTES),
            "a copy whose ranges overlap");
    mbr_need_ok(trial,
        mbr_try_copy(trial, &trial->subject, stream, address + PAGE_BYTES, address, PAGE_BYTES),
        "a copy to where its source ends");
}

static void run_kinds(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    mbr_native stream = mbr_step_stream(trial);
    uint64_t address = mbr_alc_take(trial, 2 * PAGE_BYTES).address;
    const uint32_t kinds[] = {MBR_NATIVE_STREAM_NONE, MBR_NATIVE_STREAM_CPU, MBR_NATIVE_STREAM_CUDA,
        MBR_NATIVE_STREAM_HIP, 4, 77, UINT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        mbr_native other = {.kind = kinds[i], .value = stream.value};
        if (other.kind == stream.kind)
            continue;
        mbr_expect_callers_bug(trial, mbr_try_fill(trial, self, other, address, PAGE_BYTES, 1),
            "a fill on a stream of another kind");
        mbr_expect_callers_bug(trial,
            mbr_try_copy(trial, self, other, address, address + PAGE_BYTES, PAGE_BYTES),
            "a copy on a stream of another kind");
        mbr_expect_callers_bug(trial, mbr_try_stream_end(trial, self, other),
            "stream_destroy of a stream of another kind");
    }
}

static void run_destroyed_twice(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    mbr_step_stream_end(trial, stream);
    for (uint32_t again = 0; again < 3; again++) {
        mbr_status status = mbr_try_stream_end(trial, &trial->subject, stream);
        MBR_EXPECT(trial, status != MBR_OK, "a second stream_destroy is refused", "MBR_OK");
    }
}

static void run_flags(mbr_trial *trial)
{
    for (uint32_t bit = 0; bit < 16; bit++) {
        mbr_native stream;
        mbr_status status = mbr_try_stream(trial, &trial->subject, 1u << bit, &stream);
        MBR_EXPECT(trial, status != MBR_OK, "stream_create refuses an unknown critical flag",
            "flag 0x%x: MBR_OK", 1u << bit);
    }
}

/* ---- Books ----------------------------------------------------------------------------------- */

static void run_report(mbr_trial *trial)
{
    mbr_native streams[3];
    for (uint64_t i = 0; i < 3; i++) {
        streams[i] = mbr_step_stream(trial);
        uint64_t count = mbr_subject_report(trial, &trial->subject).stream_count;
        MBR_EXPECT(trial, count == i + 1, "report counts the streams", "%lu of %lu", count, i + 1);
    }
    for (uint64_t i = 0; i < 3; i++) {
        mbr_step_stream_end(trial, streams[i]);
        uint64_t count = mbr_subject_report(trial, &trial->subject).stream_count;
        MBR_EXPECT(trial, count == 2 - i, "report counts the streams", "%lu of %lu", count, 2 - i);
    }
}

static void rounds(mbr_trial *trial, uint64_t address, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        mbr_native stream = mbr_step_stream(trial);
        mbr_step_fill(trial, stream, address, PAGE_BYTES, i);
        mbr_step_drain(trial, stream);
        mbr_step_stream_end(trial, stream);
    }
    const mbr_quiesce_request request = {
        MBR_SIZED(mbr_quiesce_request), .deadline_ns = mbr_now_ns() + MBR_FLOW_PATIENCE_NS};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_need_ok(trial, mbr_drive_quiesce(trial, &trial->subject, &request, &outcome), "quiesce");
}

/* A driver may make threads and descriptors of its own at first, and keep some for later. */
static void run_rounds(mbr_trial *trial)
{
    uint64_t address = mbr_alc_take(trial, PAGE_BYTES).address;
    mbr_process before, after;
    rounds(trial, address, 10);
    mbr_process_read(&before);
    rounds(trial, address, 100);
    mbr_process_read(&after);
    MBR_EXPECT(trial, after.descriptor_count <= before.descriptor_count + 10,
        "100 streams created and destroyed leave no descriptor", "%lu, then %lu",
        before.descriptor_count, after.descriptor_count);
    MBR_EXPECT(trial, after.thread_count <= before.thread_count + 10,
        "100 streams created and destroyed leave no thread", "%lu, then %lu", before.thread_count,
        after.thread_count);
}

static const mbr_check checks[] = {
    {"TRF-001", 2, MBR_STAGE_OPENED, NEEDS, "C9", "streams are created and destroyed",
        "Every fill and copy needs one.", run_stream, 0, 0},
    {"TRF-002", 2, MBR_STAGE_OPENED, NEEDS, "C2", "a fill writes its range and nothing else",
        "The host clears memory between tenants with it.", run_fill, 0, 0},
    {"TRF-003", 2, MBR_STAGE_OPENED, NEEDS, "C2", "copies go in all directions",
        "The host moves sleeping tenants' memory out and back in.", run_directions, 0, 0},
    {"TRF-004", 3, MBR_STAGE_OPENED, NEEDS, "C2", "a fill of any size is exact",
        "Bytes that a fill leaves are another tenant's.", run_fill_sizes, 0, 0},
    {"TRF-005", 3, MBR_STAGE_OPENED, NEEDS, "C2", "a copy of any size is exact",
        "Bytes behind the range are somebody else's.", run_copy_sizes, 0, 0},
    {"TRF-006", 3, MBR_STAGE_OPENED, NEEDS, "C2", "a copy works at any address",
        "Rows of a cache begin anywhere.", run_unaligned, 0, 0},
    {"TRF-007", 3, MBR_STAGE_OPENED, NEEDS, "C2", "the pattern is its low byte",
        "A pattern that is read as a word leaves other bytes.", run_pattern, 0, 0},
    {"TRF-008", 3, MBR_STAGE_OPENED, NEEDS, "C2", "a large copy is whole",
        "A length in fewer bits drops the end without a word.", run_large, 0, 0},
    {"TRF-009", 3, MBR_STAGE_OPENED, NEEDS | MBR_NEEDS_VIRTUAL, "C2",
        "a copy goes over the seam of two mappings",
        "To the host a range is one, however many extents are behind it.", run_seam, 0, 0},
    {"TRF-010", 2, MBR_STAGE_OPENED, NEEDS, "C2", "the work of a stream is done in its order",
        "A line's value says that everything before it is done.", run_in_order, 0, 0},
    {"TRF-011", 3, MBR_STAGE_OPENED, NEEDS, "C2", "pending work goes on after stream_destroy",
        "A host destroys a stream as soon as it has no more work for it.", run_destroyed_pending, 0,
        0},
    {"TRF-012", 3, MBR_STAGE_OPENED, NEEDS, "C7", "0 bytes are refused",
        "A size of 0 is a caller's bug that would stay hidden.", run_nothing, 0, 0},
    {"TRF-013", 3, MBR_STAGE_OPENED, NEEDS, "C7", "ranges beyond 64 bits are refused",
        "The sum wraps, and other memory is written.", run_wraps, 0, 0},
    {"TRF-014", 3, MBR_STAGE_OPENED, NEEDS, "C2", "overlapping copies are refused",
        "What such a copy leaves depends on the driver's direction.", run_overlap, 0, 0},
    {"TRF-015", 3, MBR_STAGE_OPENED, NEEDS, "C9", "streams of another kind are refused",
        "The value of one driver's stream is an address to crash on in another.", run_kinds, 0, 0},
    {"TRF-016", 3, MBR_STAGE_OPENED, NEEDS, "C22", "a second stream_destroy is refused",
        "It would end a stream that was given the same value since.", run_destroyed_twice, 0, 0},
    {"TRF-017", 3, MBR_STAGE_OPENED, NEEDS, "C15", "unknown critical flags are refused",
        "The host asks for something that it relies on.", run_flags, 0, 0},
    {"TRF-018", 3, MBR_STAGE_OPENED, NEEDS, "C2", "report counts streams",
        "Unloading under a live stream would crash later.", run_report, 0, 0},
    {"TRF-019", 3, MBR_STAGE_OPENED, NEEDS, "C2", "100 streams leave nothing",
        "A runtime that makes a stream for each request would run dry.", run_rounds, 0, 0},
};

const mbr_group mbr_group_trf = MBR_GROUP("TRF", "streams: fill, copy", checks);
