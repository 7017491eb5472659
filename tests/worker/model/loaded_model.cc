#include "tests/worker/model/loaded_model.h"

#include <cstdlib>
#include <filesystem>

#include "common/check.h"
#include "worker/model/shard.h"
#include "worker/model/weights.h"
#include "worker/runtime/make_device.h"

namespace octavo {
namespace {

template <typename T>
T ValueOrDie(absl::StatusOr<T> value, const std::string& path) {
  OCTAVO_CHECK(value.ok(), path, ": ", value.status().ToString());
  return *std::move(value);
}

}  // namespace

LoadedModel LoadForTest(const std::string& path, int threads, const GroupPlace& place) {
  LoadedModel loaded;
  loaded.checkpoint = ValueOrDie(Checkpoint::Open(path), path);
  DeviceOptions options;
  options.threads = threads;
  options.dtype = "float32";
  loaded.backend = ValueOrDie(MakeDevice(options, *loaded.checkpoint), path);
  const RankSplit split = ValueOrDie(SplitCheckpoint(*loaded.checkpoint, place), path);
  loaded.model = ValueOrDie(LoadModel(*loaded.checkpoint, *loaded.backend, split, nullptr), path);
  return loaded;
}

std::vector<LoadedModel> LoadRanksForTest(const std::string& path, int32_t size) {
  std::vector<LoadedModel> ranks;
  for (int32_t rank = 0; rank < size; ++rank)
    ranks.push_back(LoadForTest(path, /*threads=*/1, {rank, size}));
  return ranks;
}

std::string RealModelPath() {
  const char* set = std::getenv("OCTAVO_MODEL");
  const std::string path =
      set != nullptr ? set : OCTAVO_SOURCE_DIR "/build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  OCTAVO_CHECK(std::filesystem::exists(path), path, " is missing: run tools/fetch_model.sh");
  return path;
}

std::string TestDataPath(const std::string& name) {
  return std::string(OCTAVO_SOURCE_DIR "/tests/data/") + name;
}

}  // namespace octavo
