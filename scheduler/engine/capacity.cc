#include "scheduler/engine/capacity.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"

namespace octavo {

double CapacityReport::max_concurrency() const {
  return geometry.MaxConcurrency(num_blocks, max_model_len);
}

double CapacityReport::mean_concurrency() const {
  return geometry.MaxConcurrency(num_blocks, std::llround(std::ceil(mean_tokens)));
}

std::vector<std::string> Lines(const CapacityReport& report) {
  const CacheGeometry& geometry = report.geometry;
  const std::string groups = geometry.num_groups() > 1
                                 ? absl::StrCat(" and ", geometry.layers_per_block(), " layers, ",
                                                geometry.num_groups(), " for a place in all")
                                 : "";
  return {
      absl::StrCat("KV cache per token: ", geometry.Formula(), " (", Info(geometry.dtype()).name,
                   ")"),
      absl::StrCat("KV cache blocks: ", WithCommas(report.num_blocks), " of ",
                   geometry.block_size(), " tokens", groups, " = ",
                   WithCommas(report.total_tokens()), " tokens, ",
                   FormatByteSize(report.pool_bytes())),
      absl::StrFormat("requests at once: %.1f of %s tokens (max-model-len)",
                      report.max_concurrency(), WithCommas(report.max_model_len)),
      absl::StrFormat("requests at once: %.1f of %s tokens (%s)", report.mean_concurrency(),
                      WithCommas(std::llround(report.mean_tokens)),
                      report.mean_is_measured ? "mean length measured" : "expected-mean-tokens"),
  };
}

}  // namespace octavo
