// Foreign texts made printable, and the JSON of a candidate and of an inspection when memory runs
// out: nothing is lost, and what is printed is whole.
extern "C" {
#include "tools/cli/inspect.h"
#include "tools/cli/note_json.h"
#include "tools/cli/text.h"
}

#include <gtest/gtest.h>
#include <jansson.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace
{

uint64_t allocations_left;
int64_t live_blocks;

void *FailingMalloc(size_t bytes)
{
    if (allocations_left == 0)
        return nullptr;
    allocations_left--;
    live_blocks++;
    return std::malloc(bytes);
}

void CountingFree(void *memory)
{
    live_blocks -= memory != nullptr;
    std::free(memory);
}

std::string Printable(const std::string &text, size_t room = 4096)
{
    std::vector<char> out(room + 1, 'Z');
    EXPECT_EQ(mbr_text_printable(out.data(), room, text.c_str()), out.data());
    EXPECT_EQ(out[room], 'Z');
    return out.data();
}

TEST(Text, Printable_TextsStayAsTheyAre)
{
    for (const char *text : {"", "plain", "ä", "€", "𝄞", "/a/ü-€/𝄞.so"})
        EXPECT_EQ(Printable(text), text);
}

TEST(Text, Printable_ControlAndBrokenBytesBecomeQuestionMarks)
{
    EXPECT_EQ(Printable("a\nb\x1b[2J\x7f"), "a?b?[2J?");
    EXPECT_EQ(Printable("\xC2\x9B[2J"), "?[2J"); // a control character of two bytes
    EXPECT_EQ(Printable("\xFF\xFE"), "??");
    EXPECT_EQ(Printable("\xC3"), "?");
    EXPECT_EQ(Printable("\xE2\x82"), "??");
    EXPECT_EQ(Printable("\xC0\xAF"), "??");           // overlong
    EXPECT_EQ(Printable("\xE0\x80\xAF"), "???");      // overlong
    EXPECT_EQ(Printable("\xED\xA0\x80"), "???");      // a surrogate
    EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "????"); // above the last character
    EXPECT_EQ(Printable("\xF0\x9D\x84\x9E!"), "\xF0\x9D\x84\x9E!");
}

TEST(Text, Printable_EveryRoom_CutBetweenCharacters)
{
    const std::string text = "aä€𝄞b";
    for (size_t room = 1; room <= text.size() + 2; room++) {
        std::string got = Printable(text, room);
        EXPECT_LT(got.size(), room);
        EXPECT_EQ(text.compare(0, got.size(), got), 0) << room;
    }
}

// Everything that jansson is given is valid, whatever bytes the file system holds.
TEST(Text, Json_AnyBytes_AString)
{
    std::string bytes;
    for (int byte = 1; byte < 256; byte++)
        bytes += (char)byte;
    json_t *string = mbr_text_json(bytes.c_str());
    ASSERT_NE(string, nullptr);
    json_decref(string);
}

mbr_candidate Candidate()
{
    mbr_candidate candidate = {};
    strcpy(candidate.path, "/plugins/libmembrane-x.so");
    strcpy(candidate.name, "x");
    candidate.reason = MBR_REASON_USED;
    candidate.note.major = 1;
    candidate.note.digest = 0x0123456789abcdef;
    strcpy(candidate.note.name, "x");
    strcpy(candidate.note.vendor, "tests");
    candidate.note.has_unique_symbol = true;
    strcpy(candidate.note.unique_symbol, "_ZN1xE");
    return candidate;
}

// Tries with 0, 1, 2 ... allocations until all that it takes are there; `print` returns the text,
// or
// "" where memory was exhausted.
void FailEveryAllocation(const std::function<std::string()> &print, uint64_t at_least)
{
    json_set_alloc_funcs(FailingMalloc, CountingFree);
    allocations_left = UINT64_MAX;
    const std::string whole = print();
    EXPECT_NE(whole, "");
    uint64_t allowed = 0;
    for (;; allowed++) {
        allocations_left = allowed;
        live_blocks = 0;
        std::string text = print();
        EXPECT_EQ(live_blocks, 0) << allowed;
        if (text != "") {
            EXPECT_EQ(text, whole);
            break;
        }
    }
    json_set_alloc_funcs(std::malloc, std::free);
    EXPECT_GT(allowed, at_least) << "the sweep reached the parts of the object";
}

TEST(CandidateJson, EveryAllocationFails_NothingIsLost)
{
    mbr_candidate candidate = Candidate();
    FailEveryAllocation(
        [&] {
            json_t *object = mbr_candidate_json(&candidate);
            json_t *note = json_object_get(object, "note");
            std::string text = json_object_size(note) == 10 && json_object_size(object) == 5
                ? json_string_value(json_object_get(note, "digest"))
                : "";
            EXPECT_EQ(object == nullptr, text == "");
            json_decref(object);
            return text;
        },
        30);
}

TEST(CandidateJson, NoNoteRead_NoNotePrinted)
{
    mbr_candidate candidate = Candidate();
    candidate.note.major = 0;
    candidate.reason = MBR_REASON_NOT_ELF;
    json_t *object = mbr_candidate_json(&candidate);
    EXPECT_EQ(json_object_get(object, "note"), nullptr);
    EXPECT_STREQ(json_string_value(json_object_get(object, "reason")), "not-elf");
    json_decref(object);
}

mbr_inspection Inspection(std::vector<mbr_inspected> &mechanisms)
{
    mbr_inspection inspection = {};
    inspection.candidate = Candidate();
    strcpy(inspection.version, "1.0");
    mechanisms.resize(2);
    for (mbr_inspected &item : mechanisms) {
        item = {};
        strcpy(item.description.name, "unit");
        item.description.domain = MBR_DOMAIN_DEVICE;
        item.description.tier = MBR_TIER_DEVICE;
        strcpy(item.description.pci, "0000:65:00.0");
        item.description.uuid[0] = 0xAB;
    }
    mechanisms[0].was_opened = true;
    mechanisms[0].facts.has_virtual = true;
    mechanisms[0].facts.granule_min_bytes = 2 << 20;
    mechanisms[0].facts.extent_max_bytes = UINT64_MAX;
    mechanisms[0].facts.quirks = MBR_QUIRK_LOCAL_DEVICE_LAST;
    mechanisms[1].status = MBR_NO_DEVICE;
    strcpy(mechanisms[1].text, "gone");
    inspection.count = 2;
    inspection.mechanisms = mechanisms.data();
    return inspection;
}

std::string Print(const std::function<bool(FILE *)> &print)
{
    char *text = nullptr;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool good = print(out);
    std::fclose(out);
    std::string printed = good ? std::string(text, bytes) : "";
    std::free(text);
    return printed;
}

TEST(InspectJson, EveryAllocationFails_NothingIsLost)
{
    std::vector<mbr_inspected> mechanisms;
    mbr_inspection inspection = Inspection(mechanisms);
    FailEveryAllocation(
        [&] { return Print([&](FILE *out) { return mbr_inspect_print_json(out, &inspection); }); },
        120);
}

TEST(InspectHuman, UnopenedMechanism_SaysWhyAndNoFacts)
{
    std::vector<mbr_inspected> mechanisms;
    mbr_inspection inspection = Inspection(mechanisms);
    inspection.breach = MBR_REASON_UNTRUSTED_FILE;
    strcpy(inspection.breach_text, "its mode 0666");
    std::string text = Print([&](FILE *out) {
        mbr_inspect_print_human(out, &inspection);
        return true;
    });
    EXPECT_NE(text.find("does not open                  gone"), std::string::npos) << text;
    EXPECT_NE(text.find("NOT TRUSTED"), std::string::npos);
    EXPECT_NE(text.find("untrusted-file: its mode 0666"), std::string::npos);
    EXPECT_NE(text.find("ab000000-0000-0000-0000-000000000000"), std::string::npos);
    EXPECT_NE(text.find("no limit"), std::string::npos);
    EXPECT_NE(text.find("local device last"), std::string::npos);
    EXPECT_NE(text.find("_ZN1xE"), std::string::npos);
    EXPECT_EQ(text.find("granule_min_bytes"), text.rfind("granule_min_bytes"));
}

} // namespace
