// Paged stores, situation by situation: what is refused at once, whole rows, what is shared,
// copied, dropped and ended.
#include "tests/unit/holder/paged_world.h"

#include <atomic>
#include <thread>

namespace membrane
{
namespace
{

constexpr uint64_t kExtent = 4096;

/* ---- Making one */

TEST(Paged, Create_OfWhatCannotWork_IsRefusedWithTheValueAndNothingIsLeft)
{
    PagedWorld world({});
    struct Case {
        const char *text;
        mbr_status status;
        void (*change)(mbr_paged_request &);
    };
    const Case cases[] = {
        {"either a geometry or token_bytes", MBR_INVALID_ARGUMENT,
            [](mbr_paged_request &r) { r.token_bytes = 0; }},
        {"either a geometry or token_bytes", MBR_INVALID_ARGUMENT,
            [](mbr_paged_request &r) { r.geometry = "llama-3-8b"; }},
        {"layers", MBR_INVALID_ARGUMENT,
            [](mbr_paged_request &r) { r.token_bytes = 0, r.geometry = "layers=0"; }},
        {"2 layer groups", MBR_INVALID_ARGUMENT,
            [](mbr_paged_request &r) {
                r.token_bytes = 0;
                r.geometry = "layers=1,heads=1,dim=16,bytes=2,planes=2,window=8+"
                             "layers=1,heads=1,dim=16,bytes=2,planes=2";
            }},
        {"280 would work", MBR_INVALID_ARGUMENT, [](mbr_paged_request &r) { r.page_tokens = 7; }},
        {"40 would work", MBR_INVALID_ARGUMENT, [](mbr_paged_request &r) { r.page_bytes = 39; }},
        {"above 2^64", MBR_OVERFLOW, [](mbr_paged_request &r) { r.page_tokens = UINT64_MAX / 2; }},
        {"256 and more would work", MBR_INVALID_ARGUMENT,
            [](mbr_paged_request &r) { r.extent_bytes = 255; }},
        {"smaller pages would work", MBR_INVALID_ARGUMENT,
            [](mbr_paged_request &r) { r.page_bytes = UINT64_C(1) << 62, r.extent_bytes = 0; }},
        {"max_pages 0", MBR_INVALID_ARGUMENT, [](mbr_paged_request &r) { r.max_pages = 0; }},
        {"max_pages", MBR_INVALID_ARGUMENT, [](mbr_paged_request &r) { r.max_pages = UINT64_MAX; }},
        {"above 2^64", MBR_OVERFLOW,
            [](mbr_paged_request &r) {
                r.page_bytes = UINT64_C(1) << 40, r.extent_bytes = 0;
                r.max_pages = UINT64_C(1) << 30;
            }},
        {"max_tokens 0", MBR_INVALID_ARGUMENT, [](mbr_paged_request &r) { r.max_tokens = 0; }},
        {"max_tokens", MBR_INVALID_ARGUMENT,
            [](mbr_paged_request &r) { r.max_tokens = (UINT64_C(1) << 40) + 1; }},
        {"window_tokens above 0", MBR_INVALID_ARGUMENT,
            [](mbr_paged_request &r) { r.sink_tokens = 4; }},
        {"above max_tokens", MBR_INVALID_ARGUMENT,
            [](mbr_paged_request &r) { r.sink_tokens = 201, r.window_tokens = 4; }},
        {"", MBR_UNKNOWN_OBJECT, [](mbr_paged_request &r) { r.binding.value = 12345; }},
        {"", MBR_UNKNOWN_OBJECT, [](mbr_paged_request &r) { r.saved_holder.value = 12345; }},
        {"MBR_SIZED", MBR_INVALID_ARGUMENT, [](mbr_paged_request &r) { r.struct_size = 8; }},
    };
    auto ranges = [&] {
        auto figures = sized<mbr_binding_figures>();
        mbr_manager_read_binding(world.manager, world.binding, &figures, &world.error);
        return figures.range_count;
    };
    uint64_t before = ranges();
    for (const Case &each : cases) {
        SCOPED_TRACE(each.text);
        auto request = world.request();
        each.change(request);
        mbr_paged *none;
        EXPECT_EQ(each.status, mbr_paged_create(world.manager, &request, &none, &world.error))
            << world.error.text;
        EXPECT_EQ(nullptr, none);
        EXPECT_NE(nullptr, std::strstr(world.error.text, each.text)) << world.error.text;
        EXPECT_EQ(before, ranges());
    }
}

TEST(Paged, Create_WithoutVirtualMemory_SaysSo)
{
    HostWorld world(64 * kMiB, nullptr, "tests/support/libmembrane-eager.so");
    auto request = sized<mbr_paged_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.token_bytes = 64;
    request.max_pages = 10;
    request.max_tokens = 10;
    mbr_paged *store;
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_paged_create(world.manager, &request, &store, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "virtual memory")) << world.error.text;
}

/* Rows of models that divide neither a page nor a granule: whole rows only, and as many pages and
 * bytes as counting one token after the other gives. */
TEST(Paged, Rows_ThatDivideNothing_AreWholeAndCountedExactly)
{
    struct Case {
        const char *geometry;
        uint64_t tensor_parallel, page_tokens, page_bytes, row, rows, extent_bytes, extent_pages;
    };
    const Case cases[] = {
        /* Phi-4's row on a granule: one row, 1536 bytes are padding */
        {"layers=1,heads=10,dim=128,bytes=2,planes=1", 1, 0, 4096, 2560, 1, 8192, 2},
        {"layers=1,heads=10,dim=128,bytes=2,planes=1", 1, 3, 0, 2560, 3, 8192, 1},
        {"layers=1,heads=32,dim=96,bytes=2,planes=1", 1, 0, 65536, 6144, 10, 65536, 1},
        {"layers=1,heads=1,dim=576,bytes=2,planes=1", 1, 0, 4096, 1152, 3, 8192, 2}, /* MLA */
        {"layers=1,heads=1,dim=576,bytes=2,planes=1", 8, 16, 0, 1152, 16, 20480, 1},
        {"phi-4", 2, 1, 0, 102400, 1, 102400, 1},
        {"layers=2,heads=8,dim=16,bytes=2,planes=2", 4, 7, 0, 256, 7, 8192, 4}, /* TP */
        {"layers=2,heads=8,dim=16,bytes=2,planes=2", 16, 7, 0, 128, 7, 8192, 9},
    };
    for (const Case &each : cases) {
        SCOPED_TRACE(std::string(each.geometry) + " over " + std::to_string(each.tensor_parallel));
        HostWorld world(
            64 * kMiB, nullptr, "plugins/host/libmembrane-host.so", {{"granule", "4096"}});
        auto request = sized<mbr_paged_request>();
        request.binding = world.binding;
        request.holder = world.holder;
        request.geometry = each.geometry;
        request.tensor_parallel = each.tensor_parallel;
        request.page_tokens = each.page_tokens;
        request.page_bytes = each.page_bytes;
        request.extent_bytes = std::max<uint64_t>(8192, each.row * each.page_tokens);
        if (each.page_bytes > 8192)
            request.extent_bytes = each.page_bytes;
        request.max_pages = 100;
        request.max_tokens = 1000;
        mbr_paged *store;
        ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error))
            << world.error.text;
        mbr_paged_sequence sequence;
        ASSERT_EQ(MBR_OK, mbr_paged_begin(store, &sequence, &world.error));
        uint64_t pages = 0, extents = 0, side_by_side, address;
        std::vector<std::pair<uint64_t, uint64_t>> seen; // of every row
        for (uint64_t token = 0; token < 60; token++) {
            pages += token % each.rows == 0;
            extents += token % each.rows == 0 && (pages - 1) % each.extent_pages == 0;
            ASSERT_EQ(MBR_OK, mbr_paged_append(store, sequence, 1, nullptr, &world.error))
                << world.error.text;
            ASSERT_EQ(MBR_OK,
                mbr_paged_locate(store, sequence, token, &address, &side_by_side, &world.error));
            for (auto [start, end] : seen)
                ASSERT_TRUE(address >= end || address + each.row <= start) << "rows overlap";
            seen.push_back({address, address + each.row});
            auto figures = sized<mbr_paged_figures>();
            mbr_paged_read(store, &figures, &world.error);
            ASSERT_EQ(each.row, figures.token_bytes);
            ASSERT_EQ(each.rows, figures.page_tokens);
            ASSERT_EQ(each.extent_pages, figures.extent_pages);
            ASSERT_EQ(each.extent_bytes, figures.extent_bytes);
            ASSERT_EQ(pages, figures.page_count);
            ASSERT_EQ(extents * each.extent_bytes, figures.committed_bytes);
            uint32_t page;
            ASSERT_EQ(MBR_OK,
                mbr_paged_list_pages(store, sequence, token / each.rows, 1, &page, &world.error));
            ASSERT_EQ(address,
                figures.address + page / figures.extent_pages * figures.extent_bytes +
                    page % figures.extent_pages * figures.page_bytes +
                    token % each.rows * each.row);
        }
        ASSERT_EQ(MBR_OK, mbr_paged_end(store, sequence, &world.error));
        ASSERT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error)) << world.error.text;
    }
}

TEST(Paged, Geometry_WithAWindow_IsTheStoresWindow)
{
    HostWorld world(64 * kMiB, nullptr, "plugins/host/libmembrane-host.so", {{"granule", "4096"}});
    auto request = sized<mbr_paged_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.geometry = "layers=1,heads=1,dim=16,bytes=2,planes=2,window=5";
    request.page_tokens = 2;
    request.max_pages = 100;
    request.max_tokens = 100;
    mbr_paged *store;
    ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error));
    mbr_paged_sequence sequence;
    ASSERT_EQ(MBR_OK, mbr_paged_begin(store, &sequence, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_append(store, sequence, 11, nullptr, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_append(store, sequence, 0, nullptr, &world.error));
    auto figures = sized<mbr_paged_sequence_figures>();
    ASSERT_EQ(MBR_OK, mbr_paged_read_sequence(store, sequence, &figures, &world.error));
    EXPECT_EQ(6u, figures.first_token);
    EXPECT_EQ(3u, figures.page_count);
    EXPECT_EQ(MBR_IN_USE, mbr_paged_destroy(store, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_end(store, sequence, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
}

/* ---- Sharing and copies */

/* S120. Four of six rows of the second page are there: exactly they are copied, once. */
TEST(Paged, Append_AfterAForkWithASharedPartialPage_IsolatesTheSiblingsByOneCopyOfItsRows)
{
    PagedWorld world({});
    Plain *parent = world.started(10);
    Plain *child = world.forked(parent);
    EXPECT_EQ(2u, world.read().shared_page_count);
    ASSERT_EQ(MBR_OK, world.append(child, 1));
    world.check();
    EXPECT_EQ(4u * world.shape.token_bytes, world.read().copied_bytes);
    EXPECT_EQ(3u, world.read().page_count);
    ASSERT_EQ(MBR_OK, world.append(parent, 1));
    world.check();
    EXPECT_EQ(4u * world.shape.token_bytes, world.read().copied_bytes) << "it was alone with it";
    EXPECT_EQ(1u, world.read(parent).shared_page_count);
    ASSERT_EQ(MBR_OK, world.overwrite(parent, 2, 1));
    world.check();
    EXPECT_EQ(0u, world.read().shared_page_count);
    EXPECT_EQ(10u * world.shape.token_bytes, world.read().copied_bytes);
}

TEST(Paged, Fork_OfAForkManyTimes_SharesEveryPageAndTheLastOneHasThemAlone)
{
    PagedWorld world({});
    world.started(20);
    for (int i = 0; i < 40; i++)
        world.forked(world.all.back().get());
    EXPECT_EQ(4u, world.read().page_count);
    EXPECT_EQ(4u, world.read().shared_page_count);
    world.check();
    while (world.all.size() > 1)
        world.end(world.all.front().get());
    EXPECT_EQ(4u, world.read(world.all[0].get()).exclusive_page_count);
    world.check();
}

/* S121. The budget has room for one extent: its pages are used up, and the copy wants another. */
TEST(Paged, Copy_RefusedByTheBudget_LeavesEveryFigureAndWorksOnceThereIsRoom)
{
    PagedWorld world({}, kExtent);
    Plain *parent = world.started(16 * 6);
    Plain *child = world.forked(parent);
    auto books = world.books();
    auto refusal = sized<mbr_refusal>();
    uint64_t address;
    ASSERT_EQ(MBR_OVER_BUDGET,
        mbr_paged_prepare(world.store, child->handle, 3, 5, &refusal, &world.error));
    EXPECT_EQ(kExtent, refusal.asked_bytes);
    EXPECT_EQ(0u, refusal.available_bytes);
    world.check();
    auto after = world.books();
    EXPECT_EQ(books.charged_bytes, after.charged_bytes);
    EXPECT_EQ(books.granted_bytes, after.granted_bytes);
    EXPECT_EQ(books.claimed_bytes, after.claimed_bytes);
    EXPECT_EQ(MBR_OVER_BUDGET, world.overwrite(child, 0, 96));
    ASSERT_EQ(MBR_OK, world.rewind(parent, 6));
    EXPECT_EQ(MBR_OVER_BUDGET, world.overwrite(child, 0, 1)) << "its sibling still has the first";
    ASSERT_EQ(MBR_OK, world.rewind(child, 60));
    ASSERT_EQ(MBR_OK, world.overwrite(child, 0, 1));
    EXPECT_EQ(
        MBR_OK, mbr_paged_locate(world.store, parent->handle, 0, &address, nullptr, &world.error));
    world.check();
}

TEST(Paged, Pages_AllInUse_IsOutOfAddressesAndChangesNothing)
{
    PagedShape shape;
    shape.max_pages = 17; // rounded up to two extents
    PagedWorld world(shape);
    EXPECT_EQ(32u, world.read().max_pages);
    Plain *parent = world.started(31 * 6);
    Plain *child = world.forked(parent);
    EXPECT_EQ(MBR_OUT_OF_ADDRESSES, world.overwrite(child, 0, 7));
    world.check();
    EXPECT_EQ(MBR_OK, world.overwrite(child, 0, 6));
    EXPECT_EQ(MBR_OUT_OF_ADDRESSES, world.append(parent, 1));
    world.check();
}

/* S122 */
TEST(Paged, Rewind_OfOneFork_LeavesTheOthersUndisturbed)
{
    PagedWorld world({});
    Plain *parent = world.started(40);
    Plain *child = world.forked(parent), *other = world.forked(parent);
    ASSERT_EQ(MBR_OK, world.rewind(child, 15));
    world.check();
    ASSERT_EQ(MBR_OK, world.append(child, 20));
    world.check();
    ASSERT_EQ(MBR_OK, world.rewind(parent, 0));
    ASSERT_EQ(MBR_OK, world.append(parent, 5));
    world.check();
    EXPECT_EQ(2u, world.read(other).shared_page_count) << "with the child, before it diverged";
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.rewind(child, 36));
}

/* ---- Handles */

TEST(Paged, Looking_PastTheEnd_IsOutOfRange)
{
    PagedWorld world({});
    Plain *plain = world.started(13);
    uint64_t address = 1, rows = 1;
    uint32_t pages[4];
    EXPECT_EQ(MBR_OUT_OF_RANGE,
        mbr_paged_locate(world.store, plain->handle, 13, &address, &rows, &world.error));
    EXPECT_EQ(0u, address + rows);
    EXPECT_EQ(MBR_OUT_OF_RANGE,
        mbr_paged_list_pages(world.store, plain->handle, 1, 3, pages, &world.error));
    EXPECT_EQ(MBR_OUT_OF_RANGE,
        mbr_paged_list_pages(world.store, plain->handle, UINT64_MAX, 2, pages, &world.error));
    EXPECT_EQ(MBR_OK, mbr_paged_list_pages(world.store, plain->handle, 3, 0, pages, &world.error));
    EXPECT_EQ(MBR_OUT_OF_RANGE,
        mbr_paged_prepare(world.store, plain->handle, UINT64_MAX, 2, nullptr, &world.error));
    EXPECT_EQ(MBR_OUT_OF_RANGE,
        mbr_paged_append(world.store, plain->handle, UINT64_MAX, nullptr, &world.error));
    world.check();
}

TEST(Paged, Sequence_EndedTwiceOrUsedAfterItsEnd_IsStaleAndTouchesNothing)
{
    PagedWorld world({});
    Plain *kept = world.started(10);
    Plain *gone = world.forked(kept);
    mbr_paged_sequence old = gone->handle;
    world.end(gone); // which ends it once more
    Plain *newer = world.forked(kept);
    EXPECT_NE(old.value, newer->handle.value);
    uint64_t address;
    uint32_t page;
    mbr_paged_sequence made;
    auto figures = sized<mbr_paged_sequence_figures>();
    EXPECT_EQ(MBR_STALE, mbr_paged_end(world.store, old, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_paged_append(world.store, old, 1, nullptr, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_paged_prepare(world.store, old, 0, 1, nullptr, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_paged_rewind(world.store, old, 0, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_paged_fork(world.store, old, &made, &world.error));
    EXPECT_EQ(0u, made.value);
    EXPECT_EQ(MBR_STALE, mbr_paged_offer(world.store, old, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_paged_preempt(world.store, old, nullptr, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_paged_restore(world.store, old, nullptr, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_paged_read_sequence(world.store, old, &figures, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_paged_locate(world.store, old, 0, &address, nullptr, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_paged_list_pages(world.store, old, 0, 1, &page, &world.error));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_paged_end(world.store, mbr_paged_sequence{0}, &world.error));
    world.check();
}

TEST(Paged, End_ByThreadsAtOnce_SucceedsExactlyOnce)
{
    PagedWorld world({});
    Plain *kept = world.started(30);
    for (int round = 0; round < 50; round++) {
        mbr_paged_sequence doomed;
        ASSERT_EQ(MBR_OK, mbr_paged_fork(world.store, kept->handle, &doomed, &world.error));
        std::atomic<int> ended = 0, stale = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; i++)
            threads.emplace_back([&] {
                mbr_status status = mbr_paged_end(world.store, doomed, nullptr);
                ended += status == MBR_OK;
                stale += status == MBR_STALE;
            });
        for (auto &thread : threads)
            thread.join();
        ASSERT_EQ(1, ended);
        ASSERT_EQ(2, stale);
    }
    world.check();
}

/* ---- The steady state */

TEST(Paged, Append_InsideThePageThatIsItsOwn_AllocatesNothingAndCallsNobody)
{
    struct Counting {
        mbr_heap heap = {[](void *context, size_t bytes) {
                             ++*static_cast<uint64_t *>(context);
                             return std::calloc(1, bytes);
                         },
            [](void *, void *memory) { std::free(memory); }, &calls};
        uint64_t calls = 0;
    } counting;
    mbr_manager_seams seams = {&counting.heap, nullptr, nullptr, nullptr, nullptr};
    PagedShape shape;
    shape.token_bytes = 1;
    shape.page_bytes = 4096;
    shape.max_tokens = 100000;
    PagedWorld world(shape, 64 * kMiB, 64 * kMiB, &seams);
    Plain *plain = world.started(1);
    uint64_t heap_calls = counting.calls, slots = world.figures().call_count;
    uint64_t reading = world.figures().call_count - slots;
    for (int i = 0; i < 4000; i++)
        ASSERT_EQ(MBR_OK, mbr_paged_append(world.store, plain->handle, 1, nullptr, &world.error));
    EXPECT_EQ(heap_calls, counting.calls);
    EXPECT_EQ(slots + 2 * reading, world.figures().call_count);
    ASSERT_EQ(MBR_OK, mbr_paged_rewind(world.store, plain->handle, 1, &world.error));
}

/* ---- Windows */

TEST(Paged, Window_WithPinnedSinks_KeepsBothAndNoMorePagesThanTheyNeed)
{
    PagedShape shape;
    shape.window_tokens = 20;
    shape.sink_tokens = 8; // two pages
    shape.max_tokens = 5000;
    PagedWorld world(shape);
    Plain *plain = world.started(3);
    uint64_t most = 0;
    for (int i = 0; i < 600; i++) {
        ASSERT_EQ(MBR_OK, world.append(plain, 1 + static_cast<uint64_t>(i) % 3));
        most = std::max(most, world.read().page_count);
        if (i % 16 == 0)
            world.check();
    }
    /* the sinks; 20 rows and up to 3 new ones from anywhere in a page; one page before it goes */
    EXPECT_LE(most, 2u + 5u + 1u);
    auto figures = world.read(plain);
    EXPECT_EQ(12u, figures.sink_tokens);
    EXPECT_LE(figures.first_token + 20, figures.tokens);
    EXPECT_GE(figures.first_token + 20 + 2 * 6 + 3, figures.tokens);
    uint64_t tokens = figures.tokens;
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.overwrite(plain, 12, 1));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "were dropped")) << world.error.text;
    EXPECT_EQ(MBR_OK, world.overwrite(plain, 11, 1));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.rewind(plain, tokens - 20));
    EXPECT_EQ(MBR_OK, world.rewind(plain, figures.first_token + 20)) << world.error.text;
    EXPECT_EQ(MBR_OK, world.rewind(plain, 12));
    EXPECT_EQ(MBR_OK, world.append(plain, 40));
    world.check();
}

TEST(Paged, Window_AsLongAsASequenceMayBe_DropsNothing)
{
    PagedShape shape;
    shape.window_tokens = shape.max_tokens;
    PagedWorld world(shape);
    Plain *plain = world.started(shape.max_tokens);
    ASSERT_EQ(MBR_OK, world.append(plain, 0));
    world.check();
    EXPECT_EQ(34u, world.read(plain).page_count);
}

TEST(Paged, Window_OfOneFork_DropsNothingOfTheOther)
{
    PagedShape shape;
    shape.window_tokens = 10;
    PagedWorld world(shape);
    Plain *parent = world.started(30);
    Plain *child = world.forked(parent);
    ASSERT_EQ(MBR_OK, world.append(child, 1));
    ASSERT_EQ(MBR_OK, world.append(child, 30));
    world.check();
    EXPECT_EQ(5u, world.read(parent).page_count);
    ASSERT_EQ(MBR_OK, world.append(parent, 0));
    EXPECT_EQ(2u, world.read(parent).page_count);
    world.check();
}

} // namespace
} // namespace membrane
