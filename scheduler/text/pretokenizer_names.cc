#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/text/pretokenizer.h"

namespace octavo {
namespace {

// As published in the models' tokenizer.json files.
constexpr char kGpt2[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kLlama3[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                           R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                          R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// What llama.cpp does for files that name no pre-tokenizer.
constexpr const char* kDefault[] = {
    R"([\p{P}\$\+<=>\^~\|]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
    R"(\p{N}+)",
    R"([0-9][0-9][0-9])",
};

struct Named {
  std::vector<absl::string_view> names;  // the same passes are published under several
  std::vector<absl::string_view> patterns;
};

const std::vector<Named>& AllNamed() {
  static const auto* const all = new std::vector<Named>{
      {{"default", ""}, {kDefault[0], kDefault[1], kDefault[2], kDefault[3]}},
      {{"gpt-2", "gpt2"}, {kGpt2}},
      {{"smollm", "starcoder"}, {R"(\p{N})", kGpt2}},
      {{"llama-bpe", "llama3", "llama-v3"}, {kLlama3}},
      {{"qwen2", "deepseek-r1-qwen"}, {kQwen2}},
      {{"tekken"}, {kTekken}},
  };
  return *all;
}

}  // namespace

absl::StatusOr<std::vector<PreTokenizerPass>> NamedPreTokenizer(absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const Named& named : AllNamed()) {
    for (const absl::string_view candidate : named.names) {
      if (!candidate.empty()) known.push_back(candidate);
      if (candidate != name) continue;
      std::vector<PreTokenizerPass> passes;
      for (const absl::string_view pattern : named.patterns) {
        passes.push_back({std::string(pattern)});
      }
      return passes;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown pre-tokenizer \"", name, "\"; known: ", absl::StrJoin(known, ", ")));
}

}  // namespace octavo
