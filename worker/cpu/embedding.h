// Token embedding: rows of a stored matrix as floats.
#ifndef OCTAVO_WORKER_CPU_EMBEDDING_H_
#define OCTAVO_WORKER_CPU_EMBEDDING_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/op_params.h"
#include "worker/backend/tensor_view.h"
#include "worker/cpu/thread_pool.h"

namespace octavo {

// Reads the checkpoint's bytes in place: only the rows of a step are touched.
class StoredEmbedding : public EmbeddingWeight {
 public:
  // INVALID_ARGUMENT for a shape that is not positive or not whole storage blocks, no data, or a
  // dtype that stores no weights. source.data must outlive the result.
  static absl::StatusOr<std::unique_ptr<StoredEmbedding>> Create(const WeightView& source);

  int64_t rows() const override { return view_.rows; }
  int64_t cols() const override { return view_.cols; }

  // Writes cols() floats. REQUIRES: 0 <= row < rows().
  void Row(int64_t row, float* out) const;

 private:
  explicit StoredEmbedding(const WeightView& view) : view_(view) {}

  WeightView view_;
};

// out.row(i) = scale * the weight's row of token_ids[i], or zeros. INVALID_ARGUMENT naming the
// token id and the vocabulary.
absl::Status Embed(const StoredEmbedding& weight, const EmbedParams& params, ThreadPool& pool);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_EMBEDDING_H_
