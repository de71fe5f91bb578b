/* A manager with the plugin that the suite runs on (tests/support/plugin.h), an EP, one authority
 * and one holder, by the client interface alone. The host plugin has the CPU EP; a device's brings
 * its own, and then `cpu` is NULL and the CPU reaches memory through view_of alone. */
#ifndef MEMBRANE_TESTS_UNIT_BIND_HOST_WORLD_H
#define MEMBRANE_TESTS_UNIT_BIND_HOST_WORLD_H

#include "membrane/membrane.h"

#include "tests/support/plugin.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <vector>

extern "C" {
#include "host/bind/seams.h"
}

namespace membrane
{

template <typename T> T sized()
{
    T value = {};
    value.struct_size = sizeof(value);
    return value;
}

/* Where the plugin brings the EP, a test of what only the CPU EP can do has nothing to show. */
#define SKIP_WITHOUT_CPU_EP(world)                                                                 \
    if ((world).brings_ep)                                                                         \
    GTEST_SKIP() << "a device's EP names its mechanism and has both tables from it"

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kNever = UINT64_MAX;

class HostWorld
{
  public:
    explicit HostWorld(uint64_t limit = 64 * kMiB, const mbr_manager_seams *seams = nullptr,
        const char *plugin = nullptr,                /* the one above */
        const std::vector<mbr_option> &options = {}, /* of the mechanism */
        const char *shared_folder = nullptr,         /* of the ledger "pool"; NULL: none */
        const std::vector<mbr_access> &peers = {});  /* of the mechanism */
    ~HostWorld(); /* takes everything apart; each step must be accepted */

    mbr_manager *manager = nullptr;
    mbr_plugin_handle plugin = {0};
    mbr_mechanism_handle mechanism = {0};
    mbr_authority_handle authority = {0};
    mbr_holder_handle holder = {0};
    mbr_cpu *cpu = nullptr;
    mbr_native native = {};
    mbr_ep_handle ep = {0};
    mbr_stream_handle stream = {0};
    mbr_binding_handle binding = {0}; /* 0 at the end: a test has ended it */
    mbr_error error = sized<mbr_error>();
    bool brings_ep = false; /* the plugin, not the CPU EP */
    bool lost = false; /* the EP's line is left open, and whoever brought its table closes it */

    uint32_t tier() const { return brings_ep ? MBR_TIER_DEVICE : MBR_TIER_HOST; }
    mbr_bind_request bind_request() const;
    /* Of the world's authority, without an allowance. */
    mbr_holder_request holder_request(uint32_t role, const char *name) const;
    /* For a further EP, of the same streams. */
    mbr_ep_request ep_request(const char *name) const;
    mbr_range_reserve_result reserve(uint64_t bytes, uint64_t unit = 0);
    mbr_status grow(mbr_range_handle range, uint64_t offset, uint64_t bytes);
    mbr_status release(mbr_range_handle range, bool now = true);
    mbr_alloc_result alloc(uint64_t bytes, mbr_status *status = nullptr);
    mbr_status free_now(mbr_allocation_handle allocation);
    mbr_status free_queued(mbr_allocation_handle allocation); /* behind the world's stream */
    mbr_status drain() { return mbr_ep_drain(manager, ep, kNever, &error); }

    /* Streams that nobody has attached. */
    mbr_native make_stream();
    void end_stream(mbr_native made); /* of a device that is lost: it stays the driver's */
    void submit(mbr_native on, void (*function)(void *argument), void *argument);
    /* Returns when the stream has done what it has: nothing of the EP's is asked. */
    void await(mbr_native on);
    /* Which a lost EP leaves open, as whoever brought the table: the first line of the manager's EP
     * of that number. */
    void close_line(uint64_t ep_number = 1);

    /* Memory of the mechanism, by the CPU where it can, and else by the EP. */
    void put(uint64_t address, const std::vector<uint8_t> &bytes);
    std::vector<uint8_t> get(uint64_t address, uint64_t bytes);
    mbr_authority_figures books();
    mbr_holder_figures paid(mbr_holder_handle by);
    mbr_mechanism_figures figures();
    ::testing::AssertionResult clean(); /* the audit */

  private:
    void create_ep();
    void destroy_ep();
    void copy(uint64_t to, uint64_t from, uint64_t bytes);
};

/* Holds a stream: nothing that is submitted behind it runs before it opens. */
class Gate
{
  public:
    Gate(HostWorld &world, mbr_native stream) : opened_(open_.get_future())
    {
        world.submit(
            stream,
            [](void *argument) {
                auto *gate = static_cast<Gate *>(argument);
                gate->opened_.wait();
                gate->passed_.set_value();
            },
            this);
    }
    explicit Gate(HostWorld &world) : Gate(world, world.native) {}
    ~Gate() { open(); }
    void open()
    {
        if (!is_open_) {
            is_open_ = true;
            open_.set_value();
            passed_.get_future().wait(); /* the stream does not look at it any more */
        }
    }

  private:
    std::promise<void> open_, passed_;
    std::future<void> opened_;
    bool is_open_ = false;
};

} // namespace membrane

#endif
