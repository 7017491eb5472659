// Filters that apply other filters, tests or attributes to each item. Python evaluates them lazily;
// here all items are visited at once, which only a template that changes a namespace meanwhile
// could tell apart.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_filters.h"

namespace octavo::jinja {
namespace {

// args.positional[at:], with the named ones.
Args Rest(const Args& args, size_t at) {
  Args rest;
  rest.named = args.named;
  rest.names_marked = args.names_marked;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(at),
                         args.positional.end());
  return rest;
}

absl::StatusOr<Value> MapAttribute(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("map", args, {"attribute", "default"}));
  OCTAVO_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[0]));
  OCTAVO_ASSIGN_OR_RETURN(const auto items, Iterate(runtime, value));
  std::vector<Value> mapped;
  for (const Value& item : items->items) {
    OCTAVO_ASSIGN_OR_RETURN(Value result, path.Resolve(runtime, item, bound[1]));
    mapped.push_back(std::move(result));
  }
  return MakeSequence(runtime.budget, Sequence::Kind::kGenerator, std::move(mapped));
}

absl::StatusOr<Value> Map(Runtime& runtime, const Value& value, const Args& args) {
  if (args.positional.empty()) {
    for (const auto& [name, argument] : args.named) {
      if (name == "attribute") return MapAttribute(runtime, value, args);
    }
    return absl::InvalidArgumentError("map needs a filter or an attribute");
  }
  if (!args.positional[0].IsString()) return Unsuitable(args.positional[0], "name a filter");
  const Args rest = Rest(args, 1);
  OCTAVO_ASSIGN_OR_RETURN(const auto items, Iterate(runtime, value));
  std::vector<Value> mapped;
  for (const Value& item : items->items) {
    OCTAVO_ASSIGN_OR_RETURN(Value result,
                            ApplyFilter(runtime, args.positional[0].text().view(), item, rest));
    mapped.push_back(std::move(result));
  }
  return MakeSequence(runtime.budget, Sequence::Kind::kGenerator, std::move(mapped));
}

absl::StatusOr<Value> SelectItems(Runtime& runtime, const Value& value, const Args& args,
                                  bool by_attribute, bool wanted) {
  std::vector<Value> kept;
  if (!Truthy(value)) {
    return MakeSequence(runtime.budget, Sequence::Kind::kGenerator, std::move(kept));
  }
  AttributePath path;
  size_t at = 0;
  if (by_attribute) {
    if (args.positional.empty()) return absl::InvalidArgumentError("an attribute is missing");
    OCTAVO_ASSIGN_OR_RETURN(path, AttributePath::Parse(&args.positional[0]));
    at = 1;
  }
  const Value* test = at < args.positional.size() ? &args.positional[at] : nullptr;
  if (test != nullptr && !test->IsString()) return Unsuitable(*test, "name a test");
  const Args rest = Rest(args, test == nullptr ? at : at + 1);
  OCTAVO_ASSIGN_OR_RETURN(const auto items, Iterate(runtime, value));
  for (const Value& item : items->items) {
    OCTAVO_ASSIGN_OR_RETURN(const Value subject, path.Resolve(runtime, item));
    bool passes = Truthy(subject);
    if (test != nullptr) {
      OCTAVO_ASSIGN_OR_RETURN(passes, ApplyTest(runtime, test->text().view(), subject, rest));
    }
    if (passes == wanted) kept.push_back(item);
  }
  return MakeSequence(runtime.budget, Sequence::Kind::kGenerator, std::move(kept));
}

absl::StatusOr<Value> Select(Runtime& runtime, const Value& value, const Args& args) {
  return SelectItems(runtime, value, args, false, true);
}
absl::StatusOr<Value> Reject(Runtime& runtime, const Value& value, const Args& args) {
  return SelectItems(runtime, value, args, false, false);
}
absl::StatusOr<Value> SelectAttr(Runtime& runtime, const Value& value, const Args& args) {
  return SelectItems(runtime, value, args, true, true);
}
absl::StatusOr<Value> RejectAttr(Runtime& runtime, const Value& value, const Args& args) {
  return SelectItems(runtime, value, args, true, false);
}

constexpr NamedFilter kFilters[] = {
    {"map", Map},       {"reject", Reject},         {"rejectattr", RejectAttr},
    {"select", Select}, {"selectattr", SelectAttr},
};

}  // namespace

absl::Span<const NamedFilter> SelectFilters() { return kFilters; }

}  // namespace octavo::jinja
