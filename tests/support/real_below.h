/* A real mechanism under the fake one: what the fake has carried out is carried out there as well,
 * and must be granted with the same figures. The fake stays who refuses and who fails as planned;
 * its addresses are then the real ones. Of one thread. */
#ifndef MEMBRANE_TESTS_SUPPORT_REAL_BELOW_H
#define MEMBRANE_TESTS_SUPPORT_REAL_BELOW_H

#include "tests/support/fake_mechanism.h"
#include "tests/unit/plugins_host/mechanism.h"

#include <gtest/gtest.h>

namespace membrane
{

class RealBelow
{
  public:
    /* The first mechanism of the plugin that the suite runs on. */
    RealBelow();
    /* What the fake had lost on purpose is still there; then the mechanism has to be empty. */
    ~RealBelow();

    void put_under(FakeMechanism *fake);
    uint64_t calls() const { return calls_; }
    /* Its own figures are those of what was carried out. */
    ::testing::AssertionResult agrees();

  private:
    friend struct RealSlots;
    void expect_same(const char *what, const mbr_outcome &wanted, const host_test::Result &real);
    bool is_mapped(uint64_t reservation, uint64_t offset) const;

    host_test::Mechanism real_;
    FakeMechanism *fake_ = nullptr;
    mbr_mechanism tables_ = {}; /* the fake's own */
    uint64_t calls_ = 0;
    /* What is there: mappings by offset, each with its bytes. */
    std::map<uint64_t, std::map<uint64_t, uint64_t>> reservations_;
    std::map<uint64_t, uint64_t> extents_;
};

} // namespace membrane

#endif
