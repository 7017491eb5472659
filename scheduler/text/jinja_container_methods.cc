// Methods of dict, list and tuple, and the table of all methods.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_methods.h"

namespace octavo::jinja {
namespace {

absl::StatusOr<Value> Get(Runtime&, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("get", args, {"key", "default"}, 1));
  if (!Dict::IsHashable(*bound[0])) return Unsuitable(*bound[0], "be a key");
  if (const Value* found = self.dict().Find(*bound[0])) return *found;
  return bound[1] == nullptr ? Value::MakeNone() : *bound[1];
}

absl::StatusOr<Value> View(Runtime& runtime, const Value& self, const Args& args,
                           Sequence::Kind kind) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("dict view", args, {}).status());
  const auto& entries = self.dict().entries();
  if (!runtime.budget.Spend(static_cast<int64_t>(entries.size()))) return runtime.budget.status();
  std::vector<Value> items;
  items.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    if (kind == Sequence::Kind::kKeys) {
      items.push_back(key);
    } else if (kind == Sequence::Kind::kValues) {
      items.push_back(value);
    } else {
      items.push_back(MakeSequence(runtime.budget, Sequence::Kind::kTuple, {key, value}));
    }
  }
  return MakeSequence(runtime.budget, kind, std::move(items));
}

absl::StatusOr<Value> Keys(Runtime& runtime, const Value& self, const Args& args) {
  return View(runtime, self, args, Sequence::Kind::kKeys);
}
absl::StatusOr<Value> Values(Runtime& runtime, const Value& self, const Args& args) {
  return View(runtime, self, args, Sequence::Kind::kValues);
}
absl::StatusOr<Value> Items(Runtime& runtime, const Value& self, const Args& args) {
  return View(runtime, self, args, Sequence::Kind::kItems);
}

// Lists and dicts never change, so a copy is the thing itself.
absl::StatusOr<Value> Copy(Runtime&, const Value& self, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("copy", args, {}).status());
  return self;
}

absl::StatusOr<Value> Count(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("count", args, {"value"}, 1));
  const std::vector<Value>& items = self.sequence()->items;
  return Value::Int(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return Equal(item, *bound[0], runtime.budget);
  }));
}

absl::StatusOr<Value> Index(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("index", args, {"value"}, 1));
  const std::vector<Value>& items = self.sequence()->items;
  const auto it = std::find_if(items.begin(), items.end(), [&](const Value& item) {
    return Equal(item, *bound[0], runtime.budget);
  });
  if (it == items.end()) return absl::InvalidArgumentError("index: the value is not in the list");
  return Value::Int(it - items.begin());
}

constexpr NamedMethod kDictMethods[] = {
    {"copy", Copy}, {"get", Get}, {"items", Items}, {"keys", Keys}, {"values", Values},
};
constexpr NamedMethod kListMethods[] = {{"copy", Copy}, {"count", Count}, {"index", Index}};

Method FindIn(absl::Span<const NamedMethod> methods, absl::string_view name) {
  const auto it = std::find_if(methods.begin(), methods.end(),
                               [&](const NamedMethod& method) { return method.name == name; });
  return it == methods.end() ? nullptr : it->method;
}

Method FindMethod(const Value& self, absl::string_view name) {
  if (self.IsString()) {
    const Method cutting = FindIn(CuttingMethods(), name);
    return cutting != nullptr ? cutting : FindIn(LookingMethods(), name);
  }
  if (self.IsDict()) return FindIn(DictMethods(), name);
  const Sequence* sequence = self.sequence();
  if (sequence == nullptr || !sequence->IsListOrTuple()) return nullptr;
  if (sequence->kind == Sequence::Kind::kTuple && name == "copy") return nullptr;
  return FindIn(ListMethods(), name);
}

}  // namespace

absl::Span<const NamedMethod> DictMethods() { return kDictMethods; }
absl::Span<const NamedMethod> ListMethods() { return kListMethods; }

bool HasMethod(const Value& value, absl::string_view name) {
  return FindMethod(value, name) != nullptr;
}

bool IsHiddenAttribute(const Value& value, absl::string_view name) {
  static constexpr absl::string_view kOfDict[] = {"clear",   "fromkeys",   "pop",
                                                  "popitem", "setdefault", "update"};
  static constexpr absl::string_view kOfList[] = {"append", "clear",  "extend",  "insert",
                                                  "pop",    "remove", "reverse", "sort"};
  const auto contains = [&](absl::Span<const absl::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (value.IsDict()) return contains(kOfDict);
  const Sequence* sequence = value.sequence();
  return sequence != nullptr && sequence->kind == Sequence::Kind::kList && contains(kOfList);
}

absl::StatusOr<Value> CallMethod(Runtime& runtime, const Value& self, absl::string_view name,
                                 const Args& args) {
  const Method method = FindMethod(self, name);
  if (method == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ", TypeName(self), " has no method '", name.substr(0, 64), "'"));
  }
  return method(runtime, self, args);
}

}  // namespace octavo::jinja
