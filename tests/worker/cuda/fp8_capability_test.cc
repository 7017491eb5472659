// What becomes of fp8 on cards that lack some of it, which the emulated one can be told to be.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulation/emulation.h"
#include "tests/worker/cuda/fp8_product_testing.h"
#include "worker/cuda/cuda_backend.h"

namespace octavo::cuda {
namespace {

using ::testing::HasSubstr;

class Fp8CapabilityTest : public ::testing::Test {
 protected:
  void TearDown() override { emulation::GetOptions().capability = 90; }
};

TEST_F(Fp8CapabilityTest, CardsBeforeSm89AreRefusedByCapabilityAndLimit) {
  for (const int capability : {80, 86}) {
    emulation::GetOptions().capability = capability;
    const absl::Status status = CudaBackend::Create({.fp8_weights = true}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("compute capability 8." + std::to_string(capability % 10) +
                          "; products of fp8 need 8.9"));
    EXPECT_TRUE(CudaBackend::Create({.dtype = DType::kF16}).ok());
  }
  emulation::GetOptions().capability = 89;
  EXPECT_TRUE(CudaBackend::Create({.fp8_weights = true}).ok());
}

// 9.0 is the only one with scales inside the product; one that is taken for it has all the same
// results.
TEST_F(Fp8CapabilityTest, ProductsAreScaledBehindWhereTheLibraryDeclines) {
  for (const int32_t capability : {89, 120}) {
    emulation::GetOptions().capability = capability;
    auto gemm = Gemm::Create();
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    for (const int32_t taken_for : {int32_t{90}, capability}) {
      Fp8Product product(**gemm, taken_for);
      ExpectMatchesDoubles(product, 3, 32, 16, /*add=*/false, /*bias=*/true);
      ExpectMatchesDoubles(product, 3, 32, 16, /*add=*/true, /*bias=*/false);
    }
  }
}

}  // namespace
}  // namespace octavo::cuda
