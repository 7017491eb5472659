#ifndef OCTAVO_TESTS_SCHEDULER_TEXT_TOKENIZER_FUZZ_H_
#define OCTAVO_TESTS_SCHEDULER_TEXT_TOKENIZER_FUZZ_H_

#include "absl/strings/string_view.h"

namespace octavo {

// One fuzz input: used by libFuzzer and by a seeded loop in ctest. Ends the process on a finding.
void FuzzTokenizer(absl::string_view data);

}  // namespace octavo

#endif  // OCTAVO_TESTS_SCHEDULER_TEXT_TOKENIZER_FUZZ_H_
