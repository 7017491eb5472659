#include "scheduler/engine/worker_group.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/byte_size.h"
#include "common/cache_geometry.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// Repeated while a worker stays away.
constexpr absl::Duration kLogEvery = absl::Seconds(15);

// Whether the same call may succeed later without anyone changing a flag.
bool IsTransient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
      return true;
    default:
      return false;
  }
}

std::string ShapeText(const KvShape& shape) {
  std::string windows;
  if (!shape.layer_windows.empty())
    windows = absl::StrCat(", windows ", absl::StrJoin(shape.layer_windows, ","));
  return absl::StrCat(shape.num_layers, " layers x ", shape.num_kv_heads, " kv_heads x ",
                      shape.head_dim, " head_dim", windows);
}

absl::Status Annotate(const std::string& worker, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("worker ", worker, ": ", status.message()));
}

// What stopped a group whose ranks were called at once: a refusal before what others made of it.
absl::Status FirstFailure(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses)
    if (!status.ok() && !IsTransient(status)) return status;
  for (const absl::Status& status : statuses)
    if (!status.ok()) return status;
  return absl::OkStatus();
}

// The KV heads of all ranks together, those that several hold counted once. A rank has one alone
// when there are fewer than ranks.
absl::Status CheckHeads(const std::vector<WorkerDescription>& workers, int32_t model_heads) {
  int64_t held = 0;
  for (const WorkerDescription& worker : workers) held += worker.kv_shape.num_kv_heads;
  const int64_t expected = std::max<int64_t>(model_heads, static_cast<int64_t>(workers.size()));
  if (held == expected) return absl::OkStatus();
  std::string ranks = absl::StrJoin(workers, " + ", [](std::string* out, const auto& worker) {
    absl::StrAppend(out, worker.kv_shape.num_kv_heads, " (", worker.name, ")");
  });
  return absl::FailedPreconditionError(absl::StrCat("the workers hold ", ranks, " kv_heads; ",
                                                    workers.size(), " ranks of a model of ",
                                                    model_heads, " hold ", expected));
}

// The override may take more than the memory flags leave, but never more than there is.
absl::Status CheckOverride(const WorkerDescription& worker, int64_t num_blocks,
                           const WorkerConfig& config) {
  OCTAVO_ASSIGN_OR_RETURN(
      const CacheGeometry geometry,
      CacheGeometry::Create(worker.kv_shape, config.kv_dtype, config.block_size));
  const int64_t total = worker.memory_total_bytes;
  const int64_t most = geometry.LendableBlocks(total);
  if (total == 0 || num_blocks <= most) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("worker ", worker.name, ": --num-gpu-blocks-override is ", num_blocks,
                   "; blocks of ", geometry.bytes_per_block(), " bytes fit ", most,
                   " times into all of its ", FormatByteSize(total)));
}

}  // namespace

WorkerGroup::WorkerGroup(std::vector<std::unique_ptr<Executor>> executors,
                         const WorkerGroupOptions& options, ResultCollector::StepSink on_step,
                         ResultCollector::LostSink on_lost)
    : options_(options),
      executors_(std::move(executors)),
      collector_(static_cast<int>(executors_.size()), std::move(on_step), std::move(on_lost)),
      ranks_(executors_.size()) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    ranks_[rank].status.name = absl::StrCat("rank-", rank);
}

WorkerGroup::~WorkerGroup() {
  Cancel();
  StopStreams();
}

absl::StatusOr<GroupCapacity> WorkerGroup::Connect() {
  absl::Duration pause = options_.first_retry;
  absl::Time last_log = absl::InfinitePast();
  while (true) {
    absl::StatusOr<GroupCapacity> capacity = TryConnect(/*again=*/false);
    if (cancelled()) return absl::CancelledError("stopped while waiting for workers");
    if (capacity.ok() || !IsTransient(capacity.status())) return capacity;
    if (const absl::Time now = absl::Now(); now - last_log >= kLogEvery) {
      last_log = now;
      OCTAVO_LOG(kInfo, "waiting for workers: ", capacity.status().message());
    }
    if (!PauseFor(pause)) return absl::CancelledError("stopped while waiting for workers");
    pause = std::min(pause * 2, options_.longest_retry);
  }
}

absl::Status WorkerGroup::Reconnect() {
  absl::Duration pause = options_.first_retry;
  absl::Time last_log = absl::InfinitePast();
  while (true) {
    const absl::StatusOr<GroupCapacity> capacity = TryConnect(/*again=*/true);
    if (cancelled()) return absl::CancelledError("stopped while waiting for workers");
    if (capacity.ok()) return absl::OkStatus();
    if (const absl::Time now = absl::Now(); now - last_log >= kLogEvery) {
      last_log = now;
      OCTAVO_LOG(kWarning, "waiting for workers to come back: ", capacity.status().message());
    }
    if (!PauseFor(pause)) return absl::CancelledError("stopped while waiting for workers");
    pause = std::min(pause * 2, options_.longest_retry);
  }
}

absl::StatusOr<GroupCapacity> WorkerGroup::TryConnect(bool again) {
  std::vector<WorkerDescription> descriptions(executors_.size());
  for (int rank = 0; rank < size(); ++rank)
    OCTAVO_RETURN_IF_ERROR(DescribeRank(rank, again, &descriptions[rank]));
  OCTAVO_RETURN_IF_ERROR(CheckHeads(descriptions, options_.model.kv_shape.num_kv_heads));
  OCTAVO_RETURN_IF_ERROR(LoadAll());

  GroupCapacity smallest{.num_blocks = std::numeric_limits<int64_t>::max(),
                         .num_swap_blocks = std::numeric_limits<int64_t>::max(),
                         .kv_shape = descriptions[0].kv_shape};
  WorkerConfig query = options_.config;
  query.num_blocks = 0;
  query.world_size = size();
  communicator_addresses_.clear();
  for (int rank = 0; rank < size(); ++rank) {
    query.rank = rank;
    absl::StatusOr<WorkerCapacity> capacity = executors_[rank]->Configure(query);
    if (!capacity.ok()) return Annotate(descriptions[rank].name, capacity.status());
    communicator_addresses_.push_back(capacity->communicator_address);
    {
      absl::MutexLock lock(&mutex_);
      ranks_[rank].status.weight_bytes = capacity->weight_bytes;
    }
    smallest.num_swap_blocks = std::min(smallest.num_swap_blocks, capacity->num_swap_blocks);
    if (capacity->num_blocks < smallest.num_blocks) {
      smallest.num_blocks = capacity->num_blocks;
      smallest.reason = absl::StrCat("worker ", descriptions[rank].name, ": ",
                                     FormatByteSize(capacity->kv_budget_bytes), " for blocks, ",
                                     capacity->budget_reason);
    }
  }
  if (options_.num_blocks_override > 0) {
    for (const WorkerDescription& worker : descriptions)
      OCTAVO_RETURN_IF_ERROR(CheckOverride(worker, options_.num_blocks_override, options_.config));
    smallest.num_blocks = options_.num_blocks_override;
    smallest.reason = absl::StrCat("--num-gpu-blocks-override ", options_.num_blocks_override);
  }
  return smallest;
}

absl::Status WorkerGroup::DescribeRank(int rank, bool again, WorkerDescription* description) {
  absl::StatusOr<WorkerDescription> described = executors_[rank]->Describe();
  absl::MutexLock lock(&mutex_);
  WorkerStatus& status = ranks_[rank].status;
  status.connected = described.ok();
  if (!described.ok()) return described.status();
  OCTAVO_RETURN_IF_ERROR(CheckModel(rank, *described));
  if (again && described->numeric_path != status.numeric_path)
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", described->name, " computes on ", described->numeric_path,
                     "; the one before computed on ", status.numeric_path,
                     ", and answers in progress must go on with the same bits"));
  if (status.device.empty())
    OCTAVO_LOG(kInfo, "worker connected worker=", described->name, " device=", described->device,
               " numeric_path=", described->numeric_path, " version=", described->version);
  status.name = described->name;
  status.device = described->device;
  status.numeric_path = described->numeric_path;
  *description = *std::move(described);
  return absl::OkStatus();
}

absl::Status WorkerGroup::CheckModel(int rank, const WorkerDescription& worker) const {
  const ExpectedModel& model = options_.model;
  if (worker.rank != rank || worker.world_size != size())
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", worker.name, " is rank ", worker.rank, " of ", worker.world_size,
        "; the scheduler takes it for rank ", rank, " of ", size(),
        ": list all ranks in order, and start each with its --tensor-parallel-rank and "
        "--tensor-parallel-size"));
  if (worker.model_digest != model.digest)
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", worker.name, " has model ", worker.model_name, " with digest ",
                     worker.model_digest, "; the scheduler's --model has digest ", model.digest,
                     ": give both the same file"));
  KvShape share = model.kv_shape;
  if (size() > 1) share.num_kv_heads = worker.kv_shape.num_kv_heads;  // CheckHeads adds them up
  if (worker.kv_shape != share || share.num_kv_heads > model.kv_shape.num_kv_heads)
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", worker.name, " holds ", ShapeText(worker.kv_shape),
                     "; the model has ", ShapeText(model.kv_shape), " for ", size(), " workers"));
  if (worker.vocab_size != model.vocab_size)
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", worker.name, " has a vocabulary of ", worker.vocab_size,
                     "; the scheduler's --model has ", model.vocab_size));
  return absl::OkStatus();
}

absl::Status WorkerGroup::LoadAll() {
  {
    absl::MutexLock lock(&mutex_);
    loading_ = true;
  }
  std::vector<absl::Status> loaded(executors_.size());
  std::vector<std::thread> others;
  const auto load = [&](int rank) {
    loaded[rank] = executors_[rank]->Load(
        [this, rank](const LoadProgress& progress) { NoteProgress(rank, progress); });
  };
  for (int rank = 1; rank < size(); ++rank) others.emplace_back(load, rank);
  load(0);
  for (std::thread& thread : others) thread.join();
  absl::MutexLock lock(&mutex_);
  loading_ = false;
  for (int rank = 0; rank < size(); ++rank) {
    if (loaded[rank].ok()) continue;
    ranks_[rank].status.connected = false;
    return Annotate(ranks_[rank].status.name, loaded[rank]);
  }
  return absl::OkStatus();
}

absl::Status WorkerGroup::Configure(Epoch epoch, int64_t num_blocks, int64_t num_swap_blocks) {
  WorkerConfig config = options_.config;
  config.epoch = epoch;
  config.num_blocks = num_blocks;
  config.num_swap_blocks = num_swap_blocks;
  config.world_size = size();
  config.communicator_addresses = communicator_addresses_;
  OCTAVO_RETURN_IF_ERROR(ConfigureAll(config));
  absl::MutexLock lock(&streams_mutex_);
  if (cancelled()) return absl::CancelledError("stopped while configuring workers");
  collector_.Begin(epoch);
  for (int rank = 0; rank < size(); ++rank)
    OCTAVO_RETURN_IF_ERROR(executors_[rank]->Start([this, rank](absl::StatusOr<StepResult> result) {
      if (result.ok()) NoteStep(rank, *result);
      collector_.Answer(rank, std::move(result));
    }));
  return absl::OkStatus();
}

absl::Status WorkerGroup::ConfigureAll(const WorkerConfig& config) {
  std::vector<absl::Status> configured(executors_.size());
  const auto configure = [&](int rank) {
    WorkerConfig own = config;
    own.rank = rank;
    const absl::StatusOr<WorkerCapacity> capacity = executors_[rank]->Configure(own);
    configured[rank] = capacity.status();
    if (capacity.ok() && (capacity->num_blocks < config.num_blocks ||
                          capacity->num_swap_blocks < config.num_swap_blocks))
      configured[rank] = absl::ResourceExhaustedError(
          absl::StrCat("the worker of rank ", rank, " allocated ", capacity->num_blocks, " of ",
                       config.num_blocks, " blocks and ", capacity->num_swap_blocks, " of ",
                       config.num_swap_blocks, " host blocks"));
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < size(); ++rank) others.emplace_back(configure, rank);
  configure(0);
  for (std::thread& thread : others) thread.join();
  return FirstFailure(configured);
}

void WorkerGroup::Submit(const StepPlan& plan) {
  for (const auto& executor : executors_) {
    if (absl::Status sent = executor->Submit(plan); !sent.ok()) {
      collector_.Fail(std::move(sent));
      return;
    }
  }
}

void WorkerGroup::StopStreams() {
  absl::MutexLock lock(&streams_mutex_);
  for (const auto& executor : executors_) executor->Stop();
}

void WorkerGroup::Cancel() {
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
  }
  StopStreams();
}

bool WorkerGroup::loading() const {
  absl::MutexLock lock(&mutex_);
  return loading_;
}

std::vector<WorkerStatus> WorkerGroup::workers() const {
  absl::MutexLock lock(&mutex_);
  std::vector<WorkerStatus> workers;
  workers.reserve(ranks_.size());
  for (const Rank& rank : ranks_) {
    WorkerStatus& status = workers.emplace_back(rank.status);
    status.last_step_seconds = rank.steps.last();
    status.step_seconds_p50 = rank.steps.Median();
  }
  return workers;
}

void WorkerGroup::NoteProgress(int rank, const LoadProgress& progress) {
  absl::MutexLock lock(&mutex_);
  Rank& to = ranks_[rank];
  to.status.load_done_bytes = progress.done_bytes;
  to.status.load_total_bytes = progress.total_bytes;
  if (progress.total_bytes <= 0) return;
  const int tenths = static_cast<int>(10.0 * static_cast<double>(progress.done_bytes) /
                                      static_cast<double>(progress.total_bytes));
  if (tenths == to.logged_tenths) return;
  to.logged_tenths = tenths;
  OCTAVO_LOG(kInfo, "loading weights worker=", to.status.name, " ",
             FormatByteSize(progress.done_bytes), " of ", FormatByteSize(progress.total_bytes));
}

void WorkerGroup::NoteStep(int rank, const StepResult& result) {
  absl::MutexLock lock(&mutex_);
  ranks_[rank].steps.Add(result.compute_seconds);
}

bool WorkerGroup::PauseAfter(const absl::Status& error) {
  if (!IsTransient(error)) return false;
  OCTAVO_LOG(kWarning, "configuring workers failed, trying again: ", error.ToString());
  return Pause();
}

bool WorkerGroup::PauseFor(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&cancelled_), duration);
}

bool WorkerGroup::cancelled() const {
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

}  // namespace octavo
