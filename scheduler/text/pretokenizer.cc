#include "scheduler/text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "scheduler/text/utf8.h"

namespace octavo {
namespace {

constexpr size_t kJitStackStartBytes = 32 * 1024;
constexpr size_t kJitStackMaxBytes = 8 * 1024 * 1024;
constexpr uint32_t kInterpreterHeapKib = 64 * 1024;
// Backtracking steps of one match: a floor, and more for longer texts, so that a pattern that only
// walks back over a run of the text never meets the limit.
constexpr uint64_t kMatchSteps = 10'000'000;
constexpr uint64_t kMatchStepsPerByte = 64;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeCompileContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeJitStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

std::string Pcre2Message(int error) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(error, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

// PCRE2 counts U+180E as \s; Unicode since 6.3, and the engines that the models' tokenizers were
// made with, do not.
std::string WithUnicodeSpaces(absl::string_view pattern) {
  std::string result;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      result.push_back(pattern[i]);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      result.append(R"(\p{White_Space})");
    } else if (escaped == 'S') {
      result.append(R"(\P{White_Space})");
    } else {
      result.push_back('\\');
      result.push_back(escaped);
    }
  }
  return result;
}

}  // namespace

struct PreTokenizer::Pass {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool jit = false;
};

struct PreTokenizer::Scratch::Pcre2 {
  // Only the whole match is asked for: one pair of offsets.
  std::unique_ptr<pcre2_match_data, FreeMatchData> match{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, FreeJitStack> stack{
      pcre2_jit_stack_create(kJitStackStartBytes, kJitStackMaxBytes, nullptr)};
};

PreTokenizer::Scratch::Scratch() : pcre2_(std::make_unique<Pcre2>()) {
  OCTAVO_CHECK(pcre2_->match != nullptr && pcre2_->context != nullptr, "out of memory");
  // Without a stack of its own (nullptr) JIT code uses 32 KiB of the thread's.
  if (pcre2_->stack != nullptr) {
    pcre2_jit_stack_assign(pcre2_->context.get(), nullptr, pcre2_->stack.get());
  }
  pcre2_set_heap_limit(pcre2_->context.get(), kInterpreterHeapKib);
}

PreTokenizer::Scratch::~Scratch() = default;
PreTokenizer::PreTokenizer() = default;
PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::Create(
    absl::string_view name, const std::vector<PreTokenizerPass>& passes) {
  std::vector<PreTokenizerPass> chosen = passes;
  if (!name.empty() || passes.empty()) {
    OCTAVO_ASSIGN_OR_RETURN(chosen, NamedPreTokenizer(name));
  }
  if (chosen.size() > kMaxPasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("pre-tokenizer has ", chosen.size(), " passes, limit ", kMaxPasses));
  }
  const std::unique_ptr<pcre2_compile_context, FreeCompileContext> context(
      pcre2_compile_context_create(nullptr));
  OCTAVO_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);

  std::unique_ptr<PreTokenizer> result(new PreTokenizer());
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i].pattern.size() > kMaxPatternBytes) {
      return absl::InvalidArgumentError(absl::StrCat("pre-tokenizer pass ", i, " has ",
                                                     chosen[i].pattern.size(), " bytes, limit ",
                                                     kMaxPatternBytes));
    }
    const std::string pattern = WithUnicodeSpaces(chosen[i].pattern);
    int error = 0;
    size_t offset = 0;
    auto pass = std::make_unique<Pass>();
    pass->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                                   context.get()));
    if (pass->code == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("pre-tokenizer pass ", i, " at byte ", offset,
                                                     " of \"", pattern,
                                                     "\": ", Pcre2Message(error)));
    }
    pass->jit = pcre2_jit_compile(pass->code.get(), PCRE2_JIT_COMPLETE) == 0;
    result->passes_.push_back(std::move(pass));
  }
  return result;
}

absl::Status PreTokenizer::Split(absl::string_view text, Scratch* scratch,
                                 std::vector<absl::string_view>* pieces) const {
  if (text.empty()) return absl::OkStatus();
  const size_t first = pieces->size();
  pieces->push_back(text);
  for (const std::unique_ptr<Pass>& pass : passes_) {
    scratch->pieces_.assign(pieces->begin() + first, pieces->end());
    pieces->resize(first);
    for (const absl::string_view piece : scratch->pieces_) {
      OCTAVO_RETURN_IF_ERROR(SplitPiece(*pass, piece, scratch, pieces));
    }
  }
  return absl::OkStatus();
}

absl::Status PreTokenizer::SplitPiece(const Pass& pass, absl::string_view piece, Scratch* scratch,
                                      std::vector<absl::string_view>* pieces) const {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  pcre2_match_data* const match = scratch->pcre2_->match.get();
  pcre2_match_context* const context = scratch->pcre2_->context.get();
  const uint64_t steps = kMatchSteps + kMatchStepsPerByte * piece.size();
  pcre2_set_match_limit(context, static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));

  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) pieces->push_back(piece.substr(begin, end - begin));
  };
  size_t done = 0;    // pieces up to here are out
  size_t search = 0;  // where the next match may start
  while (search < piece.size()) {
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (pass.jit) {
      result = pcre2_jit_match(pass.code.get(), subject, piece.size(), search, 0, match, context);
    }
    // The interpreter keeps its backtracking points on the heap.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      result = pcre2_match(pass.code.get(), subject, piece.size(), search,
                           PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, context);
    }
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::ResourceExhaustedError(absl::StrCat("pre-tokenizer pattern fails at byte ",
                                                       search, " of a piece of ", piece.size(),
                                                       " bytes: ", Pcre2Message(result)));
    }
    const size_t* const range = pcre2_get_ovector_pointer(match);
    const size_t begin = range[0];
    const size_t end = range[1];
    // An empty match only cuts; going on behind the next character keeps the search moving.
    add(done, begin);
    add(begin, end);
    done = end;
    search = end > begin ? end : end + (end < piece.size() ? Utf8SequenceLength(piece[end]) : 1);
  }
  add(done, piece.size());
  return absl::OkStatus();
}

}  // namespace octavo
