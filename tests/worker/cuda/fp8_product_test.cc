#include "worker/cuda/fp8_product.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/cuda/fp8_product_testing.h"

namespace octavo::cuda {
namespace {

using ::testing::HasSubstr;

// The capability of the card that the tests run on, and one that has products of e4m3 without
// vectors of scales.
constexpr int32_t kScalesInside = 90, kScalesOutside = 89;

int32_t Capability() {
  int major = 0, minor = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
  return 10 * major + minor;
}

class Fp8ProductTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Capability() < Fp8Product::kLeastCapability)
      GTEST_SKIP() << "this card does not multiply e4m3";
    auto gemm = Gemm::Create();
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    gemm_ = *std::move(gemm);
  }

  std::unique_ptr<Gemm> gemm_;
};

TEST_F(Fp8ProductTest, EqualsScaledSumsInDoublePrecision) {
  for (const int32_t capability : {kScalesInside, kScalesOutside}) {
    SCOPED_TRACE(capability);
    Fp8Product product(*gemm_, capability);
    for (const bool add : {false, true})
      for (const bool bias : {false, true}) {
        ExpectMatchesDoubles(product, 1, 16, 16, add, bias);
        ExpectMatchesDoubles(product, 5, 96, 48, add, bias);
      }
    // More rows than the scratch matrix holds.
    ExpectMatchesDoubles(product, Fp8Product::kScratchRows + 3, 16, 16, true, false);
  }
}

TEST_F(Fp8ProductTest, TakesBothScales) {
  Fp8Product product(*gemm_, kScalesInside);
  EXPECT_THAT(std::string(product.Run({}, nullptr).message()), HasSubstr("scales of x or"));
}

}  // namespace
}  // namespace octavo::cuda
