/* Both sides of every operation; see paged_world.h. */
#include "tests/unit/holder/paged_world.h"

#include <algorithm>

namespace membrane
{

PagedWorld::PagedWorld(const PagedShape &wanted, uint64_t limit, uint64_t saved_limit,
    const mbr_manager_seams *seams, const char *plugin_path, std::vector<mbr_option> options)
    : HostWorld(limit, seams, plugin_path, options), shape(wanted),
      rows(wanted.page_bytes / wanted.token_bytes)
{
    auto authority_request = sized<mbr_authority_request>();
    authority_request.tier = tier();
    authority_request.name = "saved";
    authority_request.limit_bytes = saved_limit;
    EXPECT_EQ(MBR_OK,
        mbr_manager_create_authority(manager, &authority_request, &saved_authority, &error));
    auto payer = holder_request(MBR_ROLE_STAGING, "saved");
    payer.authority = shape.saves_here ? authority : saved_authority;
    payer.allowance_bytes = shape.saved_allowance;
    EXPECT_EQ(MBR_OK, mbr_manager_create_holder(manager, &payer, &saved_holder, &error));
    auto bind = bind_request();
    bind.authority = payer.authority;
    EXPECT_EQ(MBR_OK, mbr_manager_bind(manager, &bind, &saved_binding, &error)) << error.text;
    auto own = request();
    EXPECT_EQ(MBR_OK, mbr_paged_create(manager, &own, &store, &error)) << error.text;
}

mbr_paged_request PagedWorld::request() const
{
    auto own = sized<mbr_paged_request>();
    own.binding = binding;
    own.holder = holder;
    if (shape.saves) {
        own.saved_binding = saved_binding;
        own.saved_holder = saved_holder;
    }
    own.token_bytes = shape.token_bytes;
    own.page_bytes = shape.page_bytes;
    own.extent_bytes = shape.extent_bytes;
    own.max_pages = shape.max_pages;
    own.max_saved_pages = shape.max_saved_pages;
    own.max_tokens = shape.max_tokens;
    own.window_tokens = shape.window_tokens;
    own.sink_tokens = shape.sink_tokens;
    own.keep_bytes = shape.keep_bytes;
    return own;
}

PagedWorld::~PagedWorld()
{
    may_fail = false;
    while (!all.empty())
        end(all.back().get());
    auto figures = read();
    EXPECT_EQ(0u,
        figures.sequence_count + figures.page_count + figures.shared_page_count +
            figures.exclusive_page_count + figures.saved_page_count + figures.saved_bytes);
    EXPECT_GE(std::max(figures.extent_bytes, shape.keep_bytes), figures.committed_bytes);
    EXPECT_EQ(MBR_OK, mbr_paged_destroy(store, &error)) << error.text;
    EXPECT_EQ(0u, paid(holder).charged_bytes + paid(holder).granted_bytes);
    EXPECT_EQ(0u, paid(saved_holder).charged_bytes + paid(saved_holder).granted_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(manager, saved_binding, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(manager, saved_holder, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_authority(manager, saved_authority, &error));
}

mbr_paged_figures PagedWorld::read()
{
    auto figures = sized<mbr_paged_figures>();
    EXPECT_EQ(MBR_OK, mbr_paged_read(store, &figures, &error));
    return figures;
}

mbr_paged_sequence_figures PagedWorld::read(const Plain *plain)
{
    auto figures = sized<mbr_paged_sequence_figures>();
    EXPECT_EQ(MBR_OK, mbr_paged_read_sequence(store, plain->handle, &figures, &error));
    return figures;
}

/* ---- Refusals */

void PagedWorld::expect_same(const mbr_paged_figures &before)
{
    auto after = read();
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before))) << "a refused call left its trace";
}

void PagedWorld::expect_refusal(mbr_status status, uint64_t pages, const mbr_paged_figures &before)
{
    ASSERT_TRUE(
        MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED || (may_fail && status == MBR_SYSTEM))
        << status << " " << error.text;
    ASSERT_TRUE(may_fail || pages > 0) << "refused for nothing: " << error.text;
    expect_same(before);
}

/* ---- Operations */

mbr_status PagedWorld::begin(Plain **made)
{
    auto plain = std::make_unique<Plain>();
    auto before = read();
    mbr_status status = mbr_paged_begin(store, &plain->handle, &error);
    if (made != nullptr)
        *made = status == MBR_OK ? plain.get() : nullptr;
    if (status == MBR_OK)
        all.push_back(std::move(plain));
    else
        expect_refusal(status, 0, before);
    return status;
}

mbr_status PagedWorld::fork(Plain *from, Plain **made)
{
    auto plain = std::make_unique<Plain>(*from);
    auto before = read();
    mbr_status status = mbr_paged_fork(store, from->handle, &plain->handle, &error);
    if (made != nullptr)
        *made = status == MBR_OK ? plain.get() : nullptr;
    if (from->state != MBR_PAGED_RESIDENT) {
        EXPECT_TRUE(status == MBR_INVALID_ARGUMENT || (may_fail && status != MBR_OK));
        return status;
    }
    if (status == MBR_OK) {
        EXPECT_EQ(before.page_count, read().page_count) << "a fork takes no page";
        all.push_back(std::move(plain));
    } else {
        EXPECT_EQ(0u, plain->handle.value);
        expect_refusal(status, 0, before);
    }
    return status;
}

/* How many of the slots need a page of their own; with `apply` they have it. */
uint64_t PagedWorld::own_slots(Plain *plain, uint64_t first_slot, uint64_t end_slot, bool apply)
{
    auto used = users();
    uint64_t count = 0;
    for (uint64_t slot = first_slot; slot < end_slot; slot++) {
        bool is_new = slot >= plain->pages.size();
        if (!is_new && used[plain->pages[slot]] == 1)
            continue;
        count++;
        if (!apply)
            continue;
        if (is_new) {
            plain->pages.push_back(0);
            plain->saved.push_back(false);
        }
        plain->pages[slot] = next_id_++;
    }
    return count;
}

void PagedWorld::drop_behind(Plain *plain, uint64_t tokens)
{
    if (shape.window_tokens == 0 || tokens < shape.window_tokens)
        return;
    uint64_t first = tokens - shape.window_tokens;
    for (uint64_t slot = (shape.sink_tokens + rows - 1) / rows; (slot + 1) * rows <= first;
         slot++) {
        plain->pages[slot] = 0;
        std::fill_n(plain->ids.begin() + static_cast<long>(slot * rows), rows, 0);
    }
}

/* The contents of one row, by whole words. */
static const void *row_of(uint64_t bytes, uint64_t id)
{
    static thread_local std::vector<uint64_t> words;
    words.resize((bytes + 7) / 8);
    for (uint64_t &word : words)
        word = id = id * UINT64_C(0x9E3779B97F4A7C15) + 1;
    return words.data();
}

void PagedWorld::write(Plain *plain, uint64_t first, uint64_t end)
{
    for (uint64_t token = first; token < end; token++) {
        uint64_t address, side_by_side;
        ASSERT_EQ(
            MBR_OK, mbr_paged_locate(store, plain->handle, token, &address, &side_by_side, &error))
            << error.text;
        ASSERT_EQ(std::min(rows - token % rows, plain->ids.size() - token), side_by_side);
        plain->ids[token] = next_id_++;
        std::memcpy(reinterpret_cast<void *>(address), row_of(shape.token_bytes, plain->ids[token]),
            shape.token_bytes);
    }
}

mbr_status PagedWorld::append(Plain *plain, uint64_t tokens, mbr_refusal *refusal)
{
    uint64_t from = plain->ids.size();
    auto before = read();
    mbr_status status = mbr_paged_append(store, plain->handle, tokens, refusal, &error);
    if (plain->state != MBR_PAGED_RESIDENT) {
        EXPECT_EQ(MBR_INVALID_ARGUMENT, status);
        expect_same(before);
        return status;
    }
    if (from + tokens > shape.max_tokens) {
        EXPECT_EQ(MBR_OUT_OF_RANGE, status);
        expect_same(before);
        return status;
    }
    uint64_t first_slot = from / rows;
    uint64_t end_slot = tokens == 0 ? first_slot : (from + tokens + rows - 1) / rows;
    uint64_t pages = own_slots(plain, first_slot, end_slot, false);
    if (status != MBR_OK) {
        expect_refusal(status, pages > before.free_page_count ? pages : 0, before);
        return status;
    }
    own_slots(plain, first_slot, end_slot, true);
    drop_behind(plain, from);
    plain->ids.resize(from + tokens);
    write(plain, from, from + tokens);
    return status;
}

mbr_status PagedWorld::overwrite(Plain *plain, uint64_t first, uint64_t tokens)
{
    auto before = read();
    mbr_status status = mbr_paged_prepare(store, plain->handle, first, tokens, nullptr, &error);
    if (plain->state != MBR_PAGED_RESIDENT) {
        EXPECT_EQ(MBR_INVALID_ARGUMENT, status);
        expect_same(before);
        return status;
    }
    uint64_t end = first + tokens;
    bool there = end <= plain->ids.size();
    for (uint64_t token = first; there && token < end; token++)
        there = plain->ids[token] != 0;
    if (!there) {
        EXPECT_EQ(MBR_OUT_OF_RANGE, status);
        expect_same(before);
        return status;
    }
    uint64_t first_slot = first / rows;
    uint64_t end_slot = tokens == 0 ? first_slot : (end + rows - 1) / rows;
    uint64_t pages = own_slots(plain, first_slot, end_slot, false);
    if (status != MBR_OK) {
        expect_refusal(status, pages > before.free_page_count ? pages : 0, before);
        return status;
    }
    own_slots(plain, first_slot, end_slot, true);
    write(plain, first, end);
    return status;
}

mbr_status PagedWorld::rewind(Plain *plain, uint64_t tokens)
{
    auto before = read();
    mbr_status status = mbr_paged_rewind(store, plain->handle, tokens, &error);
    bool there = tokens <= plain->ids.size();
    uint64_t first =
        shape.window_tokens == 0 || tokens < shape.window_tokens ? 0 : tokens - shape.window_tokens;
    for (uint64_t token = first; there && token < tokens; token++)
        there = plain->ids[token] != 0;
    if (plain->state != MBR_PAGED_RESIDENT || !there) {
        EXPECT_EQ(
            plain->state != MBR_PAGED_RESIDENT ? MBR_INVALID_ARGUMENT : MBR_OUT_OF_RANGE, status);
        expect_same(before);
        return status;
    }
    EXPECT_EQ(MBR_OK, status) << error.text;
    plain->ids.resize(tokens);
    plain->pages.resize((tokens + rows - 1) / rows);
    plain->saved.resize(plain->pages.size());
    return status;
}

mbr_status PagedWorld::offer(Plain *plain)
{
    mbr_status status = mbr_paged_offer(store, plain->handle, &error);
    EXPECT_EQ(plain->state == MBR_PAGED_RESIDENT ? MBR_OK : MBR_INVALID_ARGUMENT, status);
    if (status == MBR_OK)
        plain->state = MBR_PAGED_OFFERED;
    return status;
}

mbr_status PagedWorld::preempt(Plain *plain)
{
    auto used = users();
    auto before = read();
    mbr_status status = mbr_paged_preempt(store, plain->handle, nullptr, &error);
    if (!shape.saves) {
        EXPECT_EQ(MBR_UNSUPPORTED, status);
        return status;
    }
    uint64_t pages = 0;
    for (size_t slot = 0; slot < plain->pages.size(); slot++)
        pages += !plain->saved[slot] && plain->pages[slot] != 0 && used[plain->pages[slot]] == 1;
    if (status != MBR_OK) {
        expect_refusal(status, pages, before);
        return status;
    }
    for (size_t slot = 0; slot < plain->pages.size(); slot++)
        if (plain->pages[slot] != 0 && used[plain->pages[slot]] == 1)
            plain->saved[slot] = true;
    plain->state = MBR_PAGED_PREEMPTED;
    return status;
}

mbr_status PagedWorld::restore(Plain *plain)
{
    uint64_t pages =
        static_cast<uint64_t>(std::count(plain->saved.begin(), plain->saved.end(), true));
    auto before = read();
    mbr_status status = mbr_paged_restore(store, plain->handle, nullptr, &error);
    if (status != MBR_OK) {
        expect_refusal(status, pages > before.free_page_count ? pages : 0, before);
        return status;
    }
    std::fill(plain->saved.begin(), plain->saved.end(), false);
    plain->state = MBR_PAGED_RESIDENT;
    return status;
}

void PagedWorld::end(Plain *plain)
{
    EXPECT_EQ(MBR_OK, mbr_paged_end(store, plain->handle, &error)) << error.text;
    EXPECT_EQ(MBR_STALE, mbr_paged_end(store, plain->handle, &error)) << "it was freed twice";
    all.erase(std::find_if(
        all.begin(), all.end(), [&](const auto &each) { return each.get() == plain; }));
}

Plain *PagedWorld::started(uint64_t tokens)
{
    Plain *plain = nullptr;
    EXPECT_EQ(MBR_OK, begin(&plain)) << error.text;
    EXPECT_EQ(MBR_OK, append(plain, tokens)) << error.text;
    return plain;
}

Plain *PagedWorld::forked(Plain *from)
{
    Plain *plain = nullptr;
    EXPECT_EQ(MBR_OK, fork(from, &plain)) << error.text;
    return plain;
}

/* What it says it could give, it gives; and never a page of one that is resident. */
uint64_t PagedWorld::give(uint64_t wanted)
{
    auto before = read();
    uint64_t charged = paid(holder).charged_bytes;
    uint64_t could = mbr_paged_could_give(store, wanted);
    EXPECT_LE(could, wanted);
    expect_same(before);
    uint64_t given = mbr_paged_give(store, could);
    EXPECT_TRUE(may_fail || given >= could) << given << " of " << could;
    EXPECT_EQ(charged - given, paid(holder).charged_bytes);
    auto used = users();
    for (auto &plain : all) {
        auto figures = read(plain.get());
        bool went = false;
        for (size_t slot = 0; slot < plain->pages.size(); slot++)
            went = went || (plain->pages[slot] != 0 && used[plain->pages[slot]] == 1);
        if (plain->state == MBR_PAGED_RESIDENT || !went || figures.exclusive_page_count != 0)
            continue;
        for (size_t slot = 0; slot < plain->pages.size(); slot++)
            if (plain->pages[slot] != 0 && used[plain->pages[slot]] == 1)
                plain->saved[slot] = true;
        plain->state = MBR_PAGED_PREEMPTED;
    }
    return given;
}

/* ---- The oracle */

std::map<uint64_t, uint64_t> PagedWorld::users() const
{
    std::map<uint64_t, uint64_t> used;
    for (const auto &plain : all)
        for (uint64_t page : plain->pages)
            if (page != 0)
                used[page]++;
    return used;
}

void PagedWorld::check_sequence(
    const Plain &plain, std::map<uint64_t, uint64_t> *used, std::map<uint32_t, uint64_t> *numbers)
{
    uint64_t held = 0, alone = 0, saved = 0;
    for (size_t slot = 0; slot < plain.pages.size(); slot++) {
        if (plain.pages[slot] == 0)
            continue;
        saved += plain.saved[slot];
        held += !plain.saved[slot];
        alone += !plain.saved[slot] && (*used)[plain.pages[slot]] == 1;
    }
    auto figures = read(&plain);
    ASSERT_EQ(plain.state, figures.state);
    ASSERT_EQ(plain.ids.size(), figures.tokens);
    ASSERT_EQ(held, figures.page_count);
    ASSERT_EQ(alone, figures.exclusive_page_count);
    ASSERT_EQ(held - alone, figures.shared_page_count);
    ASSERT_EQ(saved, figures.saved_page_count);
    std::vector<uint32_t> pages(plain.pages.size() + 1);
    mbr_status status =
        mbr_paged_list_pages(store, plain.handle, 0, plain.pages.size(), pages.data(), &error);
    ASSERT_EQ(plain.state == MBR_PAGED_RESIDENT ? MBR_OK : MBR_INVALID_ARGUMENT, status);
    if (status != MBR_OK)
        return;
    for (size_t slot = 0; slot < plain.pages.size(); slot++) {
        ASSERT_EQ(plain.pages[slot] == 0, pages[slot] == MBR_PAGED_NO_PAGE) << "slot " << slot;
        if (plain.pages[slot] == 0)
            continue;
        auto known = numbers->emplace(pages[slot], plain.pages[slot]);
        ASSERT_EQ(known.first->second, plain.pages[slot]) << "two pages under one number";
    }
    for (uint64_t token = 0; token < plain.ids.size(); token++) {
        uint64_t address;
        status = mbr_paged_locate(store, plain.handle, token, &address, nullptr, &error);
        ASSERT_EQ(plain.ids[token] == 0 ? MBR_OUT_OF_RANGE : MBR_OK, status) << token;
        if (status != MBR_OK)
            continue;
        ASSERT_EQ(0,
            std::memcmp(row_of(shape.token_bytes, plain.ids[token]),
                reinterpret_cast<void *>(address), shape.token_bytes))
            << "token " << token << " of " << plain.ids.size();
    }
}

void PagedWorld::check()
{
    auto used = users();
    std::map<uint32_t, uint64_t> numbers;
    for (const auto &plain : all)
        ASSERT_NO_FATAL_FAILURE(check_sequence(*plain, &used, &numbers));
    uint64_t saved = 0, shared = 0;
    for (const auto &plain : all)
        saved += static_cast<uint64_t>(std::count(plain->saved.begin(), plain->saved.end(), true));
    for (auto [page, count] : used)
        shared += count > 1;
    auto figures = read();
    ASSERT_EQ(all.size(), figures.sequence_count);
    ASSERT_EQ(used.size() - saved, figures.page_count);
    ASSERT_EQ(shared, figures.shared_page_count);
    ASSERT_EQ(used.size() - saved - shared, figures.exclusive_page_count);
    ASSERT_EQ(saved, figures.saved_page_count);
    ASSERT_EQ(figures.committed_bytes / figures.extent_bytes * figures.extent_pages,
        figures.page_count + figures.free_page_count);
    ASSERT_EQ(figures.committed_bytes, paid(holder).charged_bytes);
    ASSERT_EQ(figures.saved_bytes, paid(saved_holder).charged_bytes);
    ASSERT_EQ(0u, paid(holder).granted_bytes + paid(saved_holder).granted_bytes);
}

} // namespace membrane
