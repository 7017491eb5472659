#include "worker/cpu/matmul.h"

#include <algorithm>
#include <new>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cpu/matmul_int8.h"
#include "worker/cpu/matmul_kernels.h"

namespace octavo {
namespace {

constexpr size_t kAlignment = 64;
// Prepared activations of one row chunk: what a core's L2 holds beside the panel being multiplied.
constexpr int64_t kChunkBytes = 1 << 20;
constexpr int64_t kMinChunkRows = 48;
// One in so many panels of a thread's share is for whoever comes first: nobody waits long for a
// thread that lost its core for a moment.
constexpr int64_t kSharesTail = 5;
// Up to here every thread prepares all rows itself, which is cheaper than a barrier.
constexpr int64_t kRedundantFloats = 2048;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

FinishOp FinishOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kStore:
      return FinishOp::kStore;
    case Epilogue::kAdd:
      return FinishOp::kAdd;
    case Epilogue::kSiluGate:
      return FinishOp::kSiluGate;
    case Epilogue::kGeluGate:
      return FinishOp::kGeluGate;
  }
  return FinishOp::kStore;
}

absl::Status CheckShapes(const PackedLinear& weight, const LinearParams& params) {
  const bool gate =
      params.epilogue == Epilogue::kSiluGate || params.epilogue == Epilogue::kGeluGate;
  if (gate != weight.gated()) {
    return absl::InvalidArgumentError(absl::StrCat("a ", weight.gated() ? "gated" : "plain",
                                                   " linear weight was used with ",
                                                   gate ? "a gate" : "no gate", " epilogue"));
  }
  if (params.x.cols != weight.in_features() || params.x.stride < params.x.cols) {
    return absl::InvalidArgumentError(absl::StrCat("linear input has ", params.x.cols,
                                                   " columns, stride ", params.x.stride,
                                                   "; the weight takes ", weight.in_features()));
  }
  const int64_t out_cols = weight.out_features() / (gate ? 2 : 1);
  if (params.out.cols != out_cols || params.out.stride < params.out.cols) {
    return absl::InvalidArgumentError(absl::StrCat("linear output has ", params.out.cols,
                                                   " columns, stride ", params.out.stride,
                                                   "; the weight gives ", out_cols));
  }
  if (params.row_ids == nullptr && params.out.rows > params.x.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("linear output has ", params.out.rows, " rows, the input ", params.x.rows));
  }
  for (int64_t r = 0; params.row_ids != nullptr && r < params.out.rows; ++r) {
    if (params.row_ids[r] < 0 || params.row_ids[r] >= params.x.rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("linear row id ", params.row_ids[r], " is not in 0..", params.x.rows - 1));
    }
  }
  return absl::OkStatus();
}

// The one order that all of a layer's formats want, if there is one.
QuantOrder QuantOrderOf(const PackedLinear& weight) {
  const QuantOrder order = QuantOrderOf(weight.segments().front().format);
  for (const PackedLinear::Segment& segment : weight.segments())
    if (QuantOrderOf(segment.format) != order) return QuantOrder::kNone;
  return order;
}

const MatmulKernels& KernelsOf(const PackedLinear& weight, ActivationDType activations, Isa isa) {
  const bool int8 =
      activations == ActivationDType::kInt8 && QuantOrderOf(weight) != QuantOrder::kNone;
  if (!int8) return KernelsFor(isa);
  return isa == Isa::kAmx ? MatmulKernelsAmx() : MatmulKernelsInt8();
}

// One call of RunLinear, as every thread sees it.
class Product {
 public:
  Product(const PackedLinear& weight, const LinearParams& params, ActivationDType activations,
          Isa isa, ThreadPool& pool, MatmulScratch& scratch)
      : weight_(weight),
        params_(params),
        kernels_(KernelsOf(weight, activations, isa)),
        pool_(pool),
        scratch_(scratch),
        padded_cols_(weight.k_blocks() * kBlockK),
        unfused_(weight.gated() && !weight.interleaved()) {
    const int64_t rows = params.out.rows;
    const int64_t fitting = kChunkBytes / static_cast<int64_t>(padded_cols_ * sizeof(float));
    const int64_t most = std::max(kMinChunkRows, fitting);
    chunk_rows_ = RoundUp(rows, most) / most;  // chunks
    chunk_rows_ = (rows + chunk_rows_ - 1) / chunk_rows_;
    const int64_t chunks = (rows + chunk_rows_ - 1) / chunk_rows_;
    scratch.claims.Reset(chunks * static_cast<int64_t>(weight.segments().size()) * pool.size());
    redundant_ = rows == 1 || (rows == chunk_rows_ && rows * padded_cols_ <= kRedundantFloats);

    // Rows, tiles and block sums of a chunk.
    const int64_t chunk_floats =
        RoundUp(chunk_rows_ * padded_cols_, 16) + RoundUp(chunk_rows_ * weight.k_blocks(), 16);
    if (!redundant_) shared_ = scratch.shared.Reserve(static_cast<size_t>(chunk_floats));
    scratch.threads.resize(static_cast<size_t>(pool.size()));
    for (MatmulScratch::PerThread& thread : scratch.threads) {
      thread.activations.Reserve(
          static_cast<size_t>(StagingFloats() + (redundant_ ? chunk_floats : 0)));
      thread.decoded.Reserve(static_cast<size_t>(kernels_.decoded_floats));
      thread.sums.Reserve(static_cast<size_t>(chunk_rows_ * kPanelRows));
      if (kernels_.arrange != nullptr)
        thread.arranged.Reserve(
            static_cast<size_t>(kernels_.arranged_floats(chunk_rows_, weight.k_blocks())));
    }
    if (unfused_)
      both_ = scratch.unfused.Reserve(static_cast<size_t>(chunk_rows_ * weight.out_features()));

    prepare_.x = params.x.data;
    prepare_.stride = params.x.stride;
    prepare_.cols = params.x.cols;
    prepare_.k_blocks = weight.k_blocks();
    prepare_.norm_weight = params.norm.weight;
    prepare_.eps = params.norm.eps;
    prepare_.round_to_bf16 = activations == ActivationDType::kBFloat16;
    prepare_.even_odd = QuantOrderOf(weight) == QuantOrder::kEvenOdd;
  }

  void Run(int thread) {
    for (int64_t first = 0; first < params_.out.rows; first += chunk_rows_)
      RunChunk(thread, first, std::min(chunk_rows_, params_.out.rows - first));
  }

 private:
  int64_t StagingFloats() const { return kInterleavedRows * padded_cols_; }

  void RunChunk(int thread, int64_t first, int64_t rows) {
    MatmulScratch::PerThread& own = scratch_.threads[static_cast<size_t>(thread)];
    float* const staging = own.activations.data();
    float* const tiles = redundant_ ? staging + StagingFloats() : shared_;
    float* const sums = tiles + RoundUp(chunk_rows_ * padded_cols_, 16);

    PrepareTask prepare = prepare_;
    if (params_.row_ids != nullptr) {
      prepare.row_ids = params_.row_ids + first;
    } else {
      prepare.x = params_.x.row(first);
    }
    prepare.rows = rows;
    prepare.tiles = tiles;
    prepare.sums = sums;
    prepare.staging = staging;
    const int64_t tile_count = kernels_.tile_count(rows);
    prepare.first_tile = redundant_ ? 0 : tile_count * thread / pool_.size();
    prepare.last_tile = redundant_ ? tile_count : tile_count * (thread + 1) / pool_.size();
    // The other threads may still read the chunk before this one.
    if (first > 0) pool_.Barrier();
    kernels_.prepare(prepare);
    if (!redundant_) pool_.Barrier();

    MultiplyTask multiply;
    multiply.k_blocks = weight_.k_blocks();
    multiply.tiles = tiles;
    multiply.sums = sums;
    multiply.rows = rows;
    multiply.even_odd = prepare.even_odd;
    multiply.arranged = own.arranged.data();
    multiply.decoded = own.decoded.data();
    multiply.sums_out = own.sums.data();
    if (kernels_.arrange != nullptr) kernels_.arrange(multiply);
    const int64_t segments = static_cast<int64_t>(weight_.segments().size());
    for (int64_t s = 0; s < segments; ++s) {
      Multiply(thread, first, weight_.segments()[static_cast<size_t>(s)],
               (first / chunk_rows_ * segments + s) * pool_.size(), multiply);
    }
    if (unfused_) {
      pool_.Barrier();
      GateRows(rows * thread / pool_.size(), rows * (thread + 1) / pool_.size(), first);
    }
  }

  // `claims`: index of the segment's first counter, one per thread.
  void Multiply(int thread, int64_t first, const PackedLinear::Segment& segment, int64_t claims,
                MultiplyTask task) {
    task.format = segment.format;
    task.panels = segment.data;
    task.panel_bytes = segment.panel_bytes;
    const float* bias = weight_.bias().empty() ? nullptr : weight_.bias().data();
    if (unfused_) {
      task.finish = FinishOp::kStore;
      task.out = both_ + segment.first_row;
      task.out_stride = weight_.out_features();
      task.out_cols = segment.rows;
    } else {
      task.finish = FinishOf(params_.epilogue);
      task.out = params_.out.row(first) + segment.first_row;
      task.out_stride = params_.out.stride;
      task.out_cols = weight_.gated() ? segment.rows / 2 : segment.rows;
    }
    if (bias != nullptr) {
      task.bias = bias + segment.first_row;
      task.up_bias = bias + segment.rows / 2;
    }
    // The thread's own part, then what is left of the tails: its own first.
    task.first_panel = Begin(segment, thread);
    task.last_panel = Begin(segment, thread + 1) - Tail(segment, thread);
    kernels_.multiply(task);
    for (int i = 0; i < pool_.size(); ++i) {
      const int owner = (thread + i) % pool_.size();
      const int64_t tail = Tail(segment, owner);
      while (const std::optional<int64_t> claim = scratch_.claims.Next(claims + owner, tail)) {
        task.first_panel = Begin(segment, owner + 1) - tail + *claim;
        task.last_panel = task.first_panel + 1;
        kernels_.multiply(task);
      }
    }
  }

  // Panels [Begin(thread), Begin(thread + 1)) are a thread's share.
  int64_t Begin(const PackedLinear::Segment& segment, int thread) const {
    return segment.panels * thread / pool_.size();
  }
  int64_t Tail(const PackedLinear::Segment& segment, int thread) const {
    return (Begin(segment, thread + 1) - Begin(segment, thread)) / kSharesTail;
  }

  void GateRows(int64_t begin, int64_t end, int64_t first) {
    const int64_t cols = params_.out.cols;
    for (int64_t r = begin; r < end; ++r) {
      const float* gate = both_ + r * 2 * cols;
      kernels_.gate(FinishOf(params_.epilogue), gate, gate + cols, params_.out.row(first + r),
                    cols);
    }
  }

  const PackedLinear& weight_;
  const LinearParams& params_;
  const MatmulKernels& kernels_;
  ThreadPool& pool_;
  MatmulScratch& scratch_;
  const int64_t padded_cols_;
  const bool unfused_;
  int64_t chunk_rows_ = 0;
  bool redundant_ = false;
  float* shared_ = nullptr;
  float* both_ = nullptr;  // [chunk rows, {gate, up}]
  PrepareTask prepare_;
};

}  // namespace

void FloatBuffer::Free::operator()(float* data) const {
  ::operator delete[](data, std::align_val_t{kAlignment});
}

float* FloatBuffer::Reserve(size_t count) {
  if (count > capacity_) {
    data_.reset();
    capacity_ = 0;
    data_.reset(
        static_cast<float*>(::operator new[](count * sizeof(float), std::align_val_t{kAlignment})));
    capacity_ = count;
  }
  return data_.get();
}

absl::Status RunLinear(const PackedLinear& weight, const LinearParams& params,
                       ActivationDType activations, Isa isa, ThreadPool& pool,
                       MatmulScratch& scratch) {
  OCTAVO_RETURN_IF_ERROR(CheckShapes(weight, params));
  if (params.out.rows == 0) return absl::OkStatus();
  Product product(weight, params, activations, isa, pool, scratch);
  pool.Run([&](int thread) { product.Run(thread); });
  return absl::OkStatus();
}

namespace {

// Below this many elements another thread takes longer to wake than to help.
constexpr int64_t kSmallElements = 8192;

absl::Status CheckNorm(const Matrix& x, const RmsNorm& norm, const Matrix& out) {
  if (norm.weight == nullptr) return absl::InvalidArgumentError("a norm without a weight");
  if (x.rows != out.rows || x.cols != out.cols) {
    return absl::InvalidArgumentError(absl::StrCat("norm input is ", x.rows, " x ", x.cols,
                                                   ", its output ", out.rows, " x ", out.cols));
  }
  return absl::OkStatus();
}

template <typename Function>
void ForRows(const Matrix& x, ThreadPool& pool, Function function) {
  const auto share = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) function(row);
  };
  if (x.rows * x.cols < kSmallElements) return share(0, x.rows);
  pool.Run([&](int thread) {
    share(x.rows * thread / pool.size(), x.rows * (thread + 1) / pool.size());
  });
}

}  // namespace

absl::Status NormalizeRows(const Matrix& x, const RmsNorm& norm, Isa isa, ThreadPool& pool,
                           const Matrix& out) {
  OCTAVO_RETURN_IF_ERROR(CheckNorm(x, norm, out));
  const MatmulKernels& kernels = KernelsFor(isa);
  ForRows(x, pool, [&](int64_t row) {
    kernels.normalize(x.row(row), norm.weight, norm.eps, x.cols, out.row(row));
  });
  return absl::OkStatus();
}

absl::Status AddNormedRows(const AddNormedParams& params, Isa isa, ThreadPool& pool) {
  OCTAVO_RETURN_IF_ERROR(CheckNorm(params.x, params.norm, params.out));
  const MatmulKernels& kernels = KernelsFor(isa);
  const int64_t cols = params.x.cols;
  ForRows(params.x, pool, [&](int64_t row) {
    float* const x = params.x.row(row);
    float* const out = params.out.row(row);
    kernels.normalize(x, params.norm.weight, params.norm.eps, cols, x);
    for (int64_t i = 0; i < cols; ++i) out[i] += x[i];
  });
  return absl::OkStatus();
}

}  // namespace octavo
