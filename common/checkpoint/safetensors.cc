#include "common/checkpoint/safetensors.h"

#include <bit>
#include <cstring>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/json_reader.h"
#include "common/status_macros.h"

namespace octavo {

static_assert(std::endian::native == std::endian::little, "tensors are read in place");

namespace {

constexpr uint64_t kMaxHeaderBytes = 32 << 20;
constexpr size_t kMaxIndexBytes = 32 << 20;
constexpr size_t kMaxShards = 4096;
constexpr size_t kMaxDimensions = 8;
constexpr size_t kMaxNameBytes = 1024;

std::optional<DType> SupportedType(absl::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  return std::nullopt;
}

absl::Status CheckName(absl::string_view name, absl::string_view path) {
  if (!name.empty() && name.size() <= kMaxNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": a tensor name of ", name.size(),
                                                 " bytes; 1 to ", kMaxNameBytes, " are valid"));
}

absl::StatusOr<std::vector<int64_t>> ReadShape(const JsonObject& entry) {
  OCTAVO_ASSIGN_OR_RETURN(const Json* shape, entry.Array("shape"));
  if (shape == nullptr) return entry.Missing("shape");
  if (shape->size() > kMaxDimensions) {
    return absl::InvalidArgumentError(absl::StrCat(entry.Name("shape"), " has ", shape->size(),
                                                   " dimensions; the limit is ", kMaxDimensions));
  }
  std::vector<int64_t> sizes;
  for (const Json& element : *shape) {
    const std::optional<int64_t> size = ToInt64(element);
    if (!size) {
      return absl::InvalidArgumentError(absl::StrCat(entry.Name("shape"), " has an element ",
                                                     ShowJson(element), "; integers are expected"));
    }
    sizes.push_back(*size);
  }
  return sizes;
}

// [begin, end) inside the `data_bytes` after the header.
absl::StatusOr<std::pair<int64_t, int64_t>> ReadOffsets(const JsonObject& entry,
                                                        int64_t data_bytes) {
  OCTAVO_ASSIGN_OR_RETURN(const Json* offsets, entry.Array("data_offsets"));
  if (offsets == nullptr) return entry.Missing("data_offsets");
  const std::optional<int64_t> begin = offsets->size() == 2 ? ToInt64((*offsets)[0]) : std::nullopt;
  const std::optional<int64_t> end = begin ? ToInt64((*offsets)[1]) : std::nullopt;
  if (!end) {
    return absl::InvalidArgumentError(absl::StrCat(entry.Name("data_offsets"), " is ",
                                                   ShowJson(*offsets),
                                                   "; two integers that fit 63 bits are expected"));
  }
  if (*begin < 0 || *begin > *end) {
    return absl::InvalidArgumentError(absl::StrCat(entry.Name("data_offsets"), " is [", *begin,
                                                   ", ", *end, "]; 0 <= begin <= end must hold"));
  }
  if (*end > data_bytes) {
    return absl::DataLossError(absl::StrCat(
        entry.Name("data_offsets"), " is [", *begin, ", ", *end, "], but the tensor data is ",
        data_bytes, " bytes long: the file is cut short or its header is wrong"));
  }
  return std::pair(*begin, *end);
}

absl::StatusOr<TensorRef> ReadEntry(const std::string& name, const JsonObject& entry,
                                    std::span<const std::byte> data, absl::string_view path) {
  TensorRef tensor;
  tensor.name = name;
  OCTAVO_ASSIGN_OR_RETURN(const std::string* dtype, entry.String("dtype"));
  if (dtype == nullptr) return entry.Missing("dtype");
  const std::optional<DType> supported = SupportedType(*dtype);
  if (!supported) {
    return entry.Unimplemented("dtype", ShowJson(Json(*dtype)), "F32, F16 and BF16 are");
  }
  tensor.dtype = *supported;
  OCTAVO_ASSIGN_OR_RETURN(tensor.shape, ReadShape(entry));
  OCTAVO_ASSIGN_OR_RETURN(
      tensor.bytes, CheckedTensorBytes(tensor.dtype, tensor.shape, path, ShowJson(Json(name))));
  OCTAVO_ASSIGN_OR_RETURN(const auto offsets,
                          ReadOffsets(entry, static_cast<int64_t>(data.size())));
  const auto [begin, end] = offsets;
  if (end - begin != tensor.bytes) {
    return absl::InvalidArgumentError(absl::StrCat(entry.Name("data_offsets"), " spans ",
                                                   end - begin, " bytes; dtype and shape want ",
                                                   tensor.bytes));
  }
  tensor.data = data.data() + begin;
  return tensor;
}

void Realign(TensorRef* tensor, RealignedTensors* realigned) {
  const auto element = static_cast<uintptr_t>(Info(tensor->dtype).block_bytes);
  if (reinterpret_cast<uintptr_t>(tensor->data) % element == 0) return;
  const auto size = static_cast<size_t>(tensor->bytes);
  realigned->push_back(std::make_unique<std::byte[]>(size));
  std::memcpy(realigned->back().get(), tensor->data, size);
  tensor->data = realigned->back().get();
}

}  // namespace

absl::StatusOr<TensorTable> ReadSafetensors(std::span<const std::byte> bytes,
                                            absl::string_view path, RealignedTensors* realigned) {
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", bytes.size(), " bytes; the header length alone takes 8"));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  bytes = bytes.subspan(sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the header length is ", header_bytes,
                                                   "; the limit is ", kMaxHeaderBytes));
  }
  if (header_bytes > bytes.size()) {
    return absl::DataLossError(absl::StrCat(path, ": the header length is ", header_bytes,
                                            ", but only ", bytes.size(), " bytes follow"));
  }
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), header_bytes);
  const std::span<const std::byte> data = bytes.subspan(header_bytes);
  OCTAVO_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path, kMaxHeaderBytes));
  OCTAVO_ASSIGN_OR_RETURN(const JsonObject header, JsonObject::From(json, path, ""));

  TensorTable table;
  for (const auto& [name, value] : header.json().items()) {
    if (name == "__metadata__") continue;
    OCTAVO_RETURN_IF_ERROR(CheckName(name, path));
    const std::string where = absl::StrCat("tensor ", ShowJson(Json(name)));
    OCTAVO_ASSIGN_OR_RETURN(const JsonObject entry, JsonObject::From(value, path, where));
    OCTAVO_ASSIGN_OR_RETURN(TensorRef tensor, ReadEntry(name, entry, data, path));
    table.emplace(name, std::move(tensor));
  }
  OCTAVO_RETURN_IF_ERROR(CheckNoOverlap(table, path));
  for (auto& [name, tensor] : table) Realign(&tensor, realigned);
  return table;
}

absl::StatusOr<ShardIndex> ParseShardIndex(absl::string_view text, absl::string_view path) {
  OCTAVO_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path, kMaxIndexBytes));
  OCTAVO_ASSIGN_OR_RETURN(const JsonObject top, JsonObject::From(json, path, ""));
  OCTAVO_ASSIGN_OR_RETURN(const auto map, top.Object("weight_map"));
  if (!map) return top.Missing("weight_map");
  ShardIndex index;
  std::set<std::string> files;
  for (const auto& [tensor, value] : map->json().items()) {
    OCTAVO_RETURN_IF_ERROR(CheckName(tensor, path));
    const std::string* file = value.get_ptr<const std::string*>();
    if (file == nullptr || file->find('/') != std::string::npos ||
        file->find('\0') != std::string::npos || !absl::EndsWith(*file, ".safetensors")) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": weight_map names ", ShowJson(value), " for tensor ", ShowJson(Json(tensor)),
          "; the name of a .safetensors file in the same folder is expected"));
    }
    index.tensors.emplace_back(tensor, *file);
    files.insert(*file);
  }
  if (files.empty() || files.size() > kMaxShards) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map names ", files.size(),
                                                   " files; 1 to ", kMaxShards, " are valid"));
  }
  index.files.assign(files.begin(), files.end());
  return index;
}

}  // namespace octavo
