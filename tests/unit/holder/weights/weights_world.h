/* Weights whose items say which they are. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_WEIGHTS_WEIGHTS_WORLD_H
#define MEMBRANE_TESTS_UNIT_HOLDER_WEIGHTS_WEIGHTS_WORLD_H

#include "tests/unit/bind/host_world.h"

namespace membrane
{

constexpr uint64_t kItem = 256 * 1024;

class WeightsWorld : public HostWorld
{
  public:
    explicit WeightsWorld(uint32_t items, uint64_t budget_items,
        const mbr_weights_policy *policy = nullptr, uint64_t passing_bytes = 0,
        uint64_t limit = 64 * kMiB, const mbr_manager_seams *seams = nullptr,
        const char *plugin = nullptr, const std::vector<mbr_option> &options = {})
        : HostWorld(limit, seams, plugin, options)
    {
        for (uint32_t i = 0; i < items; i++)
            sources.emplace_back(kItem, static_cast<uint8_t>(i + 1));
        for (const auto &source : sources)
            described.push_back({reinterpret_cast<uint64_t>(source.data()), source.size()});
        auto request = this->request(budget_items * kItem);
        request.passing_bytes = passing_bytes;
        request.policy = policy;
        EXPECT_EQ(MBR_OK, mbr_weights_create(manager, &request, &weights, &error)) << error.text;
    }
    ~WeightsWorld()
    {
        EXPECT_EQ(MBR_OK, mbr_weights_destroy(weights, &error)) << error.text;
        EXPECT_EQ(MBR_OK, drain());
        for (const auto &[made, attached] : others) {
            EXPECT_EQ(MBR_OK, mbr_ep_detach_stream(manager, attached, &error)) << error.text;
            end_stream(made);
        }
        EXPECT_EQ(0u, charged());
    }

    std::vector<std::vector<uint8_t>> sources;
    std::vector<mbr_weight> described;
    mbr_weights *weights = nullptr;
    std::vector<std::pair<mbr_native, mbr_stream_handle>> others;

    mbr_stream_handle attach()
    {
        others.emplace_back(make_stream(), mbr_stream_handle{0});
        EXPECT_EQ(MBR_OK,
            mbr_ep_attach_stream(manager, ep, others.back().first, &others.back().second, &error))
            << error.text;
        return others.back().second;
    }
    mbr_status use_on(mbr_stream_handle on, uint32_t index)
    {
        uint64_t address;
        return mbr_weights_use(weights, index, on, &address, nullptr, &error);
    }
    mbr_weights_request request(uint64_t budget_bytes)
    {
        auto request = sized<mbr_weights_request>();
        request.item_count = static_cast<uint32_t>(described.size());
        request.items = described.data();
        request.binding = binding;
        request.holder = holder;
        request.budget_bytes = budget_bytes;
        return request;
    }
    mbr_status use(uint32_t index, uint64_t *address)
    {
        return mbr_weights_use(weights, index, stream, address, nullptr, &error);
    }
    void done(uint32_t index) { mbr_weights_done(weights, index, stream); }
    bool holds(uint32_t index, uint64_t address)
    {
        EXPECT_EQ(MBR_OK, mbr_ep_synchronize(manager, stream, kNever, &error)) << error.text;
        return get(address, kItem) == sources[index];
    }
    /* One use, with its contents looked at. */
    void touch(uint32_t index)
    {
        uint64_t address;
        ASSERT_EQ(MBR_OK, use(index, &address)) << error.text;
        EXPECT_TRUE(holds(index, address)) << index;
        done(index);
    }
    void scan(uint32_t cycles)
    {
        for (uint32_t i = 0; i < cycles * described.size(); i++)
            touch(i % static_cast<uint32_t>(described.size()));
    }
    mbr_weights_figures read()
    {
        auto figures = sized<mbr_weights_figures>();
        mbr_weights_read(weights, &figures);
        return figures;
    }
    uint64_t charged() { return paid(holder).charged_bytes; }
};

} // namespace membrane

#endif
