// A third party's capability: fetched by its id, its kind checked against the id, and validated
// like the contract's own tables (rule 2).
#include "tests/unit/loader/support.h"

#include <gtest/gtest.h>

#include <cstring>

namespace
{
// ----------------------------------------------------------------------

mbr_status refuse_compress(mbr_instance *, const mbr_trim_request *, mbr_outcome *, mbr_error *)
{
    return MBR_UNSUPPORTED;
}

struct Compress {
    Compress()
    {
        stub.struct_size = sizeof stub;
        stub.kind = SPECIMEN_KIND_COMPRESS;
        stub.compress = stub.expand = refuse_compress;
        wanted.id = SPECIMEN_ID_COMPRESS;
        wanted.minor = 1;
        wanted.min_bytes = offsetof(specimen_compress_vtable, expand);
        wanted.own_bytes = sizeof own;
        wanted.stub = &stub;
        wanted.slots = slots;
        wanted.slot_count = 2;
    }
    mbr_status fetch(Specimen &specimen)
    {
        memset(&own, 0xA5, sizeof own);
        return mbr_mechanism_fetch_foreign(&specimen.mechanism, &wanted, &own, &specimen.error);
    }
    bool is_stub() const { return memcmp(&own, &stub, sizeof own) == 0; }

    specimen_compress_vtable stub = {}, own;
    mbr_slot_spec slots[2] = {{"compress", offsetof(specimen_compress_vtable, compress), 0},
        {"expand", offsetof(specimen_compress_vtable, expand), 1}};
    mbr_foreign_table wanted = {};
};

TEST(Foreign, TableByItsId_IsCopiedAndCallable)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    Compress compress;
    ASSERT_EQ(compress.fetch(specimen), MBR_OK) << specimen.error.text;
    EXPECT_EQ(specimen.counts().last_minor, 1u); // its own, not the contract's
    mbr_trim_request request = {sizeof request, 0, 84};
    mbr_outcome outcome = {};
    outcome.struct_size = sizeof outcome;
    EXPECT_EQ(
        compress.own.compress(specimen.mechanism.instance, &request, &outcome, nullptr), MBR_OK);
    EXPECT_EQ(outcome.value, 42u);
    EXPECT_NE(compress.own.expand, refuse_compress);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

TEST(Foreign, SlotAboveTheLowerMinor_IsTheStub)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    Compress compress;
    {
        Fault fault("foreign-minor-0");
        ASSERT_EQ(compress.fetch(specimen), MBR_OK) << specimen.error.text;
        EXPECT_EQ(compress.own.expand, refuse_compress);
    }
    compress.wanted.minor = 0;
    ASSERT_EQ(compress.fetch(specimen), MBR_OK) << specimen.error.text;
    EXPECT_EQ(compress.own.expand, refuse_compress);
    EXPECT_NE(compress.own.compress, refuse_compress);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

TEST(Foreign, WrongTable_RefusedAndEverySlotIsTheStub)
{
    struct {
        const char *fault, *part;
    } const rows[] = {
        {"foreign-kind", "states kind 59734; that of acme.compress is 59735"},
        {"foreign-own-kind", "states kind 5; that of acme.compress is 59735"},
        {"foreign-null-slot", "required slot compress of acme.compress is NULL"},
        {"foreign-small", "states 8 bytes"},
    };
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    Compress compress;
    for (auto &row : rows) {
        SCOPED_TRACE(row.fault);
        Fault fault(row.fault);
        EXPECT_EQ(compress.fetch(specimen), MBR_CONTRACT_BROKEN);
        EXPECT_NE(std::string(specimen.error.text).find(row.part), std::string::npos)
            << specimen.error.text;
        EXPECT_TRUE(compress.is_stub());
    }
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

TEST(Foreign, OtherIds_RefusedWithoutATable)
{
    struct {
        const char *id;
        mbr_status status;
    } const rows[] = {{"acme.other", MBR_UNSUPPORTED}, {MBR_ID_VIRTUAL, MBR_INVALID_ARGUMENT},
        {"membrane.new", MBR_INVALID_ARGUMENT}};
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    Compress compress;
    for (auto &row : rows) {
        compress.wanted.id = row.id;
        EXPECT_EQ(compress.fetch(specimen), row.status) << row.id;
        EXPECT_EQ(specimen.error.status, row.status);
        EXPECT_TRUE(compress.is_stub());
    }
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

} // namespace
