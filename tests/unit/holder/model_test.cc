// Models, geometry texts and tensor parallelism: the published figures, and every way a text can be
// wrong with what the refusal must name.
extern "C" {
#include "host/holder/geometry/model.h"
}

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstring>
#include <string>

namespace
{

mbr_geometry Parsed(const std::string &text)
{
    mbr_geometry geometry;
    mbr_geometry_error error;
    EXPECT_EQ(mbr_geometry_parse(text.c_str(), &geometry, &error), MBR_GEOMETRY_OK) << error.text;
    EXPECT_EQ(error.status, MBR_GEOMETRY_OK);
    return geometry;
}

// The table of the specification, to a tenth of a KiB.
TEST(Model, KnownModels_CostWhatTheirConfigurationsSay)
{
    struct {
        const char *name;
        uint32_t layers, heads, dim;
        double kib_per_token;
    } rows[] = {
        {"llama-3-8b", 32, 8, 128, 128},
        {"llama-3-70b", 80, 8, 128, 320},
        {"llama-3.1-405b", 126, 8, 128, 504},
        {"llama-3.2-1b", 16, 8, 64, 32},
        {"qwen2.5-0.5b", 24, 2, 64, 12},
        {"qwen2.5-7b", 28, 4, 128, 56},
        {"qwen2.5-14b", 48, 8, 128, 192},
        {"qwen3-8b", 36, 8, 128, 144},
        {"qwen3-235b-a22b", 94, 4, 128, 188},
        {"mistral-7b", 32, 8, 128, 128},
        {"gemma-3-4b", 34, 4, 256, 136},
        {"phi-4", 40, 10, 128, 200},
        {"phi-3-mini", 32, 32, 96, 384},
        {"deepseek-v3", 61, 1, 576, 68.6},
    };
    EXPECT_EQ(mbr_geometry_model_count(), sizeof rows / sizeof rows[0]);
    for (const auto &row : rows) {
        mbr_geometry geometry = Parsed(row.name);
        EXPECT_STREQ(geometry.name, row.name);
        uint32_t layers = 0;
        for (uint32_t i = 0; i < geometry.group_count; i++) {
            layers += geometry.groups[i].layers;
            EXPECT_EQ(geometry.groups[i].heads, row.heads) << row.name;
            EXPECT_EQ(geometry.groups[i].dim, row.dim) << row.name;
            EXPECT_TRUE(mbr_layer_group_is_valid(&geometry.groups[i])) << row.name;
        }
        EXPECT_EQ(layers, row.layers) << row.name;
        double kib = static_cast<double>(mbr_geometry_token_bytes(&geometry)) / 1024;
        EXPECT_NEAR(kib, row.kib_per_token, 0.05) << row.name;
    }
}

TEST(Model, Names_AreLowerCaseAndReadInAnyCase)
{
    for (uint64_t i = 0; i < mbr_geometry_model_count(); i++) {
        std::string name = mbr_geometry_model(i)->name, upper = name;
        for (char &c : upper)
            c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        EXPECT_EQ(Parsed(upper).name, name);
        for (char c : name)
            EXPECT_FALSE(std::isupper(static_cast<unsigned char>(c))) << name;
    }
}

TEST(Model, OddRows_AreThoseOfTheSpecification)
{
    mbr_geometry phi4 = Parsed("phi-4"), phi3 = Parsed("phi-3-mini"), mla = Parsed("deepseek-v3");
    EXPECT_EQ(mbr_layer_group_row_bytes(&phi4.groups[0]), 2560u);
    EXPECT_EQ(mbr_layer_group_row_bytes(&phi3.groups[0]), 6144u);
    EXPECT_EQ(mbr_layer_group_row_bytes(&mla.groups[0]), 1152u);
    EXPECT_EQ(mla.groups[0].planes, 1u);
}

TEST(Model, Gemma3_FiveOfSixLayersSlide)
{
    mbr_geometry gemma = Parsed("gemma-3-4b");
    ASSERT_EQ(gemma.group_count, 2u);
    uint32_t full = 0;
    for (uint32_t layer = 1; layer <= 34; layer++)
        full += layer % 6 == 0;
    EXPECT_EQ(gemma.groups[0].layers, 34 - full);
    EXPECT_EQ(gemma.groups[0].window_tokens, 1024u);
    EXPECT_EQ(gemma.groups[1].layers, full);
    EXPECT_EQ(gemma.groups[1].window_tokens, 0u);
}

TEST(Model, Validity_HoldsEveryFieldToItsBounds)
{
    const mbr_layer_group good = {1, 1, 1, 1, 1, 0};
    EXPECT_TRUE(mbr_layer_group_is_valid(&good));
    auto broken = [&](auto change) {
        mbr_layer_group group = good;
        change(group);
        return !mbr_layer_group_is_valid(&group);
    };
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.layers = 0; }));
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.layers = 4097; }));
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.heads = 0; }));
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.heads = 4097; }));
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.dim = 0; }));
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.dim = 65537; }));
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.element_bytes = 0; }));
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.element_bytes = 17; }));
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.planes = 0; }));
    EXPECT_TRUE(broken([](mbr_layer_group &g) { g.planes = 3; }));
    EXPECT_TRUE(
        broken([](mbr_layer_group &g) { g.window_tokens = MBR_GEOMETRY_WINDOW_TOKENS_MAX + 1; }));
}

TEST(Model, FirstLive_IsZeroUntilTheWindowSlides)
{
    mbr_layer_group group = {1, 1, 1, 1, 1, 10};
    EXPECT_EQ(mbr_layer_group_first_live(&group, 10), 0u);
    EXPECT_EQ(mbr_layer_group_first_live(&group, 11), 1u);
    group.window_tokens = 0;
    EXPECT_EQ(mbr_layer_group_first_live(&group, 1000), 0u);
}

TEST(GeometryText, OneGroup_InAnyOrder)
{
    mbr_geometry geometry = Parsed("planes=1,bytes=2,dim=576,heads=1,layers=61");
    EXPECT_STREQ(geometry.name, "custom");
    ASSERT_EQ(geometry.group_count, 1u);
    EXPECT_EQ(mbr_geometry_token_bytes(&geometry), 61u * 576 * 2);
    EXPECT_EQ(geometry.groups[0].window_tokens, 0u);
}

TEST(GeometryText, TwoGroups_EqualTheKnownModel)
{
    mbr_geometry geometry = Parsed("layers=29,heads=4,dim=256,bytes=2,planes=2,window=1024+"
                                   "layers=5,heads=4,dim=256,bytes=2,planes=2");
    mbr_geometry gemma = Parsed("gemma-3-4b");
    ASSERT_EQ(geometry.group_count, gemma.group_count);
    for (uint32_t i = 0; i < gemma.group_count; i++) {
        const mbr_layer_group &found = geometry.groups[i], &known = gemma.groups[i];
        EXPECT_EQ(found.layers, known.layers);
        EXPECT_EQ(found.heads, known.heads);
        EXPECT_EQ(found.dim, known.dim);
        EXPECT_EQ(found.element_bytes, known.element_bytes);
        EXPECT_EQ(found.planes, known.planes);
        EXPECT_EQ(found.window_tokens, known.window_tokens);
    }
}

TEST(GeometryText, EveryBound_IsAcceptedAndOneMoreIsNot)
{
    mbr_geometry geometry =
        Parsed("layers=4096,heads=4096,dim=65536,bytes=16,planes=2,window=1099511627776");
    EXPECT_EQ(mbr_geometry_token_bytes(&geometry), MBR_GEOMETRY_TOKEN_BYTES_MAX);
}

const std::string kGood = "layers=32,heads=8,dim=128,bytes=2,planes=2";

std::string With(const std::string &from, const std::string &to)
{
    std::string text = kGood;
    text.replace(text.find(from), from.size(), to);
    return text;
}

TEST(GeometryText, BadText_NamesKeyValueAndWhatWouldWork)
{
    const std::string nine = kGood + "+" + kGood + "+" + kGood + "+" + kGood + "+" + kGood + "+" +
        kGood + "+" + kGood + "+" + kGood + "+" + kGood;
    struct {
        std::string text;
        mbr_geometry_status status;
        const char *key, *value;
        uint64_t would_work;
        const char *says;
    } rows[] = {
        {With("layers=32", "layers=0"), MBR_GEOMETRY_OUT_OF_RANGE, "layers", "0", 1, "1 to 4096"},
        {With("layers=32", "layers=4097"), MBR_GEOMETRY_OUT_OF_RANGE, "layers", "4097", 4096,
            "4096"},
        {With("heads=8", "heads=4097"), MBR_GEOMETRY_OUT_OF_RANGE, "heads", "4097", 4096, "4096"},
        {With("dim=128", "dim=65537"), MBR_GEOMETRY_OUT_OF_RANGE, "dim", "65537", 65536, "65536"},
        {With("bytes=2", "bytes=17"), MBR_GEOMETRY_OUT_OF_RANGE, "bytes", "17", 16, "1 to 16"},
        {With("planes=2", "planes=3"), MBR_GEOMETRY_OUT_OF_RANGE, "planes", "3", 2, "1 to 2"},
        {kGood + ",window=0", MBR_GEOMETRY_OUT_OF_RANGE, "window", "0", 0, "leave window out"},
        {kGood + ",window=1099511627777", MBR_GEOMETRY_OUT_OF_RANGE, "window", "1099511627777",
            1099511627776, "1099511627776"},
        {With("dim=128", "dim=18446744073709551616"), MBR_GEOMETRY_OUT_OF_RANGE, "dim",
            "18446744073709551616", 65536, "65536"},
        {With("dim=128", "dim=18446744073709551744"), MBR_GEOMETRY_OUT_OF_RANGE, "dim",
            "18446744073709551744", 65536, "65536"},
        {With("dim=128", "dim=999999999999999999999999999"), MBR_GEOMETRY_OUT_OF_RANGE, "dim",
            "999999999999999999999999999", 65536, "65536"},
        {With("dim=128", "dim=1\x7f"), MBR_GEOMETRY_NOT_A_NUMBER, "dim", "1?", 0, "1?"},
        {With("dim=128", "dim=-1"), MBR_GEOMETRY_NOT_A_NUMBER, "dim", "-1", 0, "whole number"},
        {With("dim=128", "dim=+1"), MBR_GEOMETRY_NOT_A_NUMBER, "dim", "", 0, "whole number"},
        {With("dim=128", "dim=1.5"), MBR_GEOMETRY_NOT_A_NUMBER, "dim", "1.5", 0, "1 to 65536"},
        {With("dim=128", "dim= 1"), MBR_GEOMETRY_NOT_A_NUMBER, "dim", " 1", 0, "whole number"},
        {With("dim=128", "dim=0x80"), MBR_GEOMETRY_NOT_A_NUMBER, "dim", "0x80", 0, "whole number"},
        {With("dim=128", "dim="), MBR_GEOMETRY_NOT_A_NUMBER, "dim", "", 0, "whole number"},
        {With("dim=128", "dim=12=8"), MBR_GEOMETRY_NOT_A_NUMBER, "dim", "12=8", 0, "12=8"},
        {With("dim=128", "dim=1\n2"), MBR_GEOMETRY_NOT_A_NUMBER, "dim", "1?2", 0, "1?2"},
        {With("heads=8,", ""), MBR_GEOMETRY_MISSING_KEY, "heads", "", 0, "add heads=NUMBER"},
        {With(",planes=2", ""), MBR_GEOMETRY_MISSING_KEY, "planes", "", 0, "1 to 2"},
        {With("heads=8", "heads=8,heads=8"), MBR_GEOMETRY_DOUBLED_KEY, "heads", "", 0, "twice"},
        {With("heads=8", "head=8"), MBR_GEOMETRY_UNKNOWN_KEY, "head", "", 0, "mean 'heads'"},
        {With("heads=8", "Heads=8"), MBR_GEOMETRY_UNKNOWN_KEY, "Heads", "", 0, "mean 'heads'"},
        {With("heads=8", "q=8"), MBR_GEOMETRY_UNKNOWN_KEY, "q", "", 0, "keys are layers"},
        {With("heads=8", "=8"), MBR_GEOMETRY_UNKNOWN_KEY, "", "", 0, "keys are layers"},
        {With("heads=8", "heads"), MBR_GEOMETRY_UNKNOWN_KEY, "heads", "", 0, "no pair"},
        {kGood + ",", MBR_GEOMETRY_UNKNOWN_KEY, "", "", 0, "no pair"},
        {kGood + "+", MBR_GEOMETRY_UNKNOWN_KEY, "", "", 0, "no pair"},
        {"=", MBR_GEOMETRY_UNKNOWN_KEY, "", "", 0, "unknown key"},
        {nine, MBR_GEOMETRY_TOO_MANY_GROUPS, "groups", "", 8, "at most 8"},
        {"llama-3-8", MBR_GEOMETRY_UNKNOWN_MODEL, "model", "llama-3-8", 0, "'llama-3-8b'"},
        {"lama-3.1-450b", MBR_GEOMETRY_UNKNOWN_MODEL, "model", "lama-3.1-450b", 0,
            "'llama-3.1-405b'"},
        {"gpt-2", MBR_GEOMETRY_UNKNOWN_MODEL, "model", "gpt-2", 0, "phi-3-mini, deepseek-v3"},
        {"", MBR_GEOMETRY_UNKNOWN_MODEL, "model", "", 0, "known are llama-3-8b"},
    };
    for (const auto &row : rows) {
        mbr_geometry geometry;
        std::memset(&geometry, 0x5a, sizeof geometry);
        mbr_geometry_error error;
        EXPECT_EQ(mbr_geometry_parse(row.text.c_str(), &geometry, &error), row.status) << row.text;
        EXPECT_EQ(error.status, row.status) << row.text;
        EXPECT_STREQ(error.key, row.key) << row.text;
        EXPECT_STREQ(error.value, row.value) << row.text;
        EXPECT_EQ(error.would_work, row.would_work) << row.text;
        EXPECT_NE(std::strstr(error.text, row.says), nullptr) << row.text << ": " << error.text;
        EXPECT_EQ(std::strchr(error.text, '\n'), nullptr);
        EXPECT_EQ(geometry.group_count, 0u) << row.text;
        EXPECT_STREQ(geometry.name, "");
        EXPECT_EQ(mbr_geometry_parse(row.text.c_str(), &geometry, nullptr), row.status);
    }
}

TEST(GeometryText, EveryUnknownModel_NamesAGeometryThatWorks)
{
    mbr_geometry geometry;
    mbr_geometry_error error;
    for (const char *text : {"llama-3-8", "x"}) {
        mbr_geometry_parse(text, &geometry, &error);
        std::string said = error.text;
        size_t at = said.find("layers=");
        ASSERT_NE(at, std::string::npos) << said;
        EXPECT_EQ(Parsed(said.substr(at, kGood.size())).group_count, 1u);
    }
}

TEST(GeometryText, LongGarbage_IsCutAndNeverOverruns)
{
    mbr_geometry geometry;
    mbr_geometry_error error;
    std::string garbage(100000, 'x');
    EXPECT_EQ(mbr_geometry_parse(garbage.c_str(), &geometry, &error), MBR_GEOMETRY_UNKNOWN_MODEL);
    EXPECT_EQ(std::strlen(error.value), sizeof error.value - 1);
    garbage += "=" + garbage;
    EXPECT_EQ(mbr_geometry_parse(garbage.c_str(), &geometry, &error), MBR_GEOMETRY_UNKNOWN_KEY);
    EXPECT_EQ(std::strlen(error.key), sizeof error.key - 1);
}

TEST(TensorParallel, DividesTheHeadsAndNeverBelowOne)
{
    struct {
        const char *model;
        uint64_t degree;
        uint32_t heads;
    } rows[] = {
        {"llama-3-8b", 1, 8},
        {"llama-3-8b", 4, 2},
        {"llama-3-8b", 8, 1},
        {"llama-3-8b", 16, 1},
        {"phi-4", 5, 2},
        {"phi-4", 11, 1},
        {"qwen2.5-0.5b", 8, 1},
        {"deepseek-v3", 8, 1},
        {"llama-3-8b", 4096, 1},
    };
    for (const auto &row : rows) {
        mbr_geometry geometry = Parsed(row.model);
        mbr_geometry_error error;
        EXPECT_EQ(mbr_geometry_shard(&geometry, row.degree, &geometry, &error), MBR_GEOMETRY_OK);
        EXPECT_EQ(geometry.groups[0].heads, row.heads) << row.model << " " << row.degree;
        EXPECT_STREQ(geometry.name, row.model);
    }
}

TEST(TensorParallel, DegreeThatDoesNotDivide_NamesTheOnesThatDo)
{
    struct {
        const char *model;
        uint64_t degree;
        mbr_geometry_status status;
        uint64_t would_work;
    } rows[] = {
        {"phi-4", 4, MBR_GEOMETRY_NOT_DIVISIBLE, 2},
        {"phi-4", 9, MBR_GEOMETRY_NOT_DIVISIBLE, 5},
        {"llama-3-8b", 3, MBR_GEOMETRY_NOT_DIVISIBLE, 2},
        {"gemma-3-4b", 3, MBR_GEOMETRY_NOT_DIVISIBLE, 2},
        {"llama-3-8b", 0, MBR_GEOMETRY_OUT_OF_RANGE, 1},
        {"llama-3-8b", 4097, MBR_GEOMETRY_OUT_OF_RANGE, 4096},
        {"llama-3-8b", UINT64_MAX, MBR_GEOMETRY_OUT_OF_RANGE, 4096},
    };
    for (const auto &row : rows) {
        mbr_geometry whole = Parsed(row.model), part;
        mbr_geometry_error error;
        EXPECT_EQ(mbr_geometry_shard(&whole, row.degree, &part, &error), row.status);
        EXPECT_STREQ(error.key, "tp");
        EXPECT_EQ(error.value, std::to_string(row.degree));
        EXPECT_EQ(error.would_work, row.would_work) << row.model << " " << row.degree;
        EXPECT_EQ(part.group_count, 0u);
        EXPECT_EQ(mbr_geometry_shard(&whole, error.would_work, &part, nullptr), MBR_GEOMETRY_OK);
    }
}

} // namespace
