#include "worker/transport/flags.h"

#include <cstdint>
#include <functional>

namespace octavo {
namespace {

constexpr int32_t kMostThreads = 1024;
constexpr int32_t kMostDevices = 64;

void AddDeviceFlags(CLI::App& app, DeviceOptions* device) {
  app.add_option("--backend", device->backend,
                 "What computes: cpu, or cuda for one NVIDIA card, in builds that have it")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--device", device->index,
                 "Which card, of those that CUDA_VISIBLE_DEVICES leaves, from 0; only with "
                 "--backend cuda")
      ->check(CLI::Range(0, kMostDevices - 1))
      ->capture_default_str();
  app.add_option("--threads", device->threads,
                 "Compute threads; 0: one per physical core that affinity and cgroup allow")
      ->check(CLI::Range(0, kMostThreads))
      ->capture_default_str();
  app.add_option(
         "--dtype", device->dtype,
         "Activations inside matrix products; auto: bfloat16 for bfloat16 checkpoints; int8 "
         "per block of 32 for Q4_0, Q4_1 and Q8_0 ones on CPUs with AVX-512 VNNI; float32 "
         "for others. float32 is exact arithmetic on the stored weights. With --backend cuda: "
         "bfloat16, which auto is, or float16, whose numbers end at 65504: beyond, a request ends "
         "with an error")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "int8", "float16"}))
      ->capture_default_str();
  app.add_option("--weight-format", device->weight_format,
                 "Weights on a card; stored: those of 4 and 8 bits stay so (Q6_K becomes bf16); "
                 "bf16: all are; fp8: layers multiply e4m3 with a scale per row, the output head "
                 "and layers whose sizes are no multiples of 16 stay in --dtype, needs compute "
                 "capability 8.9; auto: stored for models that take more than 1 GiB in bf16, with "
                 "--dtype float16 all become float16; only with --backend cuda")
      ->check(CLI::IsMember({"auto", "stored", "bf16", "fp8"}))
      ->capture_default_str();
  app.add_option("--isa", device->isa, "Instruction set; auto: the best that this CPU has")
      ->check(CLI::IsMember({"auto", "avx2", "avx512", "amx"}))
      ->capture_default_str();
  app.add_flag("--deterministic", device->deterministic,
               "With --backend cuda: split attention at fixed positions and share no reads between "
               "sequences, so that a sequence's attention does not depend on what else is in the "
               "batch; slower for batches of unequal lengths. The cpu backend always computes so; "
               "default: off");
}

void AddMemoryFlags(CLI::App& app, MemoryFlags* memory) {
  app.add_option("--gpu-memory-utilization", memory->utilization,
                 "Share of the device's whole memory for weights, activations and KV cache, in "
                 "(0, 1]; default for a card: 0.9; for a CPU: min(4 GiB, half of what is free) "
                 "for the KV cache")
      ->check(CLI::Range(0.0, 1.0));
  AddByteSizeOption(app, "--kv-cache-memory-bytes", &memory->kv_cache_bytes,
                    "Bytes of KV cache, like 512MiB; overrides --gpu-memory-utilization");
  AddByteSizeOption(app, "--swap-space", &memory->swap_bytes,
                    "Bytes of host memory for the KV blocks of preempted requests, like 4GiB, "
                    "touched only as they are used (with --backend cuda pinned at once); 0: none, "
                    "they are recomputed; default: min(4 GiB, a quarter of what is free)");
  if (app.get_option_no_throw("--num-gpu-blocks-override") == nullptr)
    app.add_option("--num-gpu-blocks-override", memory->num_blocks,
                   "Blocks of KV cache, whatever the memory; overrides the two above")
        ->check(CLI::Range(int64_t{1}, int64_t{INT32_MAX} - 1));
}

void AddGroupFlags(CLI::App& app, WorkerFlags* flags) {
  app.add_option("--tensor-parallel-size", flags->place.size,
                 "Workers that share the model; each is started with the same number")
      ->check(CLI::Range(1, kMaxWorldSize))
      ->capture_default_str();
  app.add_option("--tensor-parallel-rank", flags->place.rank,
                 "Which of them this one is, from 0: its place in the scheduler's --workers")
      ->check(CLI::Range(0, kMaxWorldSize - 1))
      ->capture_default_str();
  app.add_option(
         "--communicator-interface", flags->communicator_interface,
         "Network interface on which the workers of a group reach each other, like eth0; also "
         "NCCL's, unless NCCL_SOCKET_IFNAME is set; connections carry neither encryption nor "
         "authentication")
      ->type_name("NAME")
      ->capture_default_str();
  AddCommunicatorTimeoutFlag(app, flags);
}

}  // namespace

void AddCommunicatorTimeoutFlag(CLI::App& app, WorkerFlags* flags) {
  app.add_option("--communicator-timeout", flags->communicator_timeout_seconds,
                 "Seconds that a worker waits for the others of its group inside a step, after "
                 "which the step has failed")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
}

void AddWorkerFlags(CLI::App& app, WorkerFlags* flags, bool embedded) {
  if (!embedded) {
    app.add_option("--model", flags->model_path,
                   "GGUF file or Hugging Face folder; with --load-format dummy a preset's name")
        ->type_name("PATH");
    app.add_option("--load-format", flags->load_format,
                   "auto: what --model holds. dummy: no file is read, --model names a preset "
                   "(llama-3-8b, llama-3-70b, smollm2-135m) whose weights are noise in bfloat16")
        ->check(CLI::IsMember({"auto", "dummy"}))
        ->capture_default_str();
    app.add_option("--listen", flags->listen,
                   "Where the scheduler connects; port 0: a free one, written to the log")
        ->type_name("HOST:PORT")
        ->capture_default_str();
    app.add_option("--port-file", flags->port_file,
                   "File to write \"grpc=HOST:PORT\" into once the worker listens, for scripts")
        ->type_name("PATH");
    app.add_flag(
        "--health-check", flags->health_check,
        "Ask the worker at --listen whether its weights are resident; exit status 0 if so");
    AddProgramFlags(app, &flags->log);
    AddGroupFlags(app, flags);
  }
  AddDeviceFlags(app, &flags->device);
  AddMemoryFlags(app, &flags->memory);
}

LocalExecutorOptions ExecutorOptions(const WorkerFlags& flags, const std::string& name) {
  LocalExecutorOptions options;
  options.name = name;
  options.model_path = flags.model_path;
  options.load_format = flags.load_format;
  options.device = flags.device;
  options.memory = flags.memory;
  options.communication.place = flags.place;
  options.communication.interface = flags.communicator_interface;
  options.communication.timeout = absl::Seconds(flags.communicator_timeout_seconds);
  return options;
}

}  // namespace octavo
