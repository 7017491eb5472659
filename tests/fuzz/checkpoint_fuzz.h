// One body per checkpoint reader, run by libFuzzer (OCTAVO_FUZZ) and by a seeded loop in ctest.
// A body must not crash, hang, or trip a sanitizer for any input; a refusal is fine.
#ifndef OCTAVO_TESTS_FUZZ_CHECKPOINT_FUZZ_H_
#define OCTAVO_TESTS_FUZZ_CHECKPOINT_FUZZ_H_

#include <cstddef>
#include <cstdint>

namespace octavo {

// Each says whether the readers took the input: seeds are valid, so the loop can check that it
// starts from something the readers go deep into.
bool FuzzGguf(const uint8_t* data, size_t size);
bool FuzzSafetensors(const uint8_t* data, size_t size);
// The first byte picks the file of the folder: '0' config.json, '1' tokenizer.json,
// '2' tokenizer_config.json, '3' generation_config.json, '4' model.safetensors.index.json.
bool FuzzHfJson(const uint8_t* data, size_t size);

}  // namespace octavo

#endif  // OCTAVO_TESTS_FUZZ_CHECKPOINT_FUZZ_H_
