#include "tests/sim/sim_command.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace octavo {
namespace {

std::string Describe(const BeamParams& beam) {
  return absl::StrCat(" beams=", beam.width, " length_penalty=", beam.length_penalty,
                      " early_stopping=", static_cast<int>(beam.early_stopping));
}

std::string Describe(const Request& request) {
  return absl::StrCat("add id=", request.id, " prompt=[", absl::StrJoin(request.prompt, " "),
                      "] max_tokens=", request.max_tokens, " n=", request.n,
                      " prompt_logprobs=", request.prompt_logprobs, " seed=", request.sampling.seed,
                      " priority=", request.priority, " ignore_eos=", request.ignore_eos,
                      " prefix_cache=", request.prefix_cache, " salt='", request.cache_salt, "'",
                      request.beam.has_value() ? Describe(*request.beam) : "");
}

}  // namespace

std::string SimCommand::ToString() const {
  const std::string at = absl::StrCat(absl::ToUnixMillis(now), " ms: ");
  switch (kind) {
    case Kind::kAdd:
      return at + Describe(request);
    case Kind::kAbort:
      return absl::StrCat(at, "abort id=", id);
    case Kind::kFlush:
      return at + "flush";
    case Kind::kReset:
      return at + "reset";
    case Kind::kSchedule:
      return at + "schedule";
    case Kind::kCommit:
      return absl::StrCat(at, "commit compute_seconds=", compute_seconds,
                          " swap_seconds=", swap_seconds);
    case Kind::kRepeat:
      return at + "repeat the last result";
  }
  return at + "?";
}

std::string ToString(std::span<const SimCommand> commands) {
  return absl::StrJoin(commands, "\n", [](std::string* text, const SimCommand& command) {
    text->append(command.ToString());
  });
}

}  // namespace octavo
