#include "tests/worker/cuda/kernels/attention_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/cache_geometry.h"
#include "common/status_macros.h"
#include "tests/conformance/float_rounding.h"
#include "worker/cpu/kv_rounding.h"

namespace octavo::cuda {
namespace {

using emulation::DeviceArray;
using emulation::DeviceStream;

constexpr int32_t kNumLayers = 2;
constexpr int32_t kLayer = 1;
constexpr int32_t kNoBlock = 1 << 29;

CacheGeometry GeometryOf(const PagedShape& shape) {
  return CacheGeometry::Create({kNumLayers, shape.num_kv_heads, shape.head_dim, {}}, shape.dtype,
                               shape.block_size)
      .value();
}

DType QueryType(const PagedShape& shape) {
  return shape.dtype == DType::kBF16 ? DType::kBF16 : DType::kF16;
}

}  // namespace

struct AttentionUnderTest::Device {
  explicit Device(const AttentionUnderTest& test)
      : pool(test.pool_),
        q(test.q_),
        tables(test.tables_),
        out(std::vector<float>(static_cast<size_t>(test.num_rows_ * test.out_stride()), NAN)) {}

  DeviceStream stream;
  DeviceArray<std::byte> pool;
  DeviceArray<float> q;
  DeviceArray<int32_t> tables;
  DeviceArray<float> out;
  // Of launches that have not been waited for.
  std::unique_ptr<DeviceArray<DecodeItem>> decode_items;
  std::unique_ptr<DeviceArray<int32_t>> runs;
  std::unique_ptr<DeviceArray<SharedRow>> shared_rows;
  std::unique_ptr<DeviceArray<float>> partial_out, partial_softmax;
  std::unique_ptr<DeviceArray<uint32_t>> arrivals;
  std::unique_ptr<DeviceArray<PrefillItem>> prefill_items;
};

AttentionUnderTest::AttentionUnderTest(const PagedShape& shape,
                                       const std::vector<SequenceChunk>& chunks, uint64_t seed)
    : shape_(shape) {
  for (const SequenceChunk& chunk : chunks) {
    const int32_t length = chunk.context + chunk.rows;
    TokenRows tokens = RandomTokens(shape, length, seed + tokens_.size());
    for (float& value : tokens.q) value = RoundTo(QueryType(shape), value);
    if (chunk.shared > 0) {
      const TokenRows& like = tokens_[static_cast<size_t>(chunk.like)];
      const auto values =
          static_cast<std::ptrdiff_t>(chunk.shared * shape.num_kv_heads * shape.head_dim);
      std::copy(like.k.begin(), like.k.begin() + values, tokens.k.begin());
      std::copy(like.v.begin(), like.v.begin() + values, tokens.v.begin());
    }
    tokens_.push_back(std::move(tokens));
    SequenceRows rows = {num_rows_, chunk.rows, chunk.context, 0, 0};
    rows.table_length = (length + shape.block_size - 1) / shape.block_size;
    num_blocks_ += rows.table_length;
    num_rows_ += chunk.rows;
    sequences_.push_back(rows);
  }
  num_blocks_ += 3;  // that nobody has
  std::mt19937_64 random(seed);
  std::vector<int32_t> blocks(static_cast<size_t>(num_blocks_));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (size_t sequence = 0; sequence < sequences_.size(); ++sequence) {
    SequenceRows& rows = sequences_[sequence];
    const SequenceChunk& chunk = chunks[sequence];
    rows.table_begin = static_cast<int32_t>(tables_.size());
    for (int32_t i = 0; i < rows.table_length; ++i) {
      if (i < chunk.shared / shape.block_size) {
        const int32_t like = sequences_[static_cast<size_t>(chunk.like)].table_begin;
        tables_.push_back(tables_[static_cast<size_t>(like + i)]);
        continue;
      }
      tables_.push_back(blocks.back());
      blocks.pop_back();
    }
    tables_.push_back(kNoBlock);
  }
  Upload();
}

PagedKv AttentionUnderTest::Layer(std::byte* pool) const {
  const CacheGeometry geometry = GeometryOf(shape_);
  PagedKv kv;
  kv.block_stride = geometry.bytes_per_block();
  kv.data = pool + kLayer * geometry.bytes_per_layer_block() - first_block_ * kv.block_stride;
  kv.dtype = shape_.dtype;
  kv.block_size = shape_.block_size;
  kv.num_kv_heads = shape_.num_kv_heads;
  kv.head_dim = shape_.head_dim;
  return kv;
}

void AttentionUnderTest::SetFirstBlock(int32_t first_block) {
  for (int32_t& block : tables_)
    if (block != kNoBlock) block += first_block - first_block_;
  first_block_ = first_block;
}

void AttentionUnderTest::Upload() {
  const CacheGeometry geometry = GeometryOf(shape_);
  // NaN in every float type and scale.
  pool_.assign(static_cast<size_t>(num_blocks_ * geometry.bytes_per_block()), std::byte{0xff});
  q_.assign(static_cast<size_t>(num_rows_ * q_stride()), NAN);
  const auto cols = static_cast<std::ptrdiff_t>(shape_.num_heads * shape_.head_dim);
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const SequenceRows& rows = sequences_[i];
    // Older ones have left the windows of all rows.
    const int32_t first = shape_.sliding_window > 0
                              ? std::max(0, rows.context_length - shape_.sliding_window + 1)
                              : 0;
    for (int32_t p = first; p < rows.context_length + rows.num_rows; ++p) WriteToken(i, p, pool_);
    for (int32_t r = 0; r < rows.num_rows; ++r) {
      const auto begin = tokens_[i].q.begin() + (rows.context_length + r) * cols;
      std::copy(begin, begin + cols, q_.begin() + (rows.first_row + r) * q_stride());
    }
  }
}

void AttentionUnderTest::WriteToken(size_t sequence, int32_t position,
                                    std::vector<std::byte>& pool) const {
  const SequenceRows& rows = sequences_[sequence];
  const int32_t dim = shape_.head_dim;
  const PagedKv kv = Layer(nullptr);
  const int32_t block =
      tables_[static_cast<size_t>(rows.table_begin + position / shape_.block_size)];
  const int32_t slot = position % shape_.block_size;
  std::byte* const place = pool.data() + (block - first_block_) * kv.block_stride +
                           kLayer * GeometryOf(shape_).bytes_per_layer_block();
  for (const int keys_or_values : {kKeys, kValues})
    for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
      const std::vector<float>& values =
          keys_or_values == kKeys ? tokens_[sequence].k : tokens_[sequence].v;
      const float* row = values.data() + (int64_t{position} * shape_.num_kv_heads + head) * dim;
      std::vector<uint16_t> halves(static_cast<size_t>(dim));
      std::vector<uint8_t> bytes(static_cast<size_t>(dim));
      if (shape_.dtype == DType::kI8) {
        const uint16_t scale = RoundToInt8(row, dim, reinterpret_cast<int8_t*>(bytes.data()));
        std::memcpy(place + ScaleOffset(kv, keys_or_values, head, slot), &scale, sizeof scale);
      } else if (IsEightBit(shape_.dtype)) {
        RoundToFloat8(shape_.dtype, row, dim, bytes.data());
      } else {
        RoundToHalves(shape_.dtype, row, dim, halves.data());
      }
      for (int32_t d = 0; d < dim; ++d) {
        std::byte* const element = place + ElementOffset(kv, keys_or_values, head, slot, d);
        if (IsEightBit(shape_.dtype))
          std::memcpy(element, &bytes[static_cast<size_t>(d)], 1);
        else
          std::memcpy(element, &halves[static_cast<size_t>(d)], 2);
      }
    }
}

PagedAttentionArgs AttentionUnderTest::ArgsOf(const Device& device) const {
  PagedAttentionArgs args;
  args.q = device.q.data();
  args.q_stride = q_stride();
  args.out = device.out.data();
  args.out_stride = out_stride();
  args.num_heads = shape_.num_heads;
  args.kv = Layer(device.pool.data());
  args.block_tables = device.tables.data();
  args.scale = static_cast<float>(ScaleOf(shape_));
  args.softcap = shape_.softcap;
  args.sliding_window = shape_.sliding_window;
  return args;
}

absl::Status AttentionUnderTest::LaunchDecode(Device& device, const std::vector<DecodeItem>& items,
                                              const std::vector<int32_t>& runs,
                                              const std::vector<SharedRow>& shared_rows,
                                              int32_t num_partials) {
  const auto partials = static_cast<size_t>(num_partials * shape_.num_heads);
  device.decode_items = std::make_unique<DeviceArray<DecodeItem>>(items);
  device.runs = std::make_unique<DeviceArray<int32_t>>(runs);
  device.shared_rows = std::make_unique<DeviceArray<SharedRow>>(shared_rows);
  device.partial_out = std::make_unique<DeviceArray<float>>(
      std::vector<float>(partials * static_cast<size_t>(shape_.head_dim), NAN));
  device.partial_softmax =
      std::make_unique<DeviceArray<float>>(std::vector<float>(2 * partials, NAN));
  device.arrivals = std::make_unique<DeviceArray<uint32_t>>(std::vector<uint32_t>(partials, 0));
  PagedDecodeArgs args = {ArgsOf(device)};
  args.items = device.decode_items->data();
  args.runs = device.runs->data();
  args.num_parts = static_cast<int32_t>(runs.size()) - 1;
  args.shared_rows = device.shared_rows->data();
  args.partial_out = device.partial_out->data();
  args.partial_softmax = device.partial_softmax->data();
  args.arrivals = device.arrivals->data();
  return LaunchPagedDecode(args, device.stream);
}

absl::Status AttentionUnderTest::LaunchPrefill(Device& device,
                                               const std::vector<PrefillItem>& items) {
  device.prefill_items = std::make_unique<DeviceArray<PrefillItem>>(items);
  PagedPrefillArgs args = {ArgsOf(device)};
  args.items = device.prefill_items->data();
  args.num_items = static_cast<int32_t>(items.size());
  return LaunchPagedPrefill(args, device.stream);
}

AttentionWorkList AttentionUnderTest::ListOf(const WorkListOptions& options) const {
  AttentionWorkList list(options);
  list.Build(sequences_, shape_.sliding_window, shape_.num_heads / shape_.num_kv_heads,
             {{tables_.data()}, shape_.block_size});
  return list;
}

absl::StatusOr<std::vector<float>> AttentionUnderTest::TryRun(const WorkListOptions& options) {
  const AttentionWorkList list = ListOf(options);
  Device device(*this);
  absl::Status status;
  if (!list.decode_items().empty())
    status = LaunchDecode(device, list.decode_items(), list.runs(), list.shared_rows(),
                          list.num_partials());
  if (status.ok() && !list.prefill_items().empty())
    status = LaunchPrefill(device, list.prefill_items());
  return Finish(device, status);
}

std::vector<float> AttentionUnderTest::Run(const WorkListOptions& options) {
  const auto rows = TryRun(options);
  EXPECT_TRUE(rows.ok()) << rows.status();
  return rows.ok() ? *rows : std::vector<float>(NumValues(), NAN);
}

std::vector<float> AttentionUnderTest::RunDecodes(const std::vector<DecodeItem>& items,
                                                  const std::vector<int32_t>& runs,
                                                  int32_t num_partials) {
  Device device(*this);
  const auto rows = Finish(device, LaunchDecode(device, items, runs, {}, num_partials));
  EXPECT_TRUE(rows.ok()) << rows.status();
  return rows.ok() ? *rows : std::vector<float>(NumValues(), NAN);
}

absl::StatusOr<std::vector<float>> AttentionUnderTest::Finish(const Device& device,
                                                              const absl::Status& status) const {
  const std::string error = device.stream.Synchronize();
  OCTAVO_RETURN_IF_ERROR(status);
  if (!error.empty()) return absl::InternalError(absl::StrCat("launch: ", error));
  const auto cols = static_cast<std::ptrdiff_t>(shape_.num_heads * shape_.head_dim);
  std::vector<float> rows;
  const std::vector<float> out = device.out.Get();
  for (std::ptrdiff_t r = 0; r < num_rows_; ++r) {
    const auto begin = out.begin() + r * out_stride();
    rows.insert(rows.end(), begin, begin + cols);
    if (!std::all_of(begin + cols, begin + out_stride(),
                     [](float value) { return std::isnan(value); }))
      return absl::InternalError(absl::StrCat("written beside row ", r));
  }
  if (device.arrivals == nullptr) return rows;
  for (const uint32_t arrived : device.arrivals->Get())
    if (arrived != 0) return absl::InternalError(absl::StrCat(arrived, " arrivals are left"));
  return rows;
}

std::vector<double> AttentionUnderTest::Reference(int32_t row) const {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const SequenceRows& rows = sequences_[i];
    if (row >= rows.first_row && row < rows.first_row + rows.num_rows)
      return AttentionReference(shape_, tokens_[i], rows.context_length + row - rows.first_row);
  }
  ADD_FAILURE() << "no row " << row;
  return {};
}

double AttentionUnderTest::WorstError(const std::vector<float>& out) const {
  const auto dim = static_cast<size_t>(shape_.head_dim);
  const auto cols = dim * static_cast<size_t>(shape_.num_heads);
  double worst = 0;
  // The first and last rows of each chunk, and some between.
  for (const SequenceRows& rows : sequences_)
    for (int32_t r = 0; r < rows.num_rows; ++r) {
      if (r > 1 && r + 2 < rows.num_rows && r % 13 != 0) continue;
      const std::vector<double> reference = Reference(rows.first_row + r);
      const float* row = out.data() + static_cast<size_t>(rows.first_row + r) * cols;
      for (size_t head = 0; head < cols; head += dim) {
        double error = 0, norm = 0;
        for (size_t d = head; d < head + dim; ++d) {
          error += (row[d] - reference[d]) * (row[d] - reference[d]);
          norm += reference[d] * reference[d];
        }
        const double relative = std::sqrt(error / norm);
        worst = relative <= worst      ? worst
                : std::isnan(relative) ? std::numeric_limits<double>::infinity()
                                       : relative;
      }
    }
  return worst;
}

std::vector<SequenceChunk> DecodesOf(const std::vector<int32_t>& lengths) {
  std::vector<SequenceChunk> chunks;
  for (const int32_t length : lengths) chunks.push_back({length - 1, 1});
  return chunks;
}

double Tolerance(DType dtype) { return dtype == DType::kBF16 ? 4e-3 : 6e-4; }

std::string Describe(const PagedShape& shape) {
  return absl::StrCat(Info(shape.dtype).name, " heads ", shape.num_heads, "/", shape.num_kv_heads,
                      " dim ", shape.head_dim, " block ", shape.block_size, " window ",
                      shape.sliding_window, " softcap ", shape.softcap);
}

void ExpectNearReference(const PagedShape& shape, const std::vector<SequenceChunk>& chunks,
                         const WorkListOptions& options) {
  SCOPED_TRACE(Describe(shape));
  AttentionUnderTest test(shape, chunks);
  EXPECT_LE(test.WorstError(test.Run(options)), Tolerance(shape.dtype));
}

}  // namespace octavo::cuda
