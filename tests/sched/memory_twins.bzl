"""Twins of plain allocations, of the backing, of a KV cache's growth and of givers: what a twin is, product.bzl says."""

load(":product.bzl", "alloc_twin", "backing_twin", "giver_twin", "kv_twin")

def alloc_twins():
    # ---- Twins of plain allocations. Who frees looks, and then writes, as if nobody freed meanwhile.
    alloc_twin(
        name = "freed_by_two",
        edit = "s/if \\(!mbr_record_try_move\\(mbr_table_record\\(table, block\\), &word, next\\)\\)/mbr_record_move(mbr_table_record(table, block), \\&word, next); if (false)/",
        scenario = "Sched_Alloc.FreeAgainstFree*",
        stem = "free",
    )

    # A block that waits for a stream is given at once.
    alloc_twin(
        name = "free_waits_for_nobody",
        edit = "s/^    uint32_t next = at_once &&/    at_once = true; uint32_t next = at_once \\&\\&/",
        scenario = "Sched_Alloc.FreeAgainstAlloc*",
        stem = "free",
    )

    alloc_twin(
        name = "loss_refunds_at_once",
        edit = "s/word, MBR_ALLOCATION_DEVICE_LOST\\);/word, MBR_ALLOCATION_RELEASED);/",
        scenario = "Sched_Alloc.FreeAgainstALoss*",
        stem = "free",
    )

    alloc_twin(
        name = "confirmed_unseen",
        edit = "/mbr_arena_confirm_lost\\(arena\\); /s/.*/(void)arena;/",
        scenario = "Sched_Alloc.FreeAgainstTheConfirmedEnd*",
        stem = "free",
    )

    # A free that finds its block abandoned at the last moment is told that it is unknown.
    alloc_twin(
        name = "abandoned_is_unknown",
        edit = "/return mbr_word_state/s/MBR_ALLOCATION_QUARANTINED/MBR_ALLOCATION_REACTIVATED/",
        scenario = "Sched_Alloc.FreeAgainstAbandonmentInEvery*",
        stem = "free",
    )

    # What is abandoned takes the word of a free that was faster.
    alloc_twin(
        name = "abandon_overtakes",
        edit = "s/if \\(!mbr_record_try_move\\(record, &word, MBR_ALLOCATION_QUARANTINED\\)\\)/atomic_store(\\&record->word, (word \\& ~MBR_WORD_STATE) | MBR_ALLOCATION_QUARANTINED); if (false)/",
        scenario = "Sched_Alloc.FreeAgainstAbandonment*",
        stem = "quarantine",
    )

def backing_twins():
    # ---- Twins of the backing. A range ends behind its own streams, whatever its parts wait for.
    backing_twin(
        name = "end_passes_parts",
        edit = "s/bool waits = range->leave_count != 0;/bool waits = false;/",
        scenario = "Sched_Backing.DecommitAgainst*",
        stem = "release",
    )

    # What is about to be given back is kept for work on any stream.
    backing_twin(
        name = "rejoin_on_any_stream",
        edit = "s/leave->is_before = mbr_context_is_before[(].*/leave->is_before = true;/",
        scenario = "Sched_Backing.DecommitAgainst*",
        stem = "plan",
    )

    # What is mapped ahead still counts as planned while it can be adopted.
    backing_twin(
        name = "ahead_stays_planned",
        edit = "/from here on an adoption/d",
        scenario = "Sched_Backing.AheadAgainst*",
        stem = "grow",
    )

    # A range ends at once, and its parts with it.
    backing_twin(
        name = "range_waits_for_nobody",
        edit = "/&range->deferred, error/s/now [?] 0 : stream_count/now ? 0 : stream_count * 0/",
        scenario = "Sched_Backing.EndAgainstTrim*",
        stem = "release",
    )

    # What is found lost is given up for good.
    backing_twin(
        name = "loss_keeps_for_good",
        edit = "s/[.]status = MBR_DEVICE_LOST, [.]unchanged = true/.status = MBR_DEVICE_LOST/",
        scenario = "Sched_Backing.UnmapAgainst*",
        stem = "range",
    )

    # Whoever trims does not look at the gate.
    backing_twin(
        name = "trim_in_a_capture",
        edit = "s/mbr_gate_try_enter[(]port->gate[)]/true/;s/^        mbr_gate_leave[(]port->gate[)];/        (void)port;/",
        scenario = "Sched_Backing.EndAgainstACapture*",
        stem = "port",
    )

    # A range is discarded, and others find its parked aliases by their extents meanwhile.
    backing_twin(
        name = "discard_unmarked",
        edit = "s/mbr_range_begin_edit[(]range, &editor[)];/(void)editor;/",
        scenario = "Sched_Alias.DiscardAgainst*",
        stem = "backing",
        test = "alias",
    )

    # A prefix does not look at what was parked while it ended.
    backing_twin(
        name = "orphans_forgotten",
        edit = "/parked meanwhile/s/true/false/",
        scenario = "Sched_Alias.PrefixEndAgainst*",
        stem = "prefix",
        test = "alias",
    )

    # An attach asks for a capture before it unmaps, and one begins in between.
    backing_twin(
        name = "attach_asks_once",
        edit = "s/mbr_port_try_enter_gate[(]port[)]/!mbr_port_is_gated(port)/;s/mbr_port_leave_gate[(]port[)]/(void)port/",
        scenario = "Sched_Alias.AttachAgainst*",
        stem = "prefix",
        test = "alias",
    )

    # What a capture keeps is left to its end, which may have looked before.
    backing_twin(
        name = "kept_is_forgotten",
        edit = "s/has_kept, true/has_kept, false/",
        scenario = "Sched_Gate.GrowthThatIsUndone*",
        stem = "quarantine",
        test = "gate",
    )

def kv_twins():
    # ---- Twins of a KV cache's growth
    # Its thread looks at an offer, and leaves it for whoever takes it back.
    kv_twin(
        name = "offer_is_taken_twice",
        edit = "s/atomic_exchange_explicit[(]&sequence->offered_tokens, 0,/atomic_load_explicit(\\&sequence->offered_tokens,/; s/memory_order_acq_rel[)];/memory_order_acquire);/",
        scenario = "Sched_Offer.*",
        stem = "grow",
    )

    # What of an offer was taken before it grew is given back with the rest.
    kv_twin(
        name = "offer_begins_where_it_began",
        edit = "s/if [(]!stood[)]/if (!stood \\&\\& sequence->offered_first == 0)/",
        scenario = "Sched_Offer.*",
        stem = "ahead",
    )

    # A second one that would adopt or give back takes the first one's mark away.
    kv_twin(
        name = "adopting_is_no_mark",
        edit = "s/sequence->is_adopting = sequence->is_adopting [|][|] may;/sequence->is_adopting = may;/",
        scenario = "Sched_Offer.*",
        stem = "ahead",
    )

    # A growth takes what is offered while more is being adopted, and publishes beside it.
    kv_twin(
        name = "growth_awaits_no_adoption",
        edit = "/^static bool begin_growth/,/^}/{/while/,+1d}",
        scenario = "Sched_Offer.*",
        stem = "grow",
    )

def giver_twins():
    # ---- Twins of who answers for a holder. One that is called leaves.
    giver_twin(
        name = "leaves_in_its_call",
        edit = "/while [(]giver->call_count != 0[)]/,+1d",
        scenario = "Sched_Giver.Leaving*",
    )

    # Whoever leaves does not see that the holder has ended meanwhile.
    giver_twin(
        name = "leaves_a_holder_that_ended",
        edit = "s/if [(]giver->holder != NULL[)]/if (true)/",
        scenario = "Sched_Giver.Leaving*",
    )

    # The first of two calls that is over ends both.
    giver_twin(
        name = "call_ends_others",
        edit = "s/giver->call_count--;/giver->call_count = 0;/",
        scenario = "Sched_Giver.LeavingBesideSavers*",
    )

    # A holder ends while a saver is called.
    giver_twin(
        name = "holder_ends_in_a_call",
        edit = "s/if [(]giver->call_count == 0[)]/if (true)/",
        scenario = "Sched_Giver.LeavingBesideSavers*",
    )
