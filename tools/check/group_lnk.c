/* Group LNK: the file, before anything of it runs. Loads no plugin; the check of undefined symbols
 * loads the libraries that the plugin names. */
#include "tools/check/elf_file.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mbr_elf_file file; /* of this child's one check */

static void run_readable(mbr_trial *trial)
{
    mbr_elf_file_read_any(trial, &file);
    MBR_EXPECT(trial, mbr_elf_file_is_whole(&file),
        "a dynamic table with symbols, their names and a hash table",
        "%u entries, %lu symbols, %lu bytes of names", file.dynamic_count, file.symbol_count,
        file.strings_bytes);
}

/* ---- The note -------------------------------------------------------------------------------- */

static void run_note_is_there(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    MBR_EXPECT(trial, file.note_count > 0,
        "a note of owner " MBR_NOTE_OWNER " in a PT_NOTE segment; write MBR_PLUGIN_NOTE once",
        "none in %u segments", file.segment_count);
}

static void run_note_is_once(mbr_trial *trial)
{
    uint32_t own_count = 0;
    mbr_elf_file_read(trial, &file);
    for (uint32_t i = 0; i < file.note_count; i++) {
        uint16_t major = 0;
        if (file.notes[i].byte_count >= sizeof major)
            memcpy(&major, file.notes[i].bytes, sizeof major);
        own_count += major == MBR_MAJOR;
    }
    MBR_EXPECT(trial, own_count < 2, "at most one note for each major", "%u of major %d", own_count,
        MBR_MAJOR);
}

static void run_note_length(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    MBR_NEED(
        trial, head.minor_min <= head.minor_max, "minors %u to %u", head.minor_min, head.minor_max);
    uint64_t wanted = sizeof head + (head.minor_max + UINT64_C(1)) * sizeof(mbr_note_digest);
    MBR_EXPECT(trial, file.notes[0].byte_count == wanted,
        "the note holds its head and one digest for each minor from 0",
        "%lu bytes, with minors up to %u it has %lu", file.notes[0].byte_count, head.minor_max,
        wanted);
}

static void run_note_major(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    MBR_EXPECT(trial, head.major == MBR_MAJOR, "the note's major is that of the headers",
        "%u, this tool knows %d", head.major, MBR_MAJOR);
}

static void run_note_minors(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    MBR_EXPECT(trial, head.minor_min <= head.minor_max, "the note's minors run upwards", "%u to %u",
        head.minor_min, head.minor_max);
}

static void run_note_digest(mbr_trial *trial)
{
    mbr_note_digest digest = {0};
    mbr_elf_file_read(trial, &file);
    mbr_elf_file_note(trial, &file);
    uint64_t whole = sizeof(mbr_note_head) + sizeof digest;
    MBR_NEED(trial, file.notes[0].byte_count >= whole, "no digest");
    memcpy(&digest, file.notes[0].bytes + sizeof(mbr_note_head), sizeof digest);
    uint64_t value = ((uint64_t)digest.high << 32) | digest.low;
    MBR_EXPECT(trial, value == MBR_DIGEST_MINOR_0,
        "the digest of minor 0 is that of the published headers",
        "0x%016lx, published 0x%016lx: built with changed headers", value, MBR_DIGEST_MINOR_0);
}

static void run_note_flags(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    uint32_t unknown = head.flags & 0xFFu & ~(unsigned)(MBR_NOTE_UNLOADABLE | MBR_NOTE_FORK_SAFE);
    MBR_EXPECT(trial, unknown == 0, "no critical flag of the note that minor 0 does not define",
        "0x%x", unknown);
}

static void run_note_name(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    MBR_EXPECT(trial, mbr_elf_note_has_name(&head),
        "the note's name is 1 to 31 of [a-z0-9-], terminated", "'%.*s'",
        (int)strnlen(head.name, sizeof head.name), head.name);
}

static void run_file_name(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    MBR_NEED(trial, mbr_elf_note_has_name(&head), "the note's name is none");
    char wanted[sizeof "libmembrane-.so" + MBR_NOTE_NAME_BYTES];
    const char *slash = strrchr(trial->page->path, '/');
    const char *own = slash == NULL ? trial->page->path : slash + 1;
    snprintf(wanted, sizeof wanted, "libmembrane-%s.so", head.name);
    MBR_EXPECT(trial, strcmp(own, wanted) == 0,
        "the file is called libmembrane-NAME.so as its note", "%s, the note wants %s", own, wanted);
}

static void run_note_vendor(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    uint64_t length = strnlen(head.vendor, sizeof head.vendor);
    bool is_good = length > 0 && length < sizeof head.vendor;
    for (uint64_t i = 0; i < length; i++)
        is_good &= (unsigned char)head.vendor[i] >= 0x20 && head.vendor[i] != 0x7F;
    MBR_EXPECT(trial, is_good, "the note's vendor is a printable text, terminated, not empty",
        "%lu bytes without an end or with control characters", length);
}

/* ---- Symbols --------------------------------------------------------------------------------- */

static bool is_entry_name(const char *name)
{
    const char *prefix = "membrane_plugin_v";
    return name != NULL && strncmp(name, prefix, strlen(prefix)) == 0;
}

static void run_entry_is_function(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    for (uint64_t i = 0; i < file.symbol_count; i++) {
        Elf64_Sym symbol;
        if (!mbr_elf_file_symbol(&file, i, &symbol) || symbol.st_shndx == SHN_UNDEF)
            continue;
        const char *name = mbr_elf_file_string(&file, symbol.st_name);
        if (name != NULL && strcmp(name, MBR_ENTRY_SYMBOL) == 0) {
            MBR_EXPECT(trial, ELF64_ST_TYPE(symbol.st_info) == STT_FUNC,
                "the symbol " MBR_ENTRY_SYMBOL " is a function", "its type is %d",
                ELF64_ST_TYPE(symbol.st_info));
            return;
        }
    }
    MBR_NEED(trial, false, "no symbol " MBR_ENTRY_SYMBOL " among %lu", file.symbol_count);
}

/* What the linker adds of its own (_end, _edata) has no type. */
static void run_no_other_export(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    for (uint64_t i = 0; i < file.symbol_count; i++) {
        Elf64_Sym symbol;
        if (!mbr_elf_file_symbol(&file, i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
            symbol.st_shndx == SHN_ABS || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
            ELF64_ST_TYPE(symbol.st_info) == STT_NOTYPE ||
            ELF64_ST_VISIBILITY(symbol.st_other) != STV_DEFAULT)
            continue;
        const char *name = mbr_elf_file_string(&file, symbol.st_name);
        MBR_EXPECT(trial, is_entry_name(name), "nothing but membrane_plugin_v… is exported",
            "'%.100s'", name == NULL ? "(no name)" : name);
    }
}

#define NEEDED_MAX 64

static uint32_t open_needed(mbr_trial *trial, void **libraries)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < file.dynamic_count && count < NEEDED_MAX; i++) {
        if (file.dynamic[i].d_tag != DT_NEEDED)
            continue;
        const char *name = mbr_elf_file_string(&file, file.dynamic[i].d_un.d_val);
        libraries[count] = name == NULL ? NULL : dlopen(name, RTLD_LAZY | RTLD_LOCAL);
        /* Found through the file's own search path perhaps: the loader's matter, not this one's. */
        MBR_NEED(trial, libraries[count] != NULL, "%s", dlerror());
        count++;
    }
    return count;
}

static bool is_provided(void *const *libraries, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (dlsym(libraries[i], name) != NULL)
            return true;
    return false;
}

/* A compiler's sanitizer runtime is the host program's to bring. */
static bool is_sanitizer(const char *name)
{
    static const char *const prefixes[] = {
        "__asan_", "__tsan_", "__ubsan_", "__msan_", "__sanitizer_", "__lsan_", "__sancov_"};
    for (uint32_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void run_undefined(mbr_trial *trial)
{
    void *libraries[NEEDED_MAX];
    mbr_elf_file_read(trial, &file);
    uint32_t count = open_needed(trial, libraries);
    for (uint64_t i = 1; i < file.symbol_count; i++) {
        Elf64_Sym symbol;
        if (!mbr_elf_file_symbol(&file, i, &symbol) || symbol.st_shndx != SHN_UNDEF ||
            ELF64_ST_BIND(symbol.st_info) == STB_WEAK)
            continue;
        const char *name = mbr_elf_file_string(&file, symbol.st_name);
        MBR_EXPECT(trial,
            name != NULL && (is_sanitizer(name) || is_provided(libraries, count, name)),
            "every undefined symbol is in a library that the file names as needed",
            "'%.100s' is in none of %u; link with -Wl,--no-undefined",
            name == NULL ? "(no name)" : name, count);
    }
}

static void run_no_unique(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    for (uint64_t i = 0; i < file.symbol_count && (head.flags & MBR_NOTE_UNLOADABLE) != 0; i++) {
        Elf64_Sym symbol;
        bool is_unique = mbr_elf_file_symbol(&file, i, &symbol) &&
            ELF64_ST_BIND(symbol.st_info) == STB_GNU_UNIQUE;
        const char *name = is_unique ? mbr_elf_file_string(&file, symbol.st_name) : NULL;
        MBR_EXPECT(trial, !is_unique, "a file that may be unloaded has no unique symbol",
            "'%.100s' keeps it mapped for good", name == NULL ? "(no name)" : name);
    }
}

/* ---- Segments and dynamic table -------------------------------------------------------------- */

static void run_stack(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    for (uint32_t i = 0; i < file.segment_count; i++)
        if (file.segments[i].p_type == PT_GNU_STACK) {
            MBR_EXPECT(trial, (file.segments[i].p_flags & PF_X) == 0, "the stack is not executable",
                "PT_GNU_STACK asks for it; link with -Wl,-z,noexecstack");
            return;
        }
    mbr_trial_fail(trial, "the file says that it needs no executable stack",
        "no PT_GNU_STACK, which makes every stack executable");
}

static void run_write_or_execute(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    for (uint32_t i = 0; i < file.segment_count; i++)
        MBR_EXPECT(trial,
            file.segments[i].p_type != PT_LOAD ||
                (file.segments[i].p_flags & (PF_W | PF_X)) != (PF_W | PF_X),
            "no segment is writable and executable", "segment %u at 0x%lx is", i,
            file.segments[i].p_vaddr);
}

static void run_no_text_relocations(mbr_trial *trial)
{
    uint64_t value = 0, flags = 0;
    mbr_elf_file_read(trial, &file);
    bool has_tag = mbr_elf_file_dynamic(&file, DT_TEXTREL, &value);
    mbr_elf_file_dynamic(&file, DT_FLAGS, &flags);
    MBR_EXPECT(trial, !has_tag && (flags & DF_TEXTREL) == 0, "no relocation in code",
        "the dynamic table has text relocations; compile with -fPIC");
}

static bool is_fixed(const char *path, uint64_t length)
{
    static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
    if (length > 0 && path[0] == '/')
        return true;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t own = strlen(origins[i]);
        if (length >= own && strncmp(path, origins[i], own) == 0 &&
            (length == own || path[own] == '/'))
            return true;
    }
    return false;
}

static void run_search_path(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    for (uint32_t i = 0; i < file.dynamic_count; i++) {
        if (file.dynamic[i].d_tag != DT_RPATH && file.dynamic[i].d_tag != DT_RUNPATH)
            continue;
        const char *path = mbr_elf_file_string(&file, file.dynamic[i].d_un.d_val);
        MBR_EXPECT(trial, path != NULL, "the search path is a string of the file", "it is not");
        for (const char *element = path;; element++) {
            uint64_t length = strcspn(element, ":");
            MBR_EXPECT(trial, is_fixed(element, length),
                "every element of the library search path is absolute or begins with $ORIGIN",
                "'%.*s' of '%.100s'", (int)length, element, path);
            element += length;
            if (*element == '\0')
                break;
        }
    }
}

static void run_needed_names(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    for (uint32_t i = 0; i < file.dynamic_count; i++) {
        if (file.dynamic[i].d_tag != DT_NEEDED)
            continue;
        const char *name = mbr_elf_file_string(&file, file.dynamic[i].d_un.d_val);
        MBR_EXPECT(trial,
            name != NULL && (strchr(name, '/') == NULL || is_fixed(name, strlen(name))),
            "a needed library is named without a path, or with a fixed one", "'%.100s'",
            name == NULL ? "(no name)" : name);
    }
}

static void run_no_host_library(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    for (uint32_t i = 0; i < file.dynamic_count; i++) {
        const char *name = file.dynamic[i].d_tag == DT_NEEDED
            ? mbr_elf_file_string(&file, file.dynamic[i].d_un.d_val)
            : NULL;
        MBR_EXPECT(trial, name == NULL || strncmp(name, "libmembrane", 11) != 0,
            "a plugin needs neither the host's library nor another plugin", "it needs '%.100s'",
            name);
    }
}

static void run_no_filter(mbr_trial *trial)
{
    static const int64_t tags[] = {DT_AUDIT, DT_DEPAUDIT, DT_FILTER, DT_AUXILIARY};
    mbr_elf_file_read(trial, &file);
    for (uint32_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        uint64_t value;
        MBR_EXPECT(trial, !mbr_elf_file_dynamic(&file, tags[i], &value),
            "no auditor, no filter: the file's symbols are its own", "dynamic tag 0x%lx",
            (uint64_t)tags[i]);
    }
}

static void run_soname(mbr_trial *trial)
{
    uint64_t value;
    mbr_elf_file_read(trial, &file);
    if (!mbr_elf_file_dynamic(&file, DT_SONAME, &value))
        return;
    const char *name = mbr_elf_file_string(&file, value);
    const char *slash = strrchr(trial->page->path, '/');
    const char *own = slash == NULL ? trial->page->path : slash + 1;
    MBR_EXPECT(trial, name != NULL && strcmp(name, own) == 0,
        "the file has no soname, or its own name", "'%.100s'", name == NULL ? "(none)" : name);
}

static uint64_t flags_of(int64_t tag)
{
    uint64_t value = 0;
    mbr_elf_file_dynamic(&file, tag, &value);
    return value;
}

static void run_static_tls(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    MBR_EXPECT(trial,
        (head.flags & MBR_NOTE_UNLOADABLE) == 0 || (flags_of(DT_FLAGS) & DF_STATIC_TLS) == 0,
        "a file that may be unloaded has no static thread-local storage", "DF_STATIC_TLS is set");
}

static void run_can_be_deleted(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    MBR_EXPECT(trial, (flags_of(DT_FLAGS_1) & DF_1_NODELETE) == 0,
        "whether a plugin stays mapped is its host's decision",
        "DF_1_NODELETE is set; link without -z nodelete");
}

static void run_stays_local(mbr_trial *trial)
{
    mbr_elf_file_read(trial, &file);
    uint64_t flags = flags_of(DT_FLAGS_1) & (DF_1_GLOBAL | DF_1_INTERPOSE | DF_1_INITFIRST);
    MBR_EXPECT(trial, flags == 0, "no flag puts the file before other libraries",
        "DT_FLAGS_1 has 0x%lx of GLOBAL, INITFIRST, INTERPOSE", flags);
}

static void run_mode(mbr_trial *trial)
{
    struct stat facts;
    if (stat(trial->page->path, &facts) != 0)
        mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "stat fails");
    MBR_EXPECT(trial, (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0,
        "nobody but its owner may write the file", "its mode is 0%o", facts.st_mode & 07777u);
}

static void run_whole(mbr_trial *trial)
{
    GElf_Ehdr head;
    mbr_elf_file_read(trial, &file);
    MBR_NEED(trial, gelf_getehdr(file.elf, &head) != NULL, "no header");
    uint64_t end = head.e_shoff == 0 ? 0 : head.e_shoff + head.e_shnum * UINT64_C(64);
    MBR_EXPECT(trial, end <= file.byte_count, "the file is as long as its headers say",
        "%lu bytes, its section table ends at %lu: it was cut off", file.byte_count, end);
}

#define LNK(number, rules, title, why, run)                                                        \
    {                                                                                              \
        "LNK-" number, 1, MBR_STAGE_FILE, 0, rules, title, why, run, 0, 0                          \
    }

static const mbr_check checks[] = {
    LNK("001", "C29", "the dynamic table, symbols, names and a hash table can be read",
        "A host judges a file by its program headers before it loads it; what cannot be read there "
        "is refused.",
        run_readable),
    LNK("002", "C20, C29", "the file carries Membrane's note",
        "Without the note a host does not know that the file is a plugin, and refuses it before "
        "any "
        "of its code runs.",
        run_note_is_there),
    LNK("003", "C20", "there is one note for major 1",
        "Two notes may contradict each other: nobody knows which is meant.", run_note_is_once),
    LNK("004", "C20", "the note's length is that of its head and digests",
        "A host reads the digest of the agreed minor behind the head; a short note is read beyond "
        "its "
        "end.",
        run_note_length),
    LNK("005", "C16, C20", "the note's major is 1",
        "A host of major 1 does not call a plugin whose note is of another major only.",
        run_note_major),
    LNK("006", "C17, C20", "the note's range of minors is not empty",
        "No minor can be agreed on in an empty range.", run_note_minors),
    LNK("007", "C20", "the note's digest of minor 0 is the published one",
        "The digest covers every struct, slot and constant: another one means that the headers "
        "were "
        "changed by hand, and that the two sides disagree on offsets.",
        run_note_digest),
    LNK("008", "C15, C20", "the note has no unknown critical flag",
        "A critical flag changes what a host must do; one that is not known is refused.",
        run_note_flags),
    LNK("009", "C20, C28", "the note's name is a plugin's name",
        "The name is part of a file name and of messages: short, lower case, no separator.",
        run_note_name),
    LNK("010", "C20, C28", "the file is called as its note says",
        "A search by name finds the file by its name and the plugin by its note; two names would "
        "be "
        "two plugins.",
        run_file_name),
    LNK("011", "C20", "the note's vendor is a terminated text",
        "It is printed where plugins are listed, before the file is trusted.", run_note_vendor),
    LNK("012", "C16", "the entry is a function",
        "A symbol of another type is data, and calling it is undefined.", run_entry_is_function),
    LNK("013", "C16", "nothing but entries is exported",
        "A further exported symbol may take the place of another library's, or lose its own to it.",
        run_no_other_export),
    LNK("014", "C31", "every undefined symbol is in a needed library",
        "What the file does not name is found by luck, in whatever the program happens to have "
        "loaded.",
        run_undefined),
    LNK("015", "C29", "no unique symbol if it may be unloaded",
        "A unique symbol pins the file in the process: its note would promise what cannot be kept.",
        run_no_unique),
    LNK("016", "C29", "no executable stack",
        "Loading such a file makes the stacks of the whole process executable.", run_stack),
    LNK("017", "C29", "no segment is writable and executable",
        "Code that can be written over is what an attacker looks for.", run_write_or_execute),
    LNK("018", "C29", "no text relocations",
        "They make code writable while the file is loaded, and private to each process.",
        run_no_text_relocations),
    LNK("019", "C29", "the library search path does not depend on the current directory",
        "A relative or empty element takes libraries from wherever the program was started.",
        run_search_path),
    LNK("020", "C29", "needed libraries are named without a relative path",
        "A relative path is resolved against the current directory.", run_needed_names),
    LNK("021", "C31", "the plugin needs neither the host nor another plugin",
        "A plugin that links its host cannot be loaded by another one, and two copies of the "
        "host's "
        "state in one process contradict each other.",
        run_no_host_library),
    LNK("022", "C29", "no filter and no auditor",
        "They put another library's symbols in the place of the file's own.", run_no_filter),
    LNK("023", "C28, C31", "the soname, if any, is the file's name",
        "The linker takes a loaded library of the same soname for this one and does not load the "
        "file at all.",
        run_soname),
    LNK("024", "C29", "no static thread-local storage if it may be unloaded",
        "Static thread-local storage is a small room that every library shares; it is never given "
        "back.",
        run_static_tls),
    LNK("025", "C31", "the file does not forbid its unloading",
        "With -z nodelete nobody can ever unload it, whatever its note says.", run_can_be_deleted),
    LNK("026", "C31", "the file does not push itself before other libraries",
        "Such flags defeat RTLD_LOCAL: the plugin's symbols would reach the whole program.",
        run_stays_local),
    LNK("027", "C30", "only its owner may write the file",
        "A host that finds the file by search refuses one that others may change.", run_mode),
    LNK("028", "C29", "the file is as long as its headers say",
        "A file that was cut off in a copy may still load, and lacks whatever was behind the cut.",
        run_whole),
};

const mbr_group mbr_group_lnk = MBR_GROUP("LNK", "the file before loading", checks);
