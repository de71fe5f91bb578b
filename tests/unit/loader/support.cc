#include "tests/unit/loader/support.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

std::string built_file(const std::string &name)
{
    std::ifstream file("tests/unit/loader/" + name, std::ios::binary);
    EXPECT_TRUE(file.good()) << name;
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
}

Folder::Folder()
{
    const char *root = getenv("TEST_TMPDIR");
    std::string pattern = std::string(root == nullptr ? "/tmp" : root) + "/loader-XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr) << strerror(errno);
    path_ = std::filesystem::canonical(pattern).string();
    EXPECT_EQ(chmod(path_.c_str(), 0755), 0);
}

Folder::~Folder()
{
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string Folder::put(const std::string &name, const std::string &bytes) const
{
    std::string path = at(name), fresh = path + ".new";
    {
        std::ofstream file(fresh, std::ios::binary);
        file << bytes;
        EXPECT_TRUE(file.good()) << fresh;
    }
    EXPECT_EQ(chmod(fresh.c_str(), 0644), 0);
    EXPECT_EQ(rename(fresh.c_str(), path.c_str()), 0);
    return path;
}

std::string Folder::put_specimen(const std::string &variant, const std::string &name) const
{
    return put(name, built_file("specimen_" + variant + ".so"));
}

std::string Folder::make_folder(const std::string &name) const
{
    std::filesystem::create_directories(at(name));
    EXPECT_EQ(chmod(at(name).c_str(), 0755), 0);
    return at(name);
}

Elf64_Ehdr &elf_head(std::string &bytes)
{
    return *(Elf64_Ehdr *)bytes.data();
}

static Elf64_Phdr *find_segment(std::string &bytes, uint32_t type, unsigned index)
{
    Elf64_Phdr *segments = (Elf64_Phdr *)(bytes.data() + elf_head(bytes).e_phoff);
    for (unsigned i = 0; i < elf_head(bytes).e_phnum; i++)
        if (segments[i].p_type == type && index-- == 0)
            return &segments[i];
    return nullptr;
}

Elf64_Phdr &elf_segment(std::string &bytes, uint32_t type, unsigned index)
{
    Elf64_Phdr *segment = find_segment(bytes, type, index);
    if (segment == nullptr)
        throw std::runtime_error("the file has no segment of that type");
    return *segment;
}

static Elf64_Dyn *find_dynamic(std::string &bytes, int64_t tag)
{
    Elf64_Dyn *entry = (Elf64_Dyn *)(bytes.data() + elf_segment(bytes, PT_DYNAMIC).p_offset);
    while (entry->d_tag != tag && entry->d_tag != DT_NULL)
        entry++;
    return entry->d_tag == tag ? entry : nullptr;
}

Elf64_Dyn &elf_dynamic(std::string &bytes, int64_t tag)
{
    Elf64_Dyn *entry = find_dynamic(bytes, tag);
    if (entry == nullptr)
        throw std::runtime_error("the file has no dynamic entry of that tag");
    return *entry;
}

bool elf_has_dynamic(std::string &bytes, int64_t tag)
{
    return find_dynamic(bytes, tag) != nullptr;
}

char *elf_at(std::string &bytes, uint64_t address)
{
    for (unsigned index = 0;; index++) {
        Elf64_Phdr &segment = elf_segment(bytes, PT_LOAD, index);
        if (address >= segment.p_vaddr && address < segment.p_vaddr + segment.p_filesz)
            return bytes.data() + segment.p_offset + (address - segment.p_vaddr);
    }
}

Elf64_Nhdr &elf_note(std::string &bytes)
{
    size_t owner = bytes.find(std::string(MBR_NOTE_OWNER, sizeof MBR_NOTE_OWNER));
    if (owner == std::string::npos)
        throw std::runtime_error("the file has no note of ours");
    return *(Elf64_Nhdr *)(bytes.data() + owner - sizeof(Elf64_Nhdr));
}

mbr_note_head &elf_note_head(std::string &bytes)
{
    return *(mbr_note_head *)((char *)&elf_note(bytes) + sizeof(Elf64_Nhdr) + 12);
}

void replace_text(std::string &bytes, const std::string &from, const std::string &to)
{
    size_t at = bytes.find(from);
    if (from.size() != to.size() || at == std::string::npos)
        throw std::runtime_error("nothing to replace: " + from);
    bytes.replace(at, from.size(), to);
}

Variable::Variable(const char *name, const std::string &value) : name_(name)
{
    setenv(name, value.c_str(), 1);
}

Variable::~Variable()
{
    unsetenv(name_.c_str());
}

static void *counted_allocate(void *context, size_t bytes)
{
    CountedHeap *own = (CountedHeap *)context;
    if (++own->call_count == own->fail_at)
        return nullptr;
    own->live_count++;
    return calloc(1, bytes);
}

static void counted_release(void *context, void *memory)
{
    if (memory != nullptr)
        ((CountedHeap *)context)->live_count--;
    free(memory);
}

CountedHeap::CountedHeap(uint64_t at) : heap{counted_allocate, counted_release, this}, fail_at(at)
{
}

bool is_loaded(const std::string &path)
{
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr)
        return false;
    dlclose(handle);
    return true;
}

specimen_counts &counts_of(const std::string &path)
{
    static specimen_counts none;
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    EXPECT_NE(handle, nullptr) << path << " is not loaded";
    if (handle == nullptr)
        return none;
    void *counts = dlsym(handle, "specimen_count");
    dlclose(handle); // the caller's module keeps the file loaded
    return *(specimen_counts *)counts;
}

unsigned mapping_count(const std::string &path)
{
    std::ifstream maps("/proc/self/maps");
    unsigned count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find(path) != std::string::npos;
    return count;
}

unsigned descriptor_count()
{
    unsigned count = 0;
    for (auto &entry : std::filesystem::directory_iterator("/proc/self/fd"))
        count += !entry.path().empty();
    return count;
}

Opened::Opened(const std::string &name_or_path, bool trusted,
    const mbr_loader_environment *environment, const mbr_heap *heap)
{
    mbr_module_options options = {};
    options.name_or_path = name_or_path.c_str();
    options.trusted = trusted;
    options.environment = environment;
    options.heap = heap;
    status = mbr_module_open(&options, &module, &candidate, &error);
}

Opened::~Opened()
{
    close();
}

void Opened::close()
{
    mbr_module_close(module);
    module = nullptr;
}
