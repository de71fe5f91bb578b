// One member of a ledger with eight threads that are refused all the time: a program, so that
// several run beside each other. Each granted granule is an extent of the host plugin, whose memory
// is one file, so that whoever finds that file sees what is really there.
//
// FOLDER LIMIT SECONDS INDEX TWIN. TWIN plants a fault: "lease", a page that seems to allow one
// granule more than it says; "claim", a thread that takes one granule that it was refused.
#include "tests/unit/governor/shared_edge.h"
#include "tests/unit/governor/shared_world.h"

extern "C" {
#include "host/loader/loader.h"
}

#include <random>
#include <thread>

using namespace governor_test;

namespace
{

// Memory of the host plugin, without addresses.
class Memory
{
  public:
    Memory()
    {
        mbr_module_options file = {};
        file.name_or_path = "plugins/host/libmembrane-host.so";
        file.trusted = true;
        mbr_error error = NewError();
        EXPECT_EQ(mbr_module_open(&file, &module_, nullptr, &error), MBR_OK) << error.text;
        mbr_mechanism_options options = {};
        EXPECT_EQ(mbr_mechanism_open(module_, &options, &mechanism_, &error), MBR_OK) << error.text;
    }

    ~Memory()
    {
        mbr_error error = NewError();
        EXPECT_EQ(mbr_mechanism_close(&mechanism_, &error), MBR_OK) << error.text;
        mbr_module_close(module_);
    }

    // Its id, or 0.
    uint64_t Create()
    {
        uint64_t id = ++last_id_;
        mbr_extent_create_request request = {};
        request.struct_size = sizeof(request);
        request.extent_id = id;
        request.bytes = request.max_owned_bytes = kGranule;
        mbr_outcome outcome = NewOutcome();
        mbr_status status =
            mechanism_.virtual_.extent_create(mechanism_.instance, &request, &outcome, nullptr);
        return status == MBR_OK ? id : 0;
    }

    bool Destroy(uint64_t id)
    {
        mbr_extent_destroy_request request = {};
        request.struct_size = sizeof(request);
        request.extent_id = id;
        mbr_outcome outcome = NewOutcome();
        return mechanism_.virtual_.extent_destroy(
                   mechanism_.instance, &request, &outcome, nullptr) == MBR_OK;
    }

  private:
    static mbr_outcome NewOutcome()
    {
        mbr_outcome outcome = {};
        outcome.struct_size = sizeof(outcome);
        return outcome;
    }

    mbr_module *module_ = nullptr;
    mbr_mechanism mechanism_ = {};
    std::atomic<uint64_t> last_id_{0};
};

struct Worker {
    mbr_authority *authority;
    mbr_holder *holder;
    Memory *memory;
    uint64_t until_ns;
    std::atomic<bool> claims_more; // the planted fault, for one thread
    std::atomic<int> failures;
    std::atomic<uint64_t> grants, refusals;
};

// The pieces of one thread.
class Pieces
{
  public:
    explicit Pieces(Worker &worker) : worker_(worker) {}

    uint64_t Count() const { return ids_.size(); }
    bool IsFull() const { return Count() == kPiecesOfThread; }

    void Put()
    {
        ids_.push_back(worker_.memory->Create());
        worker_.failures += ids_.back() == 0;
    }

    void Take()
    {
        worker_.failures += !worker_.memory->Destroy(ids_.back());
        ids_.pop_back();
    }

  private:
    Worker &worker_;
    std::vector<uint64_t> ids_;
};

void Release(Worker &worker, Pieces &pieces, uint64_t count)
{
    for (; count > 0 && pieces.Count() > 0; count--) {
        pieces.Take(); // before the ledger may hand it to others
        mbr_refund(worker.holder, kGranule);
    }
}

// Takes until it is refused, gives a little back, and now and then everything.
void Work(Worker &worker, uint64_t seed)
{
    std::mt19937_64 random(seed);
    Pieces pieces(worker);
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
            worker.memory->Create();
        Release(worker, pieces, random() % 64 == 0 ? pieces.Count() : random() % 4);
        if (random() % 16 == 0)
            mbr_authority_sample(worker.authority, true);
    }
    Release(worker, pieces, pieces.Count());
}

void RaiseByOneGranule(mbr_shared_page *page)
{
    page->head.limit_bytes += kGranule;
    mbr_shared_head_seal(&page->head);
}

int Run(char **arguments)
{
    std::string twin = arguments[4];
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
        Memory memory;
        World world;
        Worker worker = {};
        worker.authority = world.Authority(kNone / 2, nullptr, 0, shared);
        worker.holder = world.Holder(worker.authority);
        worker.memory = &memory;
        worker.until_ns = NowNs() + strtoull(arguments[2], nullptr, 10) * kSecond;
        worker.claims_more = twin == "claim";
        uint64_t index = strtoull(arguments[3], nullptr, 10) * kEdgeThreads;
        std::vector<std::thread> threads;
        for (uint64_t i = index; i < index + kEdgeThreads; i++)
            threads.emplace_back([&worker, i] { Work(worker, i); });
        for (std::thread &thread : threads)
            thread.join();
        End(worker.authority, worker.holder);
        failures = worker.failures;
        printf("member %s: %lu grants, %lu refusals, %d failures\n", arguments[3],
            worker.grants.load(), worker.refusals.load(), failures);
    }
    mbr_shared_leave(shared);
    return failures == 0 && !testing::Test::HasFailure() ? 0 : 1;
}

} // namespace

int main(int count, char **arguments)
{
    testing::InitGoogleTest(&count, arguments);
    return count == 6 ? Run(arguments + 1) : 2;
}
