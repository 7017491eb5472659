// From template source to a syntax tree, by the grammar of Jinja 3.1. Not supported, and refused by
// name: include, import, from, extends, block, autoescape, recursive loops.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_PARSER_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_PARSER_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/text/jinja_ast.h"

namespace octavo::jinja {

// Bounds the recursion of parser, interpreter and destructors over one expression, and of blocks in
// blocks.
inline constexpr int kMaxExpressionHeight = 250;
inline constexpr int kMaxParseDepth = 100;
// Parameters of one macro, and named arguments of one call.
inline constexpr size_t kMaxParameters = 256;

// INVALID_ARGUMENT "template line N: ..." for what Jinja would refuse.
absl::StatusOr<Template> Parse(absl::string_view source);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_PARSER_H_
