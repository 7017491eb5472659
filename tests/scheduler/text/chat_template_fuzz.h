// One fuzz body, run by a seeded loop in ctest and by libFuzzer.
#ifndef OCTAVO_TESTS_SCHEDULER_TEXT_CHAT_TEMPLATE_FUZZ_H_
#define OCTAVO_TESTS_SCHEDULER_TEXT_CHAT_TEMPLATE_FUZZ_H_

#include "absl/strings/string_view.h"

namespace octavo {

// Parses and renders `source`: whatever it is, that ends within the limits, with a status or with
// pieces that alternate, are not empty and are UTF-8.
void FuzzChatTemplate(absl::string_view source);

}  // namespace octavo

#endif  // OCTAVO_TESTS_SCHEDULER_TEXT_CHAT_TEMPLATE_FUZZ_H_
