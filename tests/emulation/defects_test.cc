// Every defect is caught by the builds that should catch it, with a message that names it.
#include "tests/emulation/defects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/emulation/child_process.h"
#include "tests/emulation/device_array.h"
#include "tests/emulation/emulation.h"

namespace octavo::cuda {
namespace {

using ::testing::HasSubstr;

const std::string kBuild = OCTAVO_EMULATED_BUILD;

std::string RunDefect(const std::string& name, bool freed) {
  emulation::DeviceStream stream;
  float* data = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&data), 64 * sizeof(float));
  cudaMemset(data, 0, 64 * sizeof(float));
  cudaDeviceSynchronize();  // the stream does not wait for it
  if (freed) cudaFree(data);
  if (const absl::Status status = LaunchDefect(name, data, stream); !status.ok())
    return std::string(status.message());
  if (const std::string error = stream.Synchronize(); !error.empty()) return error;
  float result[64];
  cudaMemcpy(result, data, sizeof result, cudaMemcpyDeviceToHost);
  for (const float value : result)
    if (std::isnan(value)) return "not a number";
  return "missed";
}

struct Expectation {
  const char* name;
  // Part of what each build says. "missed" where a build cannot know.
  const char *fast, *asan, *race;
  bool freed = false;
};

class Defects : public ::testing::TestWithParam<Expectation> {};

TEST_P(Defects, AreCaught) {
  const Expectation& expected = GetParam();
  const char* message = kBuild == "fast"   ? expected.fast
                        : kBuild == "asan" ? expected.asan
                                           : expected.race;
  EXPECT_THAT(emulation::RunInChild([&] { return RunDefect(expected.name, expected.freed); }),
              HasSubstr(message));
}

Expectation Everywhere(const char* name, const char* message) {
  return {name, message, message, message};
}

INSTANTIATE_TEST_SUITE_P(
    All, Defects,
    ::testing::Values(Everywhere("divergent barrier", "divergent barrier: here defects.cu:"),
                      Everywhere("barrier reached by some", "returned"),
                      Everywhere("lane never at shuffle", "deadlock: no thread can run"),
                      Everywhere("shuffle outside mask", "which mask 0000ffff does not name"),
                      Everywhere("shuffle with returned lanes", "returned"),
                      Everywhere("shuffle against ballot", "lanes of one warp diverge"),
                      Expectation{"uninitialised shared memory", "not a number", "not a number",
                                  "uninitialised shared memory read"},
                      Expectation{"misaligned float4", "", "misaligned address", ""},
                      Expectation{"overflow between arrays", "shared memory written out of bounds",
                                  "use-after-poison",
                                  "shared memory write of 4 bytes out of bounds"},
                      Expectation{"global overrun", "outside every allocation", "AddressSanitizer",
                                  "outside every allocation"},
                      // Not when the copy happens to be early.
                      Expectation{"no cp.async wait", "", "", "cp.async"},
                      Everywhere("spins for ever", "livelock"),
                      Everywhere("takes too much", "kernel takes 16384 bytes, launch gave 4096"),
                      Everywhere("misaligned ldmatrix row", "is not 16-byte aligned"),
                      Expectation{"two writers", "missed", "missed", "race in global memory"},
                      Expectation{"read then written", "missed", "missed", "race in global memory"},
                      Expectation{"writes all", "outside every allocation", "AddressSanitizer",
                                  "outside every allocation", true},
                      Everywhere("writes all", "missed")),
    [](const ::testing::TestParamInfo<Expectation>& info) {
      std::string name = std::to_string(info.index) + "_" + info.param.name;
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

TEST(Defects, AMissingWaitShowsWhereverTheCopyIsLate) {
  if (kBuild == "race") GTEST_SKIP() << "the detector stops before the result";
  const std::string late = emulation::RunInChild([] {
    emulation::GetOptions().seed = 0;
    return RunDefect("no cp.async wait", false);
  });
  EXPECT_THAT(late, HasSubstr("not a number"));
}

TEST(Defects, APlantedOneIsOffUnlessNamed) {
  EXPECT_FALSE(emulation::IsPlanted("a"));
  emulation::Plant("a");
  EXPECT_TRUE(emulation::IsPlanted("a"));
  EXPECT_FALSE(emulation::IsPlanted("b"));
  emulation::Plant("");
  EXPECT_FALSE(emulation::IsPlanted(""));
}

}  // namespace
}  // namespace octavo::cuda
