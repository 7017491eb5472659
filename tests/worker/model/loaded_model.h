// A model on a CPU backend, for tests.
#ifndef OCTAVO_TESTS_WORKER_MODEL_LOADED_MODEL_H_
#define OCTAVO_TESTS_WORKER_MODEL_LOADED_MODEL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "worker/backend/backend.h"
#include "worker/model/model.h"

namespace octavo {

struct LoadedModel {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
};

// float32 activations. Ends the test program with what is missing when the model cannot be loaded.
LoadedModel LoadForTest(const std::string& path, int threads = 2, const GroupPlace& place = {});
// The shares of a group's ranks, one thread each.
std::vector<LoadedModel> LoadRanksForTest(const std::string& path, int32_t size);

// $OCTAVO_MODEL, or where tools/fetch_model.sh puts SmolLM2. Ends the test program when absent.
std::string RealModelPath();
// tests/data/...
std::string TestDataPath(const std::string& name);

}  // namespace octavo

#endif  // OCTAVO_TESTS_WORKER_MODEL_LOADED_MODEL_H_
