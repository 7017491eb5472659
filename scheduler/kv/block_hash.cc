#include "scheduler/kv/block_hash.h"

#include <openssl/evp.h>

#include <bit>
#include <cstring>

#include "common/check.h"

namespace octavo {

static_assert(std::endian::native == std::endian::little);

struct BlockHasher::Context {
  EVP_MD* sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MD_CTX* digest = EVP_MD_CTX_new();

  ~Context() {
    EVP_MD_CTX_free(digest);
    EVP_MD_free(sha256);
  }
  // The digest is chosen once; naming it again would look it up again.
  void Begin() {
    const EVP_MD* type = EVP_MD_CTX_get0_md(digest) == nullptr ? sha256 : nullptr;
    OCTAVO_CHECK(EVP_DigestInit_ex2(digest, type, nullptr) == 1, "SHA-256 cannot start");
  }
  void Add(const void* data, size_t bytes) {
    OCTAVO_CHECK(EVP_DigestUpdate(digest, data, bytes) == 1, "SHA-256 of bytes=", bytes);
  }
  void AddField(char tag, absl::string_view text) {
    const uint64_t bytes = text.size();
    Add(&tag, 1);
    Add(&bytes, sizeof(bytes));
    Add(text.data(), text.size());
  }
  BlockDigest End(int32_t digest_bits) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    OCTAVO_CHECK(EVP_DigestFinal_ex(digest, bytes, nullptr) == 1, "SHA-256 cannot end");
    BlockDigest result;
    std::memcpy(&result.high, bytes, sizeof(result.high));
    std::memcpy(&result.low, bytes + sizeof(result.high), sizeof(result.low));
    if (digest_bits < 128) {
      const auto keep = [](uint64_t value, int bits) {
        return bits <= 0 ? 0 : bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
      };
      result = {keep(result.high, digest_bits - 64), keep(result.low, digest_bits)};
    }
    return result;
  }
};

void BlockHasher::Delete::operator()(Context* context) const { delete context; }

BlockHasher::BlockHasher(int32_t digest_bits) : digest_bits_(digest_bits), context_(new Context) {
  OCTAVO_CHECK(digest_bits >= 1 && digest_bits <= 128, "digest_bits=", digest_bits);
  OCTAVO_CHECK(context_->sha256 != nullptr && context_->digest != nullptr,
               "OpenSSL has no SHA-256");
}

BlockDigest BlockHasher::Root(absl::string_view key, const PrefixScope& scope) const {
  Context& context = *context_;
  const int64_t block_size = scope.block_size;
  context.Begin();
  context.AddField('k', key);
  context.AddField('m', scope.model_revision);
  context.AddField('a', scope.adapter);
  context.AddField('d', scope.kv_dtype);
  context.AddField('b', {reinterpret_cast<const char*>(&block_size), sizeof(block_size)});
  context.AddField('s', scope.salt);
  // Never narrowed: a root stands for who may read, and there is nothing to compare behind it.
  return context.End(128);
}

BlockDigest BlockHasher::Extend(const BlockDigest& parent, std::span<const TokenId> tokens) const {
  Context& context = *context_;
  const uint64_t head[2] = {parent.high, parent.low};
  context.Begin();
  context.Add("t", 1);
  context.Add(head, sizeof(head));
  context.Add(tokens.data(), tokens.size_bytes());
  return context.End(digest_bits_);
}

}  // namespace octavo
