#include "common/dtype.h"

namespace octavo {

std::optional<DType> ParseFloatOrInt8(absl::string_view text) {
  if (text == "float32" || text == "f32" || text == "fp32") return DType::kF32;
  if (text == "fp16" || text == "float16" || text == "f16") return DType::kF16;
  if (text == "bf16" || text == "bfloat16") return DType::kBF16;
  if (text == "int8") return DType::kI8;
  if (text == "fp8_e4m3" || text == "fp8") return DType::kF8E4M3;
  if (text == "fp8_e5m2") return DType::kF8E5M2;
  return std::nullopt;
}

}  // namespace octavo
