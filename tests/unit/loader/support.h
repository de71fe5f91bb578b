// What the loader's tests share: folders with specimen files, patching of ELF bytes, a heap that
// fails at a chosen call, and what a loaded specimen counted.
#ifndef MEMBRANE_TESTS_UNIT_LOADER_SUPPORT_H
#define MEMBRANE_TESTS_UNIT_LOADER_SUPPORT_H

extern "C" {
#include "host/loader/loader.h"
}
#include "tests/unit/loader/specimen.h"

#include <cstdint>
#include <elf.h>
#include <gtest/gtest.h>

#include <string>

// The bytes of a built file of this folder, such as "specimen_good.so".
std::string built_file(const std::string &name);

// A new folder of mode 0755, removed with its contents at the end.
class Folder
{
  public:
    Folder();
    ~Folder();
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;

    const std::string &path() const { return path_; }
    std::string at(const std::string &name) const { return path_ + "/" + name; }
    // Writes a file of mode 0644 (replacing by rename) and returns its path.
    std::string put(const std::string &name, const std::string &bytes) const;
    // Puts a built specimen under a plugin's name.
    std::string put_specimen(
        const std::string &variant, const std::string &name = "libmembrane-specimen.so") const;
    std::string make_folder(const std::string &name) const;

  private:
    std::string path_;
};

// Access to the parts of an ELF file's bytes, to patch them.
Elf64_Ehdr &elf_head(std::string &bytes);
Elf64_Phdr &elf_segment(std::string &bytes, uint32_t type, unsigned index = 0);
Elf64_Dyn &elf_dynamic(std::string &bytes, int64_t tag);
bool elf_has_dynamic(std::string &bytes, int64_t tag);
// Bytes at an address of the image.
char *elf_at(std::string &bytes, uint64_t address);
// The Membrane note: its header, and the head behind it.
Elf64_Nhdr &elf_note(std::string &bytes);
mbr_note_head &elf_note_head(std::string &bytes);
// Replaces the only occurrence of a text by one of the same length.
void replace_text(std::string &bytes, const std::string &from, const std::string &to);

// Sets an environment variable for a scope.
class Variable
{
  public:
    Variable(const char *name, const std::string &value);
    ~Variable();
    Variable(const Variable &) = delete;
    Variable &operator=(const Variable &) = delete;

  private:
    std::string name_;
};

// The specimen's misbehaviour for a scope.
class Fault : public Variable
{
  public:
    explicit Fault(const std::string &word) : Variable("SPECIMEN_FAULT", word) {}
};

// A heap that counts, and fails at one call.
struct CountedHeap {
    explicit CountedHeap(uint64_t fail_at = 0);
    mbr_heap heap;
    uint64_t fail_at; // from 1; 0: never
    uint64_t call_count = 0;
    uint64_t live_count = 0;
};

// The counts of a file that is loaded; a failed expectation if it is not.
specimen_counts &counts_of(const std::string &path);
bool is_loaded(const std::string &path);
// Lines of the process's map that name the file.
unsigned mapping_count(const std::string &path);
unsigned descriptor_count();

struct Error : mbr_error {
    Error() : mbr_error{} { struct_size = sizeof(mbr_error); }
};

// Opens by path or by name.
struct Opened {
    explicit Opened(const std::string &name_or_path, bool trusted = false,
        const mbr_loader_environment *environment = nullptr, const mbr_heap *heap = nullptr);
    ~Opened();
    Opened(const Opened &) = delete;
    Opened &operator=(const Opened &) = delete;
    void close();

    mbr_module *module = nullptr;
    mbr_candidate candidate;
    Error error;
    mbr_status status;
};

// A module of a specimen, and one mechanism of it.
struct Specimen {
    explicit Specimen(const std::string &variant = "unloadable")
        : path(folder.put_specimen(variant)), opened(path)
    {
        EXPECT_EQ(opened.status, MBR_OK) << opened.error.text;
    }
    mbr_status open(const char *name = nullptr)
    {
        options.mechanism = name;
        return mbr_mechanism_open(opened.module, &options, &mechanism, &error);
    }
    specimen_counts &counts() { return counts_of(path); }

    Folder folder;
    std::string path;
    Opened opened;
    mbr_mechanism_options options = {};
    mbr_mechanism mechanism = {};
    Error error;
};

#endif
