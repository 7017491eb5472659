// Element types of weights, activations and the KV cache, with their storage sizes.
#ifndef OCTAVO_COMMON_DTYPE_H_
#define OCTAVO_COMMON_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace octavo {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  // Of the KV cache only.
  kI8,      // one fp16 scale per token and KV head
  kF8E4M3,  // OCP 8-bit formats (rev. 1.0, 2023) without scales: e4m3fn, no infinity, up to 448
  kF8E5M2,  // up to 57,344
  // GGUF block formats (ggml-common.h of llama.cpp): `elements` weights in `bytes` bytes.
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

struct DTypeInfo {
  absl::string_view name;  // as users write it in flags
  int32_t block_elements;  // consecutive elements of a row stored together
  int32_t block_bytes;     // bytes of those
};

constexpr DTypeInfo Info(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {"float32", 1, 4};
    case DType::kF16:
      return {"fp16", 1, 2};
    case DType::kBF16:
      return {"bf16", 1, 2};
    case DType::kI8:
      return {"int8", 1, 1};
    case DType::kF8E4M3:
      return {"fp8_e4m3", 1, 1};
    case DType::kF8E5M2:
      return {"fp8_e5m2", 1, 1};
    case DType::kQ8_0:
      return {"Q8_0", 32, 34};
    case DType::kQ4_0:
      return {"Q4_0", 32, 18};
    case DType::kQ4_1:
      return {"Q4_1", 32, 20};
    case DType::kQ5_0:
      return {"Q5_0", 32, 22};
    case DType::kQ5_1:
      return {"Q5_1", 32, 24};
    case DType::kQ4_K:
      return {"Q4_K", 256, 144};
    case DType::kQ5_K:
      return {"Q5_K", 256, 176};
    case DType::kQ6_K:
      return {"Q6_K", 256, 210};
  }
  return {"unknown", 1, 0};
}

// Bytes of `elements` consecutive elements. REQUIRES: a whole number of storage blocks.
constexpr int64_t StorageBytes(DType dtype, int64_t elements) {
  const DTypeInfo info = Info(dtype);
  return elements / info.block_elements * info.block_bytes;
}

constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// One byte per element.
constexpr bool IsEightBit(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
}

// "float32" or "f32", "fp16" or "float16", "bf16" or "bfloat16", "int8", "fp8_e4m3" or "fp8",
// "fp8_e5m2". nullopt for anything else.
std::optional<DType> ParseFloatOrInt8(absl::string_view text);

}  // namespace octavo

#endif  // OCTAVO_COMMON_DTYPE_H_
