// A paged cache under test: random tokens, shuffled block tables, and NaN in all that nobody has
// written (of int8, in the scales).
#ifndef OCTAVO_TESTS_CONFORMANCE_PAGED_CACHE_H_
#define OCTAVO_TESTS_CONFORMANCE_PAGED_CACHE_H_

#include <cstdint>
#include <vector>

#include "tests/conformance/attention_reference.h"
#include "worker/backend/backend.h"

namespace octavo {

class PagedCache {
 public:
  // Room for `num_blocks` blocks. The backend must outlive it.
  PagedCache(Backend& backend, const PagedShape& shape, int32_t num_blocks);

  // Lends shuffled blocks for all of the sequence's tokens; returns its number.
  int32_t Add(TokenRows tokens);

  struct Chunk {
    int32_t sequence = 0;
    int32_t context = 0;  // first position
    int32_t rows = 0;
  };
  // Writes K and V of the chunks' positions (without rotation) and attends: the rows' outputs,
  // [sum of rows, num_heads * head_dim], in order. Fails the test on an error.
  std::vector<float> Step(const std::vector<Chunk>& chunks);

  // Rows [first, last) of a sequence in chunks of at most `chunk` rows.
  std::vector<float> Prefill(int32_t sequence, int32_t first, int32_t last, int32_t chunk);

  // The same row in double from the tokens, K and V rounded to the cache's dtype.
  std::vector<double> Reference(int32_t sequence, int32_t position) const;

  const TokenRows& tokens(int32_t sequence) const { return sequences_[Index(sequence)].tokens; }

  static constexpr int32_t kLayer = 1;
  static constexpr int32_t kNumLayers = 2;

 private:
  struct Sequence {
    TokenRows tokens;
    std::vector<BlockId> blocks;
  };
  static size_t Index(int32_t sequence) { return static_cast<size_t>(sequence); }

  Backend& backend_;
  PagedShape shape_;
  CacheGeometry geometry_;
  Buffer pool_;
  std::vector<BlockId> free_;  // shuffled
  std::vector<Sequence> sequences_;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_CONFORMANCE_PAGED_CACHE_H_
