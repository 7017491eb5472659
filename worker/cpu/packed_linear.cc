#include "worker/cpu/packed_linear.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cpu/packed_panels.h"

namespace octavo {
namespace {

constexpr int64_t kMaxFeatures = int64_t{1} << 31;

absl::Status CheckPart(const WeightView& part, int64_t cols) {
  if (!PackFormatOf(part.dtype).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " has element type ",
                                                   Info(part.dtype).name,
                                                   ", which no weight may have"));
  }
  if (part.data == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " has no data"));
  if (part.rows < 1 || part.rows > kMaxFeatures || part.cols < 1 || part.cols > kMaxFeatures) {
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " is ", part.rows, " x ",
                                                   part.cols, "; each must be in 1..",
                                                   kMaxFeatures));
  }
  if (part.cols != cols) {
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " has ", part.cols,
                                                   " columns; the parts before it have ", cols));
  }
  if (const int32_t multiple = Info(part.dtype).block_elements; cols % multiple != 0) {
    return absl::InvalidArgumentError(absl::StrCat("weight ", part.name, " has ", cols,
                                                   " columns, not a multiple of ", multiple, " as ",
                                                   Info(part.dtype).name, " needs"));
  }
  return absl::OkStatus();
}

absl::Status CheckSource(const LinearSource& source) {
  if (source.parts.empty()) return absl::InvalidArgumentError("a linear layer without weights");
  int64_t rows = 0;
  for (const WeightView& part : source.parts) {
    OCTAVO_RETURN_IF_ERROR(CheckPart(part, source.parts.front().cols));
    rows += part.rows;
  }
  if (source.gated && (source.parts.size() != 2 || source.parts[0].rows != source.parts[1].rows)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a gated layer needs a gate and an up weight of equal rows; ", source.parts.front().name,
        " comes with ", source.parts.size(), " parts of ", rows, " rows"));
  }
  if (!source.bias.empty() && static_cast<int64_t>(source.bias.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat("the bias of ", source.parts.front().name,
                                                   " has ", source.bias.size(), " values for ",
                                                   rows, " rows"));
  }
  return absl::OkStatus();
}

// Stored rows in the order in which the panels of a segment take them.
std::vector<const std::byte*> RowPointers(const std::vector<const WeightView*>& parts,
                                          bool interleave) {
  std::vector<const std::byte*> rows;
  if (!interleave) {
    for (const WeightView* part : parts)
      for (int64_t r = 0; r < part->rows; ++r) rows.push_back(part->row(r));
    return rows;
  }
  for (int64_t first = 0; first < parts[0]->rows; first += 16)
    for (const WeightView* part : parts)
      for (int64_t r = first; r < first + 16; ++r)
        rows.push_back(r < part->rows ? part->row(r) : nullptr);
  return rows;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedLinear>> PackedLinear::Pack(const LinearSource& source,
                                                                 WeightArena& arena,
                                                                 ThreadPool& pool) {
  OCTAVO_RETURN_IF_ERROR(CheckSource(source));
  std::unique_ptr<PackedLinear> packed(new PackedLinear);
  packed->in_features_ = source.parts.front().cols;
  packed->k_blocks_ = (packed->in_features_ + kBlockK - 1) / kBlockK;
  packed->bias_ = source.bias;
  packed->gated_ = source.gated;
  packed->interleaved_ = source.gated && source.parts[0].dtype == source.parts[1].dtype;

  for (size_t begin = 0; begin < source.parts.size();) {
    std::vector<const WeightView*> parts;
    Segment segment;
    segment.format = *PackFormatOf(source.parts[begin].dtype);
    segment.first_row = packed->out_features_;
    size_t end = begin;
    for (; end < source.parts.size() && source.parts[end].dtype == source.parts[begin].dtype;
         ++end) {
      parts.push_back(&source.parts[end]);
      segment.rows += source.parts[end].rows;
    }
    begin = end;
    packed->out_features_ += segment.rows;

    std::vector<const std::byte*> rows = RowPointers(parts, packed->interleaved_);
    segment.panels = (static_cast<int64_t>(rows.size()) + kPanelRows - 1) / kPanelRows;
    rows.resize(static_cast<size_t>(segment.panels * kPanelRows), nullptr);
    segment.panel_bytes = PanelBytes(segment.format, packed->k_blocks_);
    const int64_t bytes = segment.panels * segment.panel_bytes;
    OCTAVO_ASSIGN_OR_RETURN(uint8_t* const data, arena.Allocate(static_cast<size_t>(bytes)));
    segment.data = data;
    packed->bytes_ += bytes;
    pool.Run([&](int thread) {
      const int64_t first = segment.panels * thread / pool.size();
      const int64_t last = segment.panels * (thread + 1) / pool.size();
      for (int64_t p = first; p < last; ++p)
        EncodePanel(segment.format, rows.data() + p * kPanelRows, packed->in_features_,
                    data + p * segment.panel_bytes);
    });
    packed->segments_.push_back(segment);
  }
  return packed;
}

}  // namespace octavo
