// A model with a handmade tokenizer for the weights of FakeModel.
#ifndef OCTAVO_TESTS_SCHEDULER_TRANSPORT_HASH_MODEL_H_
#define OCTAVO_TESTS_SCHEDULER_TRANSPORT_HASH_MODEL_H_

#include "common/checkpoint/tokenizer_spec.h"
#include "scheduler/transport/served_model.h"

namespace octavo {

// 64 ids: letters, digits, space, the two bytes of "é", one merge, and two special tokens.
inline constexpr TokenId kHashStart = 62;  // <|im_start|>
inline constexpr TokenId kHashEnd = 63;    // <|im_end|>, ends generation

TokenizerSpec HashTokenizerSpec();
// With name "hash", max_model_len 256 and a chat template.
ServedModel MakeHashModel();

}  // namespace octavo

#endif  // OCTAVO_TESTS_SCHEDULER_TRANSPORT_HASH_MODEL_H_
