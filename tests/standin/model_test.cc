// The stand-in's virtual memory against a second opinion: one cell a granule, looked at one by one.
// Random calls, legal and not; each answer, what is free, and what every granule holds must agree.
#include "tests/standin/fixture.h"

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

namespace standin
{
namespace
{

struct Cell {
    int reservation = 0; // 0: nobody's
    int mapping = 0;     // 0: a hole
    mbr_cuda_handle handle = 0;
    size_t index = 0; // of the handle's granules
    uint32_t access = MBR_CUDA_ACCESS_NONE;
};

struct Handle {
    size_t granules = 0;
    bool is_released = false;
    int mappings = 0;
    std::vector<uint32_t> words; // one a granule
};

class Model : public Standin
{
  public:
    static constexpr size_t CellCount = 64;

    void adjust() override
    {
        options.address_bytes = CellCount * Granule;
        options.capacity_bytes = 24 * Granule;
    }

    size_t draw(size_t end) { return random() % end; }

    mbr_cuda_address address(size_t cell) const { return base + cell * Granule; }

    bool is_range(size_t cell, size_t count) const { return cell + count <= CellCount; }

    size_t used() const
    {
        size_t granules = 0;
        for (const auto &[id, handle] : handles)
            granules += handle.granules;
        return granules;
    }

    void forget_if_done(mbr_cuda_handle id)
    {
        const Handle &handle = handles[id];
        if (handle.is_released && handle.mappings == 0)
            handles.erase(id);
    }

    // Every mapping that has a cell in the range has all of them there.
    bool is_whole(size_t first, size_t count) const
    {
        auto cut = [&](size_t at) {
            return at > 0 && at < CellCount && cells[at].mapping &&
                cells[at].mapping == cells[at - 1].mapping;
        };
        return !cut(first) && !cut(first + count);
    }

    size_t mapped(size_t first, size_t count) const
    {
        size_t found = 0;
        for (size_t i = first; i < first + count && i < CellCount; i++)
            found += cells[i].mapping != 0;
        return found;
    }

    void reserve();
    void unreserve();
    void create_handle();
    void release();
    void map();
    void unmap();
    void set_access();
    void write();
    void compare();

    mbr_cuda_handle any_handle()
    {
        if (handles.empty())
            return 0;
        auto place = handles.begin();
        std::advance(place, draw(handles.size()));
        return place->first;
    }

    std::mt19937 random;
    mbr_cuda_address base = 0;
    std::vector<Cell> cells = std::vector<Cell>(CellCount);
    std::map<mbr_cuda_handle, Handle> handles;
    // How often each step had an effect: one that never has shows nothing.
    std::map<std::string, int> effects;
    int last_reservation = 0;
    int last_mapping = 0;
    uint32_t last_word = 0;
};

void Model::reserve()
{
    size_t count = draw(7);
    mbr_cuda_address at = 0;
    // The lowest place where it fits.
    size_t first = 0;
    size_t run = 0;
    while (count && run < count && first + run < CellCount) {
        if (!cells[first + run].reservation) {
            run++;
            continue;
        }
        first += run + 1;
        run = 0;
    }
    mbr_cuda_result expected = code(count == 0 ? MBR_CUDA_INVALID_VALUE
            : run < count                      ? MBR_CUDA_OUT_OF_MEMORY
                                               : MBR_CUDA_SUCCESS);
    ASSERT_EQ(cuMemAddressReserve(&at, count * Granule, 0, 0, 0), expected);
    if (expected != MBR_CUDA_SUCCESS)
        return;
    ASSERT_EQ(at, address(first));
    effects["reserve"]++;
    last_reservation++;
    for (size_t i = 0; i < count; i++)
        cells[first + i].reservation = last_reservation;
}

void Model::unreserve()
{
    size_t first = draw(CellCount);
    size_t count = 0;
    int reservation = cells[first].reservation;
    while (first > 0 && reservation && cells[first - 1].reservation == reservation)
        first--;
    while (reservation && is_range(first, count + 1) &&
        cells[first + count].reservation == reservation)
        count++;
    size_t wrong = draw(4) == 0 ? draw(3) : 0;
    bool is_free = count && !wrong && mapped(first, count) == 0;
    ASSERT_EQ(cuMemAddressFree(address(first), (count + wrong) * Granule),
        code(is_free ? MBR_CUDA_SUCCESS : MBR_CUDA_INVALID_VALUE));
    effects["unreserve"] += is_free;
    for (size_t i = 0; is_free && i < count; i++)
        cells[first + i] = Cell();
}

void Model::create_handle()
{
    size_t count = draw(4);
    mbr_cuda_handle id = 0;
    mbr_cuda_result expected = code(count == 0 ? MBR_CUDA_INVALID_VALUE
            : used() + count > 24              ? MBR_CUDA_OUT_OF_MEMORY
                                               : MBR_CUDA_SUCCESS);
    ASSERT_EQ(create(&id, count * Granule), expected);
    if (expected == MBR_CUDA_SUCCESS)
        handles[id] = {count, false, 0, std::vector<uint32_t>(count, 0xA5A5A5A5U)};
}

void Model::release()
{
    mbr_cuda_handle id = any_handle();
    bool is_legal = id && !handles[id].is_released;
    ASSERT_EQ(cuMemRelease(id), code(is_legal ? MBR_CUDA_SUCCESS : MBR_CUDA_INVALID_VALUE));
    if (!is_legal)
        return;
    effects["release"]++;
    handles[id].is_released = true;
    forget_if_done(id);
}

void Model::map()
{
    mbr_cuda_handle id = any_handle();
    if (!id || handles[id].is_released)
        return; // misuse: D11, D12
    Handle &handle = handles[id];
    size_t first = draw(CellCount);
    size_t wrong = draw(8) == 0;
    size_t count = handle.granules + wrong;
    int reservation = cells[first].reservation;
    if (!wrong && reservation && mapped(first, count) == 0 &&
        (!is_range(first, count) || cells[first + count - 1].reservation != reservation))
        return; // misuse: D10
    bool is_legal = reservation && mapped(first, count) == 0;
    ASSERT_EQ(cuMemMap(address(first), count * Granule, 0, id, 0),
        code(wrong         ? MBR_CUDA_NOT_SUPPORTED
                : is_legal ? MBR_CUDA_SUCCESS
                           : MBR_CUDA_INVALID_VALUE));
    if (wrong || !is_legal)
        return;
    effects["map"]++;
    last_mapping++;
    handle.mappings++;
    for (size_t i = 0; i < count; i++)
        cells[first + i] = {reservation, last_mapping, id, i, MBR_CUDA_ACCESS_NONE};
}

void Model::unmap()
{
    size_t first = draw(CellCount);
    size_t count = draw(6);
    if (!is_range(first, count))
        return;
    bool is_legal = count && cells[first].reservation && is_whole(first, count);
    // Past the end of the reservation is a hole like others; somebody else's mapping is misuse.
    for (size_t i = first; is_legal && i < first + count; i++)
        if (cells[i].mapping && cells[i].reservation != cells[first].reservation)
            return;
    ASSERT_EQ(cuMemUnmap(address(first), count * Granule),
        code(is_legal ? MBR_CUDA_SUCCESS : MBR_CUDA_INVALID_VALUE));
    effects["unmap"] += is_legal && mapped(first, count) > 0;
    for (size_t i = first; is_legal && i < first + count; i++) {
        Cell gone = cells[i];
        cells[i] = Cell();
        cells[i].reservation = gone.reservation;
        if (gone.mapping && gone.index == 0) {
            handles[gone.handle].mappings--;
            forget_if_done(gone.handle);
        }
    }
}

void Model::set_access()
{
    static const uint32_t kinds[] = {
        MBR_CUDA_ACCESS_NONE, MBR_CUDA_ACCESS_READ, MBR_CUDA_ACCESS_READ_WRITE};
    size_t first = draw(CellCount);
    size_t count = draw(5);
    uint32_t access = kinds[draw(3)];
    if (cells[first].mapping && draw(2)) { // all of it
        first -= cells[first].index;
        count = handles[cells[first].handle].granules;
    }
    bool is_legal = count && is_range(first, count) && is_whole(first, count) &&
        cells[first].mapping && cells[first + count - 1].mapping;
    ASSERT_EQ(grant(address(first), access, 0, count * Granule),
        code(is_legal ? MBR_CUDA_SUCCESS : MBR_CUDA_INVALID_VALUE));
    effects["access"] += is_legal;
    for (size_t i = first; is_legal && i < first + count; i++)
        if (cells[i].mapping)
            cells[i].access = access;
}

void Model::write()
{
    size_t first = draw(CellCount);
    const Cell &cell = cells[first];
    bool is_legal = cell.mapping && cell.access == MBR_CUDA_ACCESS_READ_WRITE;
    last_word++;
    ASSERT_EQ(cuMemsetD32_v2(address(first), last_word, 1),
        code(is_legal ? MBR_CUDA_SUCCESS : MBR_CUDA_INVALID_VALUE));
    ASSERT_EQ(cuCtxSynchronize(), code(MBR_CUDA_SUCCESS));
    effects["write"] += is_legal;
    if (is_legal)
        handles[cell.handle].words[cell.index] = last_word;
}

void Model::compare()
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    ASSERT_EQ(cuMemGetInfo_v2(&free_bytes, &total_bytes), code(MBR_CUDA_SUCCESS));
    ASSERT_EQ(free_bytes, (24 - used()) * Granule);
    for (size_t i = 0; i < CellCount; i++) {
        const Cell &cell = cells[i];
        bool can_read = cell.mapping && cell.access != MBR_CUDA_ACCESS_NONE;
        ASSERT_EQ(peek(address(i)), can_read ? handles[cell.handle].words[cell.index] : 0xDEADU)
            << "granule " << i;
    }
}

TEST_F(Model, RandomCalls_AnswerAsTheSecondOpinion)
{
    const char *wished = getenv("MEMBRANE_SEED");
    auto seed = static_cast<unsigned>(wished ? strtoul(wished, nullptr, 0) : 1);
    random.seed(seed);
    SCOPED_TRACE("MEMBRANE_SEED=" + std::to_string(seed));
    mbr_cuda_address probe = 0;
    OK(cuMemAddressReserve(&probe, Granule, 0, 0, 0));
    base = probe;
    OK(cuMemAddressFree(probe, Granule));
    void (Model::*const steps[])() = {&Model::reserve, &Model::unreserve, &Model::create_handle,
        &Model::release, &Model::map, &Model::map, &Model::unmap, &Model::set_access,
        &Model::set_access, &Model::write, &Model::write, &Model::write};
    for (int i = 0; i < 20000; i++) {
        (this->*steps[draw(sizeof steps / sizeof *steps)])();
        if (i % 16 == 0)
            compare();
        if (HasFatalFailure())
            return;
    }
    EXPECT_EQ(effects.size(), 7U);
    for (const auto &[step, count] : effects)
        EXPECT_GE(count, 100) << step;
}

} // namespace
} // namespace standin
