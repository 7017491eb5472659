// Whole steps as a worker computes them (worker/runtime/model_runner.h), of a model of noise:
// tables, inputs, forward pass, sampling, results on the host. And swaps, alone and beside them.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/dummy_checkpoint.h"
#include "common/executor.h"
#include "common/status_macros.h"
#include "tests/bench/cuda/bench.h"
#include "tests/bench/cuda/device_data.h"
#include "worker/kv/kv_pool.h"
#include "worker/kv/table_mirror.h"
#include "worker/model/decoder.h"
#include "worker/model/step_inputs.h"
#include "worker/model/weights.h"

namespace octavo::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A model on the card, and the limits of all steps.
struct ModelBench {
  cuda::CudaBackend& backend;
  const Sizes& sizes;
  Report& report;
  const Model& model;
};

// Sequences that decode, or one that computes a prompt over and over.
class StepRunner {
 public:
  // A pool with room for `sequences` of `max_length` tokens, and for swapping. It holds noise: a
  // plan may start sequences in the middle, as after a prefix hit.
  static absl::StatusOr<std::unique_ptr<StepRunner>> Create(ModelBench& bench, int32_t sequences,
                                                            int32_t max_rows, int32_t max_length) {
    auto runner = std::make_unique<StepRunner>(bench, sequences, max_length);
    OCTAVO_RETURN_IF_ERROR(runner->Prepare(max_rows));
    return runner;
  }
  StepRunner(ModelBench& bench, int32_t sequences, int32_t max_length)
      : bench_(bench), sequences_(sequences), max_length_(max_length), inputs_(bench.backend) {}
  ~StepRunner() { bench_.backend.Synchronize().IgnoreError(); }

  // Sequences begin, each with `rows` tokens on a context of `context`.
  void PlanStart(int32_t context, int32_t rows) {
    context_ = context;
    plan_ = {};
    const int32_t blocks = BlocksPerSequence();
    for (int32_t i = 0; i < sequences_; ++i) {
      plan_.dropped.push_back(i);
      SeqSlice slice;
      slice.sequence = i;
      slice.start.emplace();
      slice.start->sampling.temperature = 0;
      slice.context_length = context;
      slice.num_tokens = rows;
      for (int32_t r = 0; r < rows; ++r)
        slice.tokens.push_back((i * 7919 + r * 31 + 1) % bench_.sizes.model.vocab);
      for (int32_t b = 0; b < blocks; ++b) slice.new_blocks.push_back(1 + i * blocks + b);
      slice.sample = true;
      plan_.slices.push_back(std::move(slice));
    }
  }
  // Each decodes what it sampled.
  void PlanDecode() {
    plan_.dropped.clear();
    context_ += plan_.slices.front().num_tokens;
    for (SeqSlice& slice : plan_.slices) {
      slice.start.reset();
      slice.context_length = context_;
      slice.num_tokens = 1;
      slice.tokens.clear();
      slice.new_blocks.clear();
      slice.feed_sampled = true;
    }
  }
  int32_t context() const { return context_; }

  // The planned step, from its plan to its tokens.
  // Starts the step and then waits for the one before it, as a worker does: two are in flight.
  absl::Status Step() {
    OCTAVO_RETURN_IF_ERROR(mirror_->Apply(plan_));
    OCTAVO_RETURN_IF_ERROR(inputs_.Build(plan_, *mirror_));
    const std::vector<SampleRow>& rows = inputs_.sample_rows();
    for (size_t i = 0; i < rows.size(); ++i)
      mirror_->ExpectSample(inputs_.sampled_sequences()[i], static_cast<int32_t>(i),
                            static_cast<int32_t>(rows[i].position));
    return Launch();
  }

  // Starts the device's part of the last step once more.
  absl::Status Launch() {
    OCTAVO_ASSIGN_OR_RETURN(params_.logits, decoder_->Forward(inputs_.batch(), pool_->view(),
                                                              inputs_.sampled_row_ids()));
    params_.rows.assign(inputs_.sample_rows().begin(), inputs_.sample_rows().end());
    params_.out = &sampled_[launched_++ % sampled_.size()];
    if (!params_.rows.empty()) OCTAVO_RETURN_IF_ERROR(bench_.backend.Sample(params_));
    OCTAVO_RETURN_IF_ERROR(bench_.backend.SubmitStep());
    return launched_ - finished_ < sampled_.size() ? absl::OkStatus() : Finish();
  }
  // Waits for what is in flight.
  absl::Status FinishAll() {
    while (finished_ < launched_) OCTAVO_RETURN_IF_ERROR(Finish());
    return absl::OkStatus();
  }

  const CacheGeometry& geometry() const { return pool_->geometry(); }
  KvPool& pool() { return *pool_; }
  // Blocks that no sequence has, one for each host block.
  std::vector<BlockSwap> Swaps() const {
    std::vector<BlockSwap> swaps;
    for (int32_t i = 0; i < bench_.sizes.swapped_blocks; ++i)
      swaps.push_back({1 + sequences_ * BlocksPerSequence() + i, 1 + i});
    return swaps;
  }

 private:
  absl::Status Finish() {
    ++finished_;
    return bench_.backend.FinishStep();
  }
  int32_t BlocksPerSequence() const {
    return (max_length_ + bench_.sizes.block_size - 1) / bench_.sizes.block_size;
  }

  absl::Status Prepare(int32_t max_rows) {
    const ModelConfig& config = bench_.model.config;
    OCTAVO_ASSIGN_OR_RETURN(
        const CacheGeometry geometry,
        CacheGeometry::Create(KvShapeOf(config), DType::kBF16, bench_.sizes.block_size));
    OCTAVO_RETURN_IF_ERROR(bench_.backend.Reserve(
        {max_rows, sequences_, sequences_, max_length_, config.num_heads, geometry}));
    OCTAVO_ASSIGN_OR_RETURN(decoder_, Decoder::Create(bench_.backend, bench_.model,
                                                      {max_rows, sequences_, max_length_}));
    const int64_t swapped = bench_.sizes.swapped_blocks;
    const int64_t blocks = int64_t{sequences_} * BlocksPerSequence() + swapped;
    OCTAVO_ASSIGN_OR_RETURN(pool_, KvPool::Create(bench_.backend, geometry, blocks, swapped,
                                                  /*check_swaps=*/false));
    OCTAVO_RETURN_IF_ERROR(FillDevice(bench_.backend, pool_->view().data,
                                      static_cast<size_t>(geometry.PoolBytes(blocks + 1)),
                                      RandomBlock(geometry)));
    MirrorLimits limits;
    limits.num_blocks = blocks;
    limits.block_size = bench_.sizes.block_size;
    limits.max_model_len = max_length_;
    limits.max_num_seqs = sequences_;
    limits.max_num_batched_tokens = max_rows;
    limits.vocab_size = config.vocab_size;
    mirror_ = std::make_unique<TableMirror>(limits);
    return absl::OkStatus();
  }

  ModelBench& bench_;
  const int32_t sequences_;
  const int32_t max_length_;
  int32_t context_ = 0;
  StepPlan plan_;
  StepInputs inputs_;
  std::unique_ptr<TableMirror> mirror_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<KvPool> pool_;
  SampleParams params_;
  std::array<std::vector<SampleOutput>, kMaxStepsInFlight> sampled_;  // at [step % size]
  uint64_t launched_ = 0;
  uint64_t finished_ = 0;
};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Wall time from one step's tokens to the next one's, with two in flight.
absl::StatusOr<Timing> TimeDecodes(StepRunner& runner, int32_t steps) {
  constexpr int kWarm = 3;  // the first runs as it is, the second is recorded
  std::vector<double> seconds;
  for (int32_t i = 0; i < kWarm + steps; ++i) {
    const Clock::time_point start = Clock::now();
    runner.PlanDecode();
    OCTAVO_RETURN_IF_ERROR(runner.Step());
    if (i >= kWarm) seconds.push_back(SecondsSince(start));
  }
  OCTAVO_RETURN_IF_ERROR(runner.FinishAll());
  return TimingOf(std::move(seconds));
}

// What the device needs for one step: steps launched one ahead, between two events.
absl::StatusOr<double> DeviceSeconds(ModelBench& bench, StepRunner& runner) {
  TimedEvent begin, end;
  OCTAVO_RETURN_IF_ERROR(begin.Create());
  OCTAVO_RETURN_IF_ERROR(end.Create());
  OCTAVO_RETURN_IF_ERROR(begin.Record(bench.backend.compute_stream()));
  for (int32_t i = 0; i < bench.sizes.steps; ++i) OCTAVO_RETURN_IF_ERROR(runner.Launch());
  OCTAVO_RETURN_IF_ERROR(end.Record(bench.backend.compute_stream()));
  OCTAVO_RETURN_IF_ERROR(runner.FinishAll());
  OCTAVO_ASSIGN_OR_RETURN(const double all, SecondsBetween(begin, end));
  return all / bench.sizes.steps;
}

// Products: every weight but the embedding is read once, at 2 flops an element and row. Attention:
// keys and values of the context are read once. One follows the other, so their bounds add up.
struct StepWork {
  Work products, attention;
};
StepWork WorkOf(const ModelBench& bench, const CacheGeometry& geometry, double sequences,
                double rows_each, double context) {
  const ModelConfig& config = bench.model.config;
  double weights = double{1} * config.hidden_size * config.vocab_size;
  const double layer = double{1} * config.hidden_size *
                       (2.0 * (config.num_heads + config.num_kv_heads) * config.head_dim +
                        3.0 * config.intermediate_size);
  StepWork work;
  const double rows = sequences * rows_each;
  work.products.flops = 2 * (layer * config.num_layers * rows + weights * sequences);
  work.products.bytes = 2 * (layer * config.num_layers + weights);
  const double length = context + rows_each;
  work.attention.bytes = sequences * length * static_cast<double>(geometry.bytes_per_token());
  const double pairs = sequences * rows_each * (context + 0.5 * (rows_each + 1));
  work.attention.flops = 4.0 * config.num_layers * config.num_heads * config.head_dim * pairs;
  return work;
}

double BoundSeconds(const Ceilings& ceilings, const StepWork& work) {
  return ceilings.Seconds(ceilings.Binding(work.products), work.products) +
         ceilings.Seconds(ceilings.Binding(work.attention), work.attention);
}

void AddStep(ModelBench& bench, const std::string& name, const StepWork& work, const Timing& time,
             double device_seconds, double tokens) {
  const Ceilings& ceilings = bench.report.ceilings();
  Row row;
  row.group = "step";
  row.name = name;
  row.work = {work.products.bytes + work.attention.bytes,
              work.products.flops + work.attention.flops};
  row.bound = ceilings.Binding(row.work);
  row.bound_seconds = BoundSeconds(ceilings, work);
  row.time = time;
  const double idle = std::max(0.0, 1 - device_seconds / time.median);
  row.note = absl::StrFormat("%.0f tokens/s, device %.1f us, idle %.1f %%", tokens / time.median,
                             device_seconds * 1e6, idle * 100);
  row.more = {{"tokens_per_s", tokens / time.median},
              {"device_us", device_seconds * 1e6},
              {"idle_share", idle}};
  bench.report.Add(row);
}

absl::Status MeasureDecodes(ModelBench& bench, int32_t batch) {
  const int32_t context = bench.sizes.step_context;
  OCTAVO_ASSIGN_OR_RETURN(
      const std::unique_ptr<StepRunner> runner,
      StepRunner::Create(bench, batch, batch, context + bench.sizes.steps + 16));
  runner->PlanStart(context - 1, 1);
  OCTAVO_RETURN_IF_ERROR(runner->Step());
  OCTAVO_ASSIGN_OR_RETURN(const Timing time, TimeDecodes(*runner, bench.sizes.steps));
  OCTAVO_ASSIGN_OR_RETURN(const double device, DeviceSeconds(bench, *runner));
  const StepWork work =
      WorkOf(bench, runner->geometry(), batch, 1, runner->context() - 0.5 * bench.sizes.steps);
  AddStep(bench, absl::StrCat("decode, batch ", batch, ", context ", context), work, time, device,
          batch);
  return absl::OkStatus();
}

absl::Status MeasurePrefill(ModelBench& bench) {
  const int32_t rows = bench.sizes.prefill_tokens;
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<StepRunner> runner,
                          StepRunner::Create(bench, 1, rows, rows));
  std::vector<double> seconds;
  for (int32_t i = 0; i < 1 + bench.sizes.steps / 3; ++i) {
    const Clock::time_point start = Clock::now();
    runner->PlanStart(0, rows);
    OCTAVO_RETURN_IF_ERROR(runner->Step());
    if (i > 0) seconds.push_back(SecondsSince(start));
  }
  OCTAVO_ASSIGN_OR_RETURN(const double device, DeviceSeconds(bench, *runner));
  AddStep(bench, absl::StrCat("prefill, ", rows, " tokens"),
          WorkOf(bench, runner->geometry(), 1, rows, 0), TimingOf(std::move(seconds)), device,
          rows);
  return absl::OkStatus();
}

// Blocks one after the other, as a worker swaps them, each complete on return.
absl::StatusOr<Timing> TimeSwaps(ModelBench& bench, StepRunner& runner, bool out) {
  const std::vector<BlockSwap> swaps = runner.Swaps();
  std::vector<double> seconds;
  for (int32_t i = 0; i < 1 + std::min(bench.sizes.steps, 10); ++i) {
    const Clock::time_point start = Clock::now();
    OCTAVO_RETURN_IF_ERROR(out ? runner.pool().SwapOut(swaps) : runner.pool().SwapIn(swaps));
    if (i > 0) seconds.push_back(SecondsSince(start));  // the first one touches the memory
  }
  return TimingOf(std::move(seconds));
}

void AddSwap(ModelBench& bench, StepRunner& runner, const char* name, Bound bound,
             const Timing& time) {
  Row row;
  row.group = "swap";
  row.name = absl::StrCat(name, ", ", bench.sizes.swapped_blocks, " blocks");
  row.bound = bound;
  row.work.bytes =
      static_cast<double>(runner.geometry().bytes_per_block()) * bench.sizes.swapped_blocks;
  row.bound_seconds = bench.report.ceilings().Seconds(bound, row.work);
  row.time = time;
  bench.report.Add(row);
}

// A second thread swaps all the while.
absl::StatusOr<Timing> TimeDecodesBesideSwaps(ModelBench& bench, StepRunner& runner) {
  std::atomic<bool> stop = false;
  absl::Status swapped;
  std::thread swapper([&] {
    const std::vector<BlockSwap> swaps = runner.Swaps();
    while (!stop && swapped.ok()) {
      swapped = runner.pool().SwapOut(swaps);
      if (swapped.ok()) swapped = runner.pool().SwapIn(swaps);
    }
  });
  absl::StatusOr<Timing> time = TimeDecodes(runner, bench.sizes.steps);
  stop = true;
  swapper.join();
  OCTAVO_RETURN_IF_ERROR(swapped);
  return time;
}

absl::Status MeasureSwaps(ModelBench& bench) {
  const std::vector<int32_t>& batches = bench.sizes.batches;
  const int32_t batch = batches[batches.size() / 2];
  const int32_t context = bench.sizes.step_context;
  OCTAVO_ASSIGN_OR_RETURN(
      const std::unique_ptr<StepRunner> runner,
      StepRunner::Create(bench, batch, batch, context + 2 * bench.sizes.steps + 16));
  OCTAVO_ASSIGN_OR_RETURN(const Timing out, TimeSwaps(bench, *runner, /*out=*/true));
  AddSwap(bench, *runner, "out", Bound::kToHost, out);
  OCTAVO_ASSIGN_OR_RETURN(const Timing in, TimeSwaps(bench, *runner, /*out=*/false));
  AddSwap(bench, *runner, "in", Bound::kToDevice, in);

  runner->PlanStart(context - 1, 1);
  OCTAVO_RETURN_IF_ERROR(runner->Step());
  OCTAVO_ASSIGN_OR_RETURN(const Timing alone, TimeDecodes(*runner, bench.sizes.steps));
  OCTAVO_ASSIGN_OR_RETURN(const Timing beside, TimeDecodesBesideSwaps(bench, *runner));
  const StepWork work =
      WorkOf(bench, runner->geometry(), batch, 1, context + 1.5 * bench.sizes.steps);
  Row row;
  row.group = "swap";
  row.name = absl::StrCat("decode beside swaps, batch ", batch);
  row.work.bytes = work.products.bytes + work.attention.bytes;
  row.bound_seconds = BoundSeconds(bench.report.ceilings(), work);
  row.time = beside;
  const double slowdown = beside.median / alone.median - 1;
  row.note =
      absl::StrFormat("%.1f %% slower than %.1f us alone", slowdown * 100, alone.median * 1e6);
  row.more = {{"slowdown", slowdown}, {"alone_us", alone.median * 1e6}};
  bench.report.Add(row);
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureSteps(int32_t device, const Sizes& sizes, Report& report) {
  cuda::CudaBackendOptions options;
  options.device = device;
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::CudaBackend> backend,
                          cuda::CudaBackend::Create(options));
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                          MakeDummyCheckpoint(sizes.model));
  const Clock::time_point start = Clock::now();
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                          LoadModel(*checkpoint, *backend, nullptr));
  report.Note("weights", absl::StrFormat("%s, %.2f GB packed in %.1f s", checkpoint->config().name,
                                         static_cast<double>(model->weight_bytes) * 1e-9,
                                         SecondsSince(start)));
  ModelBench bench = {*backend, sizes, report, *model};
  const auto run = [&](const std::string& name, const absl::Status& measured) -> absl::Status {
    if (!absl::IsResourceExhausted(measured)) return measured;
    report.Skip("step", name, measured);
    return absl::OkStatus();
  };
  for (const int32_t batch : sizes.batches)
    OCTAVO_RETURN_IF_ERROR(run(absl::StrCat("batch ", batch), MeasureDecodes(bench, batch)));
  OCTAVO_RETURN_IF_ERROR(run("prefill", MeasurePrefill(bench)));
  OCTAVO_RETURN_IF_ERROR(run("swaps", MeasureSwaps(bench)));
  return absl::OkStatus();
}

}  // namespace octavo::bench
