// Files judged before any of their code runs: each refusal by a real file, patched where no linker
// would make it, and every cut of a good one.
#include "tests/unit/loader/support.h"

extern "C" {
#include "host/loader/reason.h"
}

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <unistd.h>
#include <vector>

namespace
{

struct Judged {
    explicit Judged(const std::string &path) { status = mbr_loader_judge(path.c_str(), true, &it); }
    mbr_candidate it;
    mbr_status status;
};

// Judges a patched copy of a built file; no code of it may run and no descriptor may stay open.
Judged judge(const std::string &file, const std::function<void(std::string &)> &patch = nullptr,
    const std::string &name = "libmembrane-specimen.so")
{
    Folder folder;
    std::string bytes = built_file(file);
    if (patch)
        patch(bytes);
    std::string path = folder.put(name, bytes);
    Variable mark("SPECIMEN_MARK", folder.at("mark"));
    unsigned before = descriptor_count();
    Judged judged(path);
    EXPECT_EQ(descriptor_count(), before);
    EXPECT_NE(access(folder.at("mark").c_str(), F_OK), 0) << "a constructor ran";
    EXPECT_FALSE(is_loaded(path));
    EXPECT_EQ(judged.it.path, path);
    return judged;
}

// A refusal has its reason, its status, and a text that says `part`.
void expect_refusal(
    const Judged &judged, mbr_reason reason, mbr_status status, const std::string &part)
{
    EXPECT_STREQ(mbr_reason_word(judged.it.reason), mbr_reason_word(reason)) << judged.it.detail;
    EXPECT_EQ(judged.status, status);
    EXPECT_NE(std::string(judged.it.detail).find(part), std::string::npos) << judged.it.detail;
}

TEST(ElfJudge, Good_AllFacts)
{
    Judged judged = judge("specimen_good.so");
    ASSERT_EQ(judged.status, MBR_OK) << judged.it.detail;
    EXPECT_EQ(judged.it.reason, MBR_REASON_USED);
    EXPECT_STREQ(judged.it.detail, "");
    EXPECT_STREQ(judged.it.name, "specimen");
    EXPECT_STREQ(judged.it.note.name, "specimen");
    EXPECT_STREQ(judged.it.note.vendor, "tests");
    EXPECT_EQ(judged.it.note.major, MBR_MAJOR);
    EXPECT_EQ(judged.it.note.minor_min, 0);
    EXPECT_EQ(judged.it.note.minor_max, 0);
    EXPECT_EQ(judged.it.note.flags, 0);
    EXPECT_EQ(judged.it.note.digest, MBR_DIGEST_MINOR_0);
    EXPECT_FALSE(judged.it.note.has_unique_symbol) << judged.it.note.unique_symbol;
}

TEST(ElfJudge, EveryCut_RefusedOrWhole)
{
    Folder folder;
    std::string whole = built_file("specimen_good.so");
    uint64_t needed = 0; // behind it there are only section tables and debug information
    for (unsigned i = 0; i < elf_head(whole).e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(
            &segment, whole.data() + elf_head(whole).e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_LOAD)
            needed = std::max(needed, segment.p_offset + segment.p_filesz);
    }
    ASSERT_GT(needed, 4096u);
    ASSERT_LT(needed, whole.size());
    for (size_t bytes = 0; bytes < whole.size(); bytes += 64) {
        std::string path = folder.put("libmembrane-specimen.so", whole.substr(0, bytes));
        Judged judged(path);
        if (bytes >= needed) {
            ASSERT_EQ(judged.status, MBR_OK) << bytes << ": " << judged.it.detail;
            continue;
        }
        ASSERT_EQ(judged.status, MBR_NOT_A_PLUGIN) << bytes;
        ASSERT_EQ(judged.it.reason, MBR_REASON_NOT_ELF) << bytes << ": " << judged.it.detail;
    }
}

TEST(ElfJudge, EmptyAndNoise_NotElf)
{
    Folder folder;
    expect_refusal(Judged(folder.put("libmembrane-specimen.so", "")), MBR_REASON_NOT_ELF,
        MBR_NOT_A_PLUGIN, "0 bytes are too short");
    std::string noise(10 << 20, '\0');
    uint32_t state = 12345;
    for (char &byte : noise)
        byte = (char)((state = state * 1103515245 + 12345) >> 16);
    expect_refusal(Judged(folder.put("libmembrane-specimen.so", noise)), MBR_REASON_NOT_ELF,
        MBR_NOT_A_PLUGIN, "does not begin like an ELF file");
    // Noise behind a good identification must not be believed either.
    std::string good = built_file("specimen_good.so");
    memcpy(noise.data(), good.data(), 24);
    Judged judged(folder.put("libmembrane-specimen.so", noise));
    EXPECT_NE(judged.status, MBR_OK);
}

TEST(ElfJudge, EveryByteOfHeadersFlipped_NeverCrashes)
{
    Folder folder;
    std::string good = built_file("specimen_good.so");
    size_t headers = sizeof(Elf64_Ehdr) + elf_head(good).e_phnum * sizeof(Elf64_Phdr);
    Elf64_Phdr dynamic = elf_segment(good, PT_DYNAMIC);
    std::vector<size_t> places;
    for (size_t at = 0; at < headers; at++)
        places.push_back(at);
    for (size_t at = 0; at < dynamic.p_filesz; at++)
        places.push_back(dynamic.p_offset + at);
    size_t note = (size_t)((char *)&elf_note(good) - good.data());
    for (size_t at = 0; at < 128; at++)
        places.push_back(note + at);
    unsigned refused = 0;
    for (size_t at : places) {
        for (int value : {0x00, 0x7F, 0xFF}) {
            std::string bytes = good;
            bytes[at] = (char)value;
            Judged judged(folder.put("libmembrane-specimen.so", bytes));
            ASSERT_EQ(judged.status == MBR_OK, judged.it.reason == MBR_REASON_USED);
            ASSERT_EQ(judged.status == MBR_OK, judged.it.detail[0] == '\0');
            refused += judged.status != MBR_OK;
        }
    }
    EXPECT_GT(refused, 300u);
}

TEST(ElfJudge, OtherMachine_Refused)
{
    expect_refusal(judge("specimen_good.so",
                       [](std::string &b) { elf_head(b).e_ident[EI_CLASS] = ELFCLASS32; }),
        MBR_REASON_WRONG_MACHINE, MBR_NOT_A_PLUGIN, "class 1");
    expect_refusal(judge("specimen_good.so",
                       [](std::string &b) { elf_head(b).e_ident[EI_DATA] = ELFDATA2MSB; }),
        MBR_REASON_WRONG_MACHINE, MBR_NOT_A_PLUGIN, "byte order 2");
    expect_refusal(
        judge("specimen_good.so", [](std::string &b) { elf_head(b).e_machine = EM_386; }),
        MBR_REASON_WRONG_MACHINE, MBR_NOT_A_PLUGIN, "machine 3");
}

TEST(ElfJudge, OtherKindOfFile_NotShared)
{
    expect_refusal(judge("specimen_good.so", [](std::string &b) { elf_head(b).e_type = ET_EXEC; }),
        MBR_REASON_NOT_SHARED, MBR_NOT_A_PLUGIN, "type 2");
    expect_refusal(judge("specimen_good.so", [](std::string &b) { elf_head(b).e_type = ET_REL; }),
        MBR_REASON_NOT_SHARED, MBR_NOT_A_PLUGIN, "-shared");
    // This test itself is a position-independent executable, or one of a fixed address.
    Judged self("/proc/self/exe");
    EXPECT_EQ(self.it.reason, MBR_REASON_NOT_SHARED) << self.it.detail;
    expect_refusal(judge("specimen_good.so",
                       [](std::string &b) { elf_segment(b, PT_DYNAMIC).p_type = PT_NULL; }),
        MBR_REASON_NOT_SHARED, MBR_NOT_A_PLUGIN, "no complete dynamic table");
    expect_refusal(judge("specimen_good.so",
                       [](std::string &b) { elf_dynamic(b, DT_SYMTAB).d_tag = DT_DEBUG; }),
        MBR_REASON_NOT_SHARED, MBR_NOT_A_PLUGIN, "no complete dynamic table");
    expect_refusal(
        judge("specimen_good.so", [](std::string &b) { elf_segment(b, PT_DYNAMIC).p_filesz = 64; }),
        MBR_REASON_NOT_SHARED, MBR_NOT_A_PLUGIN, "no complete dynamic table");
}

TEST(ElfJudge, DynamicTableWithoutEnd_ReadUpToTheLimit)
{
    Judged judged = judge("specimen_good.so", [](std::string &b) {
        const uint64_t address = 1 << 20, bytes = 100000 * sizeof(Elf64_Dyn);
        Elf64_Phdr &segment = elf_segment(b, PT_GNU_EH_FRAME);
        segment = {};
        segment.p_type = PT_LOAD;
        segment.p_flags = PF_R;
        segment.p_offset = b.size();
        segment.p_vaddr = address;
        segment.p_filesz = segment.p_memsz = bytes;
        elf_segment(b, PT_DYNAMIC).p_vaddr = address;
        elf_segment(b, PT_DYNAMIC).p_filesz = bytes;
        b.append(bytes, '\x01');
    });
    expect_refusal(judged, MBR_REASON_NOT_SHARED, MBR_NOT_A_PLUGIN, "no complete dynamic table");
}

TEST(ElfJudge, ImpossibleHeaders_NotElf)
{
    const std::vector<std::function<void(std::string &)>> patches = {
        [](std::string &b) { elf_head(b).e_version = 2; },
        [](std::string &b) { elf_head(b).e_phentsize = 32; },
        [](std::string &b) { elf_head(b).e_phnum = 0; },
        [](std::string &b) { elf_head(b).e_phnum = 65; },
        [](std::string &b) { elf_head(b).e_phoff = UINT64_MAX - 8; },
        [](std::string &b) { elf_head(b).e_phoff = b.size(); },
        [](std::string &b) { elf_segment(b, PT_LOAD).p_filesz = UINT64_MAX; },
        [](std::string &b) { elf_segment(b, PT_LOAD).p_offset = UINT64_MAX; },
        [](std::string &b) { elf_segment(b, PT_LOAD).p_vaddr = UINT64_MAX - 16; },
        [](std::string &b) { elf_segment(b, PT_LOAD).p_memsz = 1; },
        [](std::string &b) { elf_segment(b, PT_LOAD, 1).p_offset = b.size(); },
        [](std::string &b) { elf_dynamic(b, DT_STRSZ).d_un.d_val = 1; },
        [](std::string &b) { elf_dynamic(b, DT_STRTAB).d_un.d_val = UINT64_MAX; },
        [](std::string &b) { elf_dynamic(b, DT_NEEDED).d_un.d_val = UINT64_MAX; },
        [](std::string &b) { // the table ends inside of the text
            elf_dynamic(b, DT_STRSZ).d_un.d_val = elf_dynamic(b, DT_NEEDED).d_un.d_val + 3;
        },
    };
    for (size_t i = 0; i < patches.size(); i++) {
        Judged judged = judge("specimen_good.so", patches[i]);
        EXPECT_EQ(judged.it.reason, MBR_REASON_NOT_ELF) << i << ": " << judged.it.detail;
        EXPECT_EQ(judged.status, MBR_NOT_A_PLUGIN) << i;
    }
}

TEST(ElfJudge, ExecutableStack_Refused)
{
    expect_refusal(
        judge("specimen_exec_stack.so"), MBR_REASON_EXEC_STACK, MBR_NOT_A_PLUGIN, "noexecstack");
    expect_refusal(judge("specimen_good.so",
                       [](std::string &b) { elf_segment(b, PT_GNU_STACK).p_type = PT_NULL; }),
        MBR_REASON_EXEC_STACK, MBR_NOT_A_PLUGIN, "no PT_GNU_STACK");
}

TEST(ElfJudge, TextRelocations_Refused)
{
    expect_refusal(judge("specimen_good.so",
                       [](std::string &b) { elf_dynamic(b, DT_RELACOUNT).d_tag = DT_TEXTREL; }),
        MBR_REASON_TEXT_RELOCATIONS, MBR_NOT_A_PLUGIN, "-fPIC");
    expect_refusal(judge("specimen_good.so",
                       [](std::string &b) {
                           Elf64_Dyn &entry = elf_has_dynamic(b, DT_FLAGS)
                               ? elf_dynamic(b, DT_FLAGS)
                               : elf_dynamic(b, DT_RELACOUNT);
                           entry.d_tag = DT_FLAGS;
                           entry.d_un.d_val = DF_TEXTREL;
                       }),
        MBR_REASON_TEXT_RELOCATIONS, MBR_NOT_A_PLUGIN, "DT_TEXTREL");
}

TEST(ElfJudge, SearchPaths_OnlyFixedOnes)
{
    expect_refusal(judge("specimen_relative_rpath.so"), MBR_REASON_RELATIVE_RPATH, MBR_NOT_A_PLUGIN,
        "relative element \"lib\"");
    expect_refusal(judge("specimen_empty_rpath.so"), MBR_REASON_RELATIVE_RPATH, MBR_NOT_A_PLUGIN,
        "empty element");
    EXPECT_EQ(judge("specimen_origin_rpath.so").status, MBR_OK);
    const std::vector<std::pair<std::string, bool>> paths = {
        {"$ORIGIN", true},
        {"${ORIGIN}/x", true},
        {"${ORIGIN}:/usr/lib", true},
        {"$ORIGINAL", false},
        {"$LIB", false},
        {":/usr/lib", false},
        {"/usr/lib:", false},
        {"", false},
        {".", false},
        {"/usr/lib:../lib", false},
    };
    const std::string old = "$ORIGIN/../lib:/usr/lib";
    for (auto &[path, is_good] : paths) {
        Judged judged = judge("specimen_origin_rpath.so", [&, p = path](std::string &b) {
            replace_text(b, old, p + std::string(old.size() - p.size(), '\0'));
        });
        EXPECT_EQ(judged.status == MBR_OK, is_good) << path << ": " << judged.it.detail;
        if (!is_good) {
            EXPECT_EQ(judged.it.reason, MBR_REASON_RELATIVE_RPATH) << path;
        }
    }
}

TEST(ElfJudge, NeededByRelativePath_Refused)
{
    expect_refusal(judge("specimen_good.so",
                       [](std::string &b) { replace_text(b, "libc.so.6", "./bc.so.6"); }),
        MBR_REASON_RELATIVE_RPATH, MBR_NOT_A_PLUGIN, "./bc.so.6");
    expect_refusal(judge("specimen_good.so",
                       [](std::string &b) { replace_text(b, "libc.so.6", "li/c.so.6"); }),
        MBR_REASON_RELATIVE_RPATH, MBR_NOT_A_PLUGIN, "li/c.so.6");
    EXPECT_EQ(
        judge("specimen_good.so", [](std::string &b) { replace_text(b, "libc.so.6", "/lc.so.66"); })
            .status,
        MBR_OK);
}

TEST(ElfJudge, EveryKindOfLibraryPath_Judged)
{
    for (int64_t tag : {DT_NEEDED, DT_FILTER, DT_AUXILIARY, DT_AUDIT, DT_DEPAUDIT}) {
        Judged judged = judge("specimen_good.so", [tag](std::string &b) {
            elf_dynamic(b, DT_NEEDED).d_tag = tag;
            replace_text(b, "libc.so.6", "./bc.so.6");
        });
        EXPECT_EQ(judged.it.reason, MBR_REASON_RELATIVE_RPATH) << tag << judged.it.detail;
    }
    int64_t old = 0;
    Judged judged = judge("specimen_relative_rpath.so", [&](std::string &b) {
        old = elf_has_dynamic(b, DT_RUNPATH) ? DT_RUNPATH : DT_RPATH;
        elf_dynamic(b, old).d_tag = old == DT_RUNPATH ? DT_RPATH : DT_RUNPATH;
    });
    EXPECT_EQ(judged.it.reason, MBR_REASON_RELATIVE_RPATH) << old;
}

TEST(ElfJudge, VeryLongSearchPath_DetailIsCut)
{
    Judged judged = judge("specimen_good.so", [](std::string &b) {
        // The longest text of the string table, taken for a search path.
        elf_dynamic(b, DT_NEEDED).d_tag = DT_RUNPATH;
        uint64_t table = elf_dynamic(b, DT_STRTAB).d_un.d_val;
        uint64_t bytes = elf_dynamic(b, DT_STRSZ).d_un.d_val;
        elf_dynamic(b, DT_RUNPATH).d_un.d_val = 0;
        memset(elf_at(b, table), 'x', bytes - 1);
        ASSERT_GT(bytes, 300u);
    });
    EXPECT_EQ(judged.it.reason, MBR_REASON_RELATIVE_RPATH);
    EXPECT_EQ(strlen(judged.it.detail), sizeof judged.it.detail - 1);
}

TEST(ElfJudge, Pins_FlaggedAndNamed)
{
    Judged tls = judge("specimen_tls.so");
    EXPECT_TRUE(tls.it.note.has_tls);
    EXPECT_FALSE(tls.it.note.has_static_tls);
    Judged fixed = judge("specimen_static_tls.so");
    EXPECT_TRUE(fixed.it.note.has_static_tls);
    Judged unique = judge("specimen_unique.so");
    EXPECT_EQ(unique.status, MBR_OK);
    EXPECT_TRUE(unique.it.note.has_unique_symbol);
    EXPECT_STREQ(unique.it.note.unique_symbol, "specimen_unique");
    EXPECT_FALSE(judge("specimen_sysv_hash.so").it.note.has_unique_symbol);
    EXPECT_TRUE(judge("specimen_key.so").it.note.has_thread_key);
    EXPECT_FALSE(judge("specimen_key.so").it.note.has_unique_symbol);
    EXPECT_FALSE(judge("specimen_good.so").it.note.has_thread_key);
}

// A symbol table that cannot be read within bounds counts as pinned, never as free to go.
TEST(ElfJudge, SymbolTableUnreadable_Pinned)
{
    const std::vector<std::function<void(std::string &)>> patches = {
        [](std::string &b) { elf_dynamic(b, DT_GNU_HASH).d_un.d_val = UINT64_MAX; },
        [](std::string &b) { // no hash table at all; clang writes both kinds
            elf_dynamic(b, DT_GNU_HASH).d_un.d_val = 0;
            if (elf_has_dynamic(b, DT_HASH))
                elf_dynamic(b, DT_HASH).d_un.d_val = 0;
        },
        [](std::string &b) { elf_dynamic(b, DT_SYMTAB).d_un.d_val = UINT64_MAX - 64; },
        [](std::string &b) { // more buckets than the limit
            *(uint32_t *)elf_at(b, elf_dynamic(b, DT_GNU_HASH).d_un.d_val) = UINT32_MAX;
        },
        [](std::string &b) { // a chain that runs out of the file
            uint32_t *head = (uint32_t *)elf_at(b, elf_dynamic(b, DT_GNU_HASH).d_un.d_val);
            head[4 + 2 * head[2]] = 0x00FFFFFF;
        },
    };
    for (size_t i = 0; i < patches.size(); i++) {
        Judged judged = judge("specimen_unloadable.so", patches[i]);
        EXPECT_EQ(judged.status, MBR_OK) << i << judged.it.detail;
        EXPECT_TRUE(judged.it.note.has_unique_symbol) << i;
        EXPECT_STREQ(judged.it.note.unique_symbol, "(symbol table not readable)") << i;
    }
    // The older kind of hash table states the number of symbols itself.
    const std::vector<std::function<void(std::string &)>> older = {
        [](std::string &b) { elf_dynamic(b, DT_HASH).d_un.d_val = UINT64_MAX; },
        [](std::string &b) {
            ((uint32_t *)elf_at(b, elf_dynamic(b, DT_HASH).d_un.d_val))[1] = UINT32_MAX;
        },
    };
    for (size_t i = 0; i < older.size(); i++)
        EXPECT_TRUE(judge("specimen_sysv_hash.so", older[i]).it.note.has_unique_symbol) << i;
}

TEST(ElfJudge, HashTableWithoutSymbols_CountIsItsFirst)
{
    auto set_first = [](uint32_t first) {
        return [first](std::string &b) {
            ((uint32_t *)elf_at(b, elf_dynamic(b, DT_GNU_HASH).d_un.d_val))[1] = first;
        };
    };
    EXPECT_TRUE(judge("specimen_good.so", set_first(UINT32_MAX)).it.note.has_unique_symbol);
    EXPECT_TRUE(judge("specimen_good.so", set_first(60000)).it.note.has_unique_symbol)
        << "more symbols than the file has";
    Judged judged = judge("specimen_unique.so", [](std::string &b) {
        uint64_t *symbols = (uint64_t *)elf_at(b, elf_dynamic(b, DT_SYMTAB).d_un.d_val);
        (void)symbols;
        uint32_t *head = (uint32_t *)elf_at(b, elf_dynamic(b, DT_GNU_HASH).d_un.d_val);
        for (uint32_t bucket = 0; bucket < head[0]; bucket++)
            head[4 + 2 * head[2] + bucket] = 0;
    });
    EXPECT_FALSE(judged.it.note.has_unique_symbol)
        << "only undefined symbols stand before the first";
}

TEST(ElfJudge, UniqueSymbolWithoutName_Pinned)
{
    Judged judged = judge("specimen_unique.so", [](std::string &b) {
        Elf64_Sym *symbol = (Elf64_Sym *)elf_at(b, elf_dynamic(b, DT_SYMTAB).d_un.d_val);
        while (ELF64_ST_BIND(symbol->st_info) != STB_GNU_UNIQUE)
            symbol++;
        symbol->st_name = UINT32_MAX;
    });
    EXPECT_TRUE(judged.it.note.has_unique_symbol);
    EXPECT_STREQ(judged.it.note.unique_symbol, "(symbol table not readable)");
}

TEST(NoteJudge, Missing_SaysHowToBuildOne)
{
    expect_refusal(judge("plain.so"), MBR_REASON_NO_NOTE, MBR_NOT_A_PLUGIN, "MBR_PLUGIN_NOTE");
    expect_refusal(
        judge("specimen_no_note.so"), MBR_REASON_NO_NOTE, MBR_NOT_A_PLUGIN, "membrane new-plugin");
    expect_refusal(
        judge("specimen_good.so", [](std::string &b) { replace_text(b, "Membrane", "Membrani"); }),
        MBR_REASON_NO_NOTE, MBR_NOT_A_PLUGIN, "no Membrane note");
    expect_refusal(judge("specimen_good.so", [](std::string &b) { elf_note(b).n_type = 2; }),
        MBR_REASON_NO_NOTE, MBR_NOT_A_PLUGIN, "no Membrane note");
}

TEST(NoteJudge, Malformed_BadNote)
{
    const std::vector<std::pair<std::string, std::function<void(std::string &)>>> patches = {
        {"80", [](std::string &b) { elf_note(b).n_descsz = 72; }},
        {"71 bytes", [](std::string &b) { elf_note(b).n_descsz = 71; }},
        {"impossible lengths", [](std::string &b) { elf_note(b).n_descsz = UINT32_MAX; }},
        {"impossible lengths", [](std::string &b) { elf_note(b).n_descsz = 1; }},
        {"with minors up to 1", [](std::string &b) { elf_note_head(b).minor_max = 1; }},
        {"from 1 down to 0", [](std::string &b) { elf_note_head(b).minor_min = 1; }},
        {"flags 0x80", [](std::string &b) { elf_note_head(b).flags = 0x81; }},
        {"\"Specimen\"", [](std::string &b) { elf_note_head(b).name[0] = 'S'; }},
        {"\"\"", [](std::string &b) { elf_note_head(b).name[0] = '\0'; }},
        {"not 1 to 31", [](std::string &b) { memset(elf_note_head(b).name, 'a', 32); }},
        {"vendor", [](std::string &b) { memset(elf_note_head(b).vendor, 'a', 32); }},
        {"vendor", [](std::string &b) { elf_note_head(b).vendor[1] = '\x1b'; }},
    };
    for (size_t i = 0; i < patches.size(); i++) {
        SCOPED_TRACE(i);
        expect_refusal(judge("specimen_good.so", patches[i].second), MBR_REASON_BAD_NOTE,
            MBR_NOT_A_PLUGIN, patches[i].first);
    }
    expect_refusal(
        judge("specimen_two_notes.so"), MBR_REASON_BAD_NOTE, MBR_NOT_A_PLUGIN, "2 notes");
    expect_refusal(
        judge("specimen_unknown_flag.so"), MBR_REASON_BAD_NOTE, MBR_NOT_A_PLUGIN, "0x40");
}

TEST(NoteJudge, ForeignNoteDamaged_OursBeforeItCounts)
{
    Judged judged = judge("specimen_good.so", [](std::string &b) {
        size_t owner = b.find(std::string("GNU\0", 4));
        ASSERT_NE(owner, std::string::npos);
        ((Elf64_Nhdr *)(b.data() + owner - sizeof(Elf64_Nhdr)))->n_namesz = 0xFFFFFF00;
    });
    EXPECT_EQ(judged.status, MBR_OK) << judged.it.detail;
}

TEST(NoteJudge, SegmentAlignedTo8_Read)
{
    Judged judged =
        judge("specimen_good.so", [](std::string &b) { elf_segment(b, PT_NOTE).p_align = 8; });
    EXPECT_EQ(judged.status, MBR_OK) << judged.it.detail;
    judged = judge(
        "specimen_good.so", [](std::string &b) { elf_segment(b, PT_NOTE).p_vaddr = UINT64_MAX; });
    EXPECT_EQ(judged.it.reason, MBR_REASON_BAD_NOTE) << judged.it.detail;
}

TEST(NoteJudge, OptionalFlagUnknown_Ignored)
{
    Judged judged = judge("specimen_optional_flag.so");
    EXPECT_EQ(judged.status, MBR_OK) << judged.it.detail;
    EXPECT_EQ(judged.it.note.flags, 256);
}

TEST(NoteJudge, Majors_OwnIsChosen)
{
    expect_refusal(judge("specimen_good.so", [](std::string &b) { elf_note_head(b).major = 2; }),
        MBR_REASON_OTHER_MAJOR, MBR_VERSION_MISMATCH, "major 2");
    EXPECT_EQ(judge("specimen_two_majors.so").status, MBR_OK);
}

TEST(NoteJudge, Minors_BothRangesInText)
{
    Judged judged = judge("specimen_minors_1_2.so");
    expect_refusal(judged, MBR_REASON_NO_COMMON_MINOR, MBR_VERSION_MISMATCH, "minors 1 to 2");
    EXPECT_NE(std::string(judged.it.detail).find("host 0 to 0"), std::string::npos);
    Judged wider = judge("specimen_minors_0_2.so");
    EXPECT_EQ(wider.status, MBR_OK) << wider.it.detail;
    EXPECT_EQ(wider.it.note.digest, MBR_DIGEST_MINOR_0);
    EXPECT_EQ(wider.it.note.minor_max, 2);
}

TEST(NoteJudge, DigestPatched_BothInText)
{
    Judged judged = judge("specimen_good.so",
        [](std::string &b) { *((char *)&elf_note_head(b) + sizeof(mbr_note_head)) ^= 1; });
    char published[32], other[32];
    snprintf(published, sizeof published, "%016lx", (unsigned long)MBR_DIGEST_MINOR_0);
    snprintf(other, sizeof other, "%016lx", (unsigned long)(MBR_DIGEST_MINOR_0 ^ 1));
    expect_refusal(judged, MBR_REASON_DIGEST, MBR_VERSION_MISMATCH, published);
    EXPECT_NE(std::string(judged.it.detail).find(other), std::string::npos);
}

TEST(NoteJudge, NameOfFile_MustBeTheNotes)
{
    expect_refusal(judge("specimen_other.so"), MBR_REASON_NAME_MISMATCH, MBR_NOT_A_PLUGIN,
        "libmembrane-other.so");
    // A path may be called anything; then the note names the plugin.
    Judged judged = judge("specimen_other.so", nullptr, "anything.so");
    EXPECT_EQ(judged.status, MBR_OK) << judged.it.detail;
    EXPECT_STREQ(judged.it.name, "other");
    judged = judge("specimen_other.so", nullptr, "libmembrane-other.so.1");
    EXPECT_EQ(judged.status, MBR_OK) << judged.it.detail;
    judged = judge("specimen_other.so", nullptr, "libmembrane-Other.so");
    EXPECT_EQ(judged.status, MBR_OK) << judged.it.detail;
}

TEST(Reason, Words_DistinctAndBounded)
{
    std::vector<std::string> words;
    for (int reason = 0; reason < MBR_REASON_COUNT; reason++) {
        std::string word = mbr_reason_word((mbr_reason)reason);
        EXPECT_FALSE(word.empty());
        EXPECT_EQ(std::count(words.begin(), words.end(), word), 0) << word;
        words.push_back(word);
    }
    EXPECT_STREQ(mbr_reason_word(MBR_REASON_COUNT), "unknown");
}

TEST(Reason, LongDetailAndPath_CutBetweenCharacters)
{
    std::string long_text;
    for (int i = 0; i < 400; i++)
        long_text += "€";
    for (size_t pad = 0; pad < 3; pad++) {
        mbr_candidate candidate = {};
        std::string text = long_text + std::string(pad, 'a') + "/ä";
        EXPECT_EQ(mbr_candidate_refuse(&candidate, MBR_REASON_NOT_ELF, "%s", text.c_str()),
            MBR_NOT_A_PLUGIN);
        size_t length = strlen(candidate.detail);
        EXPECT_GE(length, sizeof candidate.detail - 4);
        EXPECT_NE((unsigned char)text[length] & 0xC0, 0x80);
        strcpy(candidate.detail, "why");
        mbr_text_copy(candidate.path, text.c_str(), sizeof candidate.path);
        EXPECT_EQ(candidate.path, text);
        Error error;
        mbr_candidate_error(&candidate, MBR_NOT_A_PLUGIN, &error);
        EXPECT_EQ(std::string(error.text).rfind("…€", 0), 0u) << error.text;
        EXPECT_NE(std::string(error.text).find("/ä: not-elf: why"), std::string::npos);
        char cut[8];
        mbr_text_copy(cut, long_text.c_str(), sizeof cut);
        EXPECT_STREQ(cut, "€€");
    }
}

} // namespace
