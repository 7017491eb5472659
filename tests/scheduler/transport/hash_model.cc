#include "tests/scheduler/transport/hash_model.h"

#include "common/check.h"
#include "tests/fakes/fake_executor.h"

namespace octavo {

TokenizerSpec HashTokenizerSpec() {
  TokenizerSpec spec;
  for (char c = 'a'; c <= 'z'; ++c) spec.tokens.emplace_back(1, c);
  for (char c = '0'; c <= '9'; ++c) spec.tokens.emplace_back(1, c);
  spec.tokens.insert(spec.tokens.end(), {"Ġ", "Ã", "©", "th", ".", ",", "!", "?"});
  while (spec.tokens.size() < 62) spec.tokens.emplace_back(1, 'A' + (spec.tokens.size() - 44));
  spec.tokens.insert(spec.tokens.end(), {"<|im_start|>", "<|im_end|>"});
  spec.merges = {{"t", "h"}};
  spec.added = {{kHashStart, "<|im_start|>", true}, {kHashEnd, "<|im_end|>", true}};
  spec.pre_name = "gpt-2";
  spec.bos_id = kHashStart;
  spec.eos_ids = {kHashEnd};
  spec.chat_template =
      "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}";
  return spec;
}

ServedModel MakeHashModel() {
  const WorkerDescription worker = FakeDescription();
  ModelConfig config;
  config.family = "hash";
  config.name = "hash";
  config.num_layers = worker.kv_shape.num_layers;
  config.num_kv_heads = worker.kv_shape.num_kv_heads;
  config.head_dim = worker.kv_shape.head_dim;
  config.layer_windows = worker.kv_shape.layer_windows;
  config.vocab_size = worker.vocab_size;
  config.max_positions = worker.max_positions;
  auto model = MakeServedModel("hash", config, HashTokenizerSpec(), worker.model_digest);
  OCTAVO_CHECK(model.ok(), model.status().message());
  model->name = "hash";
  model->max_model_len = 256;
  model->max_choices = 64;
  return *std::move(model);
}

}  // namespace octavo
