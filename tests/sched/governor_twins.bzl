"""Twins of the governor: what a twin is, product.bzl says."""

load(":product.bzl", "twin")

def governor_twins():
    # ---- Twins of the governor
    twin(
        name = "refusal_leaves_credit",
        edit = "/^    mbr_credit_collect_locked\\(authority\\);/d",
        scenario = "Sched_ExactShares.CreditElsewhere_*",
        stem = "refusal",
        test = "claim",
    )

    twin(
        name = "lease_without_lock",
        edit = "/^static decision decide_lease/,/^}/{/mbr_lock_/d}",
        scenario = "Sched_Allowance.*",
        stem = "refusal",
        test = "claim",
    )

    twin(
        name = "end_keeps_credit",
        edit = "/^static void thread_ends/,/^}/{/close_slot_locked/d}",
        scenario = "Sched_ThreadEnd.AgainstClaims*",
        stem = "credit",
        test = "thread",
    )

    twin(
        name = "spill_without_lock",
        edit = "/^void mbr_credit_spill/,/^}/{/mbr_lock_/d}",
        scenario = "Sched_Collecting.AgainstClaims*",
        stem = "credit",
        test = "thread",
    )

    # The room is read and written back, as if nobody claimed meanwhile.
    twin(
        name = "limit_passes_claims",
        edit = "s/atomic_fetch_add_explicit\\(/atomic_store_explicit(/; s/\\(int64_t\\)least - \\(int64_t\\)old,/mbr_room_read(authority) + &/",
        scenario = "Sched_Lowering.AgainstClaims*",
        stem = "limit",
        test = "limit",
    )

    twin(
        name = "sample_hides_exhaustion",
        edit = "s/if \\(authority->exhaustion_count == exhaustions_before\\)/(void)exhaustions_before;/",
        scenario = "Sched_Measuring.*",
        stem = "limit",
        test = "limit",
    )

    twin(
        name = "record_without_claim",
        edit = "/^void mbr_record_committed/,/^}/{/mbr_room_take_past_limit/d}",
        scenario = "Sched_Recording.PastTheLimit*",
        stem = "books",
        test = "limit",
    )

    twin(
        name = "figures_unbounded",
        edit = "s/full.charged_bytes = mbr_min\\(mbr_sum_shown\\((slots|sums).charged\\), [a-z.]*claimed[a-z_]*\\);/full.charged_bytes = mbr_sum_shown(\\1.charged);/",
        scenario = "Sched_Reading.WhileThreadsBook*",
        stem = "snapshot",
        test = "figures",
    )

    twin(
        name = "list_without_lock",
        edit = "/^void mbr_authority_holders_read/,/^}/{/mbr_lock_.*governor->lock/d}",
        scenario = "Sched_Life.HoldersComeAndGo*",
        stem = "snapshot",
        test = "figures",
    )

    twin(
        name = "bill_moves_late",
        edit = "/^static void transfer/,/^}/{/add_charged_to_holder\\(to/d; s/add_charged_to_holder\\(from, here, UINT64_C\\(0\\) - bytes\\)/add_charged(from, here, UINT64_C(0) - bytes); add_charged(to, there, bytes)/}",
        scenario = "Sched_Billing.*",
        stem = "books",
        test = "figures",
    )

    # It looks who waits before the bytes are free.
    twin(
        name = "release_looks_first",
        edit = "/^static.* void spill/,/^}/{/mbr_credit_spill/d; s/mbr_tickets_wake\\(authority\\);/& mbr_credit_spill(authority, here.index, bytes);/}",
        scenario = "Sched_SubmitAgainstRelease.AnyOrder*",
        stem = "books",
        test = "ticket",
    )

    twin(
        name = "asker_ends_unseen",
        edit = "/^static void let_go/,/^}/{/if \\(mbr_ticket_state\\(ticket\\)/d; /mbr_tickets_settle_locked/d}",
        scenario = "Sched_Asking.*",
        stem = "asking",
        test = "ticket",
    )

    twin(
        name = "release_wakes_nobody",
        edit = "/^static.* void spill/,/^}/{/mbr_tickets_wake/d}",
        scenario = "Sched_SubmitAgainstRelease.AnyOrder*",
        stem = "books",
        test = "ticket",
    )

    twin(
        name = "ticket_wakes_unbooked",
        edit = "/^static void grant_locked/,/^}/{/leave_locked/d; s/ *if \\(ticket->holder->allowance/leave_locked(authority, ticket, MBR_TICKET_GRANTED);&/}",
        scenario = "Sched_CancelAgainstGrant.ClaimsToo*",
        stem = "ticket",
        test = "ticket",
    )

    twin(
        name = "claim_ignores_generation",
        edit = "s/if \\(is_retired\\(ticket\\)\\)/if (false)/",
        scenario = "Sched_Retiring.AgainstGrant*",
        stem = "ticket",
        test = "ticket",
    )

    twin(
        name = "late_ticket_granted",
        edit = "s/return MBR_VERDICT_TIME_OUT;/return ticket->bytes <= left_bytes ? MBR_VERDICT_GRANT : MBR_VERDICT_WAIT;/",
        scenario = "Sched_TimeOutAtGrant.DeadlineAndBytes*",
        stem = "arbiter",
        test = "ticket",
    )

    twin(
        name = "limit_settles_nobody",
        edit = "/mbr_tickets_settle_locked/d",
        scenario = "Sched_LimitAgainstTicket.LoweredAndRaised*",
        stem = "limit",
        test = "ticket",
    )

    twin(
        name = "teller_keeps_nothing",
        edit = "/^static mbr_ticket \\*take_due/,/^}/{/keep_locked/d}",
        scenario = "Sched_DestroyAgainstDeliver.TicketsThatEnd*",
        stem = "asking",
        test = "pressure",
    )

    twin(
        name = "holder_asked_unmarked",
        edit = "s/holder->being_asked = true;//",
        scenario = "Sched_PressAgainstDestroy.ACacheThatGoes*",
        stem = "pressure",
        test = "pressure",
    )

    twin(
        name = "parts_are_kept",
        edit = "/^static mbr_status try_all/,/^}/{s/mbr_grant_return\\(/(void)(/; s/\\(void\\)\\(claims\\[index\\].holder, claims\\[index\\].bytes\\)/(void)index/}",
        scenario = "Sched_TwoPools.OppositeWishes*",
        stem = "claims",
        test = "pressure",
    )

    twin(
        name = "change_leaves_trace",
        edit = "s/authority->limit_is_changing = true;//",
        scenario = "Sched_Changing.TwoAtOnce*",
        stem = "change",
        test = "pressure",
    )

    twin(
        name = "member_grows_unasked",
        edit = "s/if \\(is_feasible_locked\\(admission, capacity_bytes\\)\\)/if (true)/",
        scenario = "Sched_Admitting.MembersGrow*",
        stem = "admission",
        test = "pressure",
    )
