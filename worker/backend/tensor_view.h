// Non-owning views of device memory. A view says nothing about who frees it.
#ifndef OCTAVO_WORKER_BACKEND_TENSOR_VIEW_H_
#define OCTAVO_WORKER_BACKEND_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/dtype.h"

namespace octavo {

// Activations: fp32 rows. `stride` is the distance between rows in elements, >= cols.
struct Matrix {
  float* data = nullptr;  // [rows, cols]
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  float* row(int64_t r) const { return data + r * stride; }
};

// A weight matrix as the checkpoint stores it, in host memory: rows of `cols` elements.
struct WeightView {
  std::string name;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* data = nullptr;
  int64_t row_bytes = 0;  // from row to row; 0: they follow each other (not so for some columns)

  int64_t stride_bytes() const { return row_bytes > 0 ? row_bytes : StorageBytes(dtype, cols); }
  const std::byte* row(int64_t r) const { return data + r * stride_bytes(); }
};

// One linear layer made of several stored matrices with the same cols.
struct LinearSource {
  std::vector<WeightView> parts;  // stacked by rows: {q, k, v}, or {gate, up}, or one
  std::vector<float> bias;        // empty, or one per stacked row
  // {gate, up}: the layer is used with Epilogue::kSiluGate or kGeluGate and may be laid out so that
  // a gate row and its up row are computed together.
  bool gated = false;
  // Its results are logits: what rounds weights further than 16 bits for speed leaves it out.
  bool head = false;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_BACKEND_TENSOR_VIEW_H_
