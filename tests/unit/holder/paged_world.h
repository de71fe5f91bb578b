/* Paged stores on a real plugin, beside a naive reference: a sequence is a plain list of tokens,
 * and of numbers that say which slots are one and the same page. Every operation is done on both;
 * what must be refused, what may be, and what everything is afterwards is the reference's word, by
 * counting all of it each time. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_PAGED_WORLD_H
#define MEMBRANE_TESTS_UNIT_HOLDER_PAGED_WORLD_H

#include "tests/unit/bind/host_world.h"

#include <map>
#include <memory>
#include <vector>

namespace membrane
{

struct PagedShape {
    uint64_t token_bytes = 40;
    uint64_t page_bytes = 256; // six rows, and 16 bytes of padding
    uint64_t extent_bytes = 4096;
    uint64_t max_pages = 64;
    uint64_t max_saved_pages = 64;
    uint64_t max_tokens = 200;
    uint64_t window_tokens = 0;
    uint64_t sink_tokens = 0;
    uint64_t keep_bytes = 0;
    uint64_t saved_allowance = MBR_NO_ALLOWANCE;
    bool saves = true;
    bool saves_here = false; // under the store's own authority
};

// One sequence, naively.
struct Plain {
    mbr_paged_sequence handle = {0};
    std::vector<uint64_t> ids;   // of tokens; 0: dropped
    std::vector<uint64_t> pages; // one number a slot; 0: dropped
    std::vector<bool> saved;     // of slots
    uint32_t state = MBR_PAGED_RESIDENT;
};

class PagedWorld : public HostWorld
{
  public:
    explicit PagedWorld(const PagedShape &shape, uint64_t limit = 64 * kMiB,
        uint64_t saved_limit = 64 * kMiB, const mbr_manager_seams *seams = nullptr,
        const char *plugin = "plugins/host/libmembrane-host.so",
        std::vector<mbr_option> options = {{"granule", "4096"}});
    ~PagedWorld(); // ends every sequence; asserts that nothing is left anywhere

    PagedShape shape;
    uint64_t rows; // on a page
    mbr_authority_handle saved_authority = {0};
    mbr_holder_handle saved_holder = {0};
    mbr_binding_handle saved_binding = {0};
    mbr_paged *store = nullptr;
    std::vector<std::unique_ptr<Plain>> all;

    // Each does one operation on both sides and compares the outcomes. Where the reference says
    // that it works without memory, it must; where memory is needed and refused, nothing has
    // changed. The status is the store's.
    mbr_status begin(Plain **made = nullptr);
    mbr_status fork(Plain *from, Plain **made = nullptr);
    mbr_status append(Plain *plain, uint64_t tokens, mbr_refusal *refusal = nullptr);
    mbr_status overwrite(Plain *plain, uint64_t first, uint64_t tokens);
    mbr_status rewind(Plain *plain, uint64_t tokens);
    mbr_status offer(Plain *plain);
    mbr_status preempt(Plain *plain);
    mbr_status restore(Plain *plain);
    void end(Plain *plain);
    // Where nothing may be refused.
    Plain *started(uint64_t tokens);
    Plain *forked(Plain *from);
    uint64_t give(uint64_t wanted);

    mbr_paged_figures read();
    mbr_paged_sequence_figures read(const Plain *plain);
    mbr_paged_request request() const;
    // Contents, pages and counts of everything, the holders' books included.
    void check();

    bool may_fail = false; // faults are armed: any operation that allocates may be refused

  private:
    // What counts, by counting: how many sequences have each page that is in the store.
    std::map<uint64_t, uint64_t> users() const;
    // After a call that would have taken so many pages.
    void expect_refusal(mbr_status status, uint64_t pages, const mbr_paged_figures &before);
    void expect_same(const mbr_paged_figures &before);
    void check_sequence(const Plain &plain, std::map<uint64_t, uint64_t> *used,
        std::map<uint32_t, uint64_t> *numbers);
    void write(Plain *plain, uint64_t first, uint64_t end);
    void drop_behind(Plain *plain, uint64_t tokens);
    uint64_t own_slots(Plain *plain, uint64_t first_slot, uint64_t end_slot, bool apply);

    uint64_t next_id_ = 1;
};

} // namespace membrane

#endif
