#include "worker/cuda/packed_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/checkpoint/dequantize.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "common/status_naming.h"
#include "worker/cuda/device_memory.h"
#include "worker/cuda/gemm.h"
#include "worker/cuda/kernels/norm.h"
#include "worker/cuda/quant_pack.h"

namespace octavo::cuda {
namespace {

constexpr int64_t kMaxFeatures = int64_t{1} << 31;
// Rows go through one slot of the staging ring.
constexpr int64_t kMaxCols = static_cast<int64_t>(Staging::kSlotBytes / sizeof(uint16_t));
constexpr int64_t kMaxRoundedCols = static_cast<int64_t>(Staging::kSlotBytes / sizeof(float));
constexpr float kLargestFp16 = 65504.0f;

absl::Status CheckPart(const WeightView& part, int64_t cols) {
  const DTypeInfo info = Info(part.dtype);
  if (IsEightBit(part.dtype))
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " has element type ",
                                                   info.name, ", which no weight may have"));
  if (part.data == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " has no data"));
  if (part.rows < 1 || part.rows > kMaxFeatures || part.cols < 1 || part.cols > kMaxCols)
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " is ", part.rows, " x ",
                                                   part.cols, "; rows must be in 1..", kMaxFeatures,
                                                   ", columns in 1..", kMaxCols));
  if (part.cols != cols)
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " has ", part.cols,
                                                   " columns; the parts before it have ", cols));
  if (cols % info.block_elements != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("weight ", part.name, " has ", cols, " columns, not a multiple of ",
                     info.block_elements, " as ", info.name, " needs"));
  return absl::OkStatus();
}

absl::Status CheckSource(const LinearSource& source) {
  if (source.parts.empty()) return absl::InvalidArgumentError("a linear layer without weights");
  int64_t rows = 0;
  for (const WeightView& part : source.parts) {
    OCTAVO_RETURN_IF_ERROR(CheckPart(part, source.parts.front().cols));
    rows += part.rows;
  }
  if (source.gated && (source.parts.size() != 2 || source.parts[0].rows != source.parts[1].rows))
    return absl::InvalidArgumentError(absl::StrCat(
        "a gated layer needs a gate and an up weight of equal rows; ", source.parts.front().name,
        " comes with ", source.parts.size(), " parts of ", rows, " rows"));
  if (!source.bias.empty() && static_cast<int64_t>(source.bias.size()) != rows)
    return absl::InvalidArgumentError(absl::StrCat("the bias of ", source.parts.front().name,
                                                   " has ", source.bias.size(), " values for ",
                                                   rows, " rows"));
  return absl::OkStatus();
}

// Ties to even; NaN stays one.
uint16_t RoundToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// out: part.cols floats.
void WidenRow(const WeightView& part, int64_t row, float* out) {
  const absl::Status status = DequantizeRow(part.dtype, part.row(row), part.cols, out);
  OCTAVO_CHECK(status.ok(), status.message());  // CheckPart has seen dtype and shape
}

// To bf16, or as it is stored where that is `type`. `values` has room for part.cols floats.
void ConvertRow(const WeightView& part, int64_t row, DType type, std::vector<float>& values,
                uint16_t* out) {
  if (part.dtype == type) {
    std::memcpy(out, part.row(row), static_cast<size_t>(part.cols) * sizeof(uint16_t));
    return;
  }
  WidenRow(part, row, values.data());
  for (int64_t c = 0; c < part.cols; ++c) out[c] = RoundToBFloat16(values[static_cast<size_t>(c)]);
}

// The largest magnitude of numbers that are some.
float LargestOf(const float* values, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

std::string NameOf(const LinearSource& source) {
  return absl::StrCat("weight ", source.parts.front().name);
}

}  // namespace

bool FitsFp8(int64_t rows, int64_t cols) {
  return rows % Gemm::kE4m3Multiple == 0 && cols % Gemm::kE4m3Multiple == 0 &&
         cols <= kMaxRoundedCols;
}

absl::StatusOr<std::unique_ptr<CudaLinear>> WeightPacker::Linear(const LinearSource& source) {
  OCTAVO_RETURN_IF_ERROR(CheckSource(source));
  Buffer bias;
  if (!source.bias.empty()) {
    const size_t bytes = source.bias.size() * sizeof(float);
    absl::StatusOr<Buffer> buffer = AllocateDevice(bytes);
    if (!buffer.ok()) return Naming(absl::StrCat("the bias of ", NameOf(source)), buffer.status());
    bias = *std::move(buffer);
    OCTAVO_RETURN_IF_ERROR(staging_.Copy(bias.data(), source.bias.data(), bytes));
  }
  const std::optional<QuantFormat> format =
      formats_.keep_quantized ? QuantFormatOf(source.parts) : std::nullopt;
  if (format.has_value()) {
    OCTAVO_ASSIGN_OR_RETURN(QuantMatrix matrix, PackQuantized(source, *format));
    return std::make_unique<CudaLinear>(std::move(matrix), std::move(bias), source.gated);
  }
  DType type = formats_.type;
  if (formats_.fp8 && !source.head) {
    int64_t rows = 0;
    for (const WeightView& part : source.parts) rows += part.rows;
    const int64_t cols = source.parts.front().cols;
    if (FitsFp8(rows, cols)) {
      type = DType::kF8E4M3;
    } else if (!std::exchange(told_of_fp8_, true)) {
      OCTAVO_LOG(kWarning, "weight ", source.parts.front().name, " is ", rows, " x ", cols,
                 " and stays in 16 bits, like others of its kind: fp8 needs multiples of ",
                 Gemm::kE4m3Multiple, " and at most ", kMaxRoundedCols, " columns");
    }
  }
  OCTAVO_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceMatrix> matrix, Pack(source, type));
  return std::make_unique<CudaLinear>(std::move(matrix), std::move(bias), source.gated);
}

absl::StatusOr<std::unique_ptr<CudaEmbedding>> WeightPacker::Embedding(const WeightView& source) {
  const LinearSource rows = {{source}, {}, false};
  OCTAVO_RETURN_IF_ERROR(CheckSource(rows));
  OCTAVO_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceMatrix> matrix, Pack(rows, formats_.type));
  return std::make_unique<CudaEmbedding>(std::move(matrix));
}

absl::StatusOr<QuantMatrix> WeightPacker::PackQuantized(const LinearSource& source,
                                                        QuantFormat format) {
  QuantMatrix matrix;
  matrix.format = format;
  for (const WeightView& part : source.parts) matrix.rows += part.rows;
  matrix.cols = source.parts.front().cols;
  absl::StatusOr<Buffer> buffer =
      AllocateDevice(static_cast<size_t>(QuantBytes(format, matrix.rows, matrix.cols)));
  if (!buffer.ok()) return Naming(NameOf(source), buffer.status());
  matrix.units = *std::move(buffer);
  const int64_t unit_bytes = QuantUnitBytes(format.bits, format.has_min);
  const int64_t units = static_cast<int64_t>(matrix.units.bytes()) / unit_bytes;
  const int64_t units_per_slot = static_cast<int64_t>(Staging::kSlotBytes) / unit_bytes;
  for (int64_t first = 0; first < units; first += units_per_slot) {
    const int64_t count = std::min(units_per_slot, units - first);
    OCTAVO_RETURN_IF_ERROR(staging_.Send(
        matrix.units.data() + first * unit_bytes, static_cast<size_t>(count * unit_bytes),
        [&](std::byte* slot) { PackQuantUnits(source.parts, format, first, count, slot); }));
  }
  return matrix;
}

absl::StatusOr<std::shared_ptr<const DeviceMatrix>> WeightPacker::Pack(const LinearSource& source,
                                                                       DType type) {
  const WeightView& first = source.parts.front();
  if (source.parts.size() == 1) {
    const std::shared_ptr<const DeviceMatrix> known = packed_[first.data].lock();
    if (known != nullptr && known->rows == first.rows && known->cols == first.cols &&
        known->type == type)
      return known;
  }
  auto matrix = std::make_shared<DeviceMatrix>();
  for (const WeightView& part : source.parts) matrix->rows += part.rows;
  matrix->cols = first.cols;
  matrix->stride = PaddedCols(first.cols);
  matrix->type = type;
  absl::StatusOr<Buffer> buffer =
      AllocateDevice(static_cast<size_t>(StorageBytes(type, matrix->rows * matrix->stride)));
  if (!buffer.ok()) return Naming(NameOf(source), buffer.status());
  matrix->data = *std::move(buffer);
  if (type == DType::kF8E4M3) {
    absl::StatusOr<Buffer> scales =
        AllocateDevice(static_cast<size_t>(matrix->rows) * sizeof(float));
    if (!scales.ok()) return Naming(NameOf(source), scales.status());
    matrix->scales = *std::move(scales);
  }
  int64_t first_row = 0;
  for (const WeightView& part : source.parts) {
    const bool ready = type == DType::kBF16 || part.dtype == type;
    OCTAVO_RETURN_IF_ERROR(ready ? Upload(part, *matrix, first_row)
                                 : UploadAndRound(part, *matrix, first_row));
    first_row += part.rows;
  }
  if (source.parts.size() == 1) packed_[first.data] = matrix;
  return matrix;
}

absl::Status WeightPacker::Upload(const WeightView& part, DeviceMatrix& matrix, int64_t first_row) {
  const int64_t stride = matrix.stride;
  const int64_t rows_per_slot =
      std::max<int64_t>(1, static_cast<int64_t>(Staging::kSlotBytes / sizeof(uint16_t)) / stride);
  std::vector<float> values(static_cast<size_t>(part.cols));
  for (int64_t row = 0; row < part.rows; row += rows_per_slot) {
    const int64_t count = std::min(rows_per_slot, part.rows - row);
    uint16_t* const to = matrix.data.as<uint16_t>() + (first_row + row) * stride;
    OCTAVO_RETURN_IF_ERROR(staging_.Send(to, static_cast<size_t>(count * stride) * sizeof(uint16_t),
                                         [&](std::byte* slot) {
                                           auto* out = reinterpret_cast<uint16_t*>(slot);
                                           for (int64_t r = 0; r < count; ++r, out += stride) {
                                             ConvertRow(part, row + r, matrix.type, values, out);
                                             std::fill(out + part.cols, out + stride, uint16_t{0});
                                           }
                                         }));
  }
  return absl::OkStatus();
}

absl::Status WeightPacker::UploadAndRound(const WeightView& part, DeviceMatrix& matrix,
                                          int64_t first_row) {
  const int64_t stride = matrix.stride;
  if (stride > kMaxRoundedCols)
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " has ", part.cols,
                                                   " columns; to become ", Info(matrix.type).name,
                                                   " at most ", kMaxRoundedCols));
  OCTAVO_RETURN_IF_ERROR(Grow(floats_, Staging::kSlotBytes));
  const int64_t rows_per_slot = kMaxRoundedCols / stride;
  for (int64_t row = 0; row < part.rows; row += rows_per_slot) {
    const int64_t count = std::min(rows_per_slot, part.rows - row);
    float largest = 0;
    OCTAVO_RETURN_IF_ERROR(staging_.Send(
        floats_.data(), static_cast<size_t>(count * stride) * sizeof(float), [&](std::byte* slot) {
          auto* out = reinterpret_cast<float*>(slot);
          for (int64_t r = 0; r < count; ++r, out += stride) {
            WidenRow(part, row + r, out);
            std::fill(out + part.cols, out + stride, 0.0f);
            largest = std::max(largest, LargestOf(out, part.cols));
          }
        }));
    if (matrix.type == DType::kF16 && largest > kLargestFp16)
      return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " has a magnitude of ",
                                                     largest, "; --dtype float16 ends at ",
                                                     kLargestFp16, ", bfloat16 does not"));
    RmsNormArgs args;  // without a weight: rows are only rounded
    args.x = floats_.as<float>();
    args.x_stride = args.out_stride = stride;
    args.type = matrix.type;
    args.out = matrix.data.data() + StorageBytes(matrix.type, (first_row + row) * stride);
    if (matrix.type == DType::kF8E4M3)
      args.out_scales = matrix.scales.as<float>() + first_row + row;
    args.rows = static_cast<int32_t>(count);
    args.cols = static_cast<int32_t>(stride);
    OCTAVO_RETURN_IF_ERROR(LaunchRmsNorm(args, staging_.stream()));
  }
  return absl::OkStatus();
}

}  // namespace octavo::cuda
