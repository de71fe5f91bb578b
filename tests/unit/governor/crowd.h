// What tests of several threads share: a place to meet, and an observer of figures that never stop.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_CROWD_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_CROWD_H

#include "tests/unit/governor/world.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace governor_test
{

constexpr int kThreads = 8;

// All meet here, then all go on.
class Barrier
{
  public:
    explicit Barrier(int count) : count_(count) {}

    void Meet()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        int round = round_;
        if (++here_ == count_) {
            here_ = 0;
            round_++;
            all_.notify_all();
        }
        all_.wait(lock, [&] { return round != round_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable all_;
    int count_, here_ = 0, round_ = 0;
};

inline void RunThreads(int count, const std::function<void(int)> &work)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++)
        threads.emplace_back(work, i);
    for (std::thread &thread : threads)
        thread.join();
}

// Looks again and again until the work is done, and at least once.
class Observer
{
  public:
    explicit Observer(std::function<void()> look)
        : thread_([this, look] {
              do
                  look();
              while (!done_);
          })
    {
    }

    ~Observer()
    {
        done_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> done_{false};
    std::thread thread_;
};

// What holds of every snapshot, whatever the threads do.
inline void ExpectSane(mbr_authority *authority, uint64_t most_mapped)
{
    mbr_authority_figures figures = Figures(authority);
    EXPECT_LE(figures.charged_bytes, figures.claimed_bytes);
    EXPECT_EQ(figures.granted_bytes, figures.claimed_bytes - figures.charged_bytes);
    uint64_t credit = figures.limit_bytes < 16 * kMiB ? 0 : figures.limit_bytes / 64;
    EXPECT_GE(figures.peak_charged_bytes, figures.charged_bytes);
    EXPECT_LE(figures.peak_charged_bytes, figures.limit_bytes + credit);
    EXPECT_LE(figures.mapped_bytes, most_mapped);
    EXPECT_LE(figures.claimed_bytes, figures.limit_bytes);
    EXPECT_EQ(figures.over_bytes, 0u);
    mbr_holder_figures lines[4];
    for (mbr_holder_figures &line : lines)
        line.struct_size = sizeof(line);
    uint32_t count = 0;
    mbr_authority_holders_read(authority, lines, 4, &count);
    ASSERT_LE(count, 4u);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_LE(lines[i].charged_bytes, figures.limit_bytes);
        EXPECT_LE(lines[i].granted_bytes, figures.limit_bytes);
        EXPECT_LE(lines[i].mapped_bytes, most_mapped);
        EXPECT_GE(lines[i].peak_charged_bytes, lines[i].charged_bytes);
        EXPECT_LE(lines[i].peak_charged_bytes, figures.limit_bytes + credit);
    }
}

} // namespace governor_test

#endif
