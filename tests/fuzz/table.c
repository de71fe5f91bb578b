/* Fuzz target: a plugin's vtables of every kind, the contract's and a third party's, with sizes
 * that lie, through the host's copy and validation. The bytes end at a page without access, so that
 * a reader that believes a size is caught by the machine; what the answer must be is worked out
 * here a second time, from the derived sizes alone. Calls no slot.
 *
 * Input: which table, the shift of its start, the slots of a third party's, then its bytes. */
#include "host/loader/table.h"
#include "abi/derive/slots.h"
#include "tests/fuzz/input.h"

#include <sys/mman.h>
#include <unistd.h>

#define FOREIGN_ID "org.example.fuzz"
#define FOREIGN_SLOT_MAX 6
#define OWN_BYTES_MAX 256
#define HEAD_BYTES sizeof(mbr_vtable_head)

typedef void (*any_slot)(void);

static const struct {
    uint16_t kind;
    uint32_t min_bytes;
    uint32_t text_bytes; /* between head and slots: the plugin's name and version */
} rows[MBR_TABLE_COUNT] = {
    [MBR_TABLE_PLUGIN] = {MBR_KIND_PLUGIN, MBR_DERIVED_SIZES_PLUGIN_VTABLE, 2 * sizeof(void *)},
    [MBR_TABLE_ALLOCATOR] = {MBR_KIND_ALLOCATOR, MBR_DERIVED_SIZES_ALLOCATOR_VTABLE, 0},
    [MBR_TABLE_VIRTUAL] = {MBR_KIND_VIRTUAL, MBR_DERIVED_SIZES_VIRTUAL_VTABLE, 0},
    [MBR_TABLE_SHARED] = {MBR_KIND_SHARED, MBR_DERIVED_SIZES_SHARED_VTABLE, 0},
    [MBR_TABLE_ORDER] = {MBR_KIND_ORDER, MBR_DERIVED_SIZES_ORDER_VTABLE, 0},
    [MBR_TABLE_TRANSFER] = {MBR_KIND_TRANSFER, MBR_DERIVED_SIZES_TRANSFER_VTABLE, 0},
};

/* What the host wants of a table, as this file understands it. */
typedef struct wanted {
    uint16_t kind, agreed;
    uint32_t min_bytes, own_bytes;
    uint32_t first_slot;                              /* offset */
    uint16_t minor[OWN_BYTES_MAX / sizeof(any_slot)]; /* by slot, from first_slot */
} wanted;

static unsigned char *page; /* one page, followed by one without access */
static size_t page_bytes;

static void map_page(void)
{
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    page = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_MUST(page != MAP_FAILED, "no pages");
    FUZZ_MUST(mprotect(page + page_bytes, page_bytes, PROT_NONE) == 0, "no guard");
}

static bool is_filled(const unsigned char *table, size_t offset, uint64_t bytes)
{
    any_slot slot = NULL;
    if (offset + sizeof slot <= bytes)
        memcpy(&slot, table + offset, sizeof slot);
    else if (offset < bytes)
        memcpy(&slot, table + offset, bytes - offset); /* half a pointer, the rest zero */
    return slot != NULL;
}

/* Whether the host may take the table: rules 3, 10, 18 and 19 once more. */
static bool is_good(const wanted *want, const unsigned char *table, size_t room)
{
    mbr_vtable_head head;
    if ((uintptr_t)table % sizeof(void *) != 0 || room < sizeof head)
        return false;
    memcpy(&head, table, sizeof head);
    if (head.kind != want->kind || head.struct_size < want->min_bytes)
        return false;
    uint64_t bytes = head.struct_size < want->own_bytes ? head.struct_size : want->own_bytes;
    if (bytes > room)
        return false;
    for (uint32_t at = want->first_slot; at < want->own_bytes; at += sizeof(any_slot))
        if (want->minor[(at - want->first_slot) / sizeof(any_slot)] == 0 &&
            !is_filled(table, at, bytes))
            return false;
    return true;
}

static void check_taken(const wanted *want, const unsigned char *table, const unsigned char *own,
    const unsigned char *absent)
{
    mbr_vtable_head head, settled;
    memcpy(&head, table, sizeof head);
    memcpy(&settled, own, sizeof settled);
    uint16_t minor = head.minor < want->agreed ? head.minor : want->agreed;
    uint64_t bytes = head.struct_size < want->own_bytes ? head.struct_size : want->own_bytes;
    FUZZ_MUST(settled.struct_size == want->own_bytes && settled.kind == want->kind &&
            settled.minor == minor,
        "head %u, %u, %u", settled.struct_size, settled.kind, settled.minor);
    for (uint32_t at = want->first_slot; at < want->own_bytes; at += sizeof(any_slot)) {
        bool is_above = want->minor[(at - want->first_slot) / sizeof(any_slot)] > minor;
        bool is_theirs = !is_above && is_filled(table, at, bytes);
        FUZZ_MUST(is_filled(own, at, want->own_bytes), "slot at %u is NULL", at);
        if (!is_theirs)
            FUZZ_MUST(memcmp(own + at, absent + at, sizeof(any_slot)) == 0, "slot at %u", at);
        else if (at + sizeof(any_slot) <= bytes)
            FUZZ_MUST(memcmp(own + at, table + at, sizeof(any_slot)) == 0, "slot at %u", at);
    }
}

static void check(const wanted *want, bool is_taken, const unsigned char *table, size_t room,
    const unsigned char *own, const unsigned char *absent, const char *text)
{
    FUZZ_MUST(is_taken == is_good(want, table, room), "taken %d: %s", is_taken, text);
    FUZZ_MUST(is_taken || text[0] != '\0', "a refusal without a word");
    FUZZ_MUST(
        is_taken || memcmp(own, absent, want->own_bytes) == 0, "a refused table is not absent");
    if (is_taken)
        check_taken(want, table, own, absent);
    for (uint32_t at = want->own_bytes; at < OWN_BYTES_MAX; at++)
        FUZZ_MUST(own[at] == 0xA5, "a byte past the host's own table at %u", at);
}

static const unsigned char *place(fuzz_input *input, size_t *room, mbr_image *image)
{
    static Elf64_Phdr segment;
    *room = fuzz_left(input) < 512 ? fuzz_left(input) : 512;
    unsigned char *table = page + page_bytes - *room;
    memset(page, 0xEE, page_bytes);
    fuzz_take(input, table, *room);
    segment = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_memsz = page_bytes};
    *image = (mbr_image){.base = (uintptr_t)page, .segments = &segment, .segment_count = 1};
    return table;
}

static void run_own(fuzz_input *input, mbr_table_index index)
{
    unsigned char own[OWN_BYTES_MAX], absent[OWN_BYTES_MAX];
    char text[MBR_TABLE_TEXT_BYTES] = "";
    mbr_image image;
    size_t room;
    const unsigned char *table = place(input, &room, &image);
    wanted want = {.kind = rows[index].kind,
        .min_bytes = rows[index].min_bytes,
        .own_bytes = mbr_table_bytes(index),
        .first_slot = (uint32_t)HEAD_BYTES + rows[index].text_bytes};
    memset(own, 0xA5, sizeof own);
    mbr_table_fill_absent(index, absent);
    bool is_taken = mbr_table_copy(index, &image, table, want.agreed, own, text);
    check(&want, is_taken, table, room, own, absent, text);
}

static void answer_absent(void) {}

/* The asker's own struct: its minimum reaches to the last required slot. */
static void run_foreign(fuzz_input *input)
{
    unsigned char own[OWN_BYTES_MAX], absent[OWN_BYTES_MAX] = {0};
    char text[MBR_TABLE_TEXT_BYTES] = "";
    mbr_slot_spec slots[FOREIGN_SLOT_MAX];
    any_slot stub = answer_absent;
    uint32_t count = 1 + fuzz_u8(input) % FOREIGN_SLOT_MAX, required = 0;
    wanted want = {.kind = mbr_table_kind_of_id(FOREIGN_ID),
        .agreed = fuzz_u8(input) % 4,
        .own_bytes = (uint32_t)(HEAD_BYTES + count * sizeof(any_slot)),
        .first_slot = HEAD_BYTES};
    for (uint32_t i = 0; i < count; i++) {
        uint16_t minor = i == 0 ? 0 : fuzz_u8(input) % 4;
        slots[i] = (mbr_slot_spec){"slot", (uint16_t)(HEAD_BYTES + i * sizeof(any_slot)), minor};
        want.minor[i] = minor;
        required = minor == 0 ? i + 1 : required;
        memcpy(absent + slots[i].offset, &stub, sizeof stub);
    }
    want.min_bytes = (uint32_t)(HEAD_BYTES + required * sizeof(any_slot));
    mbr_foreign_table spec = {.id = FOREIGN_ID,
        .minor = want.agreed,
        .min_bytes = (uint16_t)want.min_bytes,
        .own_bytes = (uint16_t)want.own_bytes,
        .stub = absent,
        .slots = slots,
        .slot_count = count};
    mbr_image image;
    size_t room;
    const unsigned char *table = place(input, &room, &image);
    memset(own, 0xA5, sizeof own);
    bool is_taken = mbr_table_copy_foreign(&spec, &image, table, own, text);
    check(&want, is_taken, table, room, own, absent, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fuzz_input input = fuzz_input_of(data, bytes);
    if (page == NULL)
        map_page();
    unsigned which = fuzz_u8(&input) % (MBR_TABLE_COUNT + 1);
    if (which < MBR_TABLE_COUNT)
        run_own(&input, (mbr_table_index)which);
    else
        run_foreign(&input);
    return 0;
}
