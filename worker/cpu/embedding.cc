#include "worker/cpu/embedding.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/checkpoint/dequantize.h"

namespace octavo {
namespace {

// Below this many elements another thread takes longer to wake than to help.
constexpr int64_t kSmallElements = 16384;

}  // namespace

absl::StatusOr<std::unique_ptr<StoredEmbedding>> StoredEmbedding::Create(const WeightView& source) {
  const DTypeInfo info = Info(source.dtype);
  if (IsEightBit(source.dtype))
    return absl::InvalidArgumentError(
        absl::StrCat("embedding ", source.name, ": ", info.name, " stores no weights"));
  if (source.data == nullptr || source.rows <= 0 || source.cols <= 0)
    return absl::InvalidArgumentError(absl::StrCat("embedding ", source.name, " has ", source.rows,
                                                   " rows of ", source.cols, " columns",
                                                   source.data == nullptr ? " and no data" : ""));
  if (source.cols % info.block_elements != 0)
    return absl::InvalidArgumentError(absl::StrCat("embedding ", source.name, " has ", source.cols,
                                                   " columns; blocks of ", info.name, " hold ",
                                                   info.block_elements));
  return std::unique_ptr<StoredEmbedding>(new StoredEmbedding(source));
}

void StoredEmbedding::Row(int64_t row, float* out) const {
  const absl::Status status = DequantizeRow(view_.dtype, view_.row(row), view_.cols, out);
  OCTAVO_CHECK(status.ok(), status.message());  // Create has checked dtype and shape
}

absl::Status Embed(const StoredEmbedding& weight, const EmbedParams& params, ThreadPool& pool) {
  const int64_t rows = params.out.rows;
  if (rows > 0 && (params.token_ids == nullptr || params.out.data == nullptr))
    return absl::InvalidArgumentError("embed: token_ids or out is missing");
  if (params.out.cols != weight.cols())
    return absl::InvalidArgumentError(absl::StrCat("embed: out has ", params.out.cols,
                                                   " columns; the embedding has ", weight.cols()));
  const int64_t vocab = std::max<int64_t>(params.vocab_size, weight.rows());
  for (int64_t i = 0; i < rows; ++i)
    if (params.token_ids[i] < 0 || params.token_ids[i] >= vocab)
      return absl::InvalidArgumentError(absl::StrCat("embed: token id ", params.token_ids[i],
                                                     " is outside the vocabulary of ", vocab));
  const auto gather = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const row = params.out.row(i);
      const int64_t stored = params.token_ids[i] - params.first_token;
      if (stored < 0 || stored >= weight.rows()) {  // another rank's
        std::fill_n(row, weight.cols(), 0.0f);
        continue;
      }
      weight.Row(stored, row);
      if (params.scale == 1.0f) continue;
      for (int64_t c = 0; c < weight.cols(); ++c) row[c] *= params.scale;
    }
  };
  if (rows * weight.cols() < kSmallElements) {
    gather(0, rows);
  } else {
    pool.Run([&](int thread) {
      gather(rows * thread / pool.size(), rows * (thread + 1) / pool.size());
    });
  }
  return absl::OkStatus();
}

}  // namespace octavo
