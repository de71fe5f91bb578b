/* Tickets, limits in two phases and admissions of a manager, by handle. Decides nothing: the
 * governor does. A ticket's record is in use while a call works on it, perhaps the one in which its
 * end was called; the last of both frees it. */
#include "host/bind/manager.h"

/* ---- Tickets */

/* The ticket of a handle, in use until done_with. NULL: *status. */
static mbr_ticket_record *use(
    mbr_manager *manager, mbr_ticket_handle handle, mbr_status *status, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_ticket_record *record = mbr_find_ticket(manager, handle.value, status, error);
    if (record != NULL)
        record->user_count++;
    mbr_lock_drop(&manager->lock);
    return record;
}

static void free_record(mbr_manager *manager, mbr_ticket_record *record)
{
    mbr_ticket_destroy(record->ticket);
    mbr_unrefer_holder(manager, record->holder);
    mbr_heap_release(&manager->heap, record);
}

/* Of a ticket that has ended, the last user frees the record. */
static void done_with(mbr_manager *manager, mbr_ticket_record *record)
{
    mbr_lock_take(&manager->lock);
    bool last = --record->user_count == 0 && record->has_ended;
    mbr_lock_drop(&manager->lock);
    if (last)
        free_record(manager, record);
}

/* The record may be gone when the client's function returns. */
static void tell(void *context, mbr_ticket *ticket)
{
    (void)ticket;
    const mbr_ticket_record *record = context;
    record->settled(record->context, (mbr_ticket_handle){record->handle});
}

static mbr_status submit(mbr_manager *manager, const mbr_ticket_request *request,
    mbr_ticket_record *record, mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status;
    mbr_holder_record *holder = mbr_refer_holder(manager, request->holder, &status, error);
    if (holder == NULL)
        return status;
    uint64_t now = mbr_clock_now(&manager->clock);
    mbr_ticket_options options = {.holder = holder->holder,
        .bytes = request->bytes,
        .priority = request->priority,
        .quiet = (request->flags & MBR_TICKET_QUIET) != 0,
        .deadline_ns = request->timeout_ns,
        .settled = record->settled != NULL ? tell : NULL,
        .context = record};
    if (request->timeout_ns != MBR_NO_DEADLINE &&
        !mbr_add(now, request->timeout_ns, &options.deadline_ns))
        options.deadline_ns = MBR_NO_DEADLINE;
    record->holder = holder;
    status = mbr_ticket_prepare(&options, &record->ticket, refusal, error);
    if (status != MBR_OK)
        mbr_unrefer_holder(manager, holder);
    return status;
}

mbr_status mbr_manager_submit_ticket(mbr_manager *manager, const mbr_ticket_request *request,
    mbr_ticket_handle *ticket, mbr_refusal *refusal, mbr_error *error)
{
    ticket->value = 0;
    mbr_ticket_request own;
    mbr_status status = MBR_TAKE(&own, mbr_ticket_request, context, request, error);
    if (status == MBR_OK)
        status = mbr_flags_check(own.flags, MBR_TICKET_QUIET, "mbr_ticket_request", error);
    if (status != MBR_OK)
        return status;
    mbr_ticket_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a ticket");
    record->settled = own.settled;
    record->context = own.context;
    status = mbr_table_prepare(&manager->tickets, &record->handle, error);
    if (status != MBR_OK)
        goto free_record;
    status = submit(manager, &own, record, refusal, error);
    if (status != MBR_OK)
        goto drop_handle;
    /* Published before anybody is told, because whoever is told may use the handle at once. In use
     * meanwhile, so that its end leaves the holder, and thus the authority, until this is done. */
    ticket->value = record->handle;
    record->user_count = 1;
    mbr_table_publish(&manager->tickets, record->handle, record);
    mbr_ticket_press(record->ticket);
    done_with(manager, record);
    return MBR_OK;
drop_handle:
    mbr_table_take(&manager->tickets, record->handle);
free_record:
    mbr_heap_release(&manager->heap, record);
    return status;
}

mbr_status mbr_manager_read_ticket(
    mbr_manager *manager, mbr_ticket_handle ticket, uint32_t *state, mbr_error *error)
{
    *state = 0;
    mbr_status status;
    mbr_ticket_record *record = use(manager, ticket, &status, error);
    if (record == NULL)
        return status;
    *state = mbr_ticket_poll(record->ticket);
    done_with(manager, record);
    return MBR_OK;
}

static mbr_status finish_claim(mbr_ticket_record *record, mbr_status status, mbr_error *error)
{
    if (status == MBR_OK) {
        mbr_set_aside(record->holder->holder, mbr_ticket_bytes(record->ticket));
        return MBR_OK;
    }
    const char *advice = status == MBR_NOT_READY ? "claim it when it is granted"
        : status == MBR_BUSY                     ? "wait for it outside the holder's callback"
                                                 : "submit another";
    return mbr_fail(
        error, status, "the ticket is %s; %s", mbr_ticket_state_name(record->ticket), advice);
}

static mbr_status claim_by(mbr_manager *manager, mbr_ticket_handle ticket,
    mbr_status (*claim)(mbr_ticket *ticket), mbr_error *error)
{
    mbr_status status;
    mbr_ticket_record *record = use(manager, ticket, &status, error);
    if (record == NULL)
        return status;
    status = finish_claim(record, claim(record->ticket), error);
    done_with(manager, record);
    return status;
}

mbr_status mbr_manager_claim_ticket(
    mbr_manager *manager, mbr_ticket_handle ticket, mbr_error *error)
{
    return claim_by(manager, ticket, mbr_ticket_claim, error);
}

mbr_status mbr_manager_wait_ticket(mbr_manager *manager, mbr_ticket_handle ticket, mbr_error *error)
{
    return claim_by(manager, ticket, mbr_ticket_wait, error);
}

mbr_status mbr_manager_end_ticket(mbr_manager *manager, mbr_ticket_handle ticket, mbr_error *error)
{
    mbr_status status;
    mbr_lock_take(&manager->lock);
    mbr_ticket_record *record = mbr_find_ticket(manager, ticket.value, &status, error);
    if (record != NULL)
        mbr_table_take(&manager->tickets, ticket.value);
    mbr_lock_drop(&manager->lock);
    if (record == NULL)
        return status;
    mbr_ticket_close(
        record->ticket); /* whoever waits for it goes on, and nobody is told any more */
    mbr_lock_take(&manager->lock);
    record->has_ended = true;
    bool last = record->user_count == 0;
    mbr_lock_drop(&manager->lock);
    if (last)
        free_record(manager, record);
    return MBR_OK;
}

mbr_status mbr_manager_retire_tickets(
    mbr_manager *manager, mbr_authority_handle authority, mbr_error *error)
{
    mbr_status status;
    mbr_authority_record *record = mbr_poll_begin(manager, authority, &status, error);
    if (record == NULL)
        return status;
    mbr_authority_retire_tickets(record->authority);
    mbr_poll_end(manager, record);
    return MBR_OK;
}

mbr_status mbr_manager_return_aside(
    mbr_manager *manager, mbr_holder_handle holder, uint64_t *bytes, mbr_error *error)
{
    mbr_status status;
    uint64_t returned = 0;
    mbr_holder_record *record = mbr_refer_holder(manager, holder, &status, error);
    if (record != NULL) {
        returned = mbr_take_aside(record->holder, UINT64_MAX);
        mbr_grant_return(record->holder, returned);
        mbr_unrefer_holder(manager, record);
    }
    if (bytes != NULL)
        *bytes = returned;
    return status;
}

/* ---- Limits */
mbr_status mbr_manager_change_limit(mbr_manager *manager, mbr_authority_handle authority,
    const mbr_limit_change *change, mbr_limit_answer *answer, mbr_error *error)
{
    mbr_status status;
    mbr_growable_give(answer, NULL, sizeof(*answer));
    mbr_authority_record *record = mbr_poll_begin(manager, authority, &status, error);
    if (record == NULL)
        return status;
    status = mbr_authority_change_limit(record->authority, change, answer, error);
    mbr_poll_end(manager, record);
    return status;
}

/* ---- Admissions */
mbr_status mbr_manager_create_admission(mbr_manager *manager, mbr_holder_handle holder,
    mbr_admission_handle *admission, mbr_error *error)
{
    admission->value = 0;
    mbr_admission_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for an admission");
    mbr_status status = mbr_table_prepare(&manager->admissions, &record->handle, error);
    if (status != MBR_OK)
        goto free_record;
    record->holder = mbr_refer_holder(manager, holder, &status, error);
    if (record->holder == NULL)
        goto drop_handle;
    status = mbr_admission_create(record->holder->holder, &record->admission, error);
    if (status != MBR_OK)
        goto unrefer;
    admission->value = record->handle;
    mbr_table_publish(&manager->admissions, record->handle, record);
    return MBR_OK;
unrefer:
    mbr_unrefer_holder(manager, record->holder);
drop_handle:
    mbr_table_take(&manager->admissions, record->handle);
free_record:
    mbr_heap_release(&manager->heap, record);
    return status;
}

mbr_status mbr_manager_destroy_admission(
    mbr_manager *manager, mbr_admission_handle admission, mbr_error *error)
{
    mbr_status status;
    mbr_lock_take(&manager->lock);
    mbr_admission_record *record = mbr_find_admission(manager, admission.value, &status, error);
    uint32_t count = record != NULL ? mbr_admission_count(record->admission) : 0;
    if (record != NULL && count == 0)
        mbr_table_take(&manager->admissions, admission.value);
    mbr_lock_drop(&manager->lock);
    if (record == NULL)
        return status;
    if (count != 0)
        return mbr_fail(error, MBR_IN_USE, "%u members are in; dismiss them first", count);
    mbr_await_walks(manager);
    status = mbr_admission_destroy(record->admission, error);
    if (status != MBR_OK) { /* a call that had found it before let one in */
        mbr_manager_log(manager, MBR_LOG_ERROR, "an admission is leaked: it was used as it ended");
        return status;
    }
    mbr_unrefer_holder(manager, record->holder);
    mbr_heap_release(&manager->heap, record);
    return MBR_OK;
}

mbr_status mbr_manager_admit(mbr_manager *manager, mbr_admission_handle admission,
    uint64_t most_bytes, uint64_t *member, mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status;
    mbr_member admitted = {0};
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_admission_record *record = mbr_find_admission(manager, admission.value, &status, error);
    if (record != NULL)
        status = mbr_admit(record->admission, most_bytes, &admitted, refusal, error);
    mbr_end_walk(manager, walk);
    *member = admitted.number;
    return status;
}

mbr_status mbr_manager_grow_member(mbr_manager *manager, mbr_admission_handle admission,
    uint64_t member, uint64_t bytes, mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status;
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_admission_record *record = mbr_find_admission(manager, admission.value, &status, error);
    if (record != NULL)
        status = mbr_member_grow(record->admission, (mbr_member){member}, bytes, refusal, error);
    mbr_end_walk(manager, walk);
    return status;
}

static mbr_status fail_member(uint64_t member, mbr_error *error)
{
    return mbr_fail(error, MBR_UNKNOWN_OBJECT, "no member %llu is in", (unsigned long long)member);
}

mbr_status mbr_manager_shrink_member(mbr_manager *manager, mbr_admission_handle admission,
    uint64_t member, uint64_t bytes, mbr_error *error)
{
    mbr_status status;
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_admission_record *record = mbr_find_admission(manager, admission.value, &status, error);
    if (record != NULL && !mbr_member_shrink(record->admission, (mbr_member){member}, bytes))
        status = fail_member(member, error);
    mbr_end_walk(manager, walk);
    return status;
}

mbr_status mbr_manager_dismiss(
    mbr_manager *manager, mbr_admission_handle admission, uint64_t member, mbr_error *error)
{
    mbr_status status;
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_admission_record *record = mbr_find_admission(manager, admission.value, &status, error);
    if (record != NULL && !mbr_member_leave(record->admission, (mbr_member){member}))
        status = fail_member(member, error);
    mbr_end_walk(manager, walk);
    return status;
}
