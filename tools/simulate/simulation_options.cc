#include "tools/simulate/simulation_options.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/byte_size.h"
#include "common/dtype.h"
#include "common/program/program.h"
#include "common/status_macros.h"
#include "scheduler/core/kv_allocation.h"
#include "tools/simulate/trace_reader.h"

namespace octavo::simulate {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr int64_t kSharegptLikeRequests = 2000;
constexpr int64_t kMostRequests = 10'000'000;

PoolPlan PlanPool(const SimulationOptions& options, const DeviceSpec& device,
                  const ModelSpec& model, const CacheGeometry& geometry) {
  const double cards = options.cards;
  PoolPlan pool;
  pool.card_bytes = device.memory_gib * kGib;
  pool.weight_bytes = model.stored_bytes() / cards;
  // Of one layer of the largest step, in 16 bits: the residual stream and its norm whole, the
  // attention inputs and the feed-forward part as split over the cards; and 32-bit logits.
  const double per_token =
      2 * (2.0 * model.hidden + (model.head_dim * (2.0 * model.heads + 2.0 * model.kv_heads) +
                                 (model.gated_ffn ? 2.0 : 1.0) * model.ffn) /
                                    cards);
  pool.activation_bytes = device.reserved_gib * kGib +
                          options.scheduler.max_num_batched_tokens * per_token +
                          4.0 * options.scheduler.max_num_seqs * model.vocab / cards;
  pool.pool_bytes = std::max(0.0, pool.card_bytes * options.memory_utilization - pool.weight_bytes -
                                      pool.activation_bytes);
  pool.given = options.num_blocks > 0;
  pool.num_blocks = pool.given ? options.num_blocks
                               : geometry.LendableBlocks(static_cast<int64_t>(pool.pool_bytes));
  return pool;
}

std::string Gib(double bytes) { return FormatByteSize(static_cast<int64_t>(bytes)); }

std::vector<std::string> AllocationNames() {
  std::vector<std::string> names;
  for (const KvAllocation allocation : AllKvAllocations()) names.emplace_back(Name(allocation));
  return names;
}

void AddPreemptionFlags(CLI::App& app, SimulationOptions* options) {
  SchedulerConfig* scheduler = &options->scheduler;
  app.add_option("--preemption-mode", options->preemption_mode,
                 "What becomes of a victim's blocks: recompute, swap, or auto: whichever costs "
                 "less by the rates measured")
      ->check(CLI::IsMember({"recompute", "swap", "auto"}))
      ->capture_default_str();
  app.add_option("--preemption-granularity", options->preemption_granularity,
                 "What a preempted request loses: block: only blocks that others took meanwhile; "
                 "request: all but what the prefix index finds")
      ->check(CLI::IsMember({"block", "request"}))
      ->capture_default_str();
  app.add_option("--preemption-resume-share", scheduler->preemption_resume_share,
                 "Share of the blocks that a preempted request may still come to need that must "
                 "be free before it runs again")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option(
         "--max-preemptions", scheduler->max_preemptions,
         "Preemptions of one request, after which it reserves all it can need and is immune")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  AddByteSizeOption(app, "--swap-space", &options->swap_bytes,
                    "Host memory of each card for swapped blocks; 0: none (default 16GiB)");
}

}  // namespace

void AddWorkloadFlags(CLI::App& app, SimulationOptions* options) {
  app.add_option("--trace", options->trace,
                 "Requests: an Azure CSV file, a Mooncake JSONL file, or sharegpt-like "
                 "(log-normal lengths, mean 161 prompt and 338 output tokens)")
      ->type_name("FILE|sharegpt-like")
      ->capture_default_str();
  app.add_option("--requests", options->requests,
                 "Requests in all; a trace that has fewer repeats, shifted in time; 0: the trace "
                 "once, 2000 of sharegpt-like")
      ->check(CLI::Range(int64_t{0}, kMostRequests))
      ->capture_default_str();
  app.add_option("--arrival-scale", options->arrival_scale,
                 "Arrivals of the trace, this many times as fast")
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  app.add_option("--request-rate", options->request_rate,
                 "Poisson arrivals, requests per second, instead of the trace's; inf: all at once; "
                 "0: the trace's, and all at once where it has none")
      ->check(CLI::Range(0.0, std::numeric_limits<double>::infinity()))
      ->capture_default_str();
  app.add_option("--seed", options->seed, "Seed of everything that is drawn")
      ->capture_default_str();
  app.add_option("--choices", options->choices, "Samples (n) of every request")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void AddSystemFlags(CLI::App& app, SimulationOptions* options) {
  SchedulerConfig* scheduler = &options->scheduler;
  app.add_option("--preset-device", options->device_preset,
                 absl::StrCat("Device: ", absl::StrJoin(DevicePresetNames(), ", ")))
      ->check(CLI::IsMember(DevicePresetNames()))
      ->capture_default_str();
  app.add_option("--device", options->device_file,
                 "JSON file that describes another device (docs/simulate.md)")
      ->type_name("FILE");
  app.add_option("--preset-model", options->model_preset,
                 absl::StrCat("Model: ", absl::StrJoin(ModelPresetNames(), ", ")))
      ->check(CLI::IsMember(ModelPresetNames()))
      ->capture_default_str();
  app.add_option("--model", options->model_file,
                 "JSON file that describes another model; a config.json of Hugging Face will do")
      ->type_name("FILE");
  app.add_option("--cards", options->cards, "Cards that share the model (tensor parallel)")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--gpu-memory-utilization", options->memory_utilization,
                 "Share of a card's memory for weights, activations and KV cache")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  app.add_option("--num-blocks", options->num_blocks,
                 "Blocks of KV cache, whatever fits in memory; 0: what fits")
      ->check(CLI::Range(int64_t{0}, int64_t{std::numeric_limits<int32_t>::max()} - 1))
      ->capture_default_str();
  app.add_option("--block-size", scheduler->block_size, "Tokens in one block of the KV cache")
      ->check(CLI::IsMember({8, 16, 32, 64}))
      ->capture_default_str();
  app.add_option(
         "--kv-cache-dtype", options->kv_cache_dtype,
         "Element type of keys and values: float32, bf16, fp16, int8, fp8_e4m3 or fp8_e5m2; auto: "
         "bf16")
      ->capture_default_str();
  app.add_option("--max-model-len", options->max_model_len,
                 "Tokens of one request at most, prompt plus output; longer ones are refused; 0: "
                 "the longest request of the trace, or what the pool holds if that is less")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()))
      ->capture_default_str();
  app.add_option("--max-num-seqs", scheduler->max_num_seqs, "Sequences in one step at most")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", scheduler->max_num_batched_tokens,
                 "Tokens in one step at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-prefill-chunk", scheduler->max_prefill_chunk,
                 "Tokens of one sequence in one step at most; 0: no bound of its own")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--kv-watermark", scheduler->kv_watermark,
                 "Share of the blocks that admission keeps free for running sequences, in [0, 1)")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  app.add_option("--kv-allocation", options->kv_allocation,
                 "paged, or a baseline that reserves one run of adjacent blocks per request: for "
                 "--max-model-len tokens (contiguous-max), for the prompt and the next power of "
                 "two of the output (contiguous-pow2), or for exactly what it will need "
                 "(contiguous-oracle); those have no prefix cache")
      ->check(CLI::IsMember(AllocationNames()))
      ->capture_default_str();
  AddPreemptionFlags(app, options);
  app.add_option("--prefix-caching", scheduler->prefix_cache,
                 "Find the blocks of equal prefixes: true or false")
      ->capture_default_str();
}

absl::StatusOr<Trace> LoadTrace(const SimulationOptions& options) {
  if (options.trace != "sharegpt-like") return ReadTraceFile(options.trace);
  return DrawSharegptLike(options.requests > 0 ? options.requests : kSharegptLikeRequests,
                          options.seed);
}

absl::StatusOr<SimulationSetup> MakeSetup(const SimulationOptions& options, const Trace& trace) {
  SimulationSetup setup;
  OCTAVO_ASSIGN_OR_RETURN(setup.device, options.device_file.empty()
                                            ? DevicePreset(options.device_preset)
                                            : ReadDeviceFile(options.device_file));
  OCTAVO_ASSIGN_OR_RETURN(setup.model, options.model_file.empty()
                                           ? ModelPreset(options.model_preset)
                                           : ReadModelFile(options.model_file));
  setup.cards = options.cards;
  if (setup.model.kv_heads % options.cards != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--cards is ", options.cards,
                                                   "; it must divide the ", setup.model.kv_heads,
                                                   " KV heads of ", setup.model.name));
  }
  std::optional<DType> kv_dtype = DType::kBF16;
  if (options.kv_cache_dtype != "auto") kv_dtype = ParseFloatOrInt8(options.kv_cache_dtype);
  if (!kv_dtype.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("--kv-cache-dtype is \"", options.kv_cache_dtype,
                                                   "\"; it must be auto, float32, bf16, fp16, "
                                                   "int8, fp8_e4m3 or fp8_e5m2"));
  }
  KvShape shape = setup.model.kv_shape();
  shape.num_kv_heads /= options.cards;
  OCTAVO_ASSIGN_OR_RETURN(setup.geometry,
                          CacheGeometry::Create(shape, *kv_dtype, options.scheduler.block_size));
  setup.pool = PlanPool(options, setup.device, setup.model, setup.geometry);
  const int64_t pool_tokens = setup.pool.num_blocks * options.scheduler.block_size;
  if (pool_tokens < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(setup.model.name, " needs ", Gib(setup.pool.weight_bytes), " for weights and ",
                     Gib(setup.pool.activation_bytes), " for activations; ", setup.device.name,
                     " has ", Gib(setup.pool.card_bytes), " x ", options.memory_utilization,
                     " and nothing is left for the cache"));
  }

  SchedulerConfig& config = setup.scheduler = options.scheduler;
  config.num_blocks = setup.pool.num_blocks;
  config.vocab_size = setup.model.vocab;
  config.max_model_len = options.max_model_len;
  if (config.max_model_len == 0) {
    config.max_model_len =
        static_cast<int32_t>(std::max<int64_t>(2, std::min(trace.LongestRequest(), pool_tokens)));
  }
  config.kv_allocation = *ParseKvAllocation(options.kv_allocation);
  if (config.kv_allocation != KvAllocation::kPaged) config.prefix_cache = false;
  config.preemption_mode = options.preemption_mode == "swap"        ? PreemptionMode::kSwap
                           : options.preemption_mode == "recompute" ? PreemptionMode::kRecompute
                                                                    : PreemptionMode::kAuto;
  config.preemption_granularity = options.preemption_granularity == "request"
                                      ? PreemptionGranularity::kRequest
                                      : PreemptionGranularity::kBlock;
  config.block_bytes = setup.geometry.bytes_per_block();
  config.num_swap_blocks = options.swap_bytes / config.block_bytes;
  // The arrivals wait outside the scheduler: its own queue must only never be the limit.
  config.max_queued_requests = std::numeric_limits<int32_t>::max();
  OCTAVO_RETURN_IF_ERROR(Validate(config));

  setup.workload = {.requests = options.requests,
                    .arrival_scale = options.arrival_scale,
                    .request_rate = options.request_rate,
                    .choices = options.choices,
                    .seed = options.seed,
                    .vocab_size = setup.model.vocab};
  return setup;
}

}  // namespace octavo::simulate
