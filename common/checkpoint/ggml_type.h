// The tensor types of GGUF files: enum ggml_type of ggml.h.
#ifndef OCTAVO_COMMON_CHECKPOINT_GGML_TYPE_H_
#define OCTAVO_COMMON_CHECKPOINT_GGML_TYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "common/dtype.h"

namespace octavo {

// nullopt for a type that the engine does not store.
std::optional<DType> GgmlDType(uint32_t type);

// Its name in llama.cpp, for messages about types without a DType; "unknown" for numbers that name
// no type.
absl::string_view GgmlTypeName(uint32_t type);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_GGML_TYPE_H_
