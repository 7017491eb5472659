// Perplexity of a text in separate windows, and how far it is from a reference's.
#ifndef OCTAVO_TOOLS_PERPLEXITY_H_
#define OCTAVO_TOOLS_PERPLEXITY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace octavo::tools {

// Consecutive tokens that start with an empty context; the first one is not scored.
struct PerplexityWindow {
  int64_t start = 0;
  int64_t tokens = 0;                   // >= 2
  std::optional<double> reference_nll;  // summed over the scored tokens, nats
  double nll = 0;                       // likewise, when measured
};

struct PerplexityText {
  std::vector<uint32_t> ids;
  std::vector<PerplexityWindow> windows;
};

// {"ids": [...], "windows": [{"start", "tokens", "nll"}, ...]}: INVALID_ARGUMENT naming the field
// when it is something else, or a window lies outside the text or has fewer than two tokens.
absl::StatusOr<PerplexityText> ParseReference(absl::string_view json);

// Windows of `length` tokens; a rest of fewer than two tokens is left out.
PerplexityText CutText(std::vector<uint32_t> ids, int64_t length);

struct PerplexitySummary {
  int64_t scored = 0;
  double total_nll = 0;
  double perplexity = 0;
  // When every window has a reference: perplexity / the reference's - 1.
  std::optional<double> reference_perplexity;
  std::optional<double> change;
};
PerplexitySummary Summarise(const std::vector<PerplexityWindow>& windows);

// {"perplexity", "total_nll", "scored", "reference_perplexity", "change", "windows": [...]}; the
// reference's fields are null without one.
nlohmann::json ToJson(const std::vector<PerplexityWindow>& windows);

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_PERPLEXITY_H_
