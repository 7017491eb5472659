// The port through which an engine drives a worker. Implementations: the remote client of a worker
// process, the in-process worker of `octavo serve`, and fakes in tests.
#ifndef OCTAVO_COMMON_EXECUTOR_H_
#define OCTAVO_COMMON_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cache_geometry.h"
#include "common/dtype.h"
#include "common/step.h"

namespace octavo {

// Steps that may be submitted and not yet answered (design chapter 4, pipelining).
inline constexpr int kMaxStepsInFlight = 2;

// Workers that share one model (tensor parallelism).
inline constexpr int32_t kMaxWorldSize = 64;

struct WorkerDescription {
  std::string name;          // "host:port" or "in-process"
  std::string device;        // "cpu", "cuda:0 NVIDIA H200"
  std::string numeric_path;  // "cpu/avx512/float32": equal paths give equal bits (det.2)
  std::string version;
  std::string model_name;
  std::string model_digest;  // identifies the weights; must match the scheduler's checkpoint
  KvShape kv_shape;
  int32_t vocab_size = 0;
  int32_t max_positions = 0;  // longest context the model was made for
  int64_t memory_total_bytes = 0;
  int64_t memory_free_bytes = 0;
  bool loaded = false;
  // Of tensor parallelism: which share of the model this worker holds, out of how many.
  int32_t rank = 0;
  int32_t world_size = 1;
};

struct LoadProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
};

// Decided by the scheduler, which alone owns these.
struct WorkerConfig {
  Epoch epoch = 0;
  DType kv_dtype = DType::kBF16;
  int32_t block_size = 16;
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  // 0 asks how many blocks fit and changes nothing; > 0 allocates that many, besides the padding.
  int64_t num_blocks = 0;
  int64_t num_swap_blocks = 0;  // of the host pool; read when num_blocks > 0
  // The share that the scheduler takes this worker to hold; refused unless it is so.
  int32_t rank = 0;
  int32_t world_size = 1;
  // [world_size] of the ranks' last queries; read when num_blocks > 0 and world_size > 1. All ranks
  // are then configured at once: they wait for each other.
  std::vector<std::string> communicator_addresses;
};

struct WorkerCapacity {
  int64_t num_blocks = 0;        // lendable blocks: that fit (query) or that were allocated
  int64_t weight_bytes = 0;      // resident weights
  int64_t activation_bytes = 0;  // peak of the largest step
  int64_t kv_budget_bytes = 0;   // what the worker's memory flags leave for blocks
  std::string budget_reason;     // "min(4 GiB, half of 20.1 GiB free)"
  int64_t num_swap_blocks = 0;   // host blocks for swapping: that --swap-space holds, or allocated
  // Where other ranks reach this one, for the next Configure with blocks only. Opaque bytes, empty
  // when world_size is 1 or when this was not a query.
  std::string communicator_address;
};

// Called from one thread of the owner. Load and Configure block; Submit does not.
class Executor {
 public:
  using ResultSink = std::function<void(absl::StatusOr<StepResult>)>;
  using ProgressSink = std::function<void(const LoadProgress&)>;

  virtual ~Executor() = default;

  // UNAVAILABLE while the worker cannot be reached.
  virtual absl::StatusOr<WorkerDescription> Describe() = 0;
  // Returns when the weights are resident; joins a load that is already running.
  virtual absl::Status Load(const ProgressSink& progress) = 0;
  // A new epoch forgets all sequences and step ids. REQUIRES: Load succeeded.
  virtual absl::StatusOr<WorkerCapacity> Configure(const WorkerConfig& config) = 0;
  // Opens the step stream of the configured epoch. Each submitted plan is answered once, in order,
  // on a thread of the executor; `sink` must not block. An error answer ends the stream: nothing
  // submitted is answered after it.
  virtual absl::Status Start(ResultSink sink) = 0;
  // REQUIRES: fewer than kMaxStepsInFlight unanswered plans.
  virtual absl::Status Submit(const StepPlan& plan) = 0;
  // Ends the stream; the sink is not called after this returns. The one method that may be called
  // while another thread is in Describe, Load or Configure: those then return early if they can.
  virtual void Stop() = 0;
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_EXECUTOR_H_
