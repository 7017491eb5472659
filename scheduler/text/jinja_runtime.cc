#include "scheduler/text/jinja_runtime.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {

absl::StatusOr<BoundArgs> BoundArgs::Bind(absl::string_view function, const Args& args,
                                          std::initializer_list<absl::string_view> params,
                                          size_t required) {
  OCTAVO_CHECK(params.size() <= kMaxParams);
  const auto fail = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(function, ": ", parts...));
  };
  BoundArgs bound;
  bound.function_ = std::string(function);
  if (args.positional.size() > params.size()) {
    return fail(args.positional.size(), " arguments, at most ", params.size(), " are known");
  }
  for (size_t i = 0; i < args.positional.size(); ++i) bound.values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto* param = std::find(params.begin(), params.end(), name);
    if (param == params.end()) return fail("unknown argument ", name);
    const Value*& slot = bound.values_[static_cast<size_t>(param - params.begin())];
    if (slot != nullptr) return fail("argument ", name, " given twice");
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound.values_[i] == nullptr) return fail("argument ", params.begin()[i], " is missing");
  }
  return bound;
}

absl::StatusOr<int64_t> BoundArgs::Integer(size_t param, int64_t fallback) const {
  const Value* value = values_[param];
  if (value == nullptr) return fallback;
  if (value->IsIntegral()) return value->integral();
  return Unsuitable(*value, absl::StrCat("be an integer argument of ", function_));
}

absl::StatusOr<Text> BoundArgs::String(size_t param, absl::string_view fallback) const {
  const Value* value = values_[param];
  if (value == nullptr) return Text(fallback, false);
  if (value->IsString()) return value->text();
  return Unsuitable(*value, absl::StrCat("be a text argument of ", function_));
}

bool BoundArgs::Boolean(size_t param, bool fallback) const {
  return values_[param] == nullptr ? fallback : Truthy(*values_[param]);
}

absl::Status Unsuitable(const Value& value, absl::string_view what) {
  if (value.IsUndefined()) return absl::InvalidArgumentError(value.UndefinedMessage());
  return absl::InvalidArgumentError(absl::StrCat("a ", TypeName(value), " cannot ", what));
}

absl::StatusOr<std::shared_ptr<const Sequence>> Iterate(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (const Sequence* sequence = value.sequence()) {
    if (!runtime.budget.Spend(static_cast<int64_t>(sequence->items.size() - sequence->taken))) {
      return runtime.budget.status();
    }
    if (sequence->kind != Sequence::Kind::kGenerator) return value.shared_sequence();
    items.assign(sequence->items.begin() + static_cast<std::ptrdiff_t>(sequence->taken),
                 sequence->items.end());
    sequence->taken = sequence->items.size();
  } else if (value.IsString()) {
    const Text& text = value.text();
    if (!runtime.budget.Allocate(text.size() * sizeof(Value))) return runtime.budget.status();
    items.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const size_t length = Utf8SequenceLength(text.view()[at]);
      items.emplace_back(text.Substr(at, length));
      at += length;
    }
  } else if (value.IsDict()) {
    for (const auto& [key, item] : value.dict().entries()) items.push_back(key);
  } else if (!value.IsUndefined()) {
    return Unsuitable(value, "be iterated");
  }
  return MakeSequence(runtime.budget, Sequence::Kind::kList, std::move(items)).shared_sequence();
}

}  // namespace octavo::jinja
