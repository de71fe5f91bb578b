// Loading and negotiating: the gates from dlopen to the plugin table, and that whatever refuses
// leaves nothing behind.
#include "tests/unit/loader/support.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <functional>
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

// Every reason that the file itself can give, by a built one with a few bytes changed.
TEST(Module, NotAPlugin_ConstructorNeverRuns)
{
    struct {
        mbr_reason reason;
        mbr_status status;
        const char *file;
        std::function<void(std::string &)> patch;
    } const rows[] = {
        {MBR_REASON_NOT_ELF, MBR_NOT_A_PLUGIN, "good", [](std::string &b) { b.resize(4096); }},
        {MBR_REASON_WRONG_MACHINE, MBR_NOT_A_PLUGIN, "good",
            [](std::string &b) { elf_head(b).e_machine = EM_386; }},
        {MBR_REASON_NOT_SHARED, MBR_NOT_A_PLUGIN, "good",
            [](std::string &b) { elf_head(b).e_type = ET_EXEC; }},
        {MBR_REASON_NO_NOTE, MBR_NOT_A_PLUGIN, "good",
            [](std::string &b) { elf_note(b).n_type = 2; }},
        {MBR_REASON_NO_NOTE, MBR_NOT_A_PLUGIN, "no_note", nullptr},
        {MBR_REASON_BAD_NOTE, MBR_NOT_A_PLUGIN, "good",
            [](std::string &b) { elf_note_head(b).flags = 0x80; }},
        {MBR_REASON_BAD_NOTE, MBR_NOT_A_PLUGIN, "two_notes", nullptr},
        {MBR_REASON_OTHER_MAJOR, MBR_VERSION_MISMATCH, "good",
            [](std::string &b) { elf_note_head(b).major = MBR_MAJOR + 1; }},
        {MBR_REASON_NO_COMMON_MINOR, MBR_VERSION_MISMATCH, "minors_1_2", nullptr},
        {MBR_REASON_DIGEST, MBR_VERSION_MISMATCH, "good",
            [](std::string &b) { *((char *)&elf_note_head(b) + sizeof(mbr_note_head)) ^= 1; }},
        {MBR_REASON_EXEC_STACK, MBR_NOT_A_PLUGIN, "good",
            [](std::string &b) { elf_segment(b, PT_GNU_STACK).p_flags |= PF_X; }},
        {MBR_REASON_TEXT_RELOCATIONS, MBR_NOT_A_PLUGIN, "good",
            [](std::string &b) { elf_dynamic(b, DT_RELACOUNT).d_tag = DT_TEXTREL; }},
        {MBR_REASON_RELATIVE_RPATH, MBR_NOT_A_PLUGIN, "relative_rpath", nullptr},
        {MBR_REASON_RELATIVE_RPATH, MBR_NOT_A_PLUGIN, "good",
            [](std::string &b) { replace_text(b, "libc.so.6", "./bc.so.6"); }},
        {MBR_REASON_NAME_MISMATCH, MBR_NOT_A_PLUGIN, "good",
            [](std::string &b) { elf_note_head(b).name[0] = 'x'; }},
    };
    for (auto &row : rows) {
        SCOPED_TRACE(std::string(mbr_reason_word(row.reason)) + " of " + row.file);
        Folder folder;
        Variable mark("SPECIMEN_MARK", folder.at("mark"));
        std::string bytes = built_file(std::string("specimen_") + row.file + ".so");
        if (row.patch)
            row.patch(bytes);
        Opened opened(folder.put("libmembrane-specimen.so", bytes));
        EXPECT_EQ(opened.module, nullptr);
        EXPECT_STREQ(mbr_reason_word(opened.candidate.reason), mbr_reason_word(row.reason))
            << opened.candidate.detail;
        EXPECT_EQ(opened.status, row.status);
        EXPECT_NE(access(folder.at("mark").c_str(), F_OK), 0) << "its constructor ran";
    }
    Folder folder;
    Variable mark("SPECIMEN_MARK", folder.at("mark"));
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
        {"unique", false}, {"key", false}, {"forksafe", false}};
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

// A thread that used the plugin ends after the last close, and runs the end of its key: code that
// must still be there.
TEST(Module, ThreadKeyOutlivesTheLastClose_ItsCodeStays)
{
    Folder folder;
    std::string path = folder.put_specimen("key"), mark = folder.at("mark");
    Variable variable("SPECIMEN_THREAD_MARK", mark);
    std::thread([&] {
        Opened opened(path);
        EXPECT_EQ(opened.status, MBR_OK) << opened.error.text;
        opened.close();
        EXPECT_GT(mapping_count(path), 0u);
    }).join();
    EXPECT_EQ(access(mark.c_str(), F_OK), 0);
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

// Two files with the same global symbols: each uses its own, and nobody sees either (rule 31).
TEST(Module, TwoFilesWithTheSameSymbols_EachUsesItsOwnAndNobodySeesThem)
{
    Folder folder;
    std::string first_path = folder.put_specimen("good", "first.so");
    std::string second_path = folder.put_specimen("other", "second.so");
    Opened first(first_path, true), second(second_path, true);
    ASSERT_EQ(first.status, MBR_OK) << first.error.text;
    ASSERT_EQ(second.status, MBR_OK) << second.error.text;
    EXPECT_NE(&counts_of(first_path), &counts_of(second_path));
    EXPECT_EQ(counts_of(first_path).entries, 1u);
    EXPECT_EQ(counts_of(second_path).entries, 1u); // not counted in the first one's symbol
    EXPECT_STREQ(mbr_module_plugin(second.module)->name, "other");
    EXPECT_EQ(dlsym(RTLD_DEFAULT, "specimen_count"), nullptr);
    EXPECT_EQ(dlsym(RTLD_DEFAULT, MBR_ENTRY_SYMBOL), nullptr);
}

// ---- dlopen and after ---------------------------------------------------------------------------

TEST(Module, MissingSymbol_LinkersTextNamesIt)
{
    expect_refused("none", MBR_REASON_DLOPEN, MBR_SYSTEM, "specimen_missing_symbol", "undefined");
}

// Also where the file wants its functions bound at their first call. The same constructor does run
// where nothing is missing.
TEST(Module, MissingSymbol_RefusedBeforeAnyConstructor)
{
    for (bool is_lazy : {false, true}) {
        Folder folder;
        std::string bytes = built_file("specimen_undefined.so");
        if (is_lazy) {
            elf_dynamic(bytes, DT_FLAGS).d_un.d_val &= ~(uint64_t)DF_BIND_NOW;
            elf_dynamic(bytes, DT_FLAGS_1).d_un.d_val &= ~(uint64_t)DF_1_NOW;
        }
        Variable mark("SPECIMEN_MARK", folder.at("mark"));
        Opened missing(folder.put("libmembrane-specimen.so", bytes));
        EXPECT_EQ(missing.candidate.reason, MBR_REASON_DLOPEN) << missing.candidate.detail;
        EXPECT_NE(access(folder.at("mark").c_str(), F_OK), 0) << "its constructor ran";
        Opened good(folder.put_specimen("good"));
        EXPECT_EQ(good.status, MBR_OK) << good.error.text;
        EXPECT_EQ(access(folder.at("mark").c_str(), F_OK), 0);
    }
}

TEST(Module, MissingSymbol_NoConstructorOfWhatItNeedsRunsEither)
{
    Folder folder;
    Variable mark("SPECIMEN_MARK", folder.at("mark"));
    folder.put_specimen(
        "good", "libspecimen_dependency.so"); // with a constructor, without the symbol
    Opened missing(folder.put_specimen("needs_dependency"));
    EXPECT_EQ(missing.candidate.reason, MBR_REASON_DLOPEN);
    EXPECT_NE(std::string(missing.candidate.detail).find("undefined symbol: specimen_dependency"),
        std::string::npos)
        << missing.candidate.detail;
    EXPECT_NE(access(folder.at("mark").c_str(), F_OK), 0) << "a constructor ran";
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
