// One line of a batch file.
#ifndef OCTAVO_TOOLS_BATCH_LINE_H_
#define OCTAVO_TOOLS_BATCH_LINE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "octavo/v1/generation.pb.h"

namespace octavo::tools {

struct BatchLine {
  std::string id;      // the label; the line's number when it has none
  absl::Status error;  // why the line cannot be sent; `request` is then unusable
  v1::GenerateRequest request;
};

// Reads {"id", "prompt" | "prompt_token_ids" | "messages", "max_tokens", "temperature", "top_p",
// "top_k", "min_p", "n", "seed", "ignore_eos", "stop", "logprobs", "use_beam_search", "beam_width",
// "length_penalty", "early_stopping", ...}. `number` counts from 1.
// A field that is unknown, or that the wire has no place for yet, is an error naming it.
BatchLine ParseBatchLine(absl::string_view text, int64_t number);

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_BATCH_LINE_H_
