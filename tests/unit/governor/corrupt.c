/* Responsible for breaking the books on purpose; part of no product. */
#include "tests/unit/governor/corrupt.h"

#include "governor/internal.h"

void corrupt(mbr_holder *holder, int word, int64_t difference)
{
    mbr_authority *authority = holder->authority;
    uint32_t index = mbr_slot_of_thread();
    mbr_cell *cell = &holder->cells[index];
    mbr_slot *slot = &authority->slots[index];
    _Atomic uint64_t *words[CORRUPT_COUNT] = {
        [CORRUPT_CELL_MOVED] = &cell->moved,
        [CORRUPT_CELL_MAPPED] = &cell->mapped,
        [CORRUPT_CELL_GRANTED_TOTAL] = &cell->granted_total,
        [CORRUPT_CELL_RETURNED_TOTAL] = &cell->returned_total,
        [CORRUPT_CELL_CHARGED_TOTAL] = &cell->charged_total,
        [CORRUPT_CELL_REFUNDED_TOTAL] = &cell->refunded_total,
        [CORRUPT_CELL_PENDING] = &cell->charged.bytes,
        [CORRUPT_HOLDER_FOLDED] = &holder->charged.folded_bytes,
        [CORRUPT_HOLDER_LEASED] = &holder->leased_bytes,
        [CORRUPT_HOLDER_RETAINED] = &holder->retained_bytes,
        [CORRUPT_WITHHELD] = &authority->withheld_bytes,
        [CORRUPT_SLOT_CREDIT] = &slot->credit_bytes,
        [CORRUPT_SLOT_PENDING] = &slot->charged.bytes,
        [CORRUPT_AUTHORITY_FOLDED] = &authority->charged.folded_bytes,
    };
    if (words[word] != NULL)
        atomic_fetch_add(words[word], (uint64_t)difference);
    else if (word == CORRUPT_ROOM)
        atomic_fetch_add(&authority->room_bytes, difference);
    else if (word == CORRUPT_SET_LIMIT)
        authority->set_limit_bytes += (uint64_t)difference;
    else if (word == CORRUPT_HELD)
        authority->held_bytes += (uint64_t)difference;
    else if (word == CORRUPT_WAITING_COUNT)
        atomic_fetch_add(&authority->waiting_count, (uint32_t)difference);
    else
        authority->holder_count += (uint32_t)difference;
}
