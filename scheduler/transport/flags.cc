#include "scheduler/transport/flags.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/cache_geometry.h"
#include "common/dtype.h"
#include "common/status_macros.h"
#include "scheduler/transport/prefix_cache_key.h"

namespace octavo {
namespace {

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
// Sequences and tokens of one step: what a plan message and the tables of a worker are made for.
constexpr int32_t kMostSeqs = 65'536;
constexpr int32_t kMostBatchedTokens = 1 << 20;

void AddListenerFlags(CLI::App& app, SchedulerFlags* flags) {
  app.add_option("--host", flags->host,
                 "Address to listen on for clients and metrics; 0.0.0.0 for all of this machine")
      ->capture_default_str();
  app.add_option("--port", flags->port, "Port of the gRPC services; 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--metrics-port", flags->metrics_port,
                 "Port of Prometheus metrics over HTTP (/metrics); 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option(
         "--port-file", flags->port_file,
         "File to write \"grpc=HOST:PORT\" and \"metrics=HOST:PORT\" into once both listen, "
         "for scripts")
      ->type_name("PATH");
  app.add_option("--served-model-name", flags->served_model_name,
                 "Name that clients see; default: the checkpoint's own");
  app.add_option("--drain-timeout", flags->drain_timeout_seconds,
                 "Seconds that running requests get to end after SIGTERM")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
}

void AddCacheFlags(CLI::App& app, SchedulerFlags* flags) {
  app.add_option("--block-size", flags->block_size, "Tokens in one block of the KV cache")
      ->check(CLI::IsMember({8, 16, 32, 64}))
      ->capture_default_str();
  app.add_option(
         "--kv-cache-dtype", flags->kv_cache_dtype,
         "Element type of keys and values; auto: bf16, whatever the arithmetic is. int8 and "
         "fp8 hold twice the tokens in the same bytes; they change the perplexity of "
         "SmolLM2-135M by 0.1 % (int8, one scale per token and head), 1.1 % (fp8_e4m3) and "
         "6 % (fp8_e5m2: a loss that shows, for models known to bear it)")
      ->check(CLI::IsMember({"auto", "float32", "bf16", "fp16", "int8", "fp8_e4m3", "fp8_e5m2"}))
      ->capture_default_str();
  std::vector<std::string> allocations;
  for (const KvAllocation allocation : AllKvAllocations())
    allocations.emplace_back(Name(allocation));
  app.add_option("--kv-allocation", flags->kv_allocation,
                 "paged, or a baseline to measure paging against: each request holds, from its "
                 "start to its end, one run of adjacent blocks for --max-model-len tokens "
                 "(contiguous-max), for its prompt and the next power of two of its max_tokens "
                 "(contiguous-pow2), or for its prompt and max_tokens (contiguous-oracle), without "
                 "prefix cache and with n = 1 only")
      ->check(CLI::IsMember(allocations))
      ->capture_default_str();
  app.add_option("--num-gpu-blocks-override", flags->num_gpu_blocks_override,
                 "Blocks of KV cache, whatever the workers' memory flags leave, but no more than a "
                 "worker's memory holds; default: what fits")
      ->check(CLI::Range(int64_t{1}, int64_t{kMost} - 1));
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", flags->enable_prefix_caching,
               "Find prefixes that were computed before, and share their blocks, instead of "
               "computing them again [default: on]");
  app.add_option("--prefix-cache-key-file", flags->prefix_cache_key_file,
                 "File with the secret, 16 to 1024 bytes, that keys the digests of cached blocks; "
                 "the environment variable OCTAVO_PREFIX_CACHE_KEY may hold it instead. Default: "
                 "random in every process; fix it only where digests shall be the same in several")
      ->type_name("PATH");
  app.add_option("--kv-watermark", flags->kv_watermark,
                 "Share of the blocks that admission keeps free for running sequences, in [0, 1)")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  app.add_option(
         "--expected-mean-tokens", flags->expected_mean_tokens,
         "Mean tokens of a request, prompt plus generated, that the capacity report assumes "
         "before traffic")
      ->check(CLI::Range(1, kMost))
      ->capture_default_str();
}

void AddSchedulingFlags(CLI::App& app, SchedulerFlags* flags) {
  app.add_option("--max-model-len", flags->max_model_len,
                 "Tokens of one request at most, prompt plus generated; default: the model's")
      ->check(CLI::Range(2, kMost));
  app.add_option("--max-num-seqs", flags->max_num_seqs, "Sequences in one step at most")
      ->check(CLI::Range(1, kMostSeqs))
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", flags->max_num_batched_tokens,
                 "Tokens in one step at most; not below --max-num-seqs")
      ->check(CLI::Range(1, kMostBatchedTokens))
      ->capture_default_str();
  app.add_option("--max-prefill-chunk", flags->max_prefill_chunk,
                 "Tokens of one sequence in one step at most; 0: no bound of its own")
      ->check(CLI::Range(0, kMost))
      ->capture_default_str();
  app.add_option("--max-queued-requests", flags->max_queued_requests,
                 "Waiting requests, beyond which new ones are refused with RESOURCE_EXHAUSTED")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-queued-tokens", flags->max_queued_tokens,
                 "Waiting prompt tokens, likewise; 0: no bound")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()))
      ->capture_default_str();
  app.add_option("--step-timeout", flags->step_timeout_seconds,
                 "Seconds after which a step without an answer counts as the loss of its workers")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
}

void AddPreemptionFlags(CLI::App& app, SchedulerFlags* flags) {
  app.add_option("--preemption-mode", flags->preemption_mode,
                 "What becomes of a running request whose blocks a senior one needs: recompute its "
                 "tokens later, swap its blocks to the workers' --swap-space and back, or auto: "
                 "for each whichever costs less by the rates measured. A full swap space, and "
                 "requests of several choices, recompute")
      ->check(CLI::IsMember({"recompute", "swap", "auto"}))
      ->capture_default_str();
  app.add_option("--preemption-granularity", flags->preemption_granularity,
                 "What a preempted request loses: block: only blocks that others took meanwhile; "
                 "request: all but what the prefix index finds")
      ->check(CLI::IsMember({"block", "request"}))
      ->capture_default_str();
  app.add_option("--preemption-resume-share", flags->preemption_resume_share,
                 "Share, in [0, 1], of the blocks that a preempted request may still come to need "
                 "that must be free before it runs again")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--max-preemptions", flags->max_preemptions,
                 "Preemptions of one request, after which it reserves all that it may need and is "
                 "left alone")
      ->check(CLI::Range(0, kMost))
      ->capture_default_str();
}

}  // namespace

void AddSchedulerFlags(CLI::App& app, SchedulerFlags* flags, bool embedded) {
  app.add_option("--model", flags->model_path,
                 "GGUF file or Hugging Face folder; the scheduler reads its configuration and "
                 "tokenizer, not its weights. With --load-format dummy a preset's name")
      ->type_name("PATH");
  app.add_option(
         "--load-format", flags->load_format,
         "auto: what --model holds. dummy: no file is read, --model names a preset "
         "(llama-3-8b, llama-3-70b, smollm2-135m) whose weights are noise; prompts then are "
         "token ids, since there is no tokenizer. The workers get the same two flags")
      ->check(CLI::IsMember({"auto", "dummy"}))
      ->capture_default_str();
  if (!embedded) {
    app.add_option("--workers", flags->workers,
                   "Workers, comma-separated, rank 0 first; those that are not there yet are "
                   "waited for")
        ->delimiter(',')
        ->type_name("HOST:PORT");
    app.add_flag("--health-check", flags->health_check,
                 "Ask the scheduler at --host and --port whether it is ready; exit status 0 if so");
    AddProgramFlags(app, &flags->log);
  }
  AddListenerFlags(app, flags);
  AddCacheFlags(app, flags);
  AddSchedulingFlags(app, flags);
  AddPreemptionFlags(app, flags);
}

absl::StatusOr<EngineOptions> MakeEngineOptions(const SchedulerFlags& flags, ServedModel* model) {
  const ModelConfig& config = model->config;
  model->name = flags.served_model_name.empty() ? config.name : flags.served_model_name;
  model->max_model_len = flags.max_model_len == 0 ? config.max_positions : flags.max_model_len;
  model->max_choices = std::min(flags.max_num_seqs, flags.max_num_batched_tokens);
  if (model->max_model_len > config.max_positions)
    return absl::InvalidArgumentError(
        absl::StrCat("--max-model-len is ", flags.max_model_len, "; model ", config.name,
                     " was made for at most ", config.max_positions, " tokens"));
  // Each sequence that runs takes at least one token of every step.
  if (flags.max_num_batched_tokens < flags.max_num_seqs)
    return absl::InvalidArgumentError(
        absl::StrCat("--max-num-batched-tokens is ", flags.max_num_batched_tokens,
                     "; it must be at least --max-num-seqs, which is ", flags.max_num_seqs));
  DType kv_dtype = DType::kBF16;
  if (flags.kv_cache_dtype != "auto") {
    const std::optional<DType> parsed = ParseFloatOrInt8(flags.kv_cache_dtype);
    if (!parsed.has_value())
      return absl::InvalidArgumentError(absl::StrCat("--kv-cache-dtype is \"", flags.kv_cache_dtype,
                                                     "\"; it must be auto, float32, bf16, fp16, "
                                                     "int8, fp8_e4m3 or fp8_e5m2"));
    kv_dtype = *parsed;
  }

  const std::optional<KvAllocation> parsed_allocation = ParseKvAllocation(flags.kv_allocation);
  if (!parsed_allocation.has_value())
    return absl::InvalidArgumentError(
        absl::StrCat("--kv-allocation is \"", flags.kv_allocation,
                     "\"; it must be paged, contiguous-max, contiguous-pow2 or contiguous-oracle"));
  const KvAllocation allocation = *parsed_allocation;

  EngineOptions options;
  options.scheduler.block_size = flags.block_size;
  options.scheduler.vocab_size = config.vocab_size;
  options.scheduler.max_model_len = model->max_model_len;
  options.scheduler.max_num_seqs = flags.max_num_seqs;
  options.scheduler.max_num_batched_tokens = flags.max_num_batched_tokens;
  options.scheduler.max_prefill_chunk = flags.max_prefill_chunk;
  options.scheduler.max_queued_requests = flags.max_queued_requests;
  options.scheduler.max_queued_tokens = flags.max_queued_tokens;
  options.scheduler.kv_watermark = flags.kv_watermark;
  options.scheduler.kv_allocation = allocation;
  // Nothing is shared under contiguous allocation.
  options.scheduler.prefix_cache =
      flags.enable_prefix_caching && allocation == KvAllocation::kPaged;
  OCTAVO_ASSIGN_OR_RETURN(options.scheduler.prefix_cache_key,
                          PrefixCacheKey(flags.prefix_cache_key_file));
  options.scheduler.model_revision = model->digest;
  options.scheduler.kv_dtype = std::string(Info(kv_dtype).name);
  options.scheduler.preemption_mode = flags.preemption_mode == "swap" ? PreemptionMode::kSwap
                                      : flags.preemption_mode == "recompute"
                                          ? PreemptionMode::kRecompute
                                          : PreemptionMode::kAuto;
  options.scheduler.preemption_granularity = flags.preemption_granularity == "request"
                                                 ? PreemptionGranularity::kRequest
                                                 : PreemptionGranularity::kBlock;
  options.scheduler.preemption_resume_share = flags.preemption_resume_share;
  options.scheduler.max_preemptions = flags.max_preemptions;
  options.group.model = {.digest = model->digest,
                         .kv_shape = {.num_layers = config.num_layers,
                                      .num_kv_heads = config.num_kv_heads,
                                      .head_dim = config.head_dim,
                                      .layer_windows = config.layer_windows},
                         .vocab_size = config.vocab_size};
  options.group.config.kv_dtype = kv_dtype;
  options.group.config.block_size = flags.block_size;
  options.group.config.max_model_len = model->max_model_len;
  options.group.config.max_num_seqs = flags.max_num_seqs;
  options.group.config.max_num_batched_tokens = flags.max_num_batched_tokens;
  options.group.num_blocks_override = flags.num_gpu_blocks_override;
  options.expected_mean_tokens = std::min(flags.expected_mean_tokens, model->max_model_len);
  options.step_timeout = absl::Seconds(flags.step_timeout_seconds);
  return options;
}

}  // namespace octavo
