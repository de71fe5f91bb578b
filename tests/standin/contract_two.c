/* Rows about two devices: who may use whose memory, and what a device's context answers to what is
 * the other's. Where nothing else is said the memory is device 0's, and device 0 is who asks.
 *
 * What is expected is what two cards answered (transcript.two.txt). Each row has a note of what
 * says the same: CUDA's documentation, or a row of one device. */
#include "tests/standin/contract.h"

#define READ MBR_CUDA_ACCESS_READ
#define READ_WRITE MBR_CUDA_ACCESS_READ_WRITE
#define NONE MBR_CUDA_ACCESS_NONE
#define SEAM_WORDS 64 /* half of them on either side */

/* ---- Steps ---- */

static struct mbr_cuda_access entry(int device, uint32_t flags)
{
    return (struct mbr_cuda_access){{MBR_CUDA_LOCATION_DEVICE, device}, flags};
}

/* A call with an entry for one device. */
static mbr_cuda_result set_one(mbr_cuda_address at, int device, uint32_t flags)
{
    struct mbr_cuda_access access = entry(device, flags);
    return cu.set_access(at, world.granule_bytes, &access, 1);
}

/* A call with an entry for each. */
static mbr_cuda_result set_both(
    mbr_cuda_address at, size_t granules, uint32_t flags_0, uint32_t flags_1)
{
    struct mbr_cuda_access list[] = {entry(0, flags_0), entry(1, flags_1)};
    return cu.set_access(at, granules * world.granule_bytes, list, 2);
}

static void say_accesses(mbr_cuda_address at)
{
    say_access(at, 0);
    say_access(at, 1);
}

/* A granule of the device, mapped, with no access yet. */
static struct place lay(int device)
{
    turn_to(device);
    struct place place = {reserve(1), create(1)};
    map(place.at, 1, place.handle);
    turn_to(0);
    return place;
}

static struct place lay_for_both(int device)
{
    struct place place = lay(device);
    NEED(set_both(place.at, 1, READ_WRITE, READ_WRITE));
    return place;
}

static struct place take_of(int device)
{
    struct place place = lay(device);
    NEED(set_one(place.at, device, READ_WRITE));
    return place;
}

/* By a kernel of the device. */
static void store_by(int device, mbr_cuda_address at, uint32_t value)
{
    turn_to(device);
    NEED(launch_store(at, value, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    turn_to(0);
}

static void say_seen_by(int device, mbr_cuda_address at, uint32_t words, uint32_t value)
{
    turn_to(device);
    NEED(launch_verify(at, words, value, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    say_if(*world.wrong == 0, "same", "other");
    turn_to(0);
}

/* ---- Access ---- */

static void peer_alone(void)
{
    struct place place = lay(0);
    see(set_one(place.at, 1, READ_WRITE));
    see(cu.fill(place.at, 1, 4));
    turn_to(1);
    see(cu.fill(place.at, 2, 4));
    see(cu.context_synchronize());
    say_word(place.at, 0x02020202);
    turn_to(0);
    give(place, 1);
}

static void peer_without(void)
{
    struct place place = take_of(0);
    uint32_t word = 41;
    store_by(0, place.at, word);
    turn_to(1);
    see(cu.fill(place.at, 0, 4));
    see(cu.copy_to_device(place.at, &word, sizeof word));
    see(cu.copy_to_host(&word, place.at, sizeof word));
    see(cu.context_synchronize());
    turn_to(0);
    say_word(place.at, 41);
    give(place, 1);
}

static void list_of_both(void)
{
    struct place place = lay(0);
    see(set_both(place.at, 1, READ_WRITE, READ_WRITE));
    store_by(0, place.at, 42);
    say_seen_by(1, place.at, 1, 42);
    store_by(1, place.at, 43);
    say_seen_by(0, place.at, 1, 43);
    give(place, 1);
}

static void call_for_each(void)
{
    struct place place = lay(0);
    see(set_one(place.at, 0, READ_WRITE));
    say_accesses(place.at);
    see(set_one(place.at, 1, READ));
    say_accesses(place.at);
    give(place, 1);
}

static void wrong_last_entry(void)
{
    struct place place = lay_for_both(0);
    struct mbr_cuda_access wrong_flags[] = {entry(0, READ), entry(1, 2)};
    struct mbr_cuda_access wrong_device[] = {entry(1, READ), entry(1000, READ)};
    see(cu.set_access(place.at, world.granule_bytes, wrong_flags, 2));
    say_accesses(place.at);
    see(cu.set_access(place.at, world.granule_bytes, wrong_device, 2));
    say_accesses(place.at);
    give(place, 1);
}

static void taken_from_one(void)
{
    struct place place = lay_for_both(0);
    see(set_one(place.at, 1, NONE));
    say_accesses(place.at);
    see(cu.fill(place.at, 0, 4));
    NEED(cu.context_synchronize()); /* a fill is not waited for, and the next call is under it */
    see(set_both(place.at, 1, NONE, READ_WRITE));
    say_accesses(place.at);
    store_by(1, place.at, 44);
    say_seen_by(1, place.at, 1, 44);
    give(place, 1);
}

static void peer_reads(void)
{
    struct place place = lay(0);
    struct place peers = take_of(1);
    see(set_both(place.at, 1, READ_WRITE, READ));
    store_by(0, place.at, 45);
    turn_to(1);
    see(cu.fill(place.at, 0, 4));
    see(cu.copy_on_device(place.at, peers.at, 4));
    see(cu.copy_on_device(peers.at, place.at, 4));
    see(cu.context_synchronize());
    say_word(peers.at, 45);
    say_word(place.at, 45);
    turn_to(0);
    give(place, 1);
    give(peers, 1);
}

static void unmapped_from_both(void)
{
    struct place place = lay_for_both(0);
    store_by(0, place.at, 46);
    see(cu.unmap(place.at, world.granule_bytes));
    say_accesses(place.at);
    map(place.at, 1, place.handle);
    say_accesses(place.at);
    see(set_both(place.at, 1, READ_WRITE, READ_WRITE));
    say_seen_by(1, place.at, 1, 46);
    give(place, 1);
}

/* ---- Memory of both ---- */

static void side_by_side(void)
{
    mbr_cuda_address at = reserve(2);
    mbr_cuda_address seam = at + world.granule_bytes;
    uint64_t read = 0;
    mbr_cuda_handle handle = create(1);
    map(at, 1, handle);
    turn_to(1);
    mbr_cuda_handle peers = create(1);
    turn_to(0);
    see(cu.map(seam, world.granule_bytes, 0, peers, 0));
    see(set_both(at, 2, READ_WRITE, READ_WRITE));
    NEED(launch_fill(seam - SEAM_WORDS * 2, SEAM_WORDS, 47, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    say_seen_by(1, seam - SEAM_WORDS * 2, SEAM_WORDS, 47);
    see(cu.copy_to_host(&read, seam - 4, sizeof read));
    say_if(read == (((uint64_t)47 << 32) | 47), "same", "other");
    drop(at, 2);
    NEED(cu.handle_release(handle));
    NEED(cu.handle_release(peers));
}

static void copies_for_both(void)
{
    struct place place = lay_for_both(0);
    struct place peers = lay_for_both(1);
    store_by(0, place.at, 48);
    see(cu.copy_on_device(peers.at, place.at, 4));
    NEED(cu.context_synchronize());
    say_seen_by(1, peers.at, 1, 48);
    store_by(1, peers.at, 49);
    see(cu.copy_on_device_async(place.at, peers.at, 4, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    say_seen_by(0, place.at, 1, 49);
    give(place, 1);
    give(peers, 1);
}

static void copies_of_either_alone(void)
{
    struct place place = take_of(0);
    struct place peers = take_of(1);
    for (int device = 0; device < 2; device++) {
        turn_to(device);
        see(cu.copy_on_device(peers.at, place.at, 4));
        see(cu.copy_on_device(place.at, peers.at, 4));
        see(cu.context_synchronize());
    }
    turn_to(0);
    give(place, 1);
    give(peers, 1);
}

/* Who asks says whose figure it is; a mapping for both costs neither anything. */
static void free_figures(void)
{
    mbr_cuda_address at = reserve(8);
    size_t before = free_now();
    turn_to(1);
    size_t peers_before = free_now();
    mbr_cuda_handle handle = create(8);
    say_moved(peers_before, 8);
    turn_to(0);
    say_moved(before, 0);
    map(at, 8, handle);
    NEED(set_both(at, 8, READ_WRITE, READ_WRITE));
    say_moved(before, 0);
    turn_to(1);
    say_moved(peers_before, 8);
    NEED(cu.handle_release(handle));
    drop(at, 8);
    say_moved(peers_before, 0);
    turn_to(0);
}

/* ---- Contexts, streams, events ---- */

static void say_device(void)
{
    mbr_cuda_device device = 77;
    see(cu.context_device(&device));
    say_if(device == 0, "device 0", device == 1 ? "device 1" : "another device");
}

static void contexts_in_turn(void)
{
    mbr_cuda_context first = world.context;
    mbr_cuda_context popped = NULL;
    turn_to(1);
    mbr_cuda_context second = world.context;
    say_if(first != second, "two", "one");
    say_device();
    turn_to(0);
    say_device();
    see(cu.context_push(second));
    say_device();
    see(cu.context_pop(&popped));
    say_if(popped == second, "same", "another");
    say_device();
}

static void without_a_context(void)
{
    const size_t bytes = world.granule_bytes;
    turn_to(1);
    mbr_cuda_stream stream = world.stream;
    NEED(cu.context_set(NULL));
    mbr_cuda_address at = reserve(1);
    mbr_cuda_handle handle = 0;
    size_t figure = 0;
    see(create_bytes(&handle, bytes));
    see(cu.map(at, bytes, 0, handle, 0));
    see(set_both(at, 1, READ_WRITE, READ_WRITE));
    say_accesses(at);
    see(cu.fill_async(at, 1, 4, stream));
    see(cu.stream_synchronize(stream));
    see(cu.memory_info(&figure, &figure));
    see(cu.unmap(at, bytes));
    see(cu.handle_release(handle));
    NEED(cu.address_free(at, bytes));
    turn_to(0);
}

static void stream_of_the_other(void)
{
    struct place peers = take_of(1);
    turn_to(1);
    mbr_cuda_stream stream = world.stream;
    turn_to(0);
    see(cu.fill_async(peers.at, 5, 4, stream));
    see(cu.copy_on_device_async(peers.at + 64, peers.at, 4, stream));
    see(cu.stream_synchronize(stream));
    say_seen_by(1, peers.at + 64, 1, 0x05050505);
    give(peers, 1);
}

static void event_of_the_other(void)
{
    turn_to(1);
    mbr_cuda_event event = event_new();
    mbr_cuda_stream stream = world.stream;
    turn_to(0);
    see(cu.event_record(event, world.stream));
    see(cu.event_record(event, stream));
    see(cu.event_synchronize(event));
    see(cu.event_query(event));
    see(cu.event_destroy(event));
}

static void wait_for_the_other(void)
{
    struct place place = lay_for_both(0);
    store_by(0, place.at, 1);
    turn_to(1);
    mbr_cuda_event event = event_new();
    hold(world.stream);
    NEED(launch_store(place.at, 50, world.stream));
    NEED(cu.event_record(event, world.stream));
    turn_to(0);
    see(cu.stream_wait(world.stream, event, 0));
    NEED(launch_verify(place.at, 1, 50, world.stream));
    see(cu.event_query(event));
    see(cu.stream_query(world.stream));
    let_go();
    see(cu.stream_synchronize(world.stream));
    say_if(*world.wrong == 0, "same", "other");
    see(cu.event_query(event));
    NEED(cu.event_destroy(event));
    give(place, 1);
}

/* A kernel of one where only the other may: who is lost. */
static void lost_by_one(void)
{
    struct place place = take_of(0);
    store_by(0, place.at, 51);
    turn_to(1);
    see(launch_store(place.at, 52, world.stream));
    see(cu.stream_synchronize(world.stream));
    turn_to(0);
    see(cu.context_synchronize());
    say_word(place.at, 51);
    see(cu.unmap(place.at, world.granule_bytes));
    see(cu.handle_release(place.handle));
    see(cu.address_free(place.at, world.granule_bytes));
}

const struct row contract_two_rows[] = {
    /* D14, by whom access is given to; of an owner without it nobody says anything. */
    {"two.peer access-for-the-peer-alone", peer_alone, "OK, INVALID_VALUE, OK, OK, same", ROW_TWO},
    /* Documented for memory of the driver's pools, whose copies want the device that may. */
    {"two.without fill-and-copies-by-a-peer-without-access", peer_without,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, OK, same", ROW_TWO},
    /* Documented. */
    {"two.list access-for-both-in-one-list", list_of_both, "OK, same, same", ROW_TWO},
    /* Documented: a call says nothing of devices that are not in its list. */
    {"two.calls access-for-each-in-a-call-of-its-own", call_for_each,
        "OK, OK, read-write, OK, none, OK, OK, read-write, OK, read", ROW_TWO},
    /* D15, D15.wrong: all or nothing. */
    {"two.wrong lists-with-a-wrong-last-entry", wrong_last_entry,
        "INVALID_VALUE, OK, read-write, OK, read-write, "
        "INVALID_VALUE, OK, read-write, OK, read-write",
        ROW_TWO},
    /* Documented; C5. */
    {"two.taken access-taken-from-the-peer-then-from-the-owner", taken_from_one,
        "OK, OK, read-write, OK, none, OK, OK, OK, none, OK, read-write, same", ROW_TWO},
    /* D16. */
    {"two.reads peer-that-only-reads-as-target-and-source", peer_reads,
        "OK, INVALID_VALUE, INVALID_VALUE, OK, OK, same, same", ROW_TWO},
    /* D13.access, access.get. */
    {"two.unmap unmapped-from-both-and-mapped-again", unmapped_from_both,
        "OK, INVALID_VALUE, INVALID_VALUE, OK, none, OK, none, OK, same", ROW_TWO},
    /* D15.neighbours, D17; a copy crosses from one device's to the other's. */
    {"two.beside handles-of-both-in-one-reservation", side_by_side, "OK, OK, same, OK, same",
        ROW_TWO},
    /* Documented. */
    {"two.copy copies-between-memories-for-both", copies_for_both, "OK, same, OK, same", ROW_TWO},
    /* As two.without. */
    {"two.copy.none copies-between-memories-of-either-alone", copies_of_either_alone,
        "INVALID_VALUE, INVALID_VALUE, OK, INVALID_VALUE, INVALID_VALUE, OK", ROW_TWO},
    /* D20; the peer's page tables cost it no figure. */
    {"two.free free-figures-of-each-create-map-release", free_figures,
        "as before less it, as before less it, as before less it, as before less it, "
        "as before less it",
        ROW_TWO},
    /* Documented; context.set, context.stack. */
    {"two.contexts primary-contexts-of-both-in-turn", contexts_in_turn,
        "two, OK, device 1, OK, device 0, OK, OK, device 1, OK, same, OK, device 0", ROW_TWO},
    /* D2, D2.others, D3. */
    {"two.none virtual-memory-for-both-without-a-context", without_a_context,
        "OK, OK, OK, OK, read-write, OK, read-write, OK, OK, INVALID_CONTEXT, OK, OK", ROW_TWO},
    /* D3: work is its stream's; but a copy's addresses must be the current context's. */
    {"two.stream work-on-a-stream-of-the-other", stream_of_the_other,
        "OK, INVALID_VALUE, OK, other", ROW_TWO},
    /* Documented. */
    {"two.event event-recorded-on-a-stream-of-the-other", event_of_the_other,
        "INVALID_HANDLE, OK, OK, OK, OK", ROW_TWO},
    /* Documented. */
    {"two.wait a-stream-waits-for-an-event-of-the-other", wait_for_the_other,
        "OK, NOT_READY, NOT_READY, OK, same, OK", ROW_TWO},
    /* D14.kernel, D26; documented: the loss is the process's, so that it is the other's, too. */
    {"two.lost kernel-of-a-peer-without-access", lost_by_one,
        "OK, ILLEGAL_ADDRESS, ILLEGAL_ADDRESS, ILLEGAL_ADDRESS, other, OK, OK, OK", ROW_TWO_ALONE},
    {0},
};
