// A model resident on a device: its description and its weights in the backend's layouts.
#ifndef OCTAVO_WORKER_MODEL_MODEL_H_
#define OCTAVO_WORKER_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/cache_geometry.h"
#include "common/checkpoint/model_config.h"
#include "worker/backend/backend.h"
#include "worker/backend/buffer.h"
#include "worker/backend/split_plan.h"

namespace octavo {

// One block of the Llama family. Norm weights are f32 on the device, ModelConfig::norm_offset
// added.
struct LayerWeights {
  Buffer attention_norm;                  // [hidden]
  std::unique_ptr<LinearWeight> qkv;      // [(heads + 2 kv_heads) * head_dim, hidden]
  Buffer query_norm;                      // [head_dim]; empty when the family has none
  Buffer key_norm;                        // [head_dim]; empty when the family has none
  std::unique_ptr<LinearWeight> output;   // [hidden, heads * head_dim]
  Buffer post_attention_norm;             // [hidden]; empty when the family has none
  Buffer ffn_norm;                        // [hidden]
  std::unique_ptr<LinearWeight> gate_up;  // [2 * intermediate, hidden], gated
  std::unique_ptr<LinearWeight> down;     // [hidden, intermediate]
  Buffer post_ffn_norm;                   // [hidden]; empty when the family has none
};

// Immutable after loading. The checkpoint and the backend outlive it.
struct Model {
  // As this rank computes it (shard.h): heads and intermediate_size are its own, and so are those
  // of the shapes here and above.
  ModelConfig config;
  RankSplit split;
  std::vector<int64_t> vocab_begins;           // [rank] its first token
  std::unique_ptr<EmbeddingWeight> embedding;  // [vocab of this rank, hidden]
  std::vector<LayerWeights> layers;
  Buffer output_norm;                  // [hidden]
  std::unique_ptr<LinearWeight> head;  // [vocab of this rank, hidden]
  int64_t weight_bytes = 0;            // resident, all of the above
};

inline KvShape KvShapeOf(const ModelConfig& config) {
  return {config.num_layers, config.num_kv_heads, config.head_dim, config.layer_windows};
}

}  // namespace octavo

#endif  // OCTAVO_WORKER_MODEL_MODEL_H_
