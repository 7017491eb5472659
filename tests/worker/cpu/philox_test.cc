#include "common/philox.h"

#include "gtest/gtest.h"

namespace octavo {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0}, {0, 0, 0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SamplingBitsDependOnSeedChoiceAndPosition) {
  const Words bits = SamplingBits(0x299f31d0a4093822, 0x13198a2e, 0x85a308d3243f6a88);
  EXPECT_EQ(bits, Philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0}));
  EXPECT_NE(bits, SamplingBits(0x299f31d0a4093823, 0x13198a2e, 0x85a308d3243f6a88));
  EXPECT_NE(bits, SamplingBits(0x299f31d0a4093822, 0x13198a2f, 0x85a308d3243f6a88));
  EXPECT_NE(bits, SamplingBits(0x299f31d0a4093822, 0x13198a2e, 0x85a308d3243f6a89));
}

}  // namespace
}  // namespace octavo
