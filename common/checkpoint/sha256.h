// SHA-256 (FIPS 180-4), for the digest that names a checkpoint's weights.
#ifndef OCTAVO_COMMON_CHECKPOINT_SHA256_H_
#define OCTAVO_COMMON_CHECKPOINT_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"

namespace octavo {

class Sha256 {
 public:
  void Update(std::span<const std::byte> data);
  void Update(absl::string_view text);
  // 64 lower-case hex digits. REQUIRES: called once, nothing after it.
  std::string HexDigest();

 private:
  void Compress(const std::byte* block);  // 64 bytes

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_;
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_SHA256_H_
