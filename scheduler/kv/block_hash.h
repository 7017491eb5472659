// Names of full blocks: a chain of digests over everything that decides a block's content (kv.6).
#ifndef OCTAVO_SCHEDULER_KV_BLOCK_HASH_H_
#define OCTAVO_SCHEDULER_KV_BLOCK_HASH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/ids.h"

namespace octavo {

// The first 128 bits of a SHA-256.
struct BlockDigest {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const BlockDigest&, const BlockDigest&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const BlockDigest& digest) {
    return H::combine(std::move(h), digest.high, digest.low);
  }
};

// What, besides the tokens up to its end, decides the content of a block and who may read it.
struct PrefixScope {
  absl::string_view model_revision;  // digest of the weights
  absl::string_view adapter;         // digest of the adapter; empty: none
  absl::string_view kv_dtype;
  int32_t block_size = 0;  // tokens
  absl::string_view salt;  // of the tenant: different salts never share
};

// A root digest covers the key and the scope, each field with its tag and its length, so that no
// two fields can be mistaken for each other. A block's digest covers its parent's and its tokens.
// With a secret key nobody outside can predict or collide digests. Not thread-safe.
class BlockHasher {
 public:
  // `digest_bits` in [1, 128]: fewer only in tests, where digests shall collide.
  explicit BlockHasher(int32_t digest_bits = 128);

  BlockDigest Root(absl::string_view key, const PrefixScope& scope) const;
  // The block after the one (or the root) that `parent` names. Integers are hashed little-endian.
  BlockDigest Extend(const BlockDigest& parent, std::span<const TokenId> tokens) const;

 private:
  struct Context;  // of OpenSSL, used again and again
  struct Delete {
    void operator()(Context* context) const;
  };

  const int32_t digest_bits_;
  std::unique_ptr<Context, Delete> context_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_BLOCK_HASH_H_
