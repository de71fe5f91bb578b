/* Responsible for the life of a holder and its place in the authority's list. Never moves a byte.
 */
#include "governor/internal.h"

#include <inttypes.h>
#include <string.h>
#include <utlist.h>

static mbr_status check_options(const mbr_holder_options *options, mbr_error *error)
{
    if (!mbr_governor_name_fits(options->name))
        return mbr_fail(
            error, MBR_INVALID_ARGUMENT, "a holder's name has 1 to %d bytes", MBR_NAME_BYTES - 1);
    if (options->role >= MBR_ROLE_COUNT)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "role %u of holder '%s' is unknown; roles are 0 to %d", options->role, options->name,
            MBR_ROLE_COUNT - 1);
    if ((options->pressed.ask == NULL) != (options->pressed.give == NULL))
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "holder '%s' can be asked only with both callbacks, ask and give", options->name);
    if (options->borrows && options->allowance_bytes == MBR_NO_ALLOWANCE)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "holder '%s' has no allowance, so there is nothing to borrow beyond", options->name);
    return MBR_OK;
}

static void init_holder(
    mbr_holder *holder, mbr_authority *authority, const mbr_holder_options *options, void *block)
{
    holder->authority = authority;
    holder->block = block;
    holder->allowance_bytes = options->allowance_bytes;
    holder->role = options->role;
    holder->borrows = options->borrows;
    holder->pressed = options->pressed;
    strcpy(holder->name, options->name);
    holder->release.at_ns = mbr_clock_now(&authority->governor->clock);
}

/* The last step of creation: visible, or refused. */
static bool try_publish(mbr_authority *authority, mbr_holder *holder)
{
    mbr_governor *governor = authority->governor;
    mbr_lock_take(&governor->lock);
    bool pressed = holder->pressed.ask != NULL;
    bool fits = authority->holder_count < MBR_HOLDER_LIMIT_COUNT &&
        (!pressed || authority->pressed_count < MBR_PRESSED_LIMIT_COUNT);
    if (fits) {
        authority->pressed_count += pressed;
        holder->id = ++governor->last_id;
        authority->holder_count++;
        DL_APPEND(authority->holders, holder);
    }
    mbr_lock_drop(&governor->lock);
    return fits;
}

static mbr_status refuse_count(const mbr_authority *authority, mbr_error *error)
{
    return mbr_fail(error, MBR_OUT_OF_DESCRIPTORS,
        "authority '%s' has as many holders as it can: %d, of which %d are asked for bytes; "
        "destroy "
        "one",
        authority->name, MBR_HOLDER_LIMIT_COUNT, MBR_PRESSED_LIMIT_COUNT);
}

mbr_status mbr_holder_create(mbr_authority *authority, const mbr_holder_options *options,
    mbr_holder **holder, mbr_error *error)
{
    *holder = NULL;
    mbr_status status = check_options(options, error);
    if (status != MBR_OK)
        return status;
    void *block;
    mbr_holder *made = mbr_line_allocate(&authority->governor->heap, sizeof(*made), &block);
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no %zu bytes of heap for holder '%s'",
            sizeof(*made), options->name);
    init_holder(made, authority, options, block);
    if (!try_publish(authority, made)) {
        mbr_heap_release(&authority->governor->heap, block);
        return refuse_count(authority, error);
    }
    *holder = made;
    return MBR_OK;
}

/* What is set aside goes back with the holder. */
static mbr_status refuse_sums(const mbr_holder *holder, const mbr_sums *sums, mbr_error *error)
{
    uint64_t aside = atomic_load_explicit(&holder->aside_bytes, memory_order_acquire);
    if (sums->granted == aside && sums->charged == 0 && sums->mapped == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_IN_USE,
        "holder '%s' still has %" PRId64 " bytes granted, %" PRId64 " charged, %" PRId64
        " mapped; give them back first",
        holder->name, (int64_t)sums->granted, (int64_t)sums->charged, (int64_t)sums->mapped);
}

static mbr_status check_idle(const mbr_holder *holder, const mbr_sums *sums, mbr_error *error)
{
    mbr_status status = refuse_sums(holder, sums, error);
    uint32_t tickets = atomic_load_explicit(&holder->ticket_count, memory_order_acquire);
    if (status == MBR_OK && tickets != 0)
        status = mbr_fail(error, MBR_IN_USE, "holder '%s' still has %u tickets; destroy them first",
            holder->name, tickets);
    return status;
}

mbr_status mbr_holder_check_idle(const mbr_holder *holder, mbr_error *error)
{
    mbr_sums sums = mbr_sums_read(holder);
    return check_idle(holder, &sums, error);
}

/* Another thread may ask the holder at this moment. */
static void await_asked_locked(mbr_governor *governor, const mbr_holder *holder)
    MBR_REQUIRES(&governor->lock)
{
    while (holder->being_asked)
        mbr_condition_wait(&governor->asked, &governor->lock, UINT64_MAX);
}

void mbr_holder_stop_asking(mbr_holder *holder)
{
    mbr_authority *authority = holder->authority;
    mbr_governor *governor = authority->governor;
    mbr_lock_take(&governor->lock);
    await_asked_locked(governor, holder);
    authority->pressed_count -= holder->pressed.ask != NULL;
    holder->pressed = (mbr_pressure_callbacks){0};
    mbr_lock_drop(&governor->lock);
}

mbr_status mbr_holder_start_asking(
    mbr_holder *holder, const mbr_pressure_callbacks *pressed, mbr_error *error)
{
    mbr_authority *authority = holder->authority;
    mbr_lock_take(&authority->governor->lock);
    bool is_asked = holder->pressed.ask != NULL;
    bool fits = is_asked || authority->pressed_count < MBR_PRESSED_LIMIT_COUNT;
    if (fits && !is_asked) {
        holder->pressed = *pressed;
        authority->pressed_count++;
    }
    mbr_lock_drop(&authority->governor->lock);
    return fits ? MBR_OK : refuse_count(authority, error);
}

mbr_status mbr_holder_destroy(mbr_holder *holder, mbr_error *error)
{
    if (holder == NULL)
        return MBR_OK;
    mbr_authority *authority = holder->authority;
    mbr_governor *governor = authority->governor;
    if (mbr_is_pressing())
        return mbr_fail(error, MBR_BUSY,
            "holder '%s' is being asked for bytes; destroy it after the callback", holder->name);
    mbr_lock_take(&governor->lock);
    await_asked_locked(governor, holder);
    mbr_sums sums = mbr_sums_read(holder);
    mbr_status status = check_idle(holder, &sums, error);
    if (status == MBR_OK) {
        uint64_t aside = mbr_take_aside(holder, UINT64_MAX);
        if (aside != 0)
            mbr_grant_return(holder, aside);
        authority->pressed_count -= holder->pressed.ask != NULL;
        authority->retired_refunded_bytes += sums.refunded_total;
        authority->holder_count--;
        DL_DELETE(authority->holders, holder);
    }
    mbr_lock_drop(&governor->lock);
    if (status == MBR_OK)
        mbr_heap_release(&governor->heap, holder->block);
    return status;
}

uint64_t mbr_holder_id(const mbr_holder *holder)
{
    return holder->id;
}

mbr_authority *mbr_holder_authority(const mbr_holder *holder)
{
    return holder->authority;
}
