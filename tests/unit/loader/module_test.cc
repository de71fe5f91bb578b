// Loading and negotiating: the gates from dlopen to the plugin table, and that whatever refuses
// leaves nothing behind.
#include "tests/unit/loader/support.h"

extern "C" {
#include "host/loader/image.h"
#include "host/loader/reason.h"
#include "host/loader/stubs.h"
#include "host/loader/table.h"
}

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

// Opens an unloadable specimen with a fault and expects a refusal that leaves nothing mapped.
void expect_refused(const std::string &fault, mbr_reason reason, mbr_status status,
    const std::string &part, const std::string &variant = "unloadable")
{
    SCOPED_TRACE(fault);
    Folder folder;
    std::string path = folder.put_specimen(variant);
    CountedHeap heap;
    unsigned descriptors = descriptor_count();
    Fault told(fault);
    Opened opened(path, false, nullptr, &heap.heap);
    EXPECT_EQ(opened.module, nullptr);
    EXPECT_STREQ(mbr_reason_word(opened.candidate.reason), mbr_reason_word(reason))
        << opened.candidate.detail;
    EXPECT_EQ(opened.status, status);
    EXPECT_EQ(opened.error.status, status);
    EXPECT_NE(std::string(opened.candidate.detail).find(part), std::string::npos)
        << opened.candidate.detail;
    EXPECT_NE(std::string(opened.error.text).find(mbr_reason_word(reason)), std::string::npos)
        << opened.error.text;
    EXPECT_EQ(heap.live_count, 0u);
    EXPECT_EQ(descriptor_count(), descriptors);
    EXPECT_EQ(mapping_count(path), 0u) << "the file is still mapped";
}

TEST(Module, GoodFile_OpensWithItsOwnCopy)
{
    Folder folder;
    std::string path = folder.put_specimen("good");
    Opened opened(path);
    ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    EXPECT_EQ(opened.candidate.reason, MBR_REASON_USED);
    EXPECT_EQ(mbr_module_minor(opened.module), 0);
    EXPECT_EQ(mbr_module_candidate(opened.module)->path, path);
    const mbr_plugin_vtable *plugin = mbr_module_plugin(opened.module);
    EXPECT_EQ(plugin->struct_size, sizeof *plugin);
    EXPECT_EQ(plugin->kind, MBR_KIND_PLUGIN);
    EXPECT_STREQ(plugin->name, "specimen");
    EXPECT_STREQ(plugin->version, "1.2.3");
    EXPECT_EQ(counts_of(path).entries, 1u);
    EXPECT_EQ(counts_of(path).opens, 0u);
}

TEST(Module, PathForms_APathIsAPath)
{
    Folder folder;
    folder.put_specimen("good");
    folder.put_specimen("good", "x.so");
    char before[4096];
    ASSERT_NE(getcwd(before, sizeof before), nullptr);
    ASSERT_EQ(chdir(folder.path().c_str()), 0);
    Opened dotted("./x.so"), absolute(folder.at("x.so")), bare("x.so");
    ASSERT_EQ(chdir(before), 0);
    EXPECT_EQ(dotted.status, MBR_OK) << dotted.error.text;
    EXPECT_EQ(absolute.status, MBR_OK) << absolute.error.text;
    EXPECT_EQ(bare.status, MBR_UNKNOWN_OBJECT); // never given to the dynamic linker
    EXPECT_EQ(bare.candidate.reason, MBR_REASON_NOT_FOUND);
}

TEST(Module, NoName_InvalidArgument)
{
    mbr_module_options options = {};
    mbr_module *module = (mbr_module *)&options;
    Error error;
    EXPECT_EQ(mbr_module_open(&options, &module, nullptr, &error), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(module, nullptr);
}

TEST(Module, RefusalWithoutCandidateOrError_SameStatus)
{
    mbr_module_options options = {};
    options.name_or_path = "/nowhere/libmembrane-x.so";
    mbr_module *module = (mbr_module *)&options;
    EXPECT_EQ(mbr_module_open(&options, &module, nullptr, nullptr), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(module, nullptr);
    mbr_module_close(nullptr);
}

TEST(Module, Trust_OnlyForAPathThatIsTrusted)
{
    Folder folder;
    std::string path = folder.put_specimen("good");
    ASSERT_EQ(chmod(path.c_str(), 0666), 0);
    Opened judged(path, false), trusted(path, true);
    EXPECT_EQ(judged.status, MBR_UNTRUSTED);
    EXPECT_EQ(judged.candidate.reason, MBR_REASON_UNTRUSTED_FILE);
    EXPECT_EQ(trusted.status, MBR_OK) << trusted.error.text;
}

TEST(Module, Link_IsLoadedByItsTarget)
{
    Folder folder;
    std::string target = folder.put_specimen("good", "real.so");
    ASSERT_EQ(symlink("real.so", folder.at("libmembrane-specimen.so").c_str()), 0);
    Opened opened(folder.at("libmembrane-specimen.so"));
    ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    EXPECT_EQ(opened.candidate.path, folder.at("libmembrane-specimen.so"));
    EXPECT_TRUE(is_loaded(target));
}

TEST(Module, NotAPlugin_ConstructorNeverRuns)
{
    Folder folder;
    Variable mark("SPECIMEN_MARK", folder.at("mark"));
    const char *const variants[] = {"no_note", "exec_stack", "relative_rpath", "minors_1_2"};
    for (const char *variant : variants) {
        Opened opened(folder.put_specimen(variant, std::string(variant) + ".so"), true);
        EXPECT_NE(opened.status, MBR_OK) << variant;
        EXPECT_NE(access(folder.at("mark").c_str(), F_OK), 0) << variant;
    }
    Opened good(folder.put_specimen("good"));
    EXPECT_EQ(access(folder.at("mark").c_str(), F_OK), 0);
}

// ---- Leaving ------------------------------------------------------------------------------------

TEST(Module, Close_UnmapsOnlyWhatMayGo)
{
    struct {
        const char *variant;
        bool goes;
    } const rows[] = {{"unloadable", true}, {"good", false}, {"tls", false}, {"static_tls", false},
        {"unique", false}, {"forksafe", false}};
    for (auto &row : rows) {
        SCOPED_TRACE(row.variant);
        Folder folder;
        std::string path = folder.put_specimen(row.variant);
        Opened opened(path);
        ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
        EXPECT_GT(mapping_count(path), 0u);
        opened.close();
        EXPECT_EQ(mapping_count(path) == 0, row.goes);
    }
}

TEST(Module, SameFileTwice_OneMappingTwoModules)
{
    Folder folder;
    std::string path = folder.put_specimen("unloadable");
    Opened first(path);
    unsigned mappings = mapping_count(path);
    Opened second(path);
    ASSERT_EQ(second.status, MBR_OK) << second.error.text;
    EXPECT_NE(first.module, second.module);
    EXPECT_EQ(mapping_count(path), mappings);
    EXPECT_EQ(counts_of(path).entries, 2u);
    first.close();
    EXPECT_EQ(mapping_count(path), mappings);
    EXPECT_STREQ(mbr_module_plugin(second.module)->name, "specimen");
    second.close();
    EXPECT_EQ(mapping_count(path), 0u);
}

TEST(Module, FiftyRounds_NothingGrows)
{
    Folder folder;
    std::string path = folder.put_specimen("unloadable");
    unsigned descriptors = descriptor_count();
    CountedHeap heap;
    for (int round = 0; round < 50; round++) {
        Opened opened(path, false, nullptr, &heap.heap);
        ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    }
    EXPECT_EQ(heap.live_count, 0u);
    EXPECT_EQ(descriptor_count(), descriptors);
    EXPECT_EQ(mapping_count(path), 0u);
}

// The flag of the static model without thread-local variables of the file's own.
TEST(Module, StaticTlsFlagAlone_Pins)
{
    Folder folder;
    std::string bytes = built_file("specimen_unloadable.so");
    Elf64_Dyn &entry = elf_has_dynamic(bytes, DT_FLAGS) ? elf_dynamic(bytes, DT_FLAGS)
                                                        : elf_dynamic(bytes, DT_RELACOUNT);
    entry.d_tag = DT_FLAGS;
    entry.d_un.d_val |= DF_STATIC_TLS;
    std::string path = folder.put("libmembrane-specimen.so", bytes);
    Opened opened(path);
    ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    opened.close();
    EXPECT_GT(mapping_count(path), 0u);
}

// ---- dlopen and after ---------------------------------------------------------------------------

TEST(Module, MissingSymbol_LinkersTextNamesIt)
{
    expect_refused("none", MBR_REASON_DLOPEN, MBR_SYSTEM, "specimen_missing_symbol", "undefined");
}

TEST(Module, NoEntry_NamedWithAdvice)
{
    Folder folder;
    Opened opened(folder.put_specimen("no_entry"));
    EXPECT_EQ(opened.status, MBR_NOT_A_PLUGIN);
    EXPECT_EQ(opened.candidate.reason, MBR_REASON_NO_ENTRY);
    EXPECT_NE(std::string(opened.candidate.detail).find("MBR_EXPORT"), std::string::npos);
}

TEST(Module, EntryFromDependency_RefusedNamingTheRealFile)
{
    Folder folder;
    folder.put("libspecimen_dependency.so", built_file("libspecimen_dependency.so"));
    Opened opened(folder.put_specimen("needs_dependency"));
    EXPECT_EQ(opened.status, MBR_NOT_A_PLUGIN);
    EXPECT_EQ(opened.candidate.reason, MBR_REASON_NO_ENTRY);
    EXPECT_NE(std::string(opened.candidate.detail).find(folder.at("libspecimen_dependency.so")),
        std::string::npos)
        << opened.candidate.detail;
}

// The linker knows the path and answers with the object that it mapped long ago.
TEST(Module, FileReplacedOnDisk_OldCodeIsNotMistakenForIt)
{
    Folder folder;
    std::string path = folder.put_specimen("good");
    Opened first(path);
    ASSERT_EQ(first.status, MBR_OK) << first.error.text;
    folder.put_specimen("forksafe"); // renamed over it: another inode
    Opened second(path);
    EXPECT_EQ(second.status, MBR_UNTRUSTED);
    EXPECT_EQ(second.candidate.reason, MBR_REASON_FILE_CHANGED);
    EXPECT_NE(std::string(second.candidate.detail).find("restart"), std::string::npos);
    EXPECT_EQ(counts_of(path).entries, 1u) << "the old code was called";
    EXPECT_STREQ(mbr_module_plugin(first.module)->version, "1.2.3");
}

TEST(Module, FileReplacedByItsCopy_IsTheSameCode)
{
    Folder folder;
    std::string path = folder.put_specimen("good");
    Opened first(path);
    folder.put_specimen("good");
    Opened second(path);
    EXPECT_EQ(second.status, MBR_OK) << second.error.text;
    EXPECT_EQ(counts_of(path).entries, 2u);
}

// Written to without another size: the time of the last change tells.
TEST(Module, FileTouchedWhileLoading_Refused)
{
    for (const char *time : {"1", "0"}) { // seconds, or nanoseconds alone
        Folder folder;
        std::string path = folder.put_specimen("unloadable");
        Variable touch("SPECIMEN_TOUCH", path), seconds("SPECIMEN_TOUCH_SECONDS", time);
        Opened opened(path);
        EXPECT_EQ(opened.status, MBR_UNTRUSTED);
        EXPECT_EQ(opened.candidate.reason, MBR_REASON_FILE_CHANGED);
        EXPECT_EQ(mapping_count(path), 0u);
    }
}

// Its line in the process's map is longer than a reader's buffer.
TEST(Module, VeryLongPath_IsLoadedLikeAnother)
{
    Folder folder;
    std::string deep;
    for (int i = 0; i < 6; i++)
        deep += std::string(150, (char)('a' + i)) + "/";
    folder.make_folder(deep);
    std::string path = folder.put_specimen("unloadable", deep + "libmembrane-specimen.so");
    Opened opened(path);
    EXPECT_EQ(opened.status, MBR_OK) << opened.error.text;
    Opened again(path);
    EXPECT_EQ(again.status, MBR_OK) << again.error.text;
}

TEST(Module, FileWrittenWhileLoading_Refused)
{
    Folder folder;
    std::string path = folder.put_specimen("unloadable");
    Variable rewrite("SPECIMEN_REWRITE", path);
    Opened opened(path);
    EXPECT_EQ(opened.status, MBR_UNTRUSTED);
    EXPECT_EQ(opened.candidate.reason, MBR_REASON_FILE_CHANGED);
    EXPECT_EQ(mapping_count(path), 0u);
}

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

// ---- Negotiation --------------------------------------------------------------------------------

TEST(Negotiate, EntryRefuses_ItsStatusAndText)
{
    expect_refused(
        "entry-refuses", MBR_REASON_NEGOTIATION, MBR_NO_DEVICE, "no driver library here");
    expect_refused("entry-version", MBR_REASON_NO_COMMON_MINOR, MBR_VERSION_MISMATCH,
        "minors 5 to 7, this host 0 to 0");
    expect_refused("entry-nonsense", MBR_REASON_NEGOTIATION, MBR_CONTRACT_BROKEN, "answered 65535");
}

TEST(Negotiate, AnswerOutsideTheOffer_Refused)
{
    expect_refused("entry-minor=999", MBR_REASON_NEGOTIATION, MBR_CONTRACT_BROKEN,
        "answered minor 999, outside this host's range 0 to 0 (own 0 to 999)");
    expect_refused("entry-minor=1", MBR_REASON_NEGOTIATION, MBR_CONTRACT_BROKEN, "minor 1");
    expect_refused(
        "entry-range", MBR_REASON_NEGOTIATION, MBR_CONTRACT_BROKEN, "outside its own range 1 to 2");
}

TEST(Negotiate, ReplySize_ShortLongAndOverrun)
{
    expect_refused("entry-reply=0", MBR_REASON_NEGOTIATION, MBR_CONTRACT_BROKEN, "0 bytes");
    expect_refused("entry-reply=23", MBR_REASON_NEGOTIATION, MBR_CONTRACT_BROKEN, "23 bytes");
    expect_refused("entry-reply=4096", MBR_REASON_NEGOTIATION, MBR_CONTRACT_BROKEN, "4096 bytes");
    expect_refused("entry-overruns", MBR_REASON_NEGOTIATION, MBR_CONTRACT_BROKEN, "wrote past");
}

TEST(Negotiate, PluginTable_EachDefectNamed)
{
    struct {
        const char *fault, *part;
    } const rows[] = {
        {"table-null", "NULL table"},
        {"table-stack", "no static storage"},
        {"table-misaligned", "no static storage"},
        {"table-kind", "states kind 5; that of membrane.plugin is 1"},
        {"table-small", "states 64 bytes; minor 0 has at least 72"},
        {"table-null-slot", "required slot report"},
        {"table-name", "not the note's, \"specimen\""},
        {"table-null-name", "not the note's"},
        {"table-version", "version"},
    };
    for (auto &row : rows)
        expect_refused(row.fault, MBR_REASON_BAD_TABLE, MBR_CONTRACT_BROKEN, row.part);
}

// A peer's larger struct holds the fields that we read (rule 12), and its minor is clamped (rule
// 18).
TEST(Negotiate, NewerTable_KnownPrefixIsUsed)
{
    Folder folder;
    Fault fault("table-grown");
    Opened opened(folder.put_specimen("good"));
    ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    EXPECT_EQ(mbr_module_plugin(opened.module)->struct_size, sizeof(mbr_plugin_vtable));
    EXPECT_EQ(mbr_module_plugin(opened.module)->minor, 0);
}

TEST(Negotiate, VersionText_MadePrintable)
{
    Folder folder;
    Fault fault("table-control");
    Opened opened(folder.put_specimen("good"));
    ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    EXPECT_STREQ(mbr_module_plugin(opened.module)->version, "1 [2J");
}

TEST(Negotiate, NoteOfMoreMinors_AgreedOnTheCommonOne)
{
    Folder folder;
    Opened opened(folder.put_specimen("minors_0_2"));
    ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    EXPECT_EQ(mbr_module_minor(opened.module), 0);
}

// ---- Tables -------------------------------------------------------------------------------------

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

// ---- Faults and threads -------------------------------------------------------------------------

TEST(Module, EveryAllocationFails_NothingIsLeft)
{
    Folder folder;
    std::string path = folder.put_specimen("unloadable");
    CountedHeap good;
    {
        Opened opened(path, false, nullptr, &good.heap);
        ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    }
    EXPECT_EQ(good.live_count, 0u);
    ASSERT_GE(good.call_count, 1u);
    for (uint64_t at = 1; at <= good.call_count; at++) {
        CountedHeap heap(at);
        unsigned descriptors = descriptor_count();
        Opened opened(path, false, nullptr, &heap.heap);
        EXPECT_EQ(opened.status, MBR_OUT_OF_HOST_MEMORY);
        EXPECT_EQ(opened.module, nullptr);
        EXPECT_EQ(opened.candidate.path[0], '\0') << "nothing was judged";
        EXPECT_EQ(heap.live_count, 0u);
        EXPECT_EQ(descriptor_count(), descriptors);
        EXPECT_EQ(mapping_count(path), 0u);
    }
}

// 16 threads open the same file and different files, and all finish (ucx PR 3571).
TEST(Module, SixteenThreads_SameAndDifferentFiles)
{
    Folder folder;
    std::vector<std::string> paths = {folder.put_specimen("unloadable", "same.so")};
    for (int i = 0; i < 16; i++)
        paths.push_back(folder.put_specimen("unloadable", "file" + std::to_string(i) + ".so"));
    std::atomic<unsigned> failures{0}, ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; i++)
        threads.emplace_back([&, i] {
            ready++;
            while (ready < 16)
                std::this_thread::yield();
            for (int round = 0; round < 20; round++) {
                Opened same(paths[0]), own(paths[(size_t)i + 1]);
                mbr_mechanism_options options = {};
                mbr_mechanism mechanism;
                bool is_good = same.status == MBR_OK && own.status == MBR_OK &&
                    mbr_mechanism_open(same.module, &options, &mechanism, nullptr) == MBR_OK &&
                    mbr_mechanism_close(&mechanism, nullptr) == MBR_OK;
                failures += !is_good;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(failures, 0u);
    for (const std::string &path : paths)
        EXPECT_EQ(mapping_count(path), 0u) << path;
}

} // namespace
