#include "worker/cuda/cuda_attention.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "common/status_naming.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/device_memory.h"
#include "worker/cuda/kernels/paged_decode.h"
#include "worker/cuda/kernels/paged_prefill.h"

namespace octavo::cuda {
namespace {

constexpr size_t kAlignment = 256;
// Of rows whose bits must not depend on their batch. A block of threads reads that many positions
// of head_dim 128 in bf16, 128 KB, in about 3 us, beside which an item's 2 us of overhead are
// hidden by the others of its multiprocessor; less would leave more partial results than it gains.
constexpr int32_t kFixedSplitTokens = 256;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <typename T>
size_t ArrayBytes(int64_t count) {
  return RoundUp(static_cast<size_t>(count) * sizeof(T));
}

// Returns where the items end.
template <typename T>
size_t Put(const std::vector<T>& items, size_t at, std::vector<std::byte>& lists) {
  const size_t end = at + items.size() * sizeof(T);
  OCTAVO_CHECK(end <= lists.size(), "items=", items.size());
  if (!items.empty()) std::memcpy(lists.data() + at, items.data(), end - at);
  return end;
}

}  // namespace

PagedKv LayerOf(const KvPoolView& pool, int32_t index) {
  const CacheGeometry& geometry = pool.geometry;
  PagedKv kv;
  kv.data = pool.data + index * geometry.bytes_per_layer_block();
  kv.block_stride = geometry.bytes_per_block();
  kv.dtype = geometry.dtype();
  kv.block_size = geometry.block_size();
  kv.num_kv_heads = geometry.shape().num_kv_heads;
  kv.head_dim = geometry.shape().head_dim;
  return kv;
}

size_t CudaAttention::Sizes::ListBytes() const {
  return ArrayBytes<int32_t>(options.num_parts + 1) + ArrayBytes<SharedRow>(shared_rows) +
         ArrayBytes<DecodeItem>(decode_items) + ArrayBytes<PrefillItem>(prefill_items);
}

int64_t CudaAttention::Sizes::PartialElements(const LargestStep& limits) const {
  return partials * limits.num_heads;
}

absl::StatusOr<CudaAttention::Sizes> CudaAttention::SizesOf(const LargestStep& limits) const {
  const KvShape& shape = limits.geometry.shape();
  const PagedKv kv = LayerOf({nullptr, limits.geometry}, 0);
  OCTAVO_RETURN_IF_ERROR(CheckPagedDecode(kv, limits.num_heads));
  Sizes sizes;
  const int32_t group = limits.num_heads / shape.num_kv_heads;
  const int32_t resident =
      multiprocessors_ * PagedDecodeBlocksPerMultiprocessor(kv, limits.num_heads, shared_bytes_);
  sizes.options.num_parts =
      std::max(1, resident / (shape.num_kv_heads * PagedDecodeHeadTiles(shape.head_dim, group)));
  if (deterministic_)
    sizes.options.fixed_split_tokens = kFixedSplitTokens;
  else
    sizes.options.shared_rows = PagedDecodeSharedRows(kv, limits.num_heads);
  const AttentionWorkList list(sizes.options);
  const int64_t rows = std::min(limits.max_rows, limits.max_sequences);
  sizes.shared_rows = sizes.options.shared_rows > 1 ? rows : 0;
  sizes.decode_items = list.MaxDecodeItems(rows, limits.max_positions);
  sizes.partials = list.MaxPartials(rows, limits.max_positions);
  // Every chunk may end in a part of an item.
  sizes.prefill_items =
      (int64_t{limits.max_rows} * group + kPackedRows - 1) / kPackedRows + limits.max_sequences;
  for (const KvGroup& kv_group : limits.geometry.groups())
    if (std::find(sizes.windows.begin(), sizes.windows.end(), kv_group.window) ==
        sizes.windows.end())
      sizes.windows.push_back(kv_group.window);
  return sizes;
}

absl::StatusOr<int64_t> CudaAttention::WorkspaceBytes(const LargestStep& limits) const {
  OCTAVO_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(limits));
  const int64_t per_element = limits.geometry.shape().head_dim + 3;
  return static_cast<int64_t>(sizes.windows.size() * sizes.ListBytes()) +
         sizes.PartialElements(limits) * per_element * static_cast<int64_t>(sizeof(float));
}

absl::Status CudaAttention::Reserve(const LargestStep& limits, cudaStream_t stream) {
  OCTAVO_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(limits));
  batch_ = nullptr;
  num_parts_ = sizes.options.num_parts;
  tables_.block_size = limits.geometry.block_size();
  group_ = limits.num_heads / limits.geometry.shape().num_kv_heads;
  windows_.clear();
  size_t at = 0;
  for (const int32_t window : sizes.windows) {
    Window lists = {window, AttentionWorkList(sizes.options), {}};
    for (int32_t i = 0; i < limits.geometry.num_groups(); ++i)
      if (limits.geometry.groups()[static_cast<size_t>(i)].window == window)
        lists.groups.push_back(i);
    lists.runs_at = at;
    lists.shared_at = lists.runs_at + ArrayBytes<int32_t>(num_parts_ + 1);
    lists.decode_at = lists.shared_at + ArrayBytes<SharedRow>(sizes.shared_rows);
    lists.prefill_at = lists.decode_at + ArrayBytes<DecodeItem>(sizes.decode_items);
    at += sizes.ListBytes();
    windows_.push_back(std::move(lists));
  }
  host_lists_.assign(at, std::byte{0});
  OCTAVO_RETURN_IF_ERROR(Naming("work lists of attention", Grow(lists_, at)));
  const auto elements = static_cast<size_t>(sizes.PartialElements(limits));
  const auto head_dim = static_cast<size_t>(limits.geometry.shape().head_dim);
  OCTAVO_RETURN_IF_ERROR(Naming("partial results of attention",
                                Grow(partial_out_, elements * head_dim * sizeof(float))));
  OCTAVO_RETURN_IF_ERROR(Grow(partial_softmax_, elements * 2 * sizeof(float)));
  OCTAVO_RETURN_IF_ERROR(Grow(arrivals_, elements * sizeof(uint32_t)));
  return ToStatus(cudaMemsetAsync(arrivals_.data(), 0, arrivals_.bytes(), stream),
                  "cudaMemsetAsync");
}

absl::Status CudaAttention::BeginStep(const StepBatch& batch, Staging& staging) {
  batch_ = nullptr;
  size_t end = 0;
  for (Window& window : windows_) {
    tables_.groups.clear();
    if (batch.host_block_tables != nullptr)
      for (const int32_t group : window.groups)
        tables_.groups.push_back(batch.host_block_tables + group * batch.num_table_entries);
    window.list.Build(batch.sequences, window.window, group_, tables_);
    end = Put(window.list.runs(), window.runs_at, host_lists_);
    if (!window.list.shared_rows().empty())
      end = Put(window.list.shared_rows(), window.shared_at, host_lists_);
    if (!window.list.decode_items().empty())
      end = Put(window.list.decode_items(), window.decode_at, host_lists_);
    if (!window.list.prefill_items().empty())
      end = Put(window.list.prefill_items(), window.prefill_at, host_lists_);
  }
  OCTAVO_RETURN_IF_ERROR(staging.Copy(lists_.data(), host_lists_.data(), end));
  batch_ = &batch;
  return absl::OkStatus();
}

absl::Status CudaAttention::Run(const PagedAttentionParams& params, cudaStream_t stream) const {
  if (params.batch == nullptr || params.batch != batch_)
    return absl::FailedPreconditionError("paged attention: the step of the batch was not begun");
  const KvShape& shape = params.pool.geometry.shape();
  if (params.layer < 0 || params.layer >= shape.num_layers)
    return absl::InvalidArgumentError(absl::StrCat("paged attention: layer is ", params.layer,
                                                   "; num_layers is ", shape.num_layers));
  if (params.num_kv_heads != shape.num_kv_heads || params.head_dim != shape.head_dim ||
      params.num_heads != group_ * shape.num_kv_heads)
    return absl::InvalidArgumentError(absl::StrCat(
        "paged attention: ", params.num_heads, " heads over ", params.num_kv_heads, " of ",
        params.head_dim, "; the cache was configured for ", group_ * shape.num_kv_heads, " over ",
        shape.num_kv_heads, " of ", shape.head_dim));
  const auto window = std::find_if(windows_.begin(), windows_.end(), [&](const Window& candidate) {
    return candidate.window == params.sliding_window;
  });
  if (window == windows_.end())
    return absl::InvalidArgumentError(absl::StrCat("paged attention: a window of ",
                                                   params.sliding_window,
                                                   " is not one of the cache's groups"));
  const PagedAttentionArgs common = ArgsOf(params);
  if (!window->list.decode_items().empty()) {
    PagedDecodeArgs args = {common};
    args.items = reinterpret_cast<const DecodeItem*>(lists_.data() + window->decode_at);
    args.runs = reinterpret_cast<const int32_t*>(lists_.data() + window->runs_at);
    args.num_parts = num_parts_;
    args.shared_rows = reinterpret_cast<const SharedRow*>(lists_.data() + window->shared_at);
    args.partial_out = partial_out_.as<float>();
    args.partial_softmax = partial_softmax_.as<float>();
    args.arrivals = arrivals_.as<uint32_t>();
    OCTAVO_RETURN_IF_ERROR(LaunchPagedDecode(args, stream));
  }
  if (window->list.prefill_items().empty()) return absl::OkStatus();
  PagedPrefillArgs args = {common};
  args.items = reinterpret_cast<const PrefillItem*>(lists_.data() + window->prefill_at);
  args.num_items = static_cast<int32_t>(window->list.prefill_items().size());
  return LaunchPagedPrefill(args, stream);
}

PagedAttentionArgs CudaAttention::ArgsOf(const PagedAttentionParams& params) const {
  const LayerPlace place = params.pool.geometry.place(params.layer);
  PagedAttentionArgs args;
  args.q = params.q.data;
  args.q_stride = params.q.stride;
  args.out = params.out.data;
  args.out_stride = params.out.stride;
  args.num_heads = params.num_heads;
  args.kv = LayerOf(params.pool, place.index);
  args.block_tables = params.batch->TablesOf(place.group);
  args.scale = params.scale;
  args.softcap = params.softcap;
  args.sliding_window = params.sliding_window;
  return args;
}

}  // namespace octavo::cuda
