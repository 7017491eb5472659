// The byte-level alphabet of GPT-2: each byte is written as one printable code point, so that a
// vocabulary of arbitrary bytes can be stored as text ("Ġthe" is " the").
#ifndef OCTAVO_SCHEDULER_TEXT_BPE_ALPHABET_H_
#define OCTAVO_SCHEDULER_TEXT_BPE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace octavo {

// "Ġthe" -> " the". nullopt when `text` is not UTF-8 or has a code point outside the alphabet.
std::optional<std::string> BytesOfAlphabet(absl::string_view text);

// " the" -> "Ġthe".
std::string AlphabetOfBytes(absl::string_view bytes);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_BPE_ALPHABET_H_
