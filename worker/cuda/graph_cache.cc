#include "worker/cuda/graph_cache.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "common/status_macros.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/device_memory.h"

namespace octavo::cuda {

absl::StatusOr<bool> GraphCache::Begin(const Key& key) {
  Abandon();
  if (entries_.size() >= kMaxKeys) Clear();
  const auto [found, is_new] = entries_.try_emplace(key);
  Entry& entry = found->second;
  entry.last_use = ++uses_;
  if (is_new) return false;
  if (entry.graph != nullptr) {
    OCTAVO_RETURN_IF_ERROR(ToStatus(cudaGraphLaunch(entry.graph, stream_), "cudaGraphLaunch"));
    ++num_replays_;
    return true;
  }
  // Other threads swap meanwhile, with calls that a global mode would forbid them.
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                                  "cudaStreamBeginCapture"));
  recording_ = true;
  recorded_ = key;
  return false;
}

absl::Status GraphCache::End() {
  if (!recording_) return absl::OkStatus();
  recording_ = false;
  cudaGraph_t graph = nullptr;
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture"));
  const absl::Cleanup destroy = [graph] { cudaGraphDestroy(graph); };
  if (num_graphs_ >= kMaxGraphs) EvictOldest();
  OCTAVO_ASSIGN_OR_RETURN(const DeviceMemory before, ReadDeviceMemory());
  cudaGraphExec_t executable = nullptr;
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate"));
  entries_[recorded_].graph = executable;
  ++num_graphs_;
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch"));
  OCTAVO_ASSIGN_OR_RETURN(const DeviceMemory after, ReadDeviceMemory());
  bytes_per_graph_ = std::max(bytes_per_graph_, before.free_bytes - after.free_bytes);
  return absl::OkStatus();
}

void GraphCache::Abandon() {
  if (!recording_) return;
  recording_ = false;
  cudaGraph_t graph = nullptr;
  // Whatever it answers, the stream records no more.
  cudaStreamEndCapture(stream_, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  entries_.erase(recorded_);
}

void GraphCache::Clear() {
  Abandon();
  for (const auto& [key, entry] : entries_)
    if (entry.graph != nullptr) cudaGraphExecDestroy(entry.graph);
  entries_.clear();
  num_graphs_ = 0;
}

void GraphCache::EvictOldest() {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->second.graph == nullptr) continue;
    if (oldest == entries_.end() || it->second.last_use < oldest->second.last_use) oldest = it;
  }
  if (oldest == entries_.end()) return;
  cudaGraphExecDestroy(oldest->second.graph);
  entries_.erase(oldest);
  --num_graphs_;
}

}  // namespace octavo::cuda
