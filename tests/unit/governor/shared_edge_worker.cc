// One member of a ledger with eight threads that are refused all the time: a program, so that
// several run beside each other. Each granted granule is a piece of a memory file that all members
// share, so that whoever holds the file sees what is really there.
//
// FOLDER LIMIT SECONDS FILE-DESCRIPTOR INDEX TWIN. TWIN plants a fault: "lease", a page that seems
// to allow one granule more than it says; "claim", a thread that takes one granule that it was
// refused.
#include "tests/unit/governor/shared_edge.h"
#include "tests/unit/governor/shared_world.h"

#include <random>
#include <thread>

using namespace governor_test;

namespace
{

struct Worker {
    mbr_authority *authority;
    mbr_holder *holder;
    int file;
    uint64_t until_ns;
    std::atomic<bool> claims_more; // the planted fault, for one thread
    std::atomic<int> failures;
    std::atomic<uint64_t> grants, refusals;
};

void Change(Worker &worker, uint64_t slot, int mode)
{
    off_t offset = static_cast<off_t>(slot * kGranule);
    worker.failures += fallocate(worker.file, mode | FALLOC_FL_KEEP_SIZE, offset, kGranule) != 0;
}

// The pieces of one thread: a stack of slots of the file that are its own. The last one is kept for
// the planted fault.
class Pieces
{
  public:
    Pieces(Worker &worker, uint64_t first_slot) : worker_(worker), first_slot_(first_slot) {}

    uint64_t count = 0;

    bool IsFull() const { return count + 1 == kSlotsOfThread; }
    void Put() { Change(worker_, first_slot_ + count++, 0); }
    void Take() { Change(worker_, first_slot_ + --count, FALLOC_FL_PUNCH_HOLE); }
    void PutOneMore() { Change(worker_, first_slot_ + kSlotsOfThread - 1, 0); }

  private:
    Worker &worker_;
    uint64_t first_slot_;
};

void Release(Worker &worker, Pieces &pieces, uint64_t count)
{
    for (; count > 0 && pieces.count > 0; count--) {
        pieces.Take(); // before the ledger may hand it to others
        mbr_refund(worker.holder, kGranule);
    }
}

// Takes until it is refused, gives a little back, and now and then everything.
void Work(Worker &worker, uint64_t seed, uint64_t first_slot)
{
    std::mt19937_64 random(seed);
    Pieces pieces(worker, first_slot);
    while (NowNs() < worker.until_ns) {
        mbr_refusal refusal = NewRefusal();
        if (!pieces.IsFull() && mbr_grant(worker.holder, kGranule, &refusal) == MBR_OK) {
            mbr_charge(worker.holder, kGranule);
            pieces.Put();
            worker.grants++;
            continue;
        }
        worker.failures += refusal.reason != 0 && refusal.reason != MBR_REFUSED_SHARED;
        worker.refusals++;
        if (worker.claims_more.exchange(false))
            pieces.PutOneMore();
        Release(worker, pieces, random() % 64 == 0 ? pieces.count : random() % 4);
        if (random() % 16 == 0)
            mbr_authority_sample(worker.authority, true);
    }
    while (pieces.count > 0)
        Release(worker, pieces, pieces.count);
}

void RaiseByOneGranule(mbr_shared_page *page)
{
    page->head.limit_bytes += kGranule;
    mbr_shared_head_seal(&page->head);
}

int Run(char **arguments)
{
    std::string twin = arguments[5];
    OsSeam os; // shared by the member's calls, which are made one at a time
    mbr_shared_os seam = os.Seam();
    mbr_shared_place place = {kLedger, arguments[0], &seam, nullptr};
    mbr_error error = NewError();
    mbr_shared *shared;
    uint64_t limit = strtoull(arguments[1], nullptr, 10);
    if (mbr_shared_join(&place, nullptr, limit, &shared, &error) != MBR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    if (twin == "lease") // not while it joins, which writes the head
        os.after_read = RaiseByOneGranule;
    int failures;
    {
        World world;
        Worker worker = {};
        worker.authority = world.Authority(kNone / 2, nullptr, 0, shared);
        worker.holder = world.Holder(worker.authority);
        worker.file = atoi(arguments[3]);
        worker.until_ns = NowNs() + strtoull(arguments[2], nullptr, 10) * kSecond;
        worker.claims_more = twin == "claim";
        uint64_t index = strtoull(arguments[4], nullptr, 10) * kEdgeThreads;
        std::vector<std::thread> threads;
        for (uint64_t i = index; i < index + kEdgeThreads; i++)
            threads.emplace_back([&worker, i] { Work(worker, i, i * kSlotsOfThread); });
        for (std::thread &thread : threads)
            thread.join();
        End(worker.authority, worker.holder);
        failures = worker.failures;
        printf("member %s: %lu grants, %lu refusals, %d failures\n", arguments[4],
            worker.grants.load(), worker.refusals.load(), failures);
    }
    mbr_shared_leave(shared);
    return failures == 0 && !testing::Test::HasFailure() ? 0 : 1;
}

} // namespace

int main(int count, char **arguments)
{
    testing::InitGoogleTest(&count, arguments);
    return count == 7 ? Run(arguments + 1) : 2;
}
