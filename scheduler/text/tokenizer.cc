#include "scheduler/text/tokenizer.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "scheduler/text/tokenizer_nfc.h"
#include "scheduler/text/utf8.h"

namespace octavo {
namespace {

constexpr absl::string_view kSpacePiece = "\u2581";

// Appends `text` with kSpacePiece as spaces and returns the length of that.
size_t AppendWithSpaces(absl::string_view text, std::string* out) {
  const std::string spaced = absl::StrReplaceAll(text, {{kSpacePiece, " "}});
  out->append(spaced);
  return spaced.size();
}

}  // namespace

absl::string_view Tokenizer::BytesOf(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const auto i = static_cast<size_t>(id);
  return absl::string_view(arena_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

std::optional<TokenId> Tokenizer::FindToken(absl::string_view bytes) const {
  const auto found = by_bytes_.find(bytes);
  if (found == by_bytes_.end()) return std::nullopt;
  return found->second;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (skip_special && IsSpecial(id)) continue;
    const absl::string_view token = BytesOf(id);
    bytes.append(token.data(), token.size());
  }
  return RepairUtf8(bytes);
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::Encode(absl::string_view utf8,
                                                       bool parse_special) const {
  const TextSegment segment = {utf8, parse_special};
  return EncodeSegments({&segment, 1});
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::EncodeSegments(
    std::span<const TextSegment> segments) const {
  size_t bytes = 0;
  for (const TextSegment& segment : segments) {
    bytes += segment.text.size();
    if (bytes > kMaxTextBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("text has more than ", kMaxTextBytes, " bytes, the limit"));
    }
  }
  std::string joined;
  absl::string_view text;
  if (segments.size() == 1) {
    text = segments[0].text;
  } else {
    joined.reserve(bytes);
    for (const TextSegment& segment : segments) {
      joined.append(segment.text.data(), segment.text.size());
    }
    text = joined;
  }
  if (const std::optional<size_t> offset = FindInvalidUtf8(text)) {
    return absl::InvalidArgumentError(absl::StrCat("text is not UTF-8 at byte ", *offset));
  }

  std::string spaced;
  std::vector<size_t> lengths;  // of the segments in `text`
  for (const TextSegment& segment : segments) lengths.push_back(segment.text.size());
  if (piece_bpe_ != nullptr && absl::StrContains(text, kSpacePiece)) {
    for (size_t i = 0; i < segments.size(); ++i) {
      lengths[i] = AppendWithSpaces(segments[i].text, &spaced);
    }
    text = spaced;
  }

  std::vector<TokenId> ids;
  EncodeScratch scratch;
  size_t plain_begin = 0;  // everything before is encoded
  size_t search = 0;       // no literal starts between plain_begin and here
  size_t range_begin = 0;
  for (size_t i = 0; i < segments.size();) {
    // Neighbours that agree are one range; empty segments part nothing.
    const bool parse_special = segments[i].parse_special;
    size_t range_end = range_begin;
    for (; i < segments.size(); ++i) {
      if (segments[i].parse_special != parse_special && lengths[i] > 0) break;
      range_end += lengths[i];
    }
    // Literals that start in this range; one that is not special may end behind it.
    search = std::max(search, range_begin);
    while (search < range_end) {
      const std::optional<AddedTokenFinder::Match> match =
          added_.Find(text, search, range_end, parse_special ? range_end : 0);
      if (!match) break;
      OCTAVO_RETURN_IF_ERROR(EncodePlain(text.substr(plain_begin, match->begin - plain_begin),
                                         plain_begin == 0, &scratch, &ids));
      ids.push_back(match->id);
      plain_begin = search = match->end;
    }
    range_begin = range_end;
  }
  OCTAVO_RETURN_IF_ERROR(EncodePlain(text.substr(plain_begin), plain_begin == 0, &scratch, &ids));
  return ids;
}

absl::Status Tokenizer::EncodePlain(absl::string_view text, bool first, EncodeScratch* scratch,
                                    std::vector<TokenId>* ids) const {
  if (text.empty()) return absl::OkStatus();
  if (piece_bpe_ == nullptr) return EncodeByteLevel(text, scratch, ids);
  std::string prefixed;
  if (space_prefix_ == SpacePrefix::kEach ||
      (space_prefix_ == SpacePrefix::kFirst && first && text[0] != ' ')) {
    prefixed = absl::StrCat(" ", text);
    text = prefixed;
  }
  piece_bpe_->Encode(text, &scratch->piece_bpe, ids);
  return absl::OkStatus();
}

absl::Status Tokenizer::EncodeByteLevel(absl::string_view text, EncodeScratch* scratch,
                                        std::vector<TokenId>* ids) const {
  std::string normal;
  if (normalize_nfc_) {
    normal = NormalizeNfc(text);
    text = normal;
  }
  scratch->pieces.clear();
  OCTAVO_RETURN_IF_ERROR(pretokenizer_->Split(text, &scratch->pretokenizer, &scratch->pieces));
  for (const absl::string_view piece : scratch->pieces) {
    if (ignore_merges_) {
      const std::optional<TokenId> whole = FindToken(piece);
      if (whole && !IsSpecial(*whole)) {
        ids->push_back(*whole);
        continue;
      }
    }
    bpe_->Encode(piece, &scratch->bpe, ids);
  }
  return absl::OkStatus();
}

}  // namespace octavo
