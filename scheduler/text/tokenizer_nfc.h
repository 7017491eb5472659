// Unicode normalisation form C, for vocabularies that were trained on normalised text.
#ifndef OCTAVO_SCHEDULER_TEXT_TOKENIZER_NFC_H_
#define OCTAVO_SCHEDULER_TEXT_TOKENIZER_NFC_H_

#include <string>

#include "absl/strings/string_view.h"

namespace octavo {

// O(n log n), also for long runs of combining marks. REQUIRES: `text` is UTF-8.
std::string NormalizeNfc(absl::string_view text);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_TOKENIZER_NFC_H_
