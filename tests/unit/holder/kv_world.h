/* KV caches on the plugin that the suite runs on, an EP and a manager; with the oracles of their
 * tests:
 *   - contents: every token has an id, every row of a token a pattern of its own; the rows of all
 *     live sequences are compared again and again, through growth, sharing and the end of others;
 *   - commitment: the geometry's exact arithmetic, over extents that the test makes itself;
 *   - sharing: which bytes are one and the same is asked of the system, by the offsets of the
 *     mappings in the mechanism's memory file. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_KV_WORLD_H
#define MEMBRANE_TESTS_UNIT_HOLDER_KV_WORLD_H

#include "tests/unit/bind/host_world.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "host/holder/geometry/commit.h"
#include "host/holder/geometry/sharing.h"
}

namespace membrane
{

inline constexpr char kTwoGroups[] = "layers=2,heads=1,dim=64,bytes=2,planes=2,window=48+"
                                     "layers=1,heads=1,dim=64,bytes=2,planes=2";

struct Shape {
    std::string geometry;
    std::string layout;
    uint64_t max_tokens;
    uint64_t window_tokens = 0; // window-major
    uint64_t extent_bytes = 0;
    uint32_t mode = MBR_KV_GROWING;
    uint64_t ahead_bytes = 0; // of the binding
    uint32_t flags = 0;       // MBR_KV_…
    uint64_t tensor_parallel = 0;
};

// A sequence and what its tokens are.
struct Tracked {
    mbr_sequence *sequence = nullptr;
    std::vector<uint64_t> ids;  // of its tokens
    uint64_t before_append = 0; // tokens before the last growth
    size_t stream = 0;          // index in the world's
};

struct TrackedPrefix {
    mbr_kv_prefix *prefix = nullptr;
    std::vector<uint64_t> ids;
};

class KvWorld : public HostWorld
{
  public:
    explicit KvWorld(const Shape &shape, uint64_t limit = 64 * kMiB,
        const mbr_manager_seams *seams = nullptr, const char *plugin = nullptr,
        std::vector<mbr_option> options = plugin_under_test().page_granule);
    ~KvWorld(); // every sequence and prefix ended; asserts that all figures are zero

    Shape shape;
    mbr_geometry geometry = {};       // of one device
    std::vector<mbr_extents> extents; // one a group
    mbr_kv *kv = nullptr;
    mbr_holder_handle prefix_holder = {0};
    std::vector<mbr_native> natives;        // beside the first
    std::vector<mbr_stream_handle> streams; // all, the first included

    // Creates a sequence of `tokens` tokens, with `prefix_tokens` of the prefix; writes the rest.
    mbr_status create(Tracked *tracked, uint64_t tokens, const TrackedPrefix *prefix = nullptr,
        uint64_t prefix_tokens = 0, size_t stream = 0, mbr_refusal *refusal = nullptr);
    mbr_status append(Tracked *tracked, uint64_t tokens, mbr_refusal *refusal = nullptr);
    mbr_status destroy(Tracked *tracked);
    mbr_status share(Tracked *source, uint64_t tokens, TrackedPrefix *prefix);
    void end(TrackedPrefix *prefix);

    mbr_kv_figures read();
    mbr_sequence_figures read(const Tracked &tracked);
    mbr_kv_prefix_figures read(const TrackedPrefix &prefix);
    // Writes the rows anew that are private to it.
    void rewrite(Tracked *tracked) { write(tracked, 0, tracked->ids.size()); }
    // Waits for every stream and every queued release.
    void settle();

    // Every live row of the sequence holds what its token's id says.
    ::testing::AssertionResult holds(const Tracked &tracked);
    // What S([held_first, tokens)) is by the arithmetic, shared extents included.
    uint64_t committed_by_arithmetic(const Tracked &tracked) const;
    uint64_t shared_by_arithmetic(uint64_t prefix_tokens) const;
    // Distinct physical bytes of the live rows of these sequences.
    uint64_t physical_live_bytes(const std::vector<const Tracked *> &all);
    uint64_t token_bytes() const { return mbr_geometry_token_bytes(&geometry); }

    uint64_t next_id = 1;

  private:
    void bind_ahead();
    void make_extents();
    void write(Tracked *tracked, uint64_t first, uint64_t end);
    void synchronize();
    template <typename Visit>
    void each_row(
        const Tracked &tracked, uint64_t live_of, uint64_t first, uint64_t end, Visit visit);
};

} // namespace membrane

#endif
