"""Twins: the product with one step taken out of one file, and the scenario that must notice."""

load(":product.bzl", "alloc_twin", "backing_twin", "ep_twin", "kv_twin", "twin")

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

def ep_twins():
    # ---- Twins of captures
    ep_twin(
        name = "settle_passes_the_gate",
        edit = "s/if \\(is_wanted && entered == 0 && !mbr_context_is_lost\\(context\\)\\)/if (false)/",
        scenario = "Sched_Capture.AgainstSettles_*",
        stem = "reap",
        test = "capture",
    )

    ep_twin(
        name = "capture_begins_beside_a_call",
        edit = "s/inside_count != 0 && in_time/inside_count > 9 \\&\\& in_time/; s/closed = gate->inside_count == 0;/closed = true;/",
        scenario = "Sched_Capture.AgainstSettles_*",
        stem = "gate",
        test = "capture",
    )

    ep_twin(
        name = "owned_goes_with_its_streams",
        edit = "s/if \\(owner == NULL\\) \\{/if (owner == NULL || entry != NULL) {/",
        scenario = "Sched_Capture.OwnedMemory*",
        stem = "capture",
        test = "capture",
    )

    ep_twin(
        name = "loss_leaves_the_gate",
        edit = "/^void mbr_context_lose_graphs_locked/,/^}/s/release_stream_locked\\(context, graph\\);//",
        scenario = "Sched_Capture.LostMeanwhile_*",
        stem = "capture",
        test = "capture",
    )

    # ---- Twins of the release queue. Marks up to any value are done at the first answer.
    ep_twin(
        name = "reached_by_any_value",
        edit = "s/ && mark->value <= reached\\)/)/",
        scenario = "Sched_Queue.DeferAgainstReap_Each*",
        stem = "queue",
        test = "queue",
    )

    # What joined while the signal was under way gets its value.
    ep_twin(
        name = "late_marks_early_value",
        edit = "/^static void signal_line_locked/,/^}/s/take_off_locked/if (line->id == 0) &/; /^static void stamp_locked/,/^}/s/^    mbr_mark \\*mark;/&TAILQ_CONCAT(\\&line->inflight, \\&line->unsignalled, link);/",
        scenario = "Sched_Queue.TwoProducers*",
        stem = "signal",
        test = "queue",
    )

    ep_twin(
        name = "two_signal_at_once",
        edit = "s/if \\(sealed && !context->signalling\\)/if (sealed)/",
        scenario = "Sched_Queue.EpochSealedBy64*",
        stem = "queue",
        test = "queue",
    )

    # What the other was told counts as what is.
    ep_twin(
        name = "another_asks_already",
        edit = "s/if \\(context->asking && !now\\)/if (((void)now, context->asking))/",
        scenario = "Sched_Queue.ReapBeforeARefusal*",
        stem = "signal",
        test = "queue",
    )

    ep_twin(
        name = "one_entry_too_many",
        edit = "s/queued_count >= context->queue_entries/queued_count > context->queue_entries/",
        scenario = "Sched_Queue.FullForThree*",
        stem = "queue",
        test = "queue",
    )

    ep_twin(
        name = "drain_leaves_its_epoch",
        edit = "s/oldest->sequence > wanted->sequence/oldest->sequence >= wanted->sequence/",
        scenario = "Sched_Drain.AgainstDefer_*",
        stem = "reap",
        test = "queue",
    )

    # A drain that looked in vain has the other look again.
    ep_twin(
        name = "drains_wake_each_other",
        edit = "s/ && context->progress_count == seen\\)/ \\&\\& context->progress_count != seen)/",
        scenario = "Sched_Drain.AgainstDefer_*",
        stem = "reap",
        test = "queue",
    )

    ep_twin(
        name = "settled_before_it_is",
        edit = "/^uint64_t mbr_context_settle_locked/,/^}/{/account_locked/d; s/^        mbr_lock_drop.*/account_locked(context, \\&taken);&/}",
        scenario = "Sched_Drain.TimeOut*",
        stem = "reap",
        test = "queue",
    )

    ep_twin(
        name = "settled_entry_is_read",
        edit = "/^static void settle_batch/,/^}/s/while \\(.*/for (entry = taken->entries.first; entry != NULL; entry = entry->next) {/",
        scenario = "Sched_Settle.*",
        stem = "reap",
        test = "queue",
    )

    # ---- Twins of a context's life
    ep_twin(
        name = "ends_with_entries",
        edit = "s/context->queued_count == 0 && context->claimed_count == 0 && !context->settling\\)/true)/",
        scenario = "Sched_Retire.*",
        stem = "context",
        test = "context",
    )

    ep_twin(
        name = "pinned_while_it_retires",
        edit = "s/if \\(state_of\\(life\\) != MBR_CONTEXT_ACTIVE\\)/if (state_of(life) == MBR_CONTEXT_LOST)/",
        scenario = "Sched_Pin.AgainstRetire_*",
        stem = "context",
        test = "context",
    )

    ep_twin(
        name = "unpin_without_lock",
        edit = "/^void mbr_context_unpin/,/^}/{/mbr_lock_/d}",
        scenario = "Sched_Pin.LastOne*",
        stem = "context",
        test = "context",
    )

    ep_twin(
        name = "lose_leaves_the_settler",
        edit = "/^static bool is_settled_locked/,/^}/s/ && !context->settling;/;/",
        scenario = "Sched_Loss.SaidWhile*",
        stem = "reap",
        test = "context",
    )

    ep_twin(
        name = "detach_under_signal",
        edit = "/^static bool wants_signal/,/^}/{s/unsignalled\\) \\|\\|/unsignalled);/; /inflight/d}",
        scenario = "Sched_Detach.AgainstDeferAndSignal*",
        stem = "stream",
        test = "context",
    )

    ep_twin(
        name = "attached_after_the_end",
        edit = "/^static mbr_status publish_line/,/^}/s/check_active\\(context, error\\)/((void)error, MBR_OK)/",
        scenario = "Sched_Attach.*",
        stem = "stream",
        test = "context",
    )

    ep_twin(
        name = "synchronize_signals_too",
        edit = "s/if \\(!mbr_context_claim_signalling_locked\\(context, deadline_ns\\)\\)/if (deadline_ns == 0)/",
        scenario = "Sched_Synchronize.*",
        stem = "stream",
        test = "context",
    )

    ep_twin(
        name = "settle_under_lock",
        edit = "/^uint64_t mbr_context_settle_locked/,/^}/{/mbr_lock_/d}",
        scenario = "Sched_TwoEps.*",
        stem = "reap",
        test = "context",
    )

    ep_twin(
        name = "end_waits_for_nobody",
        edit = "s/ \\|\\| context->call_count == 0\\)/ || true)/",
        scenario = "Sched_Destroy.AgainstACallInside_*",
        stem = "context",
        test = "context",
    )

    # ---- Twins of the reaper
    ep_twin(
        name = "first_entry_wakes_nobody",
        edit = "/^static void open_epoch_locked/,/^}/{/mbr_context_poke_reaper/d}",
        scenario = "Sched_Reaper.AsleepAgainstTheFirstEntry_*",
        stem = "queue",
        test = "reaper",
    )

    ep_twin(
        name = "plain_entry_wakes_nobody",
        edit = "/^static void join_idle_locked/,/^}/{/mbr_context_poke_reaper/d}",
        scenario = "Sched_Reaper.AsleepAgainstAnEntry*",
        stem = "queue",
        test = "reaper",
    )

    ep_twin(
        name = "reaper_forgets_the_lost",
        edit = "s/ \\|\\| context->lost.first != NULL;/;/",
        scenario = "Sched_Reaper.AgainstALoss*",
        stem = "reaper",
        test = "reaper",
    )

    ep_twin(
        name = "end_joins_nobody",
        edit = "/mbr_threads_join/d",
        scenario = "Sched_Reaper.AgainstDestroy_*",
        stem = "reaper",
        test = "reaper",
    )

    # ---- Twins of reactivation: an entry that is claimed is settled all the same.
    ep_twin(
        name = "claimed_is_settled",
        edit = "/^static void collect_locked/,/^}/s/if \\(entry->is_claimed\\)/if (false)/",
        scenario = "Sched_Reactivate.AgainstSettle_*",
        stem = "queue",
        test = "reactivate",
    )

    # What comes back from a refused wait after a loss counts as done.
    ep_twin(
        name = "put_back_as_done",
        edit = "s/else if \\(mbr_context_is_lost\\(context\\)\\)/else if (false)/",
        scenario = "Sched_Reactivate.AgainstALoss*",
        stem = "reactivate",
        test = "reactivate",
    )

    # The work of the other streams counts as done.
    ep_twin(
        name = "taken_without_a_wait",
        edit = "/^static void list_waits_locked/,/^}/s/\\|\\| mark->line == line\\)/|| mark->line == line || waits->count == 0)/",
        scenario = "Sched_Reactivate.ByTwo*",
        stem = "reactivate",
        test = "reactivate",
    )

    ep_twin(
        name = "ends_with_a_claim",
        edit = "s/ && context->claimed_count == 0//",
        scenario = "Sched_Reactivate.AgainstRetire*",
        stem = "context",
        test = "reactivate",
    )

    # ---- And a loss that leaves what is queued where it stands.
    ep_twin(
        name = "loss_keeps_entries",
        edit = "/^void mbr_context_mark_lost_locked/,/^}/{/mbr_context_lose_entries_locked/d}",
        scenario = "Sched_Loss.FoundInAnyCall*",
        stem = "context",
        test = "context",
    )

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

    # What is lost is unmapped like all else.
    backing_twin(
        name = "loss_unmaps",
        edit = "s/if [(]holds && [(]lost .*/if (holds \\&\\& lost \\&\\& false)/",
        scenario = "Sched_Backing.EndAgainstALoss*",
        stem = "release",
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
        edit = "/parked meanwhile/s/= true/|= false/",
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
