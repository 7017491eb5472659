#include "worker/runtime/make_device.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/comm/gloo_communicator.h"
#include "worker/cpu/cpu_backend.h"
#include "worker/cpu/host_limits.h"
#include "worker/cpu/isa.h"
#if OCTAVO_CUDA
#include "worker/cuda/cuda_backend.h"
#if OCTAVO_NCCL
#include "worker/comm/nccl_communicator.h"
#endif
#endif

namespace octavo {
namespace {

absl::StatusOr<ActivationDType> ParseActivations(const DeviceOptions& options,
                                                 const Checkpoint& checkpoint) {
  const std::string& dtype = options.dtype;
  DType wanted = DType::kF32;
  if (dtype == "auto") {
    OCTAVO_ASSIGN_OR_RETURN(wanted, AutoActivationDType(checkpoint));
    if (wanted == DType::kI8 && (options.isa == "avx2" || !HasVnni())) wanted = DType::kF32;
  } else if (const std::optional<DType> parsed = ParseFloatOrInt8(dtype)) {
    wanted = *parsed;
  } else {
    wanted = DType::kF16;  // refused below
  }
  switch (wanted) {
    case DType::kF32:
      return ActivationDType::kFloat32;
    case DType::kBF16:
      return ActivationDType::kBFloat16;
    case DType::kI8:
      return ActivationDType::kInt8;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("--dtype is ", dtype, "; it must be auto, float32, bfloat16 or int8"));
  }
}

absl::StatusOr<std::optional<Isa>> ParseIsa(const std::string& isa) {
  if (isa == "auto") return std::nullopt;
  for (const Isa known : kIsas)
    if (isa == Name(known)) return known;
  return absl::InvalidArgumentError(
      absl::StrCat("--isa is ", isa, "; it must be auto, avx2, avx512 or amx"));
}

#if OCTAVO_CUDA
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaDevice(const DeviceOptions& options,
                                                        const Checkpoint& checkpoint) {
  const bool half = options.dtype == "float16";
  if (options.dtype != "auto" && options.dtype != "bfloat16" && !half)
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype is ", options.dtype,
                     "; of the cuda backend it must be auto, bfloat16 or float16"));
  cuda::CudaBackendOptions cuda;
  cuda.device = options.index;
  cuda.dtype = half ? DType::kF16 : DType::kBF16;
  const std::string& format = options.weight_format;
  if (format != "auto" && format != "stored" && format != "bf16" && format != "fp8")
    return absl::InvalidArgumentError(
        absl::StrCat("--weight-format is ", format, "; it must be auto, stored, bf16 or fp8"));
  if (half && (format == "stored" || format == "bf16"))
    return absl::InvalidArgumentError(absl::StrCat(
        "--weight-format is ", format,
        ", whose products read rows of bfloat16; with --dtype float16 it must be auto or fp8"));
  cuda.fp8_weights = format == "fp8";
  cuda.quantized_weights =
      format == "stored" || (format == "auto" && !half && AutoKeepsQuantized(checkpoint.config()));
  cuda.deterministic = options.deterministic;
  if (!options.group_interface.empty()) {
#if OCTAVO_NCCL
    ChooseNcclInterface(options.group_interface);
    cuda.graphs = false;
#else
    return absl::UnimplementedError(
        "--tensor-parallel-size is more than 1; this build has no NCCL for cards");
#endif
  }
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<cuda::CudaBackend> backend,
                          cuda::CudaBackend::Create(cuda));
  return backend;
}

absl::StatusOr<std::unique_ptr<CommunicatorOffer>> OfferForCard(
    const cuda::CudaBackend& backend, const CommunicatorOptions& options) {
#if OCTAVO_NCCL
  return OfferNccl(options, backend.compute_stream());
#else
  return absl::UnimplementedError(absl::StrCat("no NCCL in this build for ", backend.device_name(),
                                               ", rank ", options.place.rank));
#endif
}
#else
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaDevice(const DeviceOptions&, const Checkpoint&) {
  return absl::UnimplementedError("--backend is cuda; this build has only cpu");
}
#endif

}  // namespace

absl::StatusOr<DType> AutoActivationDType(const Checkpoint& checkpoint) {
  OCTAVO_ASSIGN_OR_RETURN(const TensorRef query, checkpoint.Tensor(TensorRole::kQuery, 0));
  switch (query.dtype) {
    case DType::kBF16:
      return DType::kBF16;
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
      return DType::kI8;
    default:
      return DType::kF32;
  }
}

bool AutoKeepsQuantized(const ModelConfig& config) {
  constexpr int64_t kSmallBytes = int64_t{1} << 30;
  const int64_t heads = int64_t{config.num_heads + config.num_kv_heads} * config.head_dim;
  const int64_t per_hidden =
      config.num_layers * (2 * heads + 3 * int64_t{config.intermediate_size}) + config.vocab_size;
  return per_hidden * config.hidden_size * 2 > kSmallBytes;
}

int32_t DefaultComputeThreads() { return DefaultThreads(); }

absl::StatusOr<std::unique_ptr<Backend>> MakeDevice(const DeviceOptions& options,
                                                    const Checkpoint& checkpoint) {
  if (options.backend == "cuda") return MakeCudaDevice(options, checkpoint);
  if (options.backend != "cpu")
    return absl::InvalidArgumentError(
        absl::StrCat("--backend is ", options.backend, "; it must be cpu or cuda"));
  CpuBackendOptions cpu;
  cpu.threads = options.threads;
  OCTAVO_ASSIGN_OR_RETURN(cpu.activations, ParseActivations(options, checkpoint));
  OCTAVO_ASSIGN_OR_RETURN(cpu.isa, ParseIsa(options.isa));
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<CpuBackend> backend, CpuBackend::Create(cpu));
  return backend;
}

absl::StatusOr<std::unique_ptr<CommunicatorOffer>> OfferCommunicator(
    Backend& backend, const CommunicatorOptions& options) {
#if OCTAVO_CUDA
  if (const auto* card = dynamic_cast<const cuda::CudaBackend*>(&backend))
    return OfferForCard(*card, options);
#else
  (void)backend;
#endif
  return OfferGloo(options);
}

}  // namespace octavo
