"""Twins of captures, of the release queue and of contexts: what a twin is, product.bzl says."""

load(":product.bzl", "ep_twin")

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
