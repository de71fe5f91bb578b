// The auditor audited: every equation is broken once, and it names the one that is.
#include "tests/unit/governor/world.h"

extern "C" {
#include "tests/unit/governor/corrupt.h"
}

using namespace governor_test;

namespace
{

struct Break {
    int word;
    int64_t difference;
    const char *equation; // that must be named
    const char *sides;
};

// The books when they are broken: authority of 1 GiB with an open slot; holder with an allowance,
// 300 granted, 200 charged, 100 mapped, 50 quarantined.
const Break kBreaks[] = {
    {CORRUPT_CELL_MOVED, 1, "charged = ever charged + moved - refunded", "200 against 201"},
    {CORRUPT_CELL_MAPPED, -101, "mapped >= 0", "-1 against 0"},
    {CORRUPT_CELL_GRANTED_TOTAL, -301, "granted >= 0", "-1 against 0"},
    {CORRUPT_CELL_GRANTED_TOTAL, 7, "leased = granted + charged", "500 against 507"},
    {CORRUPT_CELL_RETURNED_TOTAL, 7, "leased = granted + charged", "500 against 493"},
    {CORRUPT_CELL_CHARGED_TOTAL, 1, "charged = ever charged + moved - refunded", "200 against 201"},
    {CORRUPT_CELL_REFUNDED_TOTAL, 1, "charged = ever charged + moved - refunded", "against 199"},
    {CORRUPT_CELL_PENDING, 5, "charged = ever charged + moved - refunded", "205 against 200"},
    {CORRUPT_CELL_PENDING, -201, "charged >= 0", "-1 against 0"},
    {CORRUPT_HOLDER_FOLDED, -3, "charged = ever charged + moved - refunded", "197 against 200"},
    {CORRUPT_HOLDER_LEASED, 1, "leased = granted + charged", "501 against 500"},
    {CORRUPT_HOLDER_RETAINED, 151, "quarantined + retained <= charged", "201 against 200"},
    {CORRUPT_SLOT_CREDIT, 1, "claimed = credit + held + granted + charged", ""},
    {CORRUPT_SLOT_PENDING, -2, "charged = sum over the holders", "198 against 200"},
    {CORRUPT_ROOM, -1, "claimed = credit + held + granted + charged", ""},
    {CORRUPT_ROOM, 1, "claimed = credit + held + granted + charged", ""},
    {CORRUPT_AUTHORITY_FOLDED, 4, "charged = sum over the holders", "204 against 200"},
    {CORRUPT_SET_LIMIT, -1, "limit = least of set, measured, exhausted", ""},
    {CORRUPT_HOLDER_COUNT, 1, "holders = length of their list", "3 against 2"},
    {CORRUPT_HELD, 1, "claimed = credit + held + granted + charged", ""},
    {CORRUPT_WITHHELD, 1, "withheld = quarantined + retained", "51 against 50"},
    {CORRUPT_WAITING_COUNT, 1, "waiting tickets = length of their list", "1 against 0"},
};

class Audit : public ::testing::Test
{
  protected:
    Audit()
    {
        authority_ = world_.Authority(kGiB);
        first_ = world_.Holder(authority_, 1000);
        second_ = world_.Holder(authority_);
        EXPECT_EQ(mbr_grant(second_, 1, nullptr), MBR_OK); // opens the thread's slot
        mbr_grant_return(second_, 1);
        EXPECT_EQ(mbr_grant(first_, 500, nullptr), MBR_OK);
        mbr_charge(first_, 200);
        mbr_mapped_add(first_, 100);
        mbr_quarantine(first_, 50);
    }

    ~Audit() override
    {
        mbr_quarantine_settle(first_, 50);
        mbr_mapped_sub(first_, 100);
        mbr_refund(first_, 200);
        mbr_grant_return(first_, 300);
        End(authority_, first_, second_);
    }

    World world_;
    mbr_authority *authority_;
    mbr_holder *first_;
    mbr_holder *second_;
};

TEST_F(Audit, BooksThatAreRight_AreOk)
{
    mbr_error error = NewError();
    EXPECT_EQ(mbr_authority_audit(authority_, &error), MBR_OK) << error.text;
    EXPECT_EQ(mbr_authority_audit(authority_, nullptr), MBR_OK);
}

TEST_F(Audit, EachFigureMadeWrong_IsFoundAndItsEquationNamed)
{
    bool broken[CORRUPT_COUNT] = {};
    for (const Break &one : kBreaks) {
        mbr_error error = NewError();
        corrupt(first_, one.word, one.difference);
        EXPECT_EQ(mbr_authority_audit(authority_, &error), MBR_INTERNAL) << one.equation;
        EXPECT_EQ(mbr_authority_audit(authority_, nullptr), MBR_INTERNAL);
        std::string text = error.text;
        EXPECT_NE(text.find(one.equation), std::string::npos) << text;
        EXPECT_NE(text.find(one.sides), std::string::npos) << text;
        corrupt(first_, one.word, -one.difference);
        EXPECT_EQ(mbr_authority_audit(authority_, &error), MBR_OK) << error.text;
        broken[one.word] = true;
    }
    for (int word = 0; word < CORRUPT_COUNT; word++)
        EXPECT_TRUE(broken[word]) << "no case breaks word " << word;
}

TEST_F(Audit, WrongHolder_IsNamed)
{
    mbr_error error = NewError();
    corrupt(second_, CORRUPT_CELL_MAPPED, -1);
    EXPECT_EQ(mbr_authority_audit(authority_, &error), MBR_INTERNAL);
    EXPECT_NE(std::string(error.text).find(Figures(second_).name), std::string::npos) << error.text;
    corrupt(second_, CORRUPT_CELL_MAPPED, 1);
}

// A holder without an allowance keeps no lease; one that appears is a wrong book too.
TEST_F(Audit, LeaseWithoutAnAllowance_IsFound)
{
    mbr_error error = NewError();
    corrupt(second_, CORRUPT_HOLDER_LEASED, 1);
    EXPECT_EQ(mbr_authority_audit(authority_, &error), MBR_INTERNAL);
    EXPECT_NE(std::string(error.text).find("1 against 0"), std::string::npos) << error.text;
    corrupt(second_, CORRUPT_HOLDER_LEASED, -1);
}

// Bytes out of everybody's reach, for nobody.
TEST_F(Audit, HeldBackWhereNobodyWaits_IsFound)
{
    mbr_error error = NewError();
    corrupt(first_, CORRUPT_HELD, 5);
    corrupt(first_, CORRUPT_ROOM, -5);
    EXPECT_EQ(mbr_authority_audit(authority_, &error), MBR_INTERNAL);
    EXPECT_NE(std::string(error.text).find("held = 0 where nobody waits"), std::string::npos)
        << error.text;
    corrupt(first_, CORRUPT_HELD, -5);
    corrupt(first_, CORRUPT_ROOM, 5);
}

// The host's own bugs, as the books show them.
TEST_F(Audit, RefundOfMoreThanCharged_IsFound)
{
    mbr_error error = NewError();
    mbr_refund(first_, 201);
    EXPECT_EQ(mbr_authority_audit(authority_, &error), MBR_INTERNAL);
    EXPECT_NE(std::string(error.text).find("charged >= 0"), std::string::npos) << error.text;
    EXPECT_EQ(Figures(first_).charged_bytes, 0u); // shown within its bounds all the same
    EXPECT_EQ(Figures(authority_).charged_bytes, 0u);
    mbr_record_committed(first_, 201);
}

TEST_F(Audit, ReturnOfMoreThanGranted_IsFound)
{
    mbr_error error = NewError();
    mbr_grant_return(second_, 1);
    EXPECT_EQ(mbr_authority_audit(authority_, &error), MBR_INTERNAL);
    EXPECT_NE(std::string(error.text).find("granted >= 0"), std::string::npos) << error.text;
    EXPECT_EQ(mbr_holder_destroy(second_, &error), MBR_IN_USE); // not even as a balance of zero
    EXPECT_NE(std::string(error.text).find("-1 bytes granted"), std::string::npos) << error.text;
    ASSERT_EQ(mbr_grant(second_, 1, nullptr), MBR_OK);
}

} // namespace
