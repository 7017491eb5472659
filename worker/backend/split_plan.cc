#include "worker/backend/split_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// Rows that a matrix kernel computes together: shares of fewer would leave lanes idle.
constexpr int32_t kPreferredUnit = 32;

// Part `index` of `total` units in `parts` runs; the first total % parts have one more.
IndexRange Run(int64_t total, int64_t parts, int64_t index) {
  const int64_t each = total / parts;
  const int64_t more = total % parts;
  const int64_t begin = index * each + std::min(index, more);
  return {begin, begin + each + (index < more ? 1 : 0)};
}

// A run of `total` elements that begins on a multiple of `block`, and of kPreferredUnit where that
// leaves something for every rank. A last, broken unit goes to the last rank.
absl::StatusOr<IndexRange> RunOfUnits(const char* what, int64_t total, int32_t block,
                                      const GroupPlace& place) {
  int64_t unit = block;
  if (unit == 1 && total / kPreferredUnit >= place.size) unit = kPreferredUnit;
  if (total / unit < place.size)
    return absl::InvalidArgumentError(absl::StrCat(total, " ", what, " in units of ", unit,
                                                   " are too few for ", place.size, " ranks; ",
                                                   total / unit, " ranks are the most"));
  const IndexRange units = Run(total / unit, place.size, place.rank);
  return IndexRange{units.begin * unit, place.rank + 1 == place.size ? total : units.end * unit};
}

absl::Status SplitHeads(const SplitDimensions& dimensions, RankSplit* split) {
  const auto [rank, size] = split->place;
  const int32_t group = dimensions.num_heads / dimensions.num_kv_heads;
  if (dimensions.num_kv_heads >= size) {
    split->kv_heads = Run(dimensions.num_kv_heads, size, rank);
    split->heads = {split->kv_heads.begin * group, split->kv_heads.end * group};
  } else {
    IndexRange holders;
    for (int32_t head = 0; head < dimensions.num_kv_heads; ++head) {
      holders = Run(size, dimensions.num_kv_heads, head);
      split->kv_heads = {head, head + 1};
      if (rank < holders.end) break;
    }
    if (group < holders.size())
      return absl::InvalidArgumentError(
          absl::StrCat(dimensions.num_heads, " query heads, ", group, " for each of ",
                       dimensions.num_kv_heads, " KV heads, are too few for ", size, " ranks"));
    const IndexRange own = Run(group, holders.size(), rank - holders.begin);
    const int64_t first = split->kv_heads.begin * group;
    split->heads = {first + own.begin, first + own.end};
  }
  for (const int64_t head : {split->heads.begin, split->heads.end}) {
    const int64_t column = head * dimensions.head_dim;
    if (head != dimensions.num_heads && column % dimensions.output_block != 0)
      return absl::InvalidArgumentError(
          absl::StrCat("between the heads of two of ", size, " ranks is column ", column,
                       " of the attention output's weight, which is stored in blocks of ",
                       dimensions.output_block, " columns"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const GroupPlace& place) {
  if (place.size < 1 || place.size > kMaxWorldSize)
    return absl::InvalidArgumentError(absl::StrCat(
        "a group of ", place.size, " ranks; it must have between 1 and ", kMaxWorldSize));
  if (place.rank < 0 || place.rank >= place.size)
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", place.rank, "; it must be between 0 and ", place.size - 1));
  return absl::OkStatus();
}

absl::StatusOr<RankSplit> SplitForRank(const SplitDimensions& dimensions, const GroupPlace& place) {
  OCTAVO_RETURN_IF_ERROR(Validate(place));
  OCTAVO_CHECK(dimensions.num_kv_heads > 0 && dimensions.output_block > 0 &&
                   dimensions.down_block > 0 && dimensions.num_heads % dimensions.num_kv_heads == 0,
               "heads=", dimensions.num_heads, " kv_heads=", dimensions.num_kv_heads);
  RankSplit split;
  split.place = place;
  OCTAVO_RETURN_IF_ERROR(SplitHeads(dimensions, &split));
  OCTAVO_ASSIGN_OR_RETURN(split.ffn, RunOfUnits("columns of the MLP", dimensions.intermediate_size,
                                                dimensions.down_block, place));
  OCTAVO_ASSIGN_OR_RETURN(split.vocab,
                          RunOfUnits("tokens of the vocabulary", dimensions.vocab_size, 1, place));
  return split;
}

}  // namespace octavo
