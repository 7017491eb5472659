// Splits a template into tokens with Jinja 3.1's rules under trim_blocks and lstrip_blocks, which
// is how Hugging Face renders chat templates.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_LEXER_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace octavo::jinja {

enum class TokenType {
  kData,           // text between tags, white space control already applied
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,  // text is unescaped
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::string text;
  int64_t integer = 0;
  double floating = 0;
  int line = 1;

  bool IsName(absl::string_view name) const { return type == TokenType::kName && text == name; }
  bool IsOperator(absl::string_view op) const { return type == TokenType::kOperator && text == op; }
};

// "template line N: what".
absl::Status SyntaxError(int line, absl::string_view what);

// The last token is kEnd. REQUIRES: source is well-formed UTF-8.
absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view source);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_LEXER_H_
