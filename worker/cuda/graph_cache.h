// Steps recorded as CUDA graphs: one launch in place of some ten a layer.
#ifndef OCTAVO_WORKER_CUDA_GRAPH_CACHE_H_
#define OCTAVO_WORKER_CUDA_GRAPH_CACHE_H_

#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace octavo::cuda {

// A step whose ops are launched with equal arguments whenever its key is equal: what differs from
// step to step is in device memory, at the addresses of the key. The first step of a key runs as it
// is, so that libraries and kernels are warm; the second is recorded; from then on it is replayed.
// Owned and called by the thread that owns the stream.
class GraphCache {
 public:
  // The host launches a step of 32 layers in about 1 ms, and a graph of it takes some hundred KB of
  // the card; batches of more sizes than this are seldom all in use.
  static constexpr size_t kMaxGraphs = 64;
  // Keys seen once are forgotten all together when there are so many.
  static constexpr size_t kMaxKeys = 4096;

  struct Key {
    int32_t rows = 0;     // decodes
    int32_t sampled = 0;  // rows of logits
    int64_t table_stride = 0;
    const void* token_ids = nullptr;
    const void* positions = nullptr;
    const void* slots = nullptr;
    const void* block_tables = nullptr;
    auto operator<=>(const Key&) const = default;
  };

  // REQUIRES: `stream` outlives it.
  explicit GraphCache(cudaStream_t stream) : stream_(stream) {}
  ~GraphCache() { Clear(); }
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // True: the step runs. False: the caller launches it, and then calls End.
  absl::StatusOr<bool> Begin(const Key& key);
  // Runs what was recorded since Begin, if that recorded.
  absl::Status End();
  // Drops a recording that End was not reached for: the launch of an op failed.
  void Abandon();
  // Forgets all: what the graphs name may be gone.
  void Clear();

  int64_t num_replays() const { return num_replays_; }
  size_t num_graphs() const { return num_graphs_; }
  // Of the card, that the largest graph so far took when it was made and first run.
  int64_t bytes_per_graph() const { return bytes_per_graph_; }

 private:
  struct Entry {
    cudaGraphExec_t graph = nullptr;  // nullptr: seen once
    uint64_t last_use = 0;
  };
  void EvictOldest();

  const cudaStream_t stream_;
  std::map<Key, Entry> entries_;
  size_t num_graphs_ = 0;
  uint64_t uses_ = 0;
  int64_t num_replays_ = 0;
  int64_t bytes_per_graph_ = 0;
  bool recording_ = false;
  Key recorded_;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_GRAPH_CACHE_H_
