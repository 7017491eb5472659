// Cuts text into the pieces that byte-pair encoding may not merge across, by regular expressions
// run in passes.
#ifndef OCTAVO_SCHEDULER_TEXT_PRETOKENIZER_H_
#define OCTAVO_SCHEDULER_TEXT_PRETOKENIZER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/tokenizer_spec.h"

namespace octavo {

// The passes of a pre-tokenizer that GGUF files name in tokenizer.ggml.pre; "" means "default".
// INVALID_ARGUMENT for an unknown name, listing the known ones.
absl::StatusOr<std::vector<PreTokenizerPass>> NamedPreTokenizer(absl::string_view name);

// Immutable; safe to use from any thread.
class PreTokenizer {
 public:
  static constexpr size_t kMaxPasses = 16;
  static constexpr size_t kMaxPatternBytes = 64 * 1024;

  // Working memory of one caller of Split: match data, JIT stack, pieces between passes.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class PreTokenizer;
    struct Pcre2;
    std::unique_ptr<Pcre2> pcre2_;
    std::vector<absl::string_view> pieces_;
  };

  // `name` wins when it is set; without a name and passes the "default" passes are used.
  // INVALID_ARGUMENT naming the pass and offset for a pattern that does not compile or is too long.
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> Create(
      absl::string_view name, const std::vector<PreTokenizerPass>& passes);

  ~PreTokenizer();

  // Appends the pieces of `text` in order; together they are `text`, none is empty. They point into
  // `text`. Each pass sees each piece of the pass before as a text of its own: its lookarounds do
  // not see past the piece. REQUIRES: `text` is UTF-8.
  // RESOURCE_EXHAUSTED when a pattern backtracks without end (only a checkpoint's own can).
  absl::Status Split(absl::string_view text, Scratch* scratch,
                     std::vector<absl::string_view>* pieces) const;

 private:
  struct Pass;
  PreTokenizer();
  absl::Status SplitPiece(const Pass& pass, absl::string_view piece, Scratch* scratch,
                          std::vector<absl::string_view>* pieces) const;

  std::vector<std::unique_ptr<Pass>> passes_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_PRETOKENIZER_H_
