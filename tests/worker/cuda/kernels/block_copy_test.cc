#include "worker/cuda/kernels/block_copy.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/worker/cuda/kernels/kernel_testing.h"

namespace octavo::cuda {
namespace {

using testing::HasSubstr;

TEST(BlockCopy, CopiesWholeBlocksAndNothingElse) {
  const DeviceStream stream;
  for (const int64_t block_bytes : {16, 48, 4096, 16384, 16400, 40000}) {
    constexpr int32_t kBlocks = 9;
    std::vector<uint32_t> before(static_cast<size_t>(kBlocks * block_bytes / 4));
    std::iota(before.begin(), before.end(), 1u);
    const std::vector<BlockCopy> copies = {{1, 8}, {1, 2}, {5, 3}, {4, 4}};
    const DeviceArray<uint32_t> pool(before);
    const DeviceArray<BlockCopy> device_copies(copies);
    BlockCopyArgs args;
    args.pool = reinterpret_cast<std::byte*>(pool.data());
    args.block_bytes = block_bytes;
    args.copies = device_copies.data();
    args.count = static_cast<int32_t>(copies.size());
    ASSERT_EQ(Finish(stream, LaunchBlockCopy(args, stream)), "");
    for (const BlockCopy& copy : copies)
      std::copy_n(before.begin() + copy.source * block_bytes / 4, block_bytes / 4,
                  before.begin() + copy.target * block_bytes / 4);
    EXPECT_EQ(pool.Get(), before) << block_bytes;
  }
}

TEST(BlockCopy, RefusesPartsOfChunks) {
  const DeviceStream stream;
  const DeviceArray<std::byte> pool(size_t{256});
  const DeviceArray<BlockCopy> copies(std::vector<BlockCopy>{{0, 1}});
  BlockCopyArgs args = {pool.data(), 24, copies.data(), 1};
  EXPECT_THAT(std::string(LaunchBlockCopy(args, stream).message()),
              HasSubstr("block_bytes is 24; it must be a multiple of 16"));
  args.block_bytes = 32;
  args.pool = pool.data() + 4;
  EXPECT_THAT(std::string(LaunchBlockCopy(args, stream).message()), HasSubstr("the pool is 4"));
  args.pool = pool.data();
  args.count = -1;
  EXPECT_THAT(std::string(LaunchBlockCopy(args, stream).message()), HasSubstr("copies is -1"));
  args.count = 0;
  EXPECT_EQ(LaunchBlockCopy(args, stream), absl::OkStatus());
}

}  // namespace
}  // namespace octavo::cuda
