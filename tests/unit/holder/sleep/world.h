/* A manager with the real host plugin, growing ranges, and a second authority with an arena to
 * sleep in. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_SLEEP_WORLD_H
#define MEMBRANE_TESTS_UNIT_HOLDER_SLEEP_WORLD_H

#include "tests/unit/bind/host_world.h"

#include <map>
#include <vector>

namespace membrane
{

constexpr uint64_t kChunk = kMiB;

class SleepWorld : public HostWorld
{
  public:
    explicit SleepWorld(uint64_t limit = 64 * kMiB, uint64_t arena_limit = 64 * kMiB,
        const mbr_manager_seams *seams = nullptr, const char *plugin = nullptr,
        const std::vector<mbr_option> &options = {}, uint64_t keep_bytes = UINT64_MAX,
        uint64_t chunk_bytes = kChunk)
        : HostWorld(limit, seams, plugin, options)
    {
        make_arena(arena_limit);
        auto request = sized<mbr_sleeper_request>();
        request.arena = arena;
        request.holder = arena_holder;
        request.chunk_bytes = chunk_bytes; /* and as much stands before its copies begin */
        request.keep_bytes = keep_bytes;
        EXPECT_EQ(MBR_OK, mbr_sleeper_create(manager, &request, &sleeper, &error)) << error.text;
    }
    ~SleepWorld()
    {
        EXPECT_EQ(MBR_OK, mbr_sleeper_destroy(sleeper, kNever, &error)) << error.text;
        EXPECT_EQ(MBR_OK, mbr_ep_drain(manager, ep, kNever, &error)) << error.text;
        EXPECT_EQ(0u, paid(arena_holder).charged_bytes);
        EXPECT_EQ(MBR_OK, mbr_manager_unbind(manager, arena, &error)) << error.text;
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(manager, arena_holder, &error)) << error.text;
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_authority(manager, arena_authority, &error))
            << error.text;
        if (pinned.value != 0) {
            EXPECT_EQ(MBR_OK, mbr_manager_close_mechanism(manager, pinned, &error)) << error.text;
        }
    }

    mbr_authority_handle arena_authority = {0};
    mbr_holder_handle arena_holder = {0};
    mbr_binding_handle arena = {0};
    mbr_mechanism_handle pinned = {0}; /* a device's; 0: the host plugin's own serves */
    mbr_sleeper *sleeper = nullptr;
    mbr_sleep_result slept = sized<mbr_sleep_result>();
    mbr_wake_result woken = sized<mbr_wake_result>();

    mbr_status sleep(uint64_t tag, uint32_t level = MBR_SLEEP_KEEP, uint64_t deadline_ns = kNever,
        const std::vector<mbr_stream_handle> &streams = {})
    {
        auto request = sized<mbr_sleep_request>();
        request.level = level;
        request.tag = tag;
        request.stream = stream;
        request.streams = streams.data();
        request.stream_count = static_cast<uint32_t>(streams.size());
        request.deadline_ns = deadline_ns;
        return mbr_sleeper_sleep(sleeper, &request, &slept, &error);
    }
    mbr_status wake(uint64_t tag, uint32_t flags = 0, uint64_t deadline_ns = kNever,
        mbr_refusal *refusal = nullptr)
    {
        auto request = sized<mbr_wake_request>();
        request.flags = flags;
        request.tag = tag;
        request.stream = stream;
        request.deadline_ns = deadline_ns;
        request.refusal = refusal;
        return mbr_sleeper_wake(sleeper, &request, &woken, &error);
    }
    mbr_status add(mbr_range_handle range, uint64_t tag)
    {
        return mbr_sleeper_add(sleeper, range, holder, tag, &error);
    }
    /* Of the tag, with bytes committed from `offset` on, all of them of `seed`'s pattern. */
    mbr_range_reserve_result make(uint64_t tag, uint64_t bytes, uint8_t seed, uint64_t offset = 0)
    {
        auto range = reserve(offset + bytes, 64 * 1024);
        EXPECT_EQ(MBR_OK, grow(range.range, offset, bytes)) << error.text;
        EXPECT_EQ(MBR_OK, add(range.range, tag)) << error.text;
        put(range.address + offset, pattern(bytes, seed));
        return range;
    }
    void end(mbr_range_handle range)
    {
        EXPECT_EQ(MBR_OK, mbr_sleeper_remove(sleeper, range, &error)) << error.text;
        EXPECT_EQ(MBR_OK, release(range)) << error.text;
    }
    bool holds(uint64_t address, uint64_t bytes, uint8_t seed)
    {
        return get(address, bytes) == pattern(bytes, seed);
    }
    /* Made once each: tests compare them again and again. */
    static const std::vector<uint8_t> &pattern(uint64_t bytes, uint8_t seed)
    {
        static std::map<std::pair<uint64_t, uint8_t>, std::vector<uint8_t>> all;
        std::vector<uint8_t> &made = all[{bytes, seed}];
        uint64_t word = seed + 1;
        for (uint64_t i = made.size(); i + sizeof(word) <= bytes; i += sizeof(word)) {
            made.resize(bytes);
            word = word * UINT64_C(0x9E3779B97F4A7C15) + 1;
            std::memcpy(&made[i], &word, sizeof(word));
        }
        return made;
    }
    mbr_range_figures read(mbr_range_handle range)
    {
        auto figures = sized<mbr_range_figures>();
        EXPECT_EQ(MBR_OK, mbr_range_read(manager, range, 0, &figures, &error)) << error.text;
        return figures;
    }
    mbr_sleeper_figures read()
    {
        auto figures = sized<mbr_sleeper_figures>();
        mbr_sleeper_read(sleeper, &figures);
        return figures;
    }
    bool said(const char *words) const { return std::strstr(error.text, words) != nullptr; }

  private:
    void make_arena(uint64_t limit)
    {
        auto authority_request = sized<mbr_authority_request>();
        authority_request.tier = MBR_TIER_HOST;
        authority_request.name = "arena";
        authority_request.limit_bytes = limit;
        EXPECT_EQ(MBR_OK,
            mbr_manager_create_authority(manager, &authority_request, &arena_authority, &error))
            << error.text;
        auto payer = holder_request(MBR_ROLE_STAGING, "arena");
        payer.authority = arena_authority;
        EXPECT_EQ(MBR_OK, mbr_manager_create_holder(manager, &payer, &arena_holder, &error))
            << error.text;
        auto request = bind_request();
        request.authority = arena_authority;
        if (brings_ep) {
            auto open = sized<mbr_mechanism_open_request>();
            open.plugin = plugin;
            open.mechanism = "pinned0";
            EXPECT_EQ(MBR_OK, mbr_manager_open_mechanism(manager, &open, &pinned, &error))
                << error.text;
            request.mechanism = pinned;
        }
        EXPECT_EQ(MBR_OK, mbr_manager_bind(manager, &request, &arena, &error)) << error.text;
    }
};

} // namespace membrane

#endif
