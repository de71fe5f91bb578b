// What the tests of traces share: files in memory whose calls fail on request, and a heap that
// counts its blocks, guards their ends and fails the Nth allocation.
#ifndef MEMBRANE_TESTS_UNIT_TRACE_SUPPORT_H
#define MEMBRANE_TESTS_UNIT_TRACE_SUPPORT_H

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

extern "C" {
#include "tools/cli/trace/trace.h"
}

class TestHeap
{
  public:
    TestHeap() : heap_{allocate, release, this} {}
    ~TestHeap() { EXPECT_TRUE(live_.empty()) << live_.size() << " blocks were not released"; }

    const mbr_heap *heap() const { return &heap_; }
    void fail_at(uint64_t ordinal) { fail_at_ = ordinal; } // from 1; 0 fails none
    uint64_t call_count() const { return call_count_; }
    void restart() { call_count_ = 0; }
    size_t live_count() const { return live_.size(); }

  private:
    static void *allocate(void *context, size_t bytes)
    {
        auto *self = static_cast<TestHeap *>(context);
        if (++self->call_count_ == self->fail_at_)
            return nullptr;
        auto *memory = static_cast<unsigned char *>(std::calloc(1, bytes + guard_bytes));
        std::memset(memory + bytes, guard, guard_bytes);
        self->live_.emplace(memory, bytes);
        return memory;
    }
    static void release(void *context, void *memory)
    {
        auto *self = static_cast<TestHeap *>(context);
        if (memory == nullptr)
            return;
        auto block = self->live_.find(memory);
        ASSERT_NE(block, self->live_.end()) << "released a block that is not live";
        const auto *end = static_cast<unsigned char *>(memory) + block->second;
        for (size_t i = 0; i < guard_bytes; i++)
            EXPECT_EQ(end[i], guard) << "written behind a block of " << block->second << " bytes";
        self->live_.erase(block);
        std::free(memory);
    }

    mbr_heap heap_;
    static constexpr size_t guard_bytes = 64;
    static constexpr unsigned char guard = 0xa5;
    std::map<void *, size_t> live_; // and how many bytes were asked for
    uint64_t call_count_ = 0;
    uint64_t fail_at_ = 0;
};

// One file whose content is a string.
class MemoryFile
{
  public:
    explicit MemoryFile(std::string content)
        : os_{open, read, close, this}, content_(std::move(content))
    {
    }
    ~MemoryFile() { EXPECT_EQ(open_count_, 0) << "files left open"; }

    const mbr_trace_os *os() const { return &os_; }

    int open_error = 0;               // errno of open, 0 succeeds
    size_t read_bytes = SIZE_MAX;     // at most so many a call
    uint64_t read_error_at = 0;       // ordinal of the read that fails, from 1
    int read_error = 0;               // with this errno
    bool interrupt_each_read = false; // EINTR before each read that succeeds
    uint64_t read_count = 0;

  private:
    static int open(void *context, const char *)
    {
        auto *self = static_cast<MemoryFile *>(context);
        if (self->open_error != 0)
            return -self->open_error;
        self->open_count_++;
        self->at_ = 0;
        return 3;
    }
    static int64_t read(void *context, int file, void *buffer, size_t bytes)
    {
        auto *self = static_cast<MemoryFile *>(context);
        EXPECT_EQ(file, 3);
        EXPECT_GT(bytes, 0u);
        if (++self->read_count == self->read_error_at)
            return -self->read_error;
        if (self->interrupt_each_read && self->read_count % 2 == 1)
            return -EINTR;
        size_t got = std::min({bytes, self->read_bytes, self->content_.size() - self->at_});
        std::memcpy(buffer, self->content_.data() + self->at_, got);
        self->at_ += got;
        return static_cast<int64_t>(got);
    }
    static void close(void *context, int) { static_cast<MemoryFile *>(context)->open_count_--; }

    mbr_trace_os os_;
    std::string content_;
    size_t at_ = 0;
    int open_count_ = 0;
};

struct TraceDestroy {
    void operator()(mbr_trace *trace) const { mbr_trace_destroy(trace); }
};

struct Loaded {
    mbr_trace_status status;
    mbr_trace_error error;
    std::unique_ptr<mbr_trace, TraceDestroy> trace;

    std::string text() const { return error.text; }
};

// Loads and checks what holds for every answer.
inline Loaded load(const mbr_trace_options &options)
{
    Loaded loaded = {};
    mbr_trace *trace = reinterpret_cast<mbr_trace *>(1);
    std::memset(&loaded.error, 0x5a, sizeof loaded.error);
    loaded.status = mbr_trace_load(&options, &trace, &loaded.error);
    loaded.trace.reset(trace);
    EXPECT_EQ(loaded.error.status, loaded.status);
    EXPECT_EQ(trace != nullptr, loaded.status == MBR_TRACE_OK);
    if (loaded.status == MBR_TRACE_OK) {
        EXPECT_STREQ(loaded.error.text, "");
        return loaded;
    }
    EXPECT_LT(std::strlen(loaded.error.text), sizeof loaded.error.text);
    EXPECT_GT(std::strlen(loaded.error.text), 10u);
    EXPECT_EQ(loaded.text().find('\n'), std::string::npos) << loaded.text();
    EXPECT_EQ(loaded.text().find('\x1b'), std::string::npos) << loaded.text();
    return loaded;
}

inline Loaded load_text(
    const std::string &content, mbr_trace_format format = MBR_TRACE_AUTO, uint64_t max_requests = 0)
{
    MemoryFile file(content);
    mbr_trace_options options = {};
    options.path = "test.trace";
    options.format = format;
    options.max_requests = max_requests;
    options.os = file.os();
    return load(options);
}

// The refusal of `content` names a status, a line, a column, and says all of `words`.
inline void expect_refused(const std::string &content, mbr_trace_status status, uint64_t line,
    const std::string &column, std::initializer_list<const char *> words,
    mbr_trace_format format = MBR_TRACE_AUTO)
{
    Loaded loaded = load_text(content, format);
    EXPECT_EQ(loaded.status, status) << loaded.text();
    EXPECT_EQ(loaded.error.line, line) << loaded.text();
    EXPECT_EQ(column, loaded.error.column) << loaded.text();
    std::string head = "test.trace:" + (line == 0 ? "" : std::to_string(line) + ":") + " ";
    EXPECT_EQ(loaded.text().rfind(head, 0), 0u) << loaded.text();
    for (const char *word : words)
        EXPECT_NE(loaded.text().find(word), std::string::npos)
            << "'" << word << "' is missing in: " << loaded.text();
}

#endif
