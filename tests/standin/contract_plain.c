/* Rows about plain device memory, pinned host memory, what an address belongs to, and the kinds of
 * copies and fills. */
#include "tests/standin/contract.h"

#include <stdlib.h>
#include <string.h>

static mbr_cuda_address allocate(size_t bytes)
{
    mbr_cuda_address at = 0;
    NEED(cu.device_allocate(&at, bytes));
    return at;
}

static void allocate_wrong(void)
{
    mbr_cuda_address at = 0;
    size_t total = 0;
    NEED(cu.device_total(&total, 0));
    see(cu.device_allocate(&at, 0));
    see(cu.device_allocate(NULL, 64));
    see(cu.device_allocate(&at, 2 * total));
    see(cu.context_synchronize());
}

static void allocate_aligned(void)
{
    mbr_cuda_address first = allocate(1);
    mbr_cuda_address second = allocate(1);
    say_if(first % 256 == 0 && second % 256 == 0, "on 256 bytes", "off 256 bytes");
    say_if(first != second, "apart", "the same");
    see(cu.device_free(first));
    see(cu.device_free(second));
}

static void free_wrong(void)
{
    mbr_cuda_address at = allocate(4096);
    see(cu.device_free(at + 256));
    see(cu.device_free(0));
    see(cu.device_free(at));
    see(cu.device_free(at));
}

/* Each allocator gives back only its own. */
static void free_of_the_other_kind(void)
{
    struct place place = take(1);
    see(cu.device_free(place.at));
    say_word(place.at + 64, word_at(place.at + 64));
    give(place, 1);
    mbr_cuda_address plain = allocate(world.granule_bytes);
    see(cu.address_free(plain, world.granule_bytes));
    NEED(cu.device_free(plain));
}

static void plain_range(void)
{
    mbr_cuda_address at = allocate(4096);
    mbr_cuda_address start = 0;
    size_t bytes = 0;
    see(cu.address_range(&start, &bytes, at + 100));
    say_if(start == at && bytes == 4096, "as allocated", "otherwise");
    NEED(cu.device_free(at));
    see(cu.address_range(&start, &bytes, 4096));
}

static void fills(void)
{
    mbr_cuda_address at = allocate(64);
    see(cu.fill(at, 0x11, 4));
    say_word(at, 0x11111111);
    see(cu.fill16(at, 0x2233, 2));
    say_word(at, 0x22332233);
    see(cu.fill32(at, 0x44556677, 1));
    say_word(at, 0x44556677);
    see(cu.fill32_async(at, 0x01020304, 2, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_word(at + 4, 0x01020304);
    NEED(cu.device_free(at));
}

static void fills_wrong(void)
{
    mbr_cuda_address at = allocate(64);
    see(cu.fill16(at + 1, 0, 1));
    see(cu.fill32(at + 2, 0, 1));
    see(cu.fill(at, 0, 0));
    see(cu.fill32(at, 0, 0));
    see(cu.fill(0, 0, 4));
    NEED(cu.device_free(at));
}

static void copies(void)
{
    mbr_cuda_address from = allocate(64);
    mbr_cuda_address to = allocate(64);
    uint32_t words[2] = {91, 92};
    uint32_t back[2] = {0, 0};
    see(cu.copy_to_device(from, words, sizeof words));
    see(cu.copy_on_device(to, from, sizeof words));
    see(cu.copy_to_host(back, to, sizeof back));
    say_if(memcmp(words, back, sizeof words) == 0, "same", "other");
    see(cu.copy_to_device_async(from, &words[1], 4, world.stream));
    see(cu.copy_on_device_async(to, from, 4, world.stream));
    see(cu.copy_to_host_async(back, to, 4, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_if(back[0] == 92, "same", "other");
    NEED(cu.device_free(from));
    NEED(cu.device_free(to));
}

/* The call that takes any two addresses. */
static void copies_of_any_kind(void)
{
    mbr_cuda_address at = allocate(64);
    uint32_t word = 93;
    uint32_t back = 0;
    see(cu.copy(at, (uintptr_t)&word, sizeof word));
    see(cu.copy((uintptr_t)&back, at, sizeof back));
    say_if(back == 93, "same", "other");
    see(cu.copy_async(at + 4, at, 4, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_word(at + 4, 93);
    see(cu.copy((uintptr_t)&back, (uintptr_t)&word, sizeof back));
    NEED(cu.device_free(at));
}

static void copies_wrong(void)
{
    mbr_cuda_address at = allocate(64);
    uint32_t word = 0;
    see(cu.copy_to_host(&word, 0, sizeof word));
    see(cu.copy_to_device(0, &word, sizeof word));
    see(cu.copy_to_host(&word, at, 0));
    see(cu.copy_on_device(at, 4096, 4));
    NEED(cu.device_free(at));
}

/* Past the end of a reservation that is mapped to its last byte. */
static void copy_past_the_end(void)
{
    struct place place = take(1);
    mbr_cuda_address end = place.at + world.granule_bytes;
    uint64_t two = 0;
    mbr_cuda_address start = 0;
    size_t bytes = 0;
    if (cu.address_range(&start, &bytes, end) == MBR_CUDA_SUCCESS)
        say("somebody is there");
    see(cu.copy_to_device(end - 4, &two, sizeof two));
    see(cu.fill(end - 4, 0, 8));
    see(cu.context_synchronize());
    give(place, 1);
}

static void pinned(void)
{
    void *host = NULL;
    mbr_cuda_address at = 0;
    unsigned flags = 77;
    see(cu.host_allocate(&host, 4096, MBR_CUDA_HOST_DEVICE_MAP));
    memset(host, 0x5A, 4096);
    see(cu.host_device_address(&at, host, 0));
    say_if(at == (uintptr_t)host, "same address", "another address");
    see(cu.host_flags(&flags, host));
    say_if((flags & MBR_CUDA_HOST_DEVICE_MAP) != 0, "mapped", "not mapped");
    see(launch_verify(at, 1024, 0x5A5A5A5A, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_if(*world.wrong == 0, "same", "other");
    see(launch_store(at, 94, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_if(*(volatile uint32_t *)host == 94, "same", "other");
    see(cu.host_free(host));
}

static void pinned_wrong(void)
{
    void *host = NULL;
    uint32_t own = 0;
    see(cu.host_allocate(&host, 0, 0));
    say_if(host == NULL, "no address", "an address");
    see(cu.host_allocate(NULL, 64, 0));
    see(cu.host_allocate(&host, 64, 0x80));
    see(cu.host_free(&own));
    see(cu.host_free(NULL));
    NEED(cu.host_allocate(&host, 64, 0));
    see(cu.host_free(host));
    see(cu.host_free(host));
}

static void registered(void)
{
    void *host = aligned_alloc(4096, 8192);
    mbr_cuda_address at = 0;
    if (!host)
        return;
    memset(host, 0x11, 8192);
    see(cu.host_register(host, 8192, MBR_CUDA_HOST_DEVICE_MAP));
    see(cu.host_register(host, 8192, MBR_CUDA_HOST_DEVICE_MAP));
    see(cu.host_device_address(&at, host, 0));
    see(launch_verify(at, 64, 0x11111111, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_if(*world.wrong == 0, "same", "other");
    see(cu.host_unregister(host));
    see(cu.host_unregister(host));
    see(cu.host_register(host, 0, 0));
    see(cu.host_register(NULL, 4096, 0));
    free(host);
}

static void say_type(mbr_cuda_address address)
{
    uint32_t type = 0;
    if (see(cu.pointer_attribute(&type, STANDIN_POINTER_MEMORY_TYPE, address)) == MBR_CUDA_SUCCESS)
        say(type == STANDIN_MEMORY_HOST         ? "host"
                : type == STANDIN_MEMORY_DEVICE ? "device"
                                                : "another");
}

static void memory_types(void)
{
    static uint32_t own;
    struct place place = take(1);
    mbr_cuda_address plain = allocate(64);
    say_type(place.at + 8);
    say_type(plain + 8);
    say_type((uintptr_t)world.flag);
    say_type((uintptr_t)&own);
    int ordinal = 77;
    see(cu.pointer_attribute(&ordinal, STANDIN_POINTER_ORDINAL, place.at));
    say_if(ordinal == 0, "device 0", "another device");
    NEED(cu.unmap(place.at, world.granule_bytes));
    say_type(place.at);
    NEED(cu.handle_release(place.handle));
    NEED(cu.address_free(place.at, world.granule_bytes));
    NEED(cu.device_free(plain));
}

const struct row contract_plain_rows[] = {
    {"plain.wrong allocate-nothing-nowhere-too-much", allocate_wrong,
        "INVALID_VALUE, INVALID_VALUE, OUT_OF_MEMORY, OK", ROW_SHARED},
    {"plain.align two-allocations-of-a-byte", allocate_aligned, "on 256 bytes, apart, OK, OK",
        ROW_SHARED},
    {"plain.free free-of-the-inside-nothing-and-twice", free_wrong,
        "INVALID_VALUE, OK, OK, INVALID_VALUE", ROW_SHARED},
    {"plain.kinds each-kind-gives-back-its-own", free_of_the_other_kind,
        "INVALID_VALUE, same, INVALID_VALUE", ROW_SHARED},
    {"plain.range address-range-of-plain-memory", plain_range, "OK, as allocated, NOT_FOUND",
        ROW_SHARED},
    {"fill.kinds fills-of-bytes-halves-words", fills, "OK, same, OK, same, OK, same, OK, OK, same",
        ROW_SHARED},
    {"fill.wrong fills-unaligned-empty-nowhere", fills_wrong,
        "INVALID_VALUE, INVALID_VALUE, OK, OK, INVALID_VALUE", ROW_SHARED},
    {"copy.kinds copies-to-on-from-and-asynchronous", copies,
        "OK, OK, OK, same, OK, OK, OK, OK, same", ROW_SHARED},
    {"copy.any copies-of-any-two-addresses", copies_of_any_kind, "OK, OK, same, OK, OK, same, OK",
        ROW_SHARED},
    {"copy.wrong copies-of-nothing-and-nowhere", copies_wrong,
        "INVALID_VALUE, INVALID_VALUE, OK, INVALID_VALUE", ROW_SHARED},
    {"copy.end copy-and-fill-past-the-end", copy_past_the_end, "INVALID_VALUE, INVALID_VALUE, OK",
        ROW_SHARED},
    {"pinned.use pinned-memory-read-and-written-by-a-kernel", pinned,
        "OK, OK, same address, OK, mapped, OK, OK, same, OK, OK, same, OK", ROW_SHARED},
    {"pinned.odd pinned-nothing-flags-foreign-twice", pinned_wrong,
        "OK, no address, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, OK, OK, "
        "INVALID_VALUE",
        ROW_SHARED},
    {"pinned.register own-memory-registered-and-back", registered,
        "OK, HOST_MEMORY_ALREADY_REGISTERED, OK, OK, OK, same, OK, HOST_MEMORY_NOT_REGISTERED, "
        "INVALID_VALUE, INVALID_VALUE",
        ROW_SHARED},
    {"pointer.type memory-type-of-each-kind-and-of-none", memory_types,
        "OK, device, OK, device, OK, host, INVALID_VALUE, OK, device 0, INVALID_VALUE", ROW_SHARED},
    {0},
};
