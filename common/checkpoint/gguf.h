// GGUF versions 2 and 3, little-endian: the container that llama.cpp writes. Source: docs/gguf.md
// of the ggml project.
#ifndef OCTAVO_COMMON_CHECKPOINT_GGUF_H_
#define OCTAVO_COMMON_CHECKPOINT_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/tensor_table.h"

namespace octavo {

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

absl::string_view Name(GgufType type);

struct GgufArray {
  GgufType type = GgufType::kUint8;  // of the elements; never kArray
  int64_t count = 0;
  std::span<const std::byte> raw;          // elements of fixed size, little-endian, unaligned
  std::vector<absl::string_view> strings;  // elements when type is kString

  // REQUIRES: 0 <= index < count. nullopt when the elements are not integers that fit int64.
  std::optional<int64_t> Integer(int64_t index) const;
  // REQUIRES: 0 <= index < count, type is kFloat32.
  float Float(int64_t index) const;
};

struct GgufValue {
  GgufType type = GgufType::kUint8;
  std::variant<uint64_t, int64_t, double, bool, absl::string_view, GgufArray> value;
};

// Views into the bytes it was parsed from, which must outlive it. Immutable after Parse.
//
// The typed getters answer nullopt (or nullptr) for an absent key, and INVALID_ARGUMENT for a value
// of another type or out of range.
class GgufFile {
 public:
  static constexpr absl::string_view kMagic = "GGUF";

  // `bytes` must start at a multiple of the file's alignment, as a mapping does. `path` is for
  // messages. INVALID_ARGUMENT, DATA_LOSS (cut short), UNIMPLEMENTED (a known format that this
  // reader does not take).
  static absl::StatusOr<GgufFile> Parse(std::span<const std::byte> bytes, std::string path);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  const std::map<absl::string_view, GgufValue>& metadata() const { return metadata_; }
  const TensorTable& tensors() const { return tensors_; }
  TensorTable TakeTensors() && { return std::move(tensors_); }

  bool Has(absl::string_view key) const { return metadata_.contains(key); }
  absl::StatusOr<std::optional<int64_t>> Integer(absl::string_view key, int64_t min,
                                                 int64_t max) const;
  // The same for a value that may also be an array of one element per layer, all equal.
  absl::StatusOr<std::optional<int64_t>> LayerInteger(absl::string_view key, int64_t min,
                                                      int64_t max) const;
  absl::StatusOr<std::optional<double>> Number(absl::string_view key) const;
  absl::StatusOr<std::optional<bool>> Bool(absl::string_view key) const;
  absl::StatusOr<std::optional<absl::string_view>> String(absl::string_view key) const;
  absl::StatusOr<const GgufArray*> Array(absl::string_view key, GgufType element) const;

 private:
  friend class GgufParser;

  const GgufValue* Find(absl::string_view key) const;
  absl::Status WrongType(absl::string_view key, const GgufValue& value,
                         absl::string_view wanted) const;

  std::string path_;
  uint32_t version_ = 0;
  std::map<absl::string_view, GgufValue> metadata_;
  TensorTable tensors_;
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_GGUF_H_
