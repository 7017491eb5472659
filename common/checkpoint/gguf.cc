#include "common/checkpoint/gguf.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/ggml_type.h"
#include "common/status_macros.h"

namespace octavo {

static_assert(std::endian::native == std::endian::little, "GGUF values are read in place");

namespace {

constexpr uint64_t kMaxMetadata = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 17;
constexpr uint64_t kMaxKeyBytes = 65535;  // docs/gguf.md
constexpr uint64_t kMaxTensorNameBytes = 255;
constexpr uint32_t kMaxDimensions = 4;  // docs/gguf.md
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8;  // so that F32 data can be read in place
constexpr uint64_t kMaxAlignment = 65536;
// The smallest entries: a length, a type and one byte; a length, a count, a type and an offset.
constexpr uint64_t kMinMetadataBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

uint64_t FixedSize(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

template <typename T>
T Load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// For messages: what a hostile file calls things must not fill a log or a terminal.
std::string Quote(absl::string_view name) {
  constexpr size_t kShown = 120;
  const bool cut = name.size() > kShown;
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, kShown)), cut ? "..." : "", "\"");
}

}  // namespace

// Walks the header once, front to back; every read is checked against the end of the file.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, GgufFile* file) : bytes_(bytes), file_(file) {}

  absl::Status Run() {
    uint64_t tensor_count = 0, metadata_count = 0;
    OCTAVO_RETURN_IF_ERROR(ReadPreamble(&tensor_count, &metadata_count));
    for (uint64_t i = 0; i < metadata_count; ++i) OCTAVO_RETURN_IF_ERROR(ReadMetadata(i));
    std::vector<PendingTensor> tensors;
    tensors.reserve(tensor_count);
    for (uint64_t i = 0; i < tensor_count; ++i) {
      tensors.emplace_back();
      OCTAVO_RETURN_IF_ERROR(ReadTensorInfo(i, &tensors.back()));
    }
    return PlaceTensors(tensors);
  }

 private:
  struct PendingTensor {
    TensorRef ref;
    uint64_t offset = 0;  // from the start of the tensor data
  };

  uint64_t remaining() const { return bytes_.size() - position_; }

  template <typename... Parts>
  absl::Status Invalid(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(file_->path_, ": ", parts...));
  }

  absl::Status Need(uint64_t size, absl::string_view what) const {
    if (size <= remaining()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(file_->path_, ": ", what, " at byte ", position_,
                                            " needs ", size, " bytes, but the file ends after ",
                                            bytes_.size()));
  }

  template <typename T>
  absl::Status Read(T* value, absl::string_view what) {
    OCTAVO_RETURN_IF_ERROR(Need(sizeof(T), what));
    *value = Load<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return absl::OkStatus();
  }

  absl::Status ReadString(absl::string_view* value, uint64_t max_bytes, absl::string_view what) {
    uint64_t size = 0;
    OCTAVO_RETURN_IF_ERROR(Read(&size, what));
    if (size > max_bytes) {
      return Invalid(what, " at byte ", position_, " is ", size, " bytes long; the limit is ",
                     max_bytes);
    }
    OCTAVO_RETURN_IF_ERROR(Need(size, what));
    *value = {reinterpret_cast<const char*>(bytes_.data() + position_), size};
    position_ += size;
    return absl::OkStatus();
  }

  absl::Status ReadPreamble(uint64_t* tensor_count, uint64_t* metadata_count) {
    OCTAVO_RETURN_IF_ERROR(Need(4, "the magic"));
    if (std::memcmp(bytes_.data(), GgufFile::kMagic.data(), 4) != 0) {
      return Invalid("not a GGUF file: it does not start with the bytes \"GGUF\"");
    }
    position_ = 4;
    OCTAVO_RETURN_IF_ERROR(Read(&file_->version_, "the version"));
    const uint32_t version = file_->version_;
    if (version != 2 && version != 3) {
      const bool swapped = version == 0x02000000 || version == 0x03000000;
      return absl::UnimplementedError(
          absl::StrCat(file_->path_, ": GGUF version ", version,
                       swapped ? " is a big-endian file" : " is not supported",
                       "; versions 2 and 3, little-endian, are"));
    }
    OCTAVO_RETURN_IF_ERROR(Read(tensor_count, "the tensor count"));
    OCTAVO_RETURN_IF_ERROR(Read(metadata_count, "the metadata count"));
    OCTAVO_RETURN_IF_ERROR(CheckCount("tensor", *tensor_count, kMaxTensors, kMinTensorBytes));
    return CheckCount("metadata", *metadata_count, kMaxMetadata, kMinMetadataBytes);
  }

  absl::Status CheckCount(absl::string_view what, uint64_t count, uint64_t max,
                          uint64_t min_bytes) const {
    if (count > max) return Invalid(what, " count is ", count, "; the limit is ", max);
    if (count > remaining() / min_bytes) {
      return absl::DataLossError(
          absl::StrCat(file_->path_, ": ", what, " count is ", count, ", but the ", remaining(),
                       " bytes left in the file hold at most ", remaining() / min_bytes));
    }
    return absl::OkStatus();
  }

  absl::Status ReadType(GgufType* type, absl::string_view what) {
    uint32_t raw = 0;
    OCTAVO_RETURN_IF_ERROR(Read(&raw, what));
    if (raw > static_cast<uint32_t>(GgufType::kFloat64)) {
      return Invalid(what, " has value type ", raw, "; the largest known is 12");
    }
    *type = static_cast<GgufType>(raw);
    return absl::OkStatus();
  }

  absl::Status ReadMetadata(uint64_t index) {
    absl::string_view key;
    OCTAVO_RETURN_IF_ERROR(ReadString(&key, kMaxKeyBytes, absl::StrCat("metadata key ", index)));
    const std::string what = absl::StrCat("metadata ", Quote(key));
    GgufValue value;
    OCTAVO_RETURN_IF_ERROR(ReadType(&value.type, what));
    if (value.type == GgufType::kArray) {
      OCTAVO_RETURN_IF_ERROR(ReadArray(&value.value.emplace<GgufArray>(), what));
    } else {
      OCTAVO_RETURN_IF_ERROR(ReadScalar(&value, what));
    }
    if (!file_->metadata_.emplace(key, std::move(value)).second) {
      return Invalid("duplicate metadata key ", Quote(key));
    }
    return absl::OkStatus();
  }

  template <typename Stored, typename Kept>
  absl::Status ReadAs(GgufValue* value, absl::string_view what) {
    Stored stored{};
    OCTAVO_RETURN_IF_ERROR(Read(&stored, what));
    value->value = static_cast<Kept>(stored);
    return absl::OkStatus();
  }

  absl::Status ReadScalar(GgufValue* value, absl::string_view what) {
    switch (value->type) {
      case GgufType::kUint8:
        return ReadAs<uint8_t, uint64_t>(value, what);
      case GgufType::kUint16:
        return ReadAs<uint16_t, uint64_t>(value, what);
      case GgufType::kUint32:
        return ReadAs<uint32_t, uint64_t>(value, what);
      case GgufType::kUint64:
        return ReadAs<uint64_t, uint64_t>(value, what);
      case GgufType::kInt8:
        return ReadAs<int8_t, int64_t>(value, what);
      case GgufType::kInt16:
        return ReadAs<int16_t, int64_t>(value, what);
      case GgufType::kInt32:
        return ReadAs<int32_t, int64_t>(value, what);
      case GgufType::kInt64:
        return ReadAs<int64_t, int64_t>(value, what);
      case GgufType::kFloat32:
        return ReadAs<float, double>(value, what);
      case GgufType::kFloat64:
        return ReadAs<double, double>(value, what);
      case GgufType::kBool: {
        uint8_t stored = 0;
        OCTAVO_RETURN_IF_ERROR(Read(&stored, what));
        if (stored > 1) return Invalid(what, " is a bool of value ", stored, "; 0 and 1 are valid");
        value->value = stored == 1;
        return absl::OkStatus();
      }
      case GgufType::kString:
        return ReadString(&value->value.emplace<absl::string_view>(), bytes_.size(), what);
      case GgufType::kArray:
        break;
    }
    return Invalid(what, " has no scalar type");
  }

  absl::Status ReadArray(GgufArray* array, absl::string_view what) {
    OCTAVO_RETURN_IF_ERROR(ReadType(&array->type, what));
    uint64_t count = 0;
    OCTAVO_RETURN_IF_ERROR(Read(&count, what));
    if (array->type == GgufType::kArray) {
      return absl::UnimplementedError(
          absl::StrCat(file_->path_, ": ", what, " is an array of arrays"));
    }
    const bool strings = array->type == GgufType::kString;
    const uint64_t min_bytes = strings ? 8 : FixedSize(array->type);
    if (count > remaining() / min_bytes) {
      return absl::DataLossError(absl::StrCat(
          file_->path_, ": ", what, " is an array of ", count, " elements, but the ", remaining(),
          " bytes left in the file hold at most ", remaining() / min_bytes));
    }
    array->count = static_cast<int64_t>(count);
    if (!strings) {
      array->raw = bytes_.subspan(position_, count * min_bytes);
      position_ += count * min_bytes;
      return absl::OkStatus();
    }
    array->strings.resize(count);
    for (absl::string_view& text : array->strings) {
      OCTAVO_RETURN_IF_ERROR(ReadString(&text, bytes_.size(), what));
    }
    return absl::OkStatus();
  }

  absl::Status ReadTensorInfo(uint64_t index, PendingTensor* tensor) {
    absl::string_view name;
    OCTAVO_RETURN_IF_ERROR(
        ReadString(&name, kMaxTensorNameBytes, absl::StrCat("name of tensor ", index)));
    TensorRef& ref = tensor->ref;
    ref.name = std::string(name);
    const std::string what = absl::StrCat("tensor ", Quote(name));
    uint32_t dimensions = 0;
    OCTAVO_RETURN_IF_ERROR(Read(&dimensions, what));
    if (dimensions < 1 || dimensions > kMaxDimensions) {
      return Invalid(what, " has ", dimensions, " dimensions; 1 to ", kMaxDimensions, " are valid");
    }
    ref.shape.resize(dimensions);
    for (uint32_t i = 0; i < dimensions; ++i) {  // stored innermost first
      uint64_t size = 0;
      OCTAVO_RETURN_IF_ERROR(Read(&size, what));
      if (size < 1 || size > uint64_t{std::numeric_limits<int64_t>::max()}) {
        return Invalid(what, " has size ", size, " in dimension ", i, "; 1 to ",
                       std::numeric_limits<int64_t>::max(), " are valid");
      }
      ref.shape[dimensions - 1 - i] = static_cast<int64_t>(size);
    }
    uint32_t type = 0;
    OCTAVO_RETURN_IF_ERROR(Read(&type, what));
    const std::optional<DType> dtype = GgmlDType(type);
    if (!dtype) {
      return absl::UnimplementedError(
          absl::StrCat(file_->path_, ": ", what, " has type ", type, " (", GgmlTypeName(type),
                       "); supported are F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K"));
    }
    ref.dtype = *dtype;
    OCTAVO_ASSIGN_OR_RETURN(ref.bytes,
                            CheckedTensorBytes(ref.dtype, ref.shape, file_->path_, Quote(name)));
    return Read(&tensor->offset, what);
  }

  absl::Status PlaceTensors(std::vector<PendingTensor>& tensors) {
    OCTAVO_ASSIGN_OR_RETURN(const std::optional<int64_t> given,
                            file_->Integer("general.alignment", kMinAlignment, kMaxAlignment));
    const uint64_t alignment = given ? static_cast<uint64_t>(*given) : kDefaultAlignment;
    if (!std::has_single_bit(alignment)) {
      return Invalid("general.alignment is ", alignment, "; it must be a power of two");
    }
    const uint64_t data_start = (position_ + alignment - 1) / alignment * alignment;
    const uint64_t data_bytes = data_start < bytes_.size() ? bytes_.size() - data_start : 0;
    for (PendingTensor& tensor : tensors) {
      TensorRef& ref = tensor.ref;
      const std::string name = Quote(ref.name);
      if (tensor.offset % alignment != 0) {
        return Invalid("tensor ", name, " has offset ", tensor.offset,
                       ", which is not a multiple of the alignment ", alignment);
      }
      if (tensor.offset > data_bytes ||
          static_cast<uint64_t>(ref.bytes) > data_bytes - tensor.offset) {
        return absl::DataLossError(
            absl::StrCat(file_->path_, ": tensor ", name, " has ", ref.bytes, " bytes at offset ",
                         tensor.offset, " of the tensor data, which is ", data_bytes,
                         " bytes long: the file is cut short or its header is wrong"));
      }
      ref.data = bytes_.data() + data_start + tensor.offset;
      if (!file_->tensors_.emplace(ref.name, ref).second) {
        return Invalid("duplicate tensor ", name);
      }
    }
    return CheckNoOverlap(file_->tensors_, file_->path_);
  }

  std::span<const std::byte> bytes_;
  GgufFile* file_;
  uint64_t position_ = 0;  // <= bytes_.size()
};

absl::StatusOr<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes, std::string path) {
  GgufFile file;
  file.path_ = std::move(path);
  OCTAVO_RETURN_IF_ERROR(GgufParser(bytes, &file).Run());
  return file;
}

}  // namespace octavo
