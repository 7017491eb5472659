#include "tests/bench/cuda/sizes.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace octavo::bench {
namespace {

std::string Tokens(int32_t count) {
  return count > 0 && count % 1024 == 0 ? absl::StrCat(count / 1024, "k") : absl::StrCat(count);
}

AttentionCase Decodes(int32_t batch, int32_t length) {
  return {absl::StrCat("decode ", batch, " x ", Tokens(length)),
          std::vector<Chunk>(static_cast<size_t>(batch), {length - 1, 1})};
}

AttentionCase Prefills(int32_t batch, int32_t context, int32_t rows) {
  return {absl::StrCat("prefill ", batch, " x ", Tokens(rows), " on ", Tokens(context)),
          std::vector<Chunk>(static_cast<size_t>(batch), {context, rows})};
}

// Lengths in proportion to 1 / rank: mean `mean`, the longest some 13 times as much.
AttentionCase ZipfDecodes(int32_t batch, int32_t mean) {
  double harmonic = 0;
  for (int32_t rank = 1; rank <= batch; ++rank) harmonic += 1.0 / rank;
  AttentionCase zipf = {absl::StrCat("decode ", batch, " Zipf, mean ", Tokens(mean)), {}};
  for (int32_t rank = 1; rank <= batch; ++rank) {
    const double length = static_cast<double>(mean) * batch / harmonic / rank;
    zipf.chunks.push_back({std::max(1, static_cast<int32_t>(std::lround(length))) - 1, 1});
  }
  return zipf;
}

AttentionCase UniformDecodes(int32_t batch, int32_t shortest, int32_t longest) {
  AttentionCase uniform = {
      absl::StrCat("decode ", batch, " of ", Tokens(shortest), " to ", Tokens(longest)), {}};
  for (int32_t i = 0; i < batch; ++i)
    uniform.chunks.push_back({shortest + (longest - shortest) * i / (batch - 1) - 1, 1});
  return uniform;
}

AttentionCase OneLongDecode(int32_t length, int32_t others, int32_t their_length) {
  AttentionCase skewed = Decodes(others, their_length);
  skewed.name =
      absl::StrCat("decode 1 x ", Tokens(length), " + ", others, " x ", Tokens(their_length));
  skewed.chunks.insert(skewed.chunks.begin(), {length - 1, 1});
  return skewed;
}

AttentionCase SharedDecodes(int32_t batch, int32_t shared, int32_t own) {
  AttentionCase cascade = Decodes(batch, shared + own);
  cascade.name = absl::StrCat("decode ", batch, " x (", Tokens(shared), " shared + ", own, ")");
  cascade.shared_tokens = shared;
  return cascade;
}

AttentionCase Mixed(int32_t context, int32_t rows, int32_t decodes, int32_t length) {
  AttentionCase mixed = Decodes(decodes, length);
  mixed.name = absl::StrCat(Tokens(rows), " on ", Tokens(context), " + ", decodes, " decodes at ",
                            Tokens(length));
  mixed.chunks.insert(mixed.chunks.begin(), {context, rows});
  return mixed;
}

std::vector<AttentionCase> MainCases() {
  constexpr int32_t k = 1024;
  std::vector<AttentionCase> cases;
  for (const int32_t length : {1, 8, 32, 128}) cases.push_back(Decodes(1, length * k));
  for (const int32_t length : {1, 8, 32}) cases.push_back(Decodes(8, length * k));
  for (const int32_t length : {1, 4, 16}) cases.push_back(Decodes(32, length * k));
  for (const int32_t batch : {64, 128})
    for (const int32_t length : {1, 4}) cases.push_back(Decodes(batch, length * k));
  cases.push_back(Decodes(256, 512));
  cases.push_back(Decodes(256, 2 * k));
  cases.push_back(ZipfDecodes(64, 2 * k));
  cases.push_back(OneLongDecode(64 * k, 15, 512));
  cases.push_back(UniformDecodes(256, 128, 4 * k));
  cases.push_back(SharedDecodes(64, 8 * k, 256));
  for (const int32_t rows : {512, 2 * k, 8 * k, 32 * k}) cases.push_back(Prefills(1, 0, rows));
  cases.push_back(Prefills(4, 0, 2 * k));
  cases.push_back(Prefills(1, 8 * k, 512));
  cases.push_back(Prefills(1, 16 * k, 2 * k));
  cases.push_back(Prefills(1, 64 * k, 512));
  cases.push_back(Mixed(4 * k, 512, 64, 2 * k));
  return cases;
}

AttentionVariant Variant(const std::string& name, DType dtype, int32_t num_heads,
                         int32_t num_kv_heads, int32_t head_dim, std::vector<AttentionCase> cases) {
  return {name, dtype, num_heads, num_kv_heads, head_dim, std::move(cases)};
}

constexpr DType kOtherTypes[] = {DType::kF16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2};

}  // namespace

Sizes FullSizes() {
  constexpr int32_t k = 1024;
  Sizes sizes;
  sizes.name = "full";
  sizes.copy_bytes = int64_t{4} << 30;
  sizes.link_bytes = int64_t{1} << 28;
  sizes.product_size = 8192;
  sizes.attention.push_back(Variant("bf16 32/8 x 128", DType::kBF16, 32, 8, 128, MainCases()));
  const std::vector<AttentionCase> two = {Decodes(64, 4 * k), Decodes(1, 32 * k)};
  for (const DType dtype : kOtherTypes) {
    std::vector<AttentionCase> cases = two;
    if (IsEightBit(dtype)) cases.push_back(Prefills(1, 0, 8 * k));
    sizes.attention.push_back(Variant(absl::StrCat(std::string(Info(dtype).name), " 32/8 x 128"),
                                      dtype, 32, 8, 128, cases));
  }
  sizes.attention.push_back(Variant("bf16 32/32 x 128", DType::kBF16, 32, 32, 128, two));
  sizes.attention.push_back(Variant("bf16 64/8 x 128", DType::kBF16, 64, 8, 128, two));
  sizes.attention.push_back(Variant("bf16 32/8 x 64", DType::kBF16, 32, 8, 64, two));

  const absl::StatusOr<ModelShape> model = FindModelShape("llama-3-8b");
  OCTAVO_CHECK(model.ok());
  sizes.model = *model;
  sizes.rows = {1, 64, 256, 2048};
  sizes.product_rows = {1, 16, 64, 256, 2048};
  sizes.copied_blocks = {1, 64, 512};
  sizes.rotated_bytes = int64_t{1} << 28;
  sizes.batches = {1, 16, 64, 256};
  sizes.step_context = 1024;
  sizes.prefill_tokens = 2048;
  sizes.steps = 50;
  sizes.swapped_blocks = 128;
  return sizes;
}

Sizes SmallSizes() {
  Sizes sizes;
  sizes.name = "small";
  sizes.timing = {2, 2, 0};
  sizes.copy_bytes = 1 << 20;
  sizes.link_bytes = 1 << 20;
  sizes.product_size = 64;
  sizes.attention_layers = sizes.min_attention_layers = 2;
  sizes.attention.push_back(
      Variant("bf16 4/1 x 128", DType::kBF16, 4, 1, 128,
              {Decodes(1, 100), Decodes(3, 40), ZipfDecodes(4, 30), OneLongDecode(90, 2, 20),
               UniformDecodes(3, 10, 50), SharedDecodes(3, 32, 20), Prefills(1, 0, 20),
               Prefills(1, 40, 10), Mixed(20, 10, 2, 30)}));
  for (const DType dtype : kOtherTypes)
    sizes.attention.push_back(Variant(absl::StrCat(std::string(Info(dtype).name), " 4/1 x 128"),
                                      dtype, 4, 1, 128, {Decodes(2, 40)}));
  sizes.attention.push_back(
      Variant("bf16 2/2 x 64", DType::kBF16, 2, 2, 64, {Decodes(2, 40), Prefills(1, 0, 20)}));
  ModelShape model;
  model.name = "tiny";
  model.layers = 2;
  model.hidden = 64;
  model.heads = 2;
  model.kv_heads = 1;
  model.head_dim = 64;
  model.ffn = 96;
  model.vocab = 256;
  model.max_positions = 256;
  model.rope_theta = 10000;
  sizes.model = model;
  sizes.rows = {1, 5};
  sizes.product_rows = {1, 5};
  sizes.copied_blocks = {1, 3};
  sizes.rotated_bytes = 1 << 14;
  sizes.batches = {1, 3};
  sizes.step_context = 20;
  sizes.prefill_tokens = 24;
  sizes.steps = 3;
  sizes.swapped_blocks = 2;
  return sizes;
}

}  // namespace octavo::bench
