#include "worker/cpu/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace octavo {
namespace {

using ::testing::HasSubstr;

class MatmulTest : public ::testing::Test {
 protected:
  MatmulTest() : weights_(8 * 32, 1.0f), x_(4 * 32, 1.0f), out_(4 * 8) {
    LinearSource source;
    source.parts = {{"w", DType::kF32, 8, 32, reinterpret_cast<std::byte*>(weights_.data())}};
    auto packed = PackedLinear::Pack(source, arena_, pool_);
    EXPECT_TRUE(packed.ok()) << packed.status();
    weight_ = *std::move(packed);
    params_.x = {x_.data(), 4, 32, 32};
    params_.out = {out_.data(), 4, 8, 8};
  }
  absl::Status Run() {
    return RunLinear(*weight_, params_, ActivationDType::kFloat32, DetectIsa(), pool_, scratch_);
  }

  WeightArena arena_;
  ThreadPool pool_{2};
  MatmulScratch scratch_;
  std::vector<float> weights_, x_, out_;
  std::unique_ptr<PackedLinear> weight_;
  LinearParams params_;
};

TEST_F(MatmulTest, RefusesShapesThatContradictTheWeight) {
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(out_[31], 32.0f);
  params_.x.cols = 31;
  EXPECT_THAT(std::string(Run().message()), HasSubstr("31 columns"));
  params_.x.cols = 32;
  params_.out.cols = 9;
  EXPECT_THAT(std::string(Run().message()), HasSubstr("the weight gives 8"));
  params_.out.cols = 8;
  params_.out.rows = 5;
  EXPECT_THAT(std::string(Run().message()), HasSubstr("5 rows, the input 4"));
  params_.out.rows = 1;
  const int32_t row = 4;
  params_.row_ids = &row;
  EXPECT_THAT(std::string(Run().message()), HasSubstr("row id 4 is not in 0..3"));
  params_.row_ids = nullptr;
  params_.epilogue = Epilogue::kSiluGate;
  EXPECT_EQ(Run().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MatmulTest, LeavesTheOutputAloneWhenThereAreNoRows) {
  params_.out.rows = 0;
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(out_[0], 0.0f);
}

TEST(FloatBuffer, GrowsAndStaysAligned) {
  FloatBuffer buffer;
  float* small = buffer.Reserve(10);
  EXPECT_EQ(buffer.Reserve(5), small);
  float* large = buffer.Reserve(100'000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % 64, 0u);
  large[99'999] = 1.0f;
}

}  // namespace
}  // namespace octavo
