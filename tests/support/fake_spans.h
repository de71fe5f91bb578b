/* A backing that hands out spans and nothing else, and a context whose streams are finished by
 * hand: what an arena stands on, each call failing where a test says so. They define the functions
 * of host/backing/backing.h, port.h and host/ep/context.h that an arena calls, so whoever links
 * them links neither the backing nor the context.
 *
 * The memory is real and its pages are gone when a span is given back, so a write to a block that
 * was given too early ends the test. Bytes are booked at a real governor. */
#ifndef MEMBRANE_TESTS_SUPPORT_FAKE_SPANS_H
#define MEMBRANE_TESTS_SUPPORT_FAKE_SPANS_H

extern "C" {
#include "governor/governor.h"
#include "host/backing/backing.h"
#include "host/ep/context.h"
}

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

struct mbr_port {
    mbr_mechanism mechanism{};
};

struct mbr_backing {
    explicit mbr_backing(mbr_authority *authority);
    ~mbr_backing(); /* every span must be back; the cache holder ends */

    mbr_holder *cache = nullptr;
    mbr_port port;

    /* What spans are like. */
    uint64_t granule_bytes = 4096;
    uint64_t owned_extra_bytes = 0;      /* owned beyond what is usable */
    uint32_t content = MBR_CONTENT_ZERO; /* not ZERO: the bytes are 0xDD */
    std::atomic<uint64_t> fail_at{0};    /* the Nth take from now fails; 0: none */
    std::atomic<uint64_t> fail_count{1}; /* so many takes fail from there */
    mbr_status fail_status = MBR_OUT_OF_MEMORY;
    int keepers = 0;
    enum class Lie { kNone, kMisaligned, kTooSmall, kTaken, kOwnsNothing } lie = Lie::kNone;

    /* What happened. */
    std::atomic<uint64_t> take_count{0}, give_count{0}, evict_count{0};
    std::atomic<int64_t> idle_bytes{0};       /* of slabs, as the arenas count */
    std::atomic<uint64_t> evictable_bytes{0}; /* of the cache, that evict gives back */
    std::vector<uint64_t> asked_bytes;        /* of takes that were given */
    uint64_t span_bytes() const;
    uint64_t span_count() const;
    /* Charges the cache for bytes that only evict gives back. */
    void hoard(uint64_t bytes);

    mbr_status take(mbr_context *context, uint32_t group, uint64_t bytes, uint64_t align_bytes,
        mbr_span *span, mbr_refusal *refusal, mbr_error *error);
    void give(mbr_span *span);

  private:
    struct Kept {
        mbr_context *context;
        uint64_t owned_bytes;
        uint64_t mapped_bytes; /* of the address range */
        void *mapping;
    };
    bool fails();
    mutable std::mutex mutex_;
    std::map<uint64_t, Kept> spans_; /* by address */
};

struct mbr_fork_flag {
    std::atomic<bool> is_up;
};

struct mbr_context {
    std::atomic<uint64_t> state{MBR_CONTEXT_ACTIVE};
    mbr_fork_flag serves{true}; /* while the state is active */
    std::atomic<uint64_t> pin_count{0};
    std::atomic<bool> can_fill{true};
    std::atomic<uint64_t> fill_count{0};
    mbr_status defer_status = MBR_OK; /* not MBR_OK: what defer answers */
    uint64_t queue_limit_count = UINT64_MAX;

    void move_to(uint32_t to);
    void attach(uint64_t stream_id);
    void detach(uint64_t stream_id);
    void hold(uint64_t stream_id); /* its work is not done */
    void finish(uint64_t stream_id);
    void lose();
    bool ended = false; /* lost, and its end is confirmed */
    uint64_t queued_count() const;
    uint64_t queued_bytes() const;

    mbr_status defer(
        const uint64_t *stream_ids, uint32_t stream_count, mbr_deferred *entry, mbr_error *error);
    uint64_t reap();
    std::atomic<uint64_t> reap_count{0};
    std::atomic<uint64_t> reactivated_count{0}, stream_wait_count{0};
    mbr_deferred *reactivate(mbr_shelf *shelf, uint64_t stream_id, bool behind_others,
        bool (*fits)(const mbr_deferred *entry, const void *wanted), const void *wanted);
    mbr_status fill(uint64_t stream_id, uint64_t address, uint8_t value, uint64_t bytes);

    /* One capture at a time; its graph holds releases back until it is retired. */
    void begin_capture(uint64_t serial);
    void end_capture();
    void retire(uint64_t serial);
    mbr_graphs graphs_now() const;
    bool owns(mbr_graphs graphs) const;

  private:
    struct Entry {
        mbr_deferred *deferred;
        std::vector<uint64_t> streams;
    };
    mutable std::mutex mutex_;
    std::deque<Entry> queue_;
    std::set<uint64_t> attached_, held_, graphs_;
    uint64_t capture_ = 0; /* 0: none is open */
    bool owns_locked(mbr_graphs graphs) const;
};

#endif
