#include "tests/fuzz/checkpoint_fuzz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/mutator.h"

namespace octavo {
namespace {

using Body = bool (*)(const uint8_t*, size_t);

constexpr int kMutationsPerSeed = 600;

std::vector<std::string> ReadSeeds(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(OCTAVO_SOURCE_DIR "/tests/fuzz/seeds") / folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// A heap copy of the exact size, so that ASan sees a read past the end.
bool Run(Body body, const std::string& text) {
  const auto copy = std::make_unique<uint8_t[]>(text.size());
  std::memcpy(copy.get(), text.data(), text.size());
  return body(copy.get(), text.size());
}

void RunSeedsAndMutations(Body body, const std::string& folder, size_t seed_count) {
  const std::vector<std::string> seeds = ReadSeeds(folder);
  ASSERT_EQ(seeds.size(), seed_count);
  Mutator mutator(seeds, /*seed=*/20240817);
  int taken = 0;
  for (size_t i = 0; i < seeds.size(); ++i) {
    EXPECT_TRUE(Run(body, seeds[i])) << "seed " << i << " of " << folder << " is not valid";
    for (int k = 0; k < kMutationsPerSeed; ++k) taken += Run(body, mutator.Mutate(i)) ? 1 : 0;
  }
  testing::Test::RecordProperty("taken", taken);
}

TEST(CheckpointFuzz, GgufSurvivesMutations) { RunSeedsAndMutations(FuzzGguf, "gguf", 2); }
TEST(CheckpointFuzz, SafetensorsSurvivesMutations) {
  RunSeedsAndMutations(FuzzSafetensors, "safetensors", 2);
}
TEST(CheckpointFuzz, HfJsonSurvivesMutations) { RunSeedsAndMutations(FuzzHfJson, "hf", 5); }

}  // namespace
}  // namespace octavo
