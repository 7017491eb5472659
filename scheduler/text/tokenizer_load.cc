// Building a Tokenizer from what a checkpoint stores. Nothing in the spec is trusted.
#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "scheduler/text/bpe_alphabet.h"
#include "scheduler/text/tokenizer.h"
#include "scheduler/text/utf8.h"

namespace octavo {
namespace {

constexpr size_t kMaxAddedBytes = 16 * 1024 * 1024;

absl::Status CheckId(absl::string_view what, TokenId id, int64_t limit) {
  if (id >= 0 && id < limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer: ", what, " has id ", id, ", outside [0, ", limit, ")"));
}

std::string SpacesOfPiece(absl::string_view piece) {
  return absl::StrReplaceAll(piece, {{"\u2581", " "}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const TokenizerSpec& spec) {
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer());
  OCTAVO_RETURN_IF_ERROR(tokenizer->LoadTokens(spec));
  OCTAVO_RETURN_IF_ERROR(tokenizer->LoadEnds(spec));
  if (spec.model == TokenizerModel::kPieces) {
    OCTAVO_RETURN_IF_ERROR(tokenizer->LoadPieces(spec));
    return tokenizer;
  }
  OCTAVO_RETURN_IF_ERROR(tokenizer->LoadMerges(spec));
  OCTAVO_ASSIGN_OR_RETURN(tokenizer->pretokenizer_,
                          PreTokenizer::Create(spec.pre_name, spec.passes));
  tokenizer->normalize_nfc_ = spec.normalize_nfc;
  tokenizer->ignore_merges_ = spec.ignore_merges;
  return tokenizer;
}

absl::Status Tokenizer::LoadTokens(const TokenizerSpec& spec) {
  if (spec.tokens.empty()) return absl::InvalidArgumentError("tokenizer: vocabulary is empty");
  size_t size = spec.tokens.size();
  size_t added_bytes = 0;
  for (const AddedToken& token : spec.added) {
    OCTAVO_RETURN_IF_ERROR(
        CheckId(absl::StrCat("added token \"", token.text, "\""), token.id, kMaxVocabSize));
    // Empty literals would be found everywhere; broken ones would cut characters.
    if (token.text.empty() || FindInvalidUtf8(token.text)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer: text of added token ", token.id,
                       token.text.empty() ? " is empty" : " is not UTF-8"));
    }
    added_bytes += token.text.size();
    size = std::max(size, static_cast<size_t>(token.id) + 1);
  }
  if (size > static_cast<size_t>(kMaxVocabSize) || added_bytes >= kMaxAddedBytes) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer: ", size, " tokens and ", added_bytes,
                                                   " bytes of added tokens, limits ", kMaxVocabSize,
                                                   " and ", kMaxAddedBytes));
  }

  const bool pieces = spec.model == TokenizerModel::kPieces;
  std::vector<std::optional<std::string>> added_by_id(size);
  special_.assign(size, false);
  for (const AddedToken& token : spec.added) {
    const std::string text = pieces ? SpacesOfPiece(token.text) : token.text;
    added_by_id[token.id] = text;
    special_[token.id] = token.special;
    added_.Add({token.id, text, token.special});
  }
  std::vector<std::optional<uint8_t>> byte_by_id(size);
  for (const auto& [byte, id] : spec.byte_tokens) {
    OCTAVO_RETURN_IF_ERROR(CheckId(absl::StrCat("the token of byte ", byte), id, size));
    byte_by_id[static_cast<size_t>(id)] = byte;
  }
  // Not written in the alphabet, but perhaps reading like it; single bytes beside their pieces.
  std::vector<bool> literal(size, false);
  offsets_.reserve(size + 1);
  for (size_t id = 0; id < size; ++id) {
    offsets_.push_back(static_cast<uint32_t>(arena_.size()));
    if (added_by_id[id]) {
      arena_.append(*added_by_id[id]);
    } else if (byte_by_id[id]) {
      literal[id] = true;
      arena_.push_back(static_cast<char>(*byte_by_id[id]));
    } else if (pieces && id < spec.tokens.size()) {
      arena_.append(SpacesOfPiece(spec.tokens[id]));
    } else if (id < spec.tokens.size()) {
      const std::optional<std::string> bytes = BytesOfAlphabet(spec.tokens[id]);
      literal[id] = !bytes.has_value();
      arena_.append(bytes ? *bytes : spec.tokens[id]);
    }
    if (arena_.size() > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError("tokenizer: vocabulary has more than 4 GiB of text");
    }
  }
  offsets_.push_back(static_cast<uint32_t>(arena_.size()));

  by_bytes_.reserve(size);
  const auto index = [&](auto&& chosen) {
    for (size_t id = 0; id < size; ++id) {
      const absl::string_view bytes = BytesOf(static_cast<TokenId>(id));
      if (!bytes.empty() && chosen(id)) by_bytes_.try_emplace(bytes, static_cast<TokenId>(id));
    }
  };
  index([&](size_t id) { return added_by_id[id].has_value(); });
  index([&](size_t id) { return !literal[id]; });
  index([&](size_t) { return true; });
  return absl::OkStatus();
}

absl::Status Tokenizer::LoadMerges(const TokenizerSpec& spec) {
  absl::flat_hash_map<absl::string_view, TokenId> by_text;
  by_text.reserve(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!spec.tokens[id].empty()) by_text.try_emplace(spec.tokens[id], static_cast<TokenId>(id));
  }

  std::array<TokenId, 256> byte_tokens;
  byte_tokens.fill(Bpe::kNoToken);
  for (int byte = 0; byte < 256; ++byte) {
    const char value = static_cast<char>(byte);
    const auto found = by_text.find(AlphabetOfBytes(absl::string_view(&value, 1)));
    if (found != by_text.end()) byte_tokens[byte] = found->second;
  }

  if (spec.merges.size() >= std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer: ", spec.merges.size(), " merges, limit 2^31 - 2"));
  }
  std::vector<BpeMerge> merges;
  merges.reserve(spec.merges.size());
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    TokenId ids[3];
    const std::string parts[3] = {left, right, left + right};
    for (int i = 0; i < 3; ++i) {
      const auto found = by_text.find(parts[i]);
      if (found == by_text.end()) {
        return absl::InvalidArgumentError(absl::StrCat("tokenizer: merge ", rank, " (\"", left,
                                                       "\" + \"", right, "\") needs \"", parts[i],
                                                       "\", which is not in the vocabulary"));
      }
      ids[i] = found->second;
    }
    merges.push_back({ids[0], ids[1], ids[2]});
  }
  bpe_ = std::make_unique<Bpe>(byte_tokens, merges);
  return absl::OkStatus();
}

absl::Status Tokenizer::LoadPieces(const TokenizerSpec& spec) {
  if (spec.scores.size() != spec.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer: ", spec.scores.size(),
                                                   " scores for ", spec.tokens.size(), " tokens"));
  }
  std::array<TokenId, 256> byte_tokens;
  byte_tokens.fill(PieceBpe::kNoToken);
  std::vector<bool> is_byte(spec.tokens.size(), false);
  for (const auto& [byte, id] : spec.byte_tokens) {
    byte_tokens[byte] = id;
    if (static_cast<size_t>(id) < is_byte.size()) is_byte[static_cast<size_t>(id)] = true;
  }
  TokenId unknown = PieceBpe::kNoToken;
  if (spec.unknown_id) {
    OCTAVO_RETURN_IF_ERROR(CheckId("the unknown token", *spec.unknown_id, vocab_size()));
    unknown = *spec.unknown_id;
  }
  std::vector<PieceBpe::Piece> pieces;
  pieces.reserve(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    const absl::string_view bytes = BytesOf(token);
    if (bytes.empty() || is_byte[id] || special_[id] || token == unknown) continue;
    pieces.push_back({bytes, token, spec.scores[id]});
  }
  piece_bpe_ = std::make_unique<PieceBpe>(pieces, byte_tokens, unknown);
  space_prefix_ = spec.space_prefix;
  return absl::OkStatus();
}

absl::Status Tokenizer::LoadEnds(const TokenizerSpec& spec) {
  if (spec.bos_id) OCTAVO_RETURN_IF_ERROR(CheckId("beginning of text", *spec.bos_id, vocab_size()));
  for (const TokenId id : spec.eos_ids) {
    OCTAVO_RETURN_IF_ERROR(CheckId("end of text", id, vocab_size()));
  }
  if (spec.add_bos && !spec.bos_id) {
    return absl::InvalidArgumentError(
        "tokenizer: a beginning-of-text token is to be added but none is named");
  }
  bos_id_ = spec.bos_id;
  eos_ids_ = spec.eos_ids;
  add_bos_ = spec.add_bos;
  return absl::OkStatus();
}

}  // namespace octavo
