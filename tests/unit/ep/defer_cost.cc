// What a deferred free costs its caller: nanoseconds a defer, epochs of 64 entries, over a table
// whose slots do nothing. Prints the least and the median of many short rounds, because a shared
// machine makes single rounds longer, never shorter. Build with --config=release.
extern "C" {
#include "host/ep/context.h"
}

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace
{

constexpr int kEntries = 64 * 64; // of a round
constexpr int kRounds = 400;

uint64_t value;

mbr_status done(mbr_outcome *outcome)
{
    outcome->state = MBR_STATE_DONE;
    outcome->value = value;
    return MBR_OK;
}

mbr_status line_open(
    mbr_instance *, const mbr_line_open_request *, mbr_outcome *outcome, mbr_error *)
{
    return done(outcome);
}

mbr_status signal(mbr_instance *, const mbr_line_request *, mbr_outcome *outcome, mbr_error *)
{
    value++;
    return done(outcome);
}

mbr_status answer(mbr_instance *, const mbr_line_request *, mbr_outcome *outcome, mbr_error *)
{
    return done(outcome);
}

mbr_status wait(mbr_instance *, const mbr_line_wait_request *, mbr_outcome *outcome, mbr_error *)
{
    return done(outcome);
}

mbr_status stream_wait(
    mbr_instance *, const mbr_stream_wait_request *, mbr_outcome *outcome, mbr_error *)
{
    return done(outcome);
}

void settle(mbr_deferred *, mbr_settled) {}

uint64_t now()
{
    return mbr_clock_now(&mbr_clock_monotonic);
}

void measure(const char *what, uint32_t stream_count, bool reaper)
{
    mbr_order_vtable order = {};
    order.struct_size = sizeof order;
    order.kind = MBR_KIND_ORDER;
    order.line_open = line_open;
    order.signal = signal;
    order.reached = answer;
    order.wait = wait;
    order.stream_wait = stream_wait;
    order.line_close = answer;
    mbr_context_options options = {};
    options.order = &order;
    options.reaper = reaper;
    mbr_context *context = nullptr;
    if (mbr_context_create(&options, &context, nullptr) != MBR_OK)
        return;
    std::vector<uint64_t> ids(stream_count);
    for (uint32_t i = 0; i < stream_count; i++)
        (void)mbr_context_attach_stream(context, {1, 0, i}, &ids[i], nullptr);
    std::vector<mbr_deferred> entries(kEntries);
    std::vector<double> defers, settles;
    for (int round = 0; round < kRounds; round++) {
        uint64_t start = now();
        for (mbr_deferred &entry : entries) {
            entry.bytes = 4096;
            entry.settle = settle;
            if (mbr_context_defer(context, ids.data(), stream_count, &entry, nullptr) != MBR_OK)
                return;
        }
        uint64_t middle = now();
        (void)mbr_context_drain(context, UINT64_MAX, nullptr);
        uint64_t end = now();
        defers.push_back(static_cast<double>(middle - start) / kEntries);
        settles.push_back(static_cast<double>(end - middle) / kEntries);
    }
    std::sort(defers.begin(), defers.end());
    std::sort(settles.begin(), settles.end());
    printf("%-28s defer %6.1f ns least, %6.1f median; settle %6.1f least, %6.1f median\n", what,
        defers.front(), defers[kRounds / 2], settles.front(), settles[kRounds / 2]);
    (void)mbr_context_destroy(context, nullptr);
}

} // namespace

int main()
{
    measure("one stream", 1, false);
    measure("two streams", 2, false);
    measure("eight streams", 8, false);
    measure("one stream, with a reaper", 1, true);
}
