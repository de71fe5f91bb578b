// What was mapped, told apart by its bytes; and the private copies of a plugin's tables with the
// stubs that stand in for what is absent.
#include "tests/unit/loader/support.h"

extern "C" {
#include "host/loader/image.h"
#include "host/loader/stubs.h"
#include "host/loader/table.h"
}

#include <gtest/gtest.h>

#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <vector>

namespace
{

// Where an overlay file system gives a mapping another device or inode, its constant bytes decide.
TEST(Image, Code_EqualOnlyForTheSameBuild)
{
    Folder folder;
    std::string path = folder.put_specimen("good");
    Opened opened(path);
    ASSERT_EQ(opened.status, MBR_OK);
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(handle, nullptr);
    mbr_image image;
    mbr_image_find(handle, &image);
    mbr_candidate candidate;
    auto judged = std::make_unique<mbr_judged>();
    ASSERT_EQ(
        mbr_judge_open(&mbr_loader_os_libc, path.c_str(), true, judged.get(), &candidate), MBR_OK);
    EXPECT_TRUE(mbr_image_is_file(&image, judged.get()));
    EXPECT_TRUE(mbr_image_has_code_of(&image, &judged->elf));
    judged->stat.st_ino++; // the path leads to another file by now
    EXPECT_FALSE(mbr_image_is_file(&image, judged.get()));
    mbr_judge_close(judged.get());

    std::string one_byte = built_file("specimen_good.so");
    replace_text(one_byte, "the driver broke", "the driver brake");
    const std::string others[] = {folder.put_specimen("forksafe", "a.so"),
        folder.put_specimen("tls", "d.so"), folder.put_specimen("sysv_hash", "b.so"),
        folder.put("c.so", one_byte)};
    for (const std::string &other : others) {
        ASSERT_EQ(
            mbr_judge_open(&mbr_loader_os_libc, other.c_str(), true, judged.get(), &candidate),
            MBR_OK)
            << other;
        EXPECT_FALSE(mbr_image_has_code_of(&image, &judged->elf)) << other;
        EXPECT_FALSE(mbr_image_is_file(&image, judged.get())) << other;
        mbr_judge_close(judged.get());
    }
    // The same bytes in another inode, as an overlay shows them.
    std::string copy = folder.put_specimen("good", "copy.so");
    ASSERT_EQ(
        mbr_judge_open(&mbr_loader_os_libc, copy.c_str(), true, judged.get(), &candidate), MBR_OK);
    EXPECT_TRUE(mbr_image_is_file(&image, judged.get()));
    mbr_judge_close(judged.get());
    dlclose(handle);
}

TEST(Image, Holds_OnlyItsOwnReadableBytes)
{
    Folder folder;
    std::string path = folder.put_specimen("good");
    Opened opened(path);
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    mbr_image image;
    mbr_image_find(handle, &image);
    const specimen_counts *counts = &counts_of(path);
    int here = 0;
    EXPECT_TRUE(mbr_image_holds(&image, counts, sizeof *counts));
    EXPECT_FALSE(mbr_image_holds(&image, counts, 1 << 30));
    EXPECT_FALSE(mbr_image_holds(&image, counts, UINT64_MAX));
    EXPECT_FALSE(mbr_image_holds(&image, &here, 1));
    EXPECT_FALSE(mbr_image_holds(&image, nullptr, 0));
    EXPECT_FALSE(mbr_image_holds(&image, (void *)UINTPTR_MAX, 1));
    EXPECT_FALSE(mbr_image_holds_text(&image, nullptr, 8));
    EXPECT_FALSE(mbr_image_holds_text(&image, "mine", 8));
    dlclose(handle);
}

// What no linker makes: an image is judged by its program headers alone.
TEST(Image, Holds_UnreadableAndForeignSegments)
{
    alignas(8) static char memory[256] = "text";
    memory[128] = 'x';
    Elf64_Phdr segments[3] = {};
    segments[0].p_type = PT_NOTE;
    segments[0].p_flags = PF_R;
    segments[0].p_memsz = 256;
    segments[1].p_type = PT_LOAD;
    segments[1].p_flags = PF_X; // cannot be read
    segments[1].p_memsz = 64;
    segments[2].p_type = PT_LOAD;
    segments[2].p_flags = PF_R;
    segments[2].p_vaddr = 128;
    segments[2].p_memsz = 1;
    mbr_image image = {};
    image.base = (uintptr_t)memory;
    image.segments = segments;
    image.segment_count = 3;
    EXPECT_FALSE(mbr_image_holds(&image, memory, 1));
    EXPECT_TRUE(mbr_image_holds(&image, memory + 128, 1));
    EXPECT_FALSE(mbr_image_holds(&image, memory + 128, 2));
    EXPECT_FALSE(mbr_image_holds(&image, memory + 130, 0));
    EXPECT_FALSE(mbr_image_holds_text(&image, memory + 128, 8)) << "runs out of the segment";
    segments[1].p_flags = PF_R;
    EXPECT_TRUE(mbr_image_holds_text(&image, memory, 8));
    EXPECT_FALSE(mbr_image_holds_text(&image, memory, 4)) << "the ending is beyond the bound";
}

TEST(Table, EndsBeyondItsFile_Refused)
{
    static mbr_shared_vtable table;
    table.struct_size = sizeof table;
    table.kind = MBR_KIND_SHARED;
    table.map_shared = mbr_stub_mbr_shared_vtable.map_shared;
    Elf64_Phdr segment = {};
    segment.p_type = PT_LOAD;
    segment.p_flags = PF_R;
    segment.p_memsz = sizeof table;
    mbr_image image = {};
    image.base = (uintptr_t)&table;
    image.segments = &segment;
    image.segment_count = 1;
    mbr_shared_vtable own;
    char text[MBR_TABLE_TEXT_BYTES];
    EXPECT_TRUE(mbr_table_copy(MBR_TABLE_SHARED, &image, &table, 0, &own, text)) << text;
    segment.p_memsz = sizeof(mbr_vtable_head);
    EXPECT_FALSE(mbr_table_copy(MBR_TABLE_SHARED, &image, &table, 0, &own, text));
    EXPECT_NE(std::string(text).find("beyond the end"), std::string::npos) << text;
    EXPECT_EQ(memcmp(&own, &mbr_stub_mbr_shared_vtable, sizeof own), 0) << "absent";
    segment.p_memsz = sizeof(mbr_vtable_head) - 1;
    EXPECT_FALSE(mbr_table_copy(MBR_TABLE_SHARED, &image, &table, 0, &own, text));
    EXPECT_NE(std::string(text).find("no static storage"), std::string::npos) << text;
}

// A table that states a newer minor and a size that holds less than it: what is known decides.
TEST(Table, MinorOfTheTable_ClampedToTheAgreedOne)
{
    static mbr_shared_vtable table;
    table.struct_size = sizeof table;
    table.kind = MBR_KIND_SHARED;
    table.minor = 999;
    table.map_shared = mbr_stub_mbr_shared_vtable.map_shared;
    Elf64_Phdr segment = {};
    segment.p_type = PT_LOAD;
    segment.p_flags = PF_R;
    segment.p_memsz = sizeof table;
    mbr_image image = {};
    image.base = (uintptr_t)&table;
    image.segments = &segment;
    image.segment_count = 1;
    mbr_shared_vtable own;
    char text[MBR_TABLE_TEXT_BYTES];
    ASSERT_TRUE(mbr_table_copy(MBR_TABLE_SHARED, &image, &table, 0, &own, text)) << text;
    EXPECT_EQ(own.minor, 0);
    table.map_shared = nullptr; // edited later: not seen
    EXPECT_NE(own.map_shared, nullptr);
}

template <typename Request, typename Outcome>
void expect_stub(mbr_status (*slot)(mbr_instance *, const Request *, Outcome *, mbr_error *))
{
    Request request = {};
    request.struct_size = sizeof request;
    // The outcome is written up to the size that its owner states, and no further.
    for (uint32_t stated : {(uint32_t)sizeof(Outcome), (uint32_t)sizeof(uint32_t) * 2, 4u}) {
        Outcome outcome;
        memset(&outcome, 0xA5, sizeof outcome);
        outcome.struct_size = stated;
        Error error;
        ASSERT_NE(slot, nullptr);
        EXPECT_EQ(slot(nullptr, &request, &outcome, &error), MBR_UNSUPPORTED);
        EXPECT_EQ(error.status, MBR_UNSUPPORTED);
        EXPECT_NE(std::string(error.text).find("does not offer mbr_"), std::string::npos);
        EXPECT_EQ(outcome.struct_size, stated);
        for (uint32_t at = 4; at < sizeof outcome; at++)
            ASSERT_EQ(((unsigned char *)&outcome)[at], at < stated ? 0 : 0xA5) << at;
        EXPECT_EQ(slot(nullptr, &request, &outcome, nullptr), MBR_UNSUPPORTED);
    }
}

// I19: what is absent is a typed refusal, and nothing beside it looks like success.
TEST(Stubs, EverySlot_UnsupportedAndUnchanged)
{
    static_assert(MBR_STATE_UNCHANGED == 0, "a cleared outcome says that nothing happened");
    const mbr_virtual_vtable &v = mbr_stub_mbr_virtual_vtable;
    expect_stub(v.reserve), expect_stub(v.unreserve), expect_stub(v.extent_create);
    expect_stub(v.extent_destroy), expect_stub(v.map), expect_stub(v.protect);
    expect_stub(v.unmap), expect_stub(v.query);
    expect_stub(mbr_stub_mbr_shared_vtable.map_shared);
    const mbr_order_vtable &o = mbr_stub_mbr_order_vtable;
    expect_stub(o.line_open), expect_stub(o.signal), expect_stub(o.reached), expect_stub(o.wait);
    expect_stub(o.stream_wait), expect_stub(o.line_close);
    const mbr_transfer_vtable &t = mbr_stub_mbr_transfer_vtable;
    expect_stub(t.stream_create), expect_stub(t.stream_destroy), expect_stub(t.fill);
    expect_stub(t.copy);
    const mbr_allocator_vtable &a = mbr_stub_mbr_allocator_vtable;
    expect_stub(a.fact), expect_stub(a.allocate), expect_stub(a.release), expect_stub(a.stats);
    expect_stub(a.trim);
    const mbr_plugin_vtable &p = mbr_stub_mbr_plugin_vtable;
    expect_stub(p.mechanisms), expect_stub(p.open), expect_stub(p.capability), expect_stub(p.close);
    expect_stub(p.report), expect_stub(p.quiesce);
}

TEST(Table, EveryIndex_IdAndSize)
{
    EXPECT_STREQ(mbr_table_id(MBR_TABLE_VIRTUAL), MBR_ID_VIRTUAL);
    EXPECT_STREQ(mbr_table_id(MBR_TABLE_TRANSFER), MBR_ID_TRANSFER);
    EXPECT_EQ(mbr_table_bytes(MBR_TABLE_ORDER), sizeof(mbr_order_vtable));
    for (int table = 0; table < MBR_TABLE_COUNT; table++) {
        std::vector<unsigned char> own(mbr_table_bytes((mbr_table_index)table), 0xA5);
        mbr_table_fill_absent((mbr_table_index)table, own.data());
        for (size_t at = 8; at < own.size(); at += 8)
            EXPECT_NE(*(uint64_t *)&own[at], 0u) << table << " has a NULL at " << at;
    }
}

} // namespace
