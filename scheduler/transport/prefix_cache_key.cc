#include "scheduler/transport/prefix_cache_key.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"

namespace octavo {
namespace {

constexpr size_t kMinBytes = 16;
constexpr size_t kMaxBytes = 1024;
constexpr size_t kRandomBytes = 32;

absl::StatusOr<std::string> Checked(absl::string_view origin, std::string key) {
  if (key.size() >= kMinBytes && key.size() <= kMaxBytes) return key;
  return absl::InvalidArgumentError(absl::StrCat(
      "the prefix cache key in ", origin, " has ",
      key.size() > kMaxBytes ? absl::StrCat("more than ", kMaxBytes) : absl::StrCat(key.size()),
      " bytes; it must have ", kMinBytes, " to ", kMaxBytes));
}

absl::StatusOr<std::string> FromFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string key(kMaxBytes + 2, '\0');
  if (!file) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read --prefix-cache-key-file ", path));
  }
  file.read(key.data(), static_cast<std::streamsize>(key.size()));
  key.resize(static_cast<size_t>(file.gcount()));
  if (!key.empty() && key.back() == '\n') key.pop_back();
  if (!key.empty() && key.back() == '\r') key.pop_back();
  return Checked(path, std::move(key));
}

}  // namespace

absl::StatusOr<std::string> PrefixCacheKey(const std::string& path) {
  const char* const variable = std::getenv(kPrefixCacheKeyVariable);
  const bool given = variable != nullptr && *variable != '\0';
  if (!path.empty() && given)
    return absl::InvalidArgumentError(absl::StrCat("--prefix-cache-key-file and ",
                                                   kPrefixCacheKeyVariable,
                                                   " are both set; give the key once"));
  if (!path.empty()) return FromFile(path);
  if (given) return Checked(kPrefixCacheKeyVariable, variable);
  std::random_device device;
  std::string key;
  while (key.size() < kRandomBytes) key.push_back(static_cast<char>(device() & 0xff));
  return key;
}

}  // namespace octavo
