// Lines and streams over a driver of the test's own, for what no other driver does at will: a value
// that is given again at once, a thread that comes in between.
extern "C" {
#include "abi/base/error.h"
#include "plugins/common/lines.h"
#include "plugins/common/transfers.h"
}

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace
{

template <typename T> T sized()
{
    T value;
    memset(&value, 0, sizeof(value));
    value.struct_size = sizeof(value);
    return value;
}

constexpr uint32_t kKind = 7;

// The lowest free value is the next one.
struct Driver {
    std::mutex lock;
    std::set<uint64_t> streams;
    mbr_end end = MBR_END_GONE; // what is told of a stream that is gone
    uint64_t refused_count = 0; // streams destroyed that were none
    uint64_t event = 0;
    std::function<void()> ended; // a stream has, and its call is not back yet
    std::function<mbr_status(uint64_t event)> query = [](uint64_t) { return MBR_OK; };
};
Driver *driver;

mbr_status make_stream(mbr_instance *, uint64_t *stream, mbr_error *)
{
    std::lock_guard<std::mutex> guard(driver->lock);
    for (*stream = 16; driver->streams.count(*stream) != 0;)
        ++*stream;
    driver->streams.insert(*stream);
    return MBR_OK;
}

mbr_end end_stream(mbr_instance *, uint64_t stream, mbr_error *error)
{
    {
        std::lock_guard<std::mutex> guard(driver->lock);
        driver->refused_count += driver->streams.erase(stream) == 0;
    }
    if (driver->ended)
        std::exchange(driver->ended, nullptr)();
    std::this_thread::yield(); // who waits for a value has it before the books are settled
    if (driver->end != MBR_END_GONE)
        mbr_fail(error, MBR_SYSTEM, "nobody knows");
    return driver->end;
}

mbr_status check_stream(mbr_instance *, uint64_t, mbr_error *)
{
    return MBR_OK;
}

mbr_status make_event(mbr_instance *, uint64_t *event, mbr_error *)
{
    *event = ++driver->event;
    return MBR_OK;
}

void end_event(mbr_instance *, uint64_t) {}

mbr_status record(mbr_instance *, uint64_t, uint64_t, mbr_error *)
{
    return MBR_OK;
}

mbr_status query(mbr_instance *, uint64_t event, mbr_error *)
{
    return driver->query(event);
}

class Streams : public testing::Test
{
  protected:
    void SetUp() override
    {
        driver = &driver_;
        memset(&objects, 0, sizeof(objects));
        memset(&transfers, 0, sizeof(transfers));
        memset(&lines, 0, sizeof(lines));
        objects.stream_kind = kKind;
        transfers.stream_create = make_stream;
        transfers.stream_destroy = end_stream;
        lines.check_stream = check_stream;
        lines.event_create = make_event;
        lines.event_destroy = end_event;
        lines.event_record = record;
        lines.event_query = query;
        objects.transfer_port = &transfers;
        objects.line_port = &lines;
        mbr_objects_init(&objects, &mbr_heap_libc);
    }
    void TearDown() override
    {
        auto request = sized<mbr_close_request>();
        EXPECT_EQ(mbr_objects_check_close(&objects, &request, nullptr), MBR_OK);
        mbr_lines_finish(instance);
        mbr_objects_finish(&objects);
    }
    mbr_status create(uint64_t *value)
    {
        auto request = sized<mbr_stream_create_request>();
        auto outcome = sized<mbr_stream_create_outcome>();
        auto error = sized<mbr_error>();
        mbr_status status = mbr_transfer_slot_stream_create(instance, &request, &outcome, &error);
        EXPECT_EQ(error.status, status);
        *value = outcome.stream.value;
        return status;
    }
    mbr_status destroy(uint64_t value, uint32_t *state = nullptr)
    {
        auto request = sized<mbr_stream_destroy_request>();
        auto outcome = sized<mbr_outcome>();
        request.stream = {kKind, 0, value};
        mbr_status status = mbr_transfer_slot_stream_destroy(instance, &request, &outcome, nullptr);
        if (state)
            *state = outcome.state;
        return status;
    }
    mbr_status open(uint64_t id)
    {
        auto request = sized<mbr_line_open_request>();
        auto outcome = sized<mbr_outcome>();
        request.line_id = id;
        request.stream.kind = kKind;
        return mbr_line_slot_open(instance, &request, &outcome, nullptr);
    }
    template <typename Slot> mbr_status on_line(Slot slot, uint64_t id)
    {
        auto request = sized<mbr_line_request>();
        auto outcome = sized<mbr_outcome>();
        request.line_id = id;
        return slot(instance, &request, &outcome, nullptr);
    }
    mbr_status quiesce(uint64_t deadline_ns)
    {
        auto request = sized<mbr_quiesce_request>();
        auto outcome = sized<mbr_outcome>();
        request.deadline_ns = deadline_ns;
        return mbr_line_slot_quiesce(instance, &request, &outcome, nullptr);
    }

    mbr_objects objects;
    mbr_instance *instance = reinterpret_cast<mbr_instance *>(&objects);

  private:
    Driver driver_;
    mbr_transfer_port transfers;
    mbr_line_port lines;
};

TEST_F(Streams, TwoThreadsMakeAndEndThem_AValueGivenAgainIsNobodyElses)
{
    auto rounds = [this] {
        for (int round = 0; round < 2000; round++) {
            uint64_t value = 0;
            ASSERT_EQ(create(&value), MBR_OK);
            ASSERT_EQ(destroy(value), MBR_OK);
        }
    };
    std::thread other(rounds);
    rounds();
    other.join();
    EXPECT_EQ(driver->refused_count, 0u);
    EXPECT_TRUE(driver->streams.empty());
}

TEST_F(Streams, EndNobodyKnows_IsKnownWhenTheDriverGivesTheValueAgain)
{
    uint64_t value = 0, again = 0;
    uint32_t state = 0;
    ASSERT_EQ(create(&value), MBR_OK);
    driver->end = MBR_END_UNKNOWN;
    EXPECT_EQ(destroy(value, &state), MBR_SYSTEM);
    EXPECT_EQ(state, (uint32_t)MBR_STATE_QUARANTINED);
    EXPECT_EQ(destroy(value), MBR_BUSY) << "withheld";
    driver->end = MBR_END_GONE;
    ASSERT_EQ(create(&again), MBR_OK);
    EXPECT_EQ(again, value);
    EXPECT_EQ(destroy(again), MBR_OK);
    EXPECT_EQ(destroy(again), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(driver->refused_count, 0u);
}

// Whatever the driver says of the first end, the second stream is one of its own.
TEST_F(Streams, ValueGivenAgainInsideTheCallThatEndsIt_HasALifeOfItsOwn)
{
    for (mbr_end end : {MBR_END_GONE, MBR_END_UNKNOWN}) {
        uint64_t value = 0, again = 0;
        ASSERT_EQ(create(&value), MBR_OK);
        driver->end = end;
        driver->ended = [&] { ASSERT_EQ(create(&again), MBR_OK); };
        EXPECT_EQ(destroy(value), MBR_OK);
        EXPECT_EQ(again, value);
        driver->end = MBR_END_GONE;
        EXPECT_EQ(destroy(again), MBR_OK);
        EXPECT_EQ(destroy(again), MBR_UNKNOWN_OBJECT);
    }
    EXPECT_EQ(driver->refused_count, 0u);
}

// Which ids stand in the same place of a table, and so behind one another.
std::vector<uint64_t> three_neighbours()
{
    std::vector<std::vector<uint64_t>> by_place;
    for (uint64_t id = 1;; id++) {
        mbr_id_table table = {nullptr, 0, 0};
        EXPECT_TRUE(mbr_id_table_reserve(&table, &mbr_heap_libc));
        mbr_id_table_insert(&table, id, driver);
        uint64_t place = 0;
        while (table.slots[place].id == 0)
            place++;
        by_place.resize(table.slot_count);
        by_place[place].push_back(id);
        mbr_id_table_finish(&table, &mbr_heap_libc);
        if (by_place[place].size() == 3 && place + 3 < by_place.size())
            return by_place[place];
    }
}

TEST_F(Streams, LineClosedWhileQuiesceWaits_TheOnesBehindItAreWaitedFor)
{
    const std::vector<uint64_t> ids = three_neighbours();
    for (uint64_t id : ids)
        ASSERT_EQ(open(id), MBR_OK);
    ASSERT_EQ(on_line(mbr_line_slot_signal, ids[1]), MBR_OK); // event 1
    ASSERT_EQ(on_line(mbr_line_slot_signal, ids[2]), MBR_OK); // event 2, which is pending
    driver->query = [&](uint64_t event) {
        if (event == 2)
            return MBR_NOT_READY;
        EXPECT_EQ(on_line(mbr_line_slot_close, ids[0]), MBR_OK); // the others move up
        return MBR_OK;
    };
    EXPECT_EQ(quiesce(0), MBR_TIMED_OUT);
    driver->query = [](uint64_t) { return MBR_OK; };
    EXPECT_EQ(quiesce(0), MBR_OK);
    for (uint64_t id : {ids[1], ids[2]})
        EXPECT_EQ(on_line(mbr_line_slot_close, id), MBR_OK);
}

} // namespace
