#include "worker/runtime/local_executor.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/byte_size.h"
#include "common/check.h"
#include "common/checkpoint/dummy_checkpoint.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/model/shard.h"
#include "worker/model/weights.h"

namespace octavo {
namespace {

// How late a step's end may be seen: far below a step of any card.
constexpr absl::Duration kStepPoll = absl::Microseconds(20);

}  // namespace

absl::StatusOr<std::unique_ptr<LocalExecutor>> LocalExecutor::Create(
    const LocalExecutorOptions& options) {
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                          OpenModel(options.model_path, options.load_format));
  OCTAVO_ASSIGN_OR_RETURN(const RankSplit split,
                          SplitCheckpoint(*checkpoint, options.communication.place));
  DeviceOptions device = options.device;
  if (split.place.size > 1) device.group_interface = options.communication.interface;
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeDevice(device, *checkpoint));
  return absl::WrapUnique(
      new LocalExecutor(options, split, std::move(checkpoint), std::move(backend)));
}

LocalExecutor::LocalExecutor(const LocalExecutorOptions& options, const RankSplit& split,
                             std::unique_ptr<Checkpoint> checkpoint,
                             std::unique_ptr<Backend> backend)
    : name_(options.name),
      memory_flags_(options.memory),
      communication_(options.communication),
      split_(split),
      checkpoint_(std::move(checkpoint)),
      backend_(std::move(backend)) {
  const ModelConfig& config = checkpoint_->config();
  {
    absl::MutexLock lock(&mutex_);
    description_.name = name_;
    description_.device = backend_->device_name();
    description_.numeric_path = backend_->numeric_path();
    // Sums of several ranks' products are other sums.
    if (split_.place.size > 1)
      absl::StrAppend(&description_.numeric_path, "/tp", split_.place.size);
    description_.rank = split_.place.rank;
    description_.world_size = split_.place.size;
    description_.version = OCTAVO_VERSION;
    description_.model_name = config.name;
    description_.model_digest = checkpoint_->digest();
    description_.kv_shape = KvShapeOf(ShareOf(config, split_));
    description_.vocab_size = config.vocab_size;
    description_.max_positions = config.max_positions;
    load_.progress.total_bytes = checkpoint_->tensor_bytes();
  }
  NoteMemory();
}

LocalExecutor::~LocalExecutor() {
  SessionId open = 0;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (session_ != nullptr) open = session_->id;
  }
  AbandonSession(open);
}

absl::StatusOr<WorkerDescription> LocalExecutor::Describe() {
  absl::MutexLock lock(&mutex_);
  return description_;
}

void LocalExecutor::BeginLoad() {
  {
    absl::MutexLock lock(&mutex_);
    if (load_begun_) return;
    load_begun_ = true;
  }
  device_.Post([this] { LoadOnDevice(); });
}

LoadState LocalExecutor::AwaitLoad(int64_t seen_bytes, absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  const auto changed = [&] { return load_.done || load_.progress.done_bytes > seen_bytes; };
  mutex_.AwaitWithTimeout(absl::Condition(&changed), timeout);
  return load_;
}

absl::Status LocalExecutor::Load(const ProgressSink& progress) {
  BeginLoad();
  LoadState state;
  state.progress.done_bytes = -1;
  do {
    state = AwaitLoad(state.progress.done_bytes, absl::InfiniteDuration());
    if (progress) progress(state.progress);
  } while (!state.done);
  return state.status;
}

void LocalExecutor::LoadOnDevice() {
  const absl::Time start = absl::Now();
  absl::StatusOr<std::unique_ptr<Model>> model =
      LoadModel(*checkpoint_, *backend_, split_, [this](int64_t done_bytes, int64_t total_bytes) {
        absl::MutexLock lock(&mutex_);
        load_.progress = {done_bytes, total_bytes};
        return !stopping_;
      });
  if (model.ok()) {
    model_ = *std::move(model);
    runner_ = std::make_unique<ModelRunner>(*backend_, *model_, memory_flags_, communication_);
    NoteMemory();
    OCTAVO_LOG(kInfo, "weights are resident model=", model_->config.name,
               " bytes=", FormatByteSize(model_->weight_bytes),
               " seconds=", absl::ToDoubleSeconds(absl::Now() - start),
               " path=", backend_->numeric_path());
  }
  absl::MutexLock lock(&mutex_);
  load_.done = true;
  load_.status = model.status();
  description_.loaded = model.ok();
}

void LocalExecutor::NoteMemory() {
  const absl::StatusOr<DeviceMemory> memory = backend_->Memory();
  if (!memory.ok()) return;
  absl::MutexLock lock(&mutex_);
  description_.memory_total_bytes = memory->total_bytes;
  description_.memory_free_bytes = memory->free_bytes;
}

absl::StatusOr<WorkerCapacity> LocalExecutor::Configure(const WorkerConfig& config) {
  absl::MutexLock control(&control_mutex_);
  std::shared_ptr<Session> replaced;
  {
    absl::MutexLock lock(&mutex_);
    if (!description_.loaded)
      return absl::FailedPreconditionError("the weights are not loaded yet");
    if (config.num_blocks != 0) {
      const bool open = session_ != nullptr && !session_->ended;
      if (open && config.epoch <= session_->ledger.epoch())
        return absl::UnavailableError(absl::StrCat("epoch ", config.epoch, " cannot replace epoch ",
                                                   session_->ledger.epoch(),
                                                   ", whose step stream is open"));
      replaced = TakeSession();
    }
  }
  absl::StatusOr<WorkerCapacity> capacity;
  device_.Run([&] {
    if (replaced != nullptr)
      FailOnDevice(*replaced,
                   absl::AbortedError(absl::StrCat("epoch ", config.epoch, " was configured")));
    capacity = runner_->Configure(config);
    if (!capacity.ok() && config.num_blocks != 0) runner_->Forget();
    NoteMemory();
  });
  if (config.num_blocks == 0) return capacity;
  {
    absl::MutexLock lock(&mutex_);
    if (capacity.ok()) epoch_ = config.epoch;
  }
  if (capacity.ok())
    OCTAVO_LOG(kInfo, "KV cache configured epoch=", config.epoch, " blocks=", config.num_blocks,
               " block_size=", config.block_size, " dtype=", Info(config.kv_dtype).name,
               " bytes=", FormatByteSize(capacity->kv_budget_bytes),
               " swap_blocks=", config.num_swap_blocks);
  return capacity;
}

absl::Status LocalExecutor::Start(ResultSink sink) {
  OCTAVO_ASSIGN_OR_RETURN(const SessionId session, OpenSession(std::move(sink)));
  absl::MutexLock lock(&mutex_);
  own_session_ = session;
  return absl::OkStatus();
}

absl::Status LocalExecutor::Submit(const StepPlan& plan) {
  SessionId own;
  {
    absl::MutexLock lock(&mutex_);
    own = own_session_;
  }
  return Submit(own, plan);
}

void LocalExecutor::Stop() {
  SessionId own;
  {
    absl::MutexLock lock(&mutex_);
    own = std::exchange(own_session_, 0);
  }
  if (own != 0) CloseSession(own);
}

absl::StatusOr<LocalExecutor::SessionId> LocalExecutor::OpenSession(ResultSink sink) {
  absl::MutexLock lock(&mutex_);
  if (!epoch_)
    return absl::FailedPreconditionError(
        "no epoch is configured, or the last one is over; configure first");
  if (session_ != nullptr)
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", *epoch_, " has a step stream already; configure a larger epoch"));
  session_ =
      std::make_shared<Session>(Session{++last_session_, std::move(sink), StepLedger(*epoch_)});
  return session_->id;
}

absl::Status LocalExecutor::Submit(SessionId id, const StepPlan& plan) {
  std::shared_ptr<Session> session;
  {
    absl::MutexLock lock(&mutex_);
    if (session_ == nullptr || session_->id != id || session_->ended)
      return absl::FailedPreconditionError(
          absl::StrCat("step ", plan.step, " of epoch ", plan.epoch, ": the step stream is over"));
    if (session_->unanswered >= kMaxStepsInFlight)
      return absl::ResourceExhaustedError(
          absl::StrCat("step ", plan.step, ": ", session_->unanswered,
                       " steps are in flight; the limit is ", kMaxStepsInFlight));
    session = session_;
    ++session->unanswered;
    // Under the lock, so that no other epoch can have been configured.
    if (plan.epoch == session->ledger.epoch()) runner_->BeginSwapIns(plan);
  }
  if (device_.TryPost([this, session, plan] { RunStep(session, plan); })) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  --session->unanswered;
  return absl::ResourceExhaustedError("the device's queue is full");
}

void LocalExecutor::RunStep(const std::shared_ptr<Session>& session, const StepPlan& plan) {
  {
    absl::MutexLock lock(&mutex_);
    if (session->ended) return;
  }
  const bool ahead = session->ledger.IsNext(plan) && runner_->RunsAhead(plan);
  while (runner_->num_begun() > 0 && !ahead)
    if (!FinishStep()) return;
  const absl::StatusOr<const StepResult*> known = session->ledger.Admit(plan);
  if (!known.ok()) return EndSession(session, known.status());
  if (*known != nullptr) return Answer(*session, **known);
  computing_ = session;
  if (const absl::Status begun = runner_->Begin(plan); !begun.ok())
    return EndSession(session, begun);
  if (!ahead) {
    FinishStep();
  } else if (!awaiting_) {
    AwaitSteps();
  }
}

void LocalExecutor::AwaitSteps() {
  awaiting_ = false;
  while (runner_ != nullptr && runner_->num_begun() > 0) {
    const absl::StatusOr<bool> done = runner_->Done();
    if (!done.ok() || *done) {
      FinishStep();
    } else if (device_.busy() && device_.TryPost([this] { AwaitSteps(); })) {
      awaiting_ = true;
      return;
    } else {
      absl::SleepFor(kStepPoll);
    }
  }
}

bool LocalExecutor::FinishStep() {
  const std::shared_ptr<Session> session = computing_;
  const absl::StatusOr<StepResult> result = runner_->Finish();
  if (!result.ok()) {
    EndSession(session, result.status());
    return false;
  }
  session->ledger.Record(*result);
  Answer(*session, *result);
  return true;
}

void LocalExecutor::Answer(Session& session, const StepResult& result) {
  {
    absl::MutexLock lock(&mutex_);
    --session.unanswered;
  }
  session.sink(result);
}

void LocalExecutor::EndSession(const std::shared_ptr<Session>& session,
                               const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    session->ended = true;
    // Unless a configuration that waits for this thread has taken it away already.
    if (session_ == session) epoch_.reset();
  }
  OCTAVO_LOG(kWarning, "step stream ends epoch=", session->ledger.epoch(), ": ", reason.ToString());
  runner_->Forget();
  FailOnDevice(*session, reason);
}

void LocalExecutor::FailOnDevice(Session& session, const absl::Status& reason) {
  if (!std::exchange(session.failed, true)) session.sink(reason);
}

std::shared_ptr<LocalExecutor::Session> LocalExecutor::TakeSession() {
  epoch_.reset();
  std::shared_ptr<Session> session = std::exchange(session_, nullptr);
  if (session != nullptr) session->ended = true;
  return session;
}

void LocalExecutor::AbandonSession(SessionId id) {
  absl::MutexLock lock(&mutex_);
  if (session_ == nullptr || session_->id != id) return;
  TakeSession();
  runner_->AbortCommunication(absl::CancelledError("the step stream is over"));
  // Posted under the lock, so that it cannot come after a configuration of the next epoch. Were the
  // queue full, that configuration would forget just as well.
  device_.TryPost([this] { runner_->Forget(); });
}

void LocalExecutor::CloseSession(SessionId id) {
  AbandonSession(id);
  // The last answer may be on its way to the sink.
  device_.Run([] {});
}

void LocalExecutor::EndEpochs(Epoch up_to, const absl::Status& reason) {
  OCTAVO_CHECK(!reason.ok());
  absl::MutexLock control(&control_mutex_);
  std::shared_ptr<Session> session;
  {
    absl::MutexLock lock(&mutex_);
    if (!epoch_ || *epoch_ > up_to) return;
    session = TakeSession();
  }
  device_.Run([&] {
    runner_->Forget();
    if (session != nullptr) FailOnDevice(*session, reason);
  });
}

}  // namespace octavo
