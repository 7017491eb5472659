// The tokenizer of a model file, for tests against real vocabularies.
#ifndef OCTAVO_TESTS_SCHEDULER_TEXT_OPEN_TOKENIZER_H_
#define OCTAVO_TESTS_SCHEDULER_TEXT_OPEN_TOKENIZER_H_

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "common/status_macros.h"
#include "scheduler/text/tokenizer.h"

namespace octavo {

// What the environment names, or else the file of that name in the build's model folder.
inline std::string ModelPath(const char* variable, const std::string& file) {
  const char* const set = std::getenv(variable);
  return set != nullptr ? set : OCTAVO_SOURCE_DIR "/build/models/" + file;
}

inline absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path) {
  OCTAVO_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(path));
  return Tokenizer::Create(checkpoint->tokenizer());
}

}  // namespace octavo

#endif  // OCTAVO_TESTS_SCHEDULER_TEXT_OPEN_TOKENIZER_H_
