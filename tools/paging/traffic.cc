#include "tools/paging/traffic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tools/simulate/random_stream.h"
#include "tools/simulate/trace_reader.h"
#include "tools/simulate/workload.h"

namespace octavo::paging {
namespace {

// Of texts written by people: lengths of questions vary less than those of documents.
constexpr double kTextSigma = 0.6;
constexpr int32_t kInstructionTokens = 203;
constexpr double kMeanTextTokens = 50;
constexpr int32_t kMostLabelTokens = 4;
constexpr double kMeanDocumentTokens = 3000;
constexpr int32_t kQuestionsOfADocument = 4;
constexpr double kMeanQuestionTokens = 30;
constexpr double kMeanAnswerTokens = 100;

class Draw {
 public:
  explicit Draw(const TrafficOptions& options) : options_(options), random_(options.seed) {}

  int32_t Length(double mean) {
    return std::max(1, static_cast<int32_t>(random_.LogNormal(mean, kTextSigma)));
  }
  int32_t UpTo(int32_t most) {
    return 1 + static_cast<int32_t>(random_.Bits() % static_cast<uint64_t>(most));
  }
  void Append(int32_t count, std::vector<TokenId>* tokens) {
    for (int32_t i = 0; i < count; ++i) {
      tokens->push_back(
          static_cast<TokenId>(random_.Bits() % static_cast<uint64_t>(options_.vocab_size)));
    }
  }

 private:
  const TrafficOptions& options_;
  simulate::RandomStream random_;
};

std::vector<Request> Classification(const TrafficOptions& options) {
  Draw draw(options);
  std::vector<TokenId> instruction;
  draw.Append(kInstructionTokens, &instruction);
  std::vector<Request> requests(static_cast<size_t>(options.requests));
  for (Request& request : requests) {
    request.prompt = instruction;
    draw.Append(draw.Length(kMeanTextTokens), &request.prompt);
    request.max_tokens = draw.UpTo(kMostLabelTokens);
  }
  return requests;
}

std::vector<Request> Documents(const TrafficOptions& options) {
  Draw draw(options);
  std::vector<TokenId> document;
  std::vector<Request> requests(static_cast<size_t>(options.requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    if (i % kQuestionsOfADocument == 0) {
      document.clear();
      draw.Append(draw.Length(kMeanDocumentTokens), &document);
    }
    request.max_tokens = draw.Length(kMeanAnswerTokens);
    // A document that is too long loses its end, not its question.
    const int32_t question = draw.Length(kMeanQuestionTokens);
    const int64_t room =
        std::max<int64_t>(0, int64_t{options.max_model_len} - question - request.max_tokens);
    const size_t kept = std::min(document.size(), static_cast<size_t>(room));
    request.prompt.assign(document.begin(), document.begin() + static_cast<int64_t>(kept));
    draw.Append(question, &request.prompt);
  }
  return requests;
}

absl::StatusOr<Traffic> FromTrace(const TrafficOptions& options) {
  const bool drawn = options.trace == "sharegpt-like";
  simulate::Trace trace;
  if (drawn) {
    trace = simulate::DrawSharegptLike(options.requests, options.seed);
  } else {
    OCTAVO_ASSIGN_OR_RETURN(trace, simulate::ReadTraceFile(options.trace));
  }
  Traffic traffic;
  simulate::Workload workload(&trace, {.seed = options.seed, .vocab_size = options.vocab_size});
  while (!workload.done() && traffic.requests.size() < static_cast<size_t>(options.requests)) {
    const simulate::TraceRequest& lengths = workload.next_lengths();
    const bool fits = lengths.prompt_tokens + lengths.output_tokens <= options.max_model_len;
    if (!fits && !drawn) {
      ++traffic.skipped;
      workload.Skip();
      continue;
    }
    traffic.requests.push_back(workload.Take());
  }
  if (traffic.requests.size() < static_cast<size_t>(options.requests)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.trace, " has ", traffic.requests.size(), " requests of at most ",
                     options.max_model_len, " tokens; ", options.requests, " were asked for"));
  }
  return traffic;
}

}  // namespace

absl::StatusOr<Traffic> MakeTraffic(const TrafficOptions& options) {
  Traffic traffic;
  if (options.trace == "classification") {
    traffic.requests = Classification(options);
  } else if (options.trace == "documents") {
    traffic.requests = Documents(options);
  } else {
    OCTAVO_ASSIGN_OR_RETURN(traffic, FromTrace(options));
  }
  for (size_t i = 0; i < traffic.requests.size(); ++i) {
    Request& request = traffic.requests[i];
    request.ignore_eos = true;
    request.sampling = {.temperature = 0, .seed = i + 1};
    const int64_t most_prompt = int64_t{options.max_model_len} - 1;
    bool clipped = static_cast<int64_t>(request.prompt.size()) > most_prompt;
    if (clipped) request.prompt.resize(static_cast<size_t>(most_prompt));
    const int32_t most_output = options.max_model_len - static_cast<int32_t>(request.prompt.size());
    clipped |= request.max_tokens > most_output;
    request.max_tokens = std::min(request.max_tokens, most_output);
    traffic.clipped += clipped ? 1 : 0;
  }
  return traffic;
}

}  // namespace octavo::paging
