// The products of CudaBackend: rows are normed and rounded, multiplied, and gated.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cuda/cuda_backend.h"
#include "worker/cuda/device_memory.h"
#include "worker/cuda/kernels/gate.h"
#include "worker/cuda/kernels/norm.h"

namespace octavo::cuda {
namespace {

bool IsGate(Epilogue epilogue) {
  return epilogue == Epilogue::kSiluGate || epilogue == Epilogue::kGeluGate;
}

absl::StatusOr<const CudaLinear*> OwnWeight(const LinearWeight* weight) {
  const auto* own = dynamic_cast<const CudaLinear*>(weight);
  if (own == nullptr)
    return absl::InvalidArgumentError("linear: the weight is missing or another backend's");
  return own;
}

absl::Status CheckLinear(const CudaLinear& weight, const LinearParams& params) {
  const bool gate = IsGate(params.epilogue);
  if (gate != weight.gated())
    return absl::InvalidArgumentError(absl::StrCat("a ", weight.gated() ? "gated" : "plain",
                                                   " linear weight was used with ",
                                                   gate ? "a gate" : "no gate", " epilogue"));
  if (params.x.cols != weight.in_features())
    return absl::InvalidArgumentError(absl::StrCat(
        "linear input has ", params.x.cols, " columns; the weight takes ", weight.in_features()));
  const int64_t out_cols = weight.out_features() / (gate ? 2 : 1);
  if (params.out.cols != out_cols)
    return absl::InvalidArgumentError(absl::StrCat("linear output has ", params.out.cols,
                                                   " columns; the weight gives ", out_cols));
  if (params.row_ids == nullptr && params.out.rows > params.x.rows)
    return absl::InvalidArgumentError(
        absl::StrCat("linear output has ", params.out.rows, " rows, the input ", params.x.rows));
  return absl::OkStatus();
}

// Rows of gate_up's result, all of {gate, up}.
GateArgs GateOf(const float* gate_up, int64_t stride, Epilogue epilogue, int64_t rows,
                int64_t cols) {
  GateArgs args;
  args.gate_up = gate_up;
  args.gate_up_stride = stride;
  args.activation =
      epilogue == Epilogue::kSiluGate ? GateActivation::kSilu : GateActivation::kGeluTanh;
  args.rows = static_cast<int32_t>(rows);
  args.cols = static_cast<int32_t>(cols);
  return args;
}

}  // namespace

absl::StatusOr<const int32_t*> CudaBackend::RowIds(const int32_t* host, int64_t count,
                                                   int64_t rows) {
  if (host == nullptr) return nullptr;
  for (int64_t i = 0; i < count; ++i)
    if (host[i] < 0 || host[i] >= rows)
      return absl::InvalidArgumentError(
          absl::StrCat("linear row id ", host[i], " is not in 0..", rows - 1));
  if (host == step_row_ids_ && static_cast<size_t>(count) == num_step_row_ids_)
    return row_ids_.as<int32_t>();
  const size_t bytes = static_cast<size_t>(count) * sizeof(int32_t);
  OCTAVO_RETURN_IF_ERROR(Grow(other_row_ids_, bytes));
  OCTAVO_RETURN_IF_ERROR(staging_->Copy(other_row_ids_.data(), host, bytes));
  return other_row_ids_.as<int32_t>();
}

absl::StatusOr<CudaBackend::Input> CudaBackend::InputOf(const CudaLinear& weight,
                                                        const LinearParams& params) {
  OCTAVO_ASSIGN_OR_RETURN(const int32_t* const row_ids,
                          RowIds(params.row_ids, params.out.rows, params.x.rows));
  const NormedRows normed = std::exchange(normed_, {});
  const bool ready = params.row_ids == nullptr && normed.norm.weight != nullptr &&
                     normed.norm.weight == params.norm.weight && normed.type == weight.type() &&
                     normed.rows.data == params.x.data && normed.rows.rows == params.x.rows &&
                     normed.rows.cols == params.x.cols;
  const auto rows = static_cast<size_t>(params.out.rows);
  OCTAVO_RETURN_IF_ERROR(
      Grow(rows_, rows * static_cast<size_t>(weight.stride()) * sizeof(uint16_t)));
  if (weight.type() == DType::kF8E4M3)
    OCTAVO_RETURN_IF_ERROR(Grow(row_scales_, rows * sizeof(float)));
  return Input{params.x, params.norm, row_ids, weight.type(), weight.stride(), ready};
}

absl::StatusOr<CudaBackend::RoundedRows> CudaBackend::RoundRows(const Input& input, int64_t first,
                                                                int64_t rows) {
  std::byte* const out = rows_.data() + StorageBytes(input.type, first * input.stride);
  float* const scales = input.type == DType::kF8E4M3 ? row_scales_.as<float>() + first : nullptr;
  const RoundedRows rounded = {out, scales};
  if (input.ready) return rounded;
  RmsNormArgs args;
  args.x = input.row_ids != nullptr ? input.x.data : input.x.row(first);
  args.x_stride = input.x.stride;
  args.row_ids = input.row_ids != nullptr ? input.row_ids + first : nullptr;
  args.weight = input.norm.weight;
  args.eps = input.norm.eps;
  args.type = input.type;
  args.out = out;
  args.out_scales = scales;
  args.out_stride = input.stride;
  args.rows = static_cast<int32_t>(rows);
  args.cols = static_cast<int32_t>(input.x.cols);
  OCTAVO_RETURN_IF_ERROR(LaunchRmsNorm(args, compute_.get()));
  return rounded;
}

absl::Status CudaBackend::Multiply(const CudaLinear& weight, const RoundedRows& x,
                                   const Matrix& out, bool add) {
  GemmArgs args;
  args.type = weight.type();
  args.x = x.data;
  args.x_scales = x.scales;
  args.weight_scales = weight.scales();
  args.x_stride = weight.stride();
  args.weight = weight.data();
  args.weight_stride = weight.stride();
  args.bias = weight.bias();
  args.out = out.data;
  args.out_stride = out.stride;
  args.rows = out.rows;
  args.in_features = weight.in_features();
  args.out_features = weight.out_features();
  args.add = add;
  if (const QuantMatrix* quantized = weight.quantized())
    return quant_product_->Run(args, quantized->units.data(), quantized->format, compute_.get());
  if (weight.type() == DType::kF8E4M3) return fp8_product_->Run(args, compute_.get());
  return gemm_->Run(args, compute_.get());
}

absl::Status CudaBackend::Linear(const LinearParams& params) {
  OCTAVO_ASSIGN_OR_RETURN(const CudaLinear* const weight, OwnWeight(params.weight));
  OCTAVO_RETURN_IF_ERROR(CheckLinear(*weight, params));
  if (params.out.rows == 0) return absl::OkStatus();
  OCTAVO_ASSIGN_OR_RETURN(const Input input, InputOf(*weight, params));
  if (!weight->gated()) {
    OCTAVO_ASSIGN_OR_RETURN(const RoundedRows x, RoundRows(input, 0, params.out.rows));
    return Multiply(*weight, x, params.out, params.epilogue == Epilogue::kAdd);
  }
  return ForGatedRows(*weight, input, params.out.rows, [&](int64_t first, const Matrix& gate_up) {
    GateArgs gate =
        GateOf(gate_up.data, gate_up.stride, params.epilogue, gate_up.rows, params.out.cols);
    gate.out = params.out.row(first);
    gate.out_stride = params.out.stride;
    return LaunchGate(gate, compute_.get());
  });
}

absl::Status CudaBackend::FeedForward(const FeedForwardParams& params) {
  OCTAVO_ASSIGN_OR_RETURN(const CudaLinear* const gate_up, OwnWeight(params.gate_up));
  OCTAVO_ASSIGN_OR_RETURN(const CudaLinear* const down, OwnWeight(params.down));
  const LinearParams first_half = {gate_up, params.norm, params.x,
                                   nullptr, params.gate, params.gated};
  OCTAVO_RETURN_IF_ERROR(CheckLinear(*gate_up, first_half));
  OCTAVO_RETURN_IF_ERROR(
      CheckLinear(*down, {down, {}, params.gated, nullptr, params.epilogue, params.out}));
  if (params.out.rows == 0) return absl::OkStatus();
  OCTAVO_ASSIGN_OR_RETURN(const Input input, InputOf(*gate_up, first_half));
  const int64_t most = std::min(params.out.rows, kGatedRows);
  OCTAVO_RETURN_IF_ERROR(
      Grow(gated_rows_, static_cast<size_t>(most * down->stride()) * sizeof(uint16_t)));
  OCTAVO_RETURN_IF_ERROR(Grow(gated_scales_, static_cast<size_t>(most) * sizeof(float)));
  const bool scaled = down->type() == DType::kF8E4M3;
  const RoundedRows gated = {gated_rows_.data(), scaled ? gated_scales_.as<float>() : nullptr};
  return ForGatedRows(
      *gate_up, input, params.out.rows, [&](int64_t first, const Matrix& product) -> absl::Status {
        GateArgs gate =
            GateOf(product.data, product.stride, params.gate, product.rows, params.gated.cols);
        gate.type = down->type();
        gate.rounded = gated_rows_.data();
        gate.rounded_stride = down->stride();
        gate.rounded_scales = scaled ? gated_scales_.as<float>() : nullptr;
        OCTAVO_RETURN_IF_ERROR(LaunchGate(gate, compute_.get()));
        const Matrix out = {params.out.row(first), product.rows, params.out.cols,
                            params.out.stride};
        return Multiply(*down, gated, out, params.epilogue == Epilogue::kAdd);
      });
}

absl::Status CudaBackend::ForGatedRows(
    const CudaLinear& weight, const Input& input, int64_t rows,
    absl::FunctionRef<absl::Status(int64_t first, const Matrix& gate_up)> use) {
  const int64_t most = std::min(rows, kGatedRows);
  OCTAVO_RETURN_IF_ERROR(
      Grow(gate_up_, static_cast<size_t>(most * weight.out_features()) * sizeof(float)));
  for (int64_t first = 0; first < rows; first += most) {
    const Matrix gate_up = {gate_up_.as<float>(), std::min(most, rows - first),
                            weight.out_features(), weight.out_features()};
    OCTAVO_ASSIGN_OR_RETURN(const RoundedRows x, RoundRows(input, first, gate_up.rows));
    OCTAVO_RETURN_IF_ERROR(Multiply(weight, x, gate_up, /*add=*/false));
    OCTAVO_RETURN_IF_ERROR(use(first, gate_up));
  }
  return absl::OkStatus();
}

}  // namespace octavo::cuda
