#include "common/philox.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;

// The known answers that Random123 ships (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0}, {0, 0, 0, 0}),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(
      Philox4x32({0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}),
      ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(
      Philox4x32({0xa4093822u, 0x299f31d0u}, {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}),
      ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Philox, SamplingBitsDependOnSeedChoiceAndPositionAlone) {
  const auto bits = SamplingBits(1, 2, 3);
  EXPECT_EQ(bits, SamplingBits(1, 2, 3));
  EXPECT_NE(bits, SamplingBits(1 + (uint64_t{1} << 32), 2, 3));
  EXPECT_NE(bits, SamplingBits(2, 2, 3));
  EXPECT_NE(bits, SamplingBits(1, 3, 3));
  EXPECT_NE(bits, SamplingBits(1, 2, 4));
  EXPECT_NE(bits, SamplingBits(1, 2, 3 + (uint64_t{1} << 32)));
}

}  // namespace
}  // namespace octavo
