#include "scheduler/text/jinja_value.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo::jinja {
namespace {

constexpr size_t kLinearDict = 8;  // dicts up to this size are searched entry by entry

// Equal keys, and only those, have equal encodings; Python's 1, 1.0 and True are one key.
std::string EncodeKey(const Value& key) {
  if (key.IsString()) return absl::StrCat("s", key.text().view());
  if (key.IsNone() || key.IsUndefined()) return key.IsNone() ? "0" : "u";
  if (key.IsIntegral()) return absl::StrCat("n", key.integral());
  const double number = key.floating();
  if (number == std::floor(number) && std::fabs(number) < 9e18) {
    return absl::StrCat("n", static_cast<int64_t>(number));
  }
  return absl::StrCat("f", absl::Hex(std::bit_cast<uint64_t>(number)));
}

// REQUIRES: a number. long double holds every int64 and every double exactly.
long double Widen(const Value& v) {
  if (v.IsFloat()) return static_cast<long double>(v.floating());
  return static_cast<long double>(v.integral());
}

absl::Status CannotOrder(const Value& a, const Value& b) {
  return absl::InvalidArgumentError(
      absl::StrCat("'<' is not supported between ", TypeName(a), " and ", TypeName(b)));
}

}  // namespace

Value Value::MakeUndefined(std::string hint) {
  return Value(Rep(Undefined{std::make_shared<const std::string>(std::move(hint))}));
}

const Sequence* Value::sequence() const {
  const auto* held = std::get_if<std::shared_ptr<const Sequence>>(&rep_);
  return held == nullptr ? nullptr : held->get();
}

std::shared_ptr<const Sequence> Value::shared_sequence() const {
  const auto* held = std::get_if<std::shared_ptr<const Sequence>>(&rep_);
  return held == nullptr ? nullptr : *held;
}

Namespace* Value::ns() const {
  const auto* held = std::get_if<Namespace*>(&rep_);
  return held == nullptr ? nullptr : *held;
}

const Callable* Value::callable() const {
  const auto* held = std::get_if<std::shared_ptr<const Callable>>(&rep_);
  return held == nullptr ? nullptr : held->get();
}

LoopState* Value::loop() const {
  const auto* held = std::get_if<std::shared_ptr<LoopState>>(&rep_);
  return held == nullptr ? nullptr : held->get();
}

std::string Value::UndefinedMessage() const {
  const auto* undefined = std::get_if<Undefined>(&rep_);
  if (undefined == nullptr || undefined->hint == nullptr) return "value is undefined";
  return *undefined->hint;
}

bool Dict::IsKey(const Value& value) {
  return value.IsString() || value.IsNumber() || value.IsNone() || value.IsUndefined();
}

bool Dict::IsHashable(const Value& value) {
  const Sequence* sequence = value.sequence();
  return !value.IsDict() &&
         (sequence == nullptr || sequence->kind == Sequence::Kind::kTuple ||
          sequence->kind == Sequence::Kind::kRange || sequence->kind == Sequence::Kind::kGenerator);
}

void Dict::Set(Value key, Value value) {
  depth_ = std::max(depth_, 1 + Depth(value));
  if (const size_t at = IndexOf(key); at < entries_.size()) {
    entries_[at].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kLinearDict) return;
  const size_t first = index_.empty() ? 0 : entries_.size() - 1;
  for (size_t i = first; i < entries_.size(); ++i) index_[EncodeKey(entries_[i].first)] = i;
}

size_t Dict::IndexOf(const Value& key) const {
  if (!index_.empty()) {
    const auto it = index_.find(EncodeKey(key));
    return it == index_.end() ? entries_.size() : it->second;
  }
  const auto matches = [&](const Entry& entry) {
    if (key.IsString()) {
      return entry.first.IsString() && entry.first.text().view() == key.text().view();
    }
    if (key.IsNone()) return entry.first.IsNone();
    if (key.IsUndefined()) return entry.first.IsUndefined();
    return entry.first.IsNumber() && Widen(entry.first) == Widen(key);
  };
  return std::find_if(entries_.begin(), entries_.end(), matches) - entries_.begin();
}

const Value* Dict::Find(const Value& key) const {
  if (!IsKey(key)) return nullptr;
  const size_t at = IndexOf(key);
  return at == entries_.size() ? nullptr : &entries_[at].second;
}

const Value* Dict::Find(absl::string_view key) const {
  if (!index_.empty()) {
    const auto it = index_.find(absl::StrCat("s", key));
    return it == index_.end() ? nullptr : &entries_[it->second].second;
  }
  for (const Entry& entry : entries_) {
    if (entry.first.IsString() && entry.first.text().view() == key) return &entry.second;
  }
  return nullptr;
}

int Depth(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->depth;
  if (value.IsDict()) return value.dict().depth();
  if (const Callable* callable = value.callable()) return 1 + Depth(callable->self);
  if (const LoopState* loop = value.loop()) return 1 + loop->items->depth;
  return 0;
}

Value MakeSequence(Budget& budget, Sequence::Kind kind, std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  for (const Value& item : items) sequence->depth = std::max(sequence->depth, 1 + Depth(item));
  if (sequence->depth > kMaxValueDepth) budget.Exhaust("nested values", kMaxValueDepth);
  if (budget.Spend(static_cast<int64_t>(items.size())) &&
      budget.Allocate(sizeof(Sequence) + items.size() * sizeof(Value))) {
    sequence->items = std::move(items);
  } else {
    sequence->depth = 1;
  }
  return Value(std::shared_ptr<const Sequence>(std::move(sequence)));
}

Value MakeDict(Budget& budget, Dict dict) {
  size_t bytes = sizeof(Dict);
  for (const auto& [key, value] : dict.entries()) {
    bytes += 2 * sizeof(Dict::Entry);
    if (key.IsString() && dict.entries().size() > kLinearDict) bytes += key.text().size();
  }
  if (dict.depth() > kMaxValueDepth) budget.Exhaust("nested values", kMaxValueDepth);
  if (!budget.Allocate(bytes)) dict = Dict();
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

Value MakeText(Budget& budget, absl::string_view bytes, bool marked) {
  if (!budget.Allocate(bytes.size() + sizeof(Value))) return Value(Text());
  return Value(Text(bytes, marked));
}

Value MakeMethod(Budget& budget, Value self, absl::string_view name) {
  if (Depth(self) >= kMaxValueDepth) budget.Exhaust("nested values", kMaxValueDepth);
  if (!budget.Allocate(sizeof(Callable))) return Value();
  auto method = std::make_shared<Callable>();
  method->kind = Callable::Kind::kMethod;
  method->name = std::string(name);
  method->self = std::move(self);
  return Value(std::shared_ptr<const Callable>(std::move(method)));
}

Value MakeLoop(Budget& budget, std::shared_ptr<const Sequence> items) {
  auto loop = std::make_shared<LoopState>();
  loop->items = std::move(items);
  if (loop->items->depth >= kMaxValueDepth) budget.Exhaust("nested values", kMaxValueDepth);
  budget.Allocate(sizeof(LoopState));
  return Value(std::move(loop));
}

bool Truthy(const Value& value) {
  if (value.IsUndefined() || value.IsNone()) return false;
  if (value.IsIntegral()) return value.integral() != 0;
  if (value.IsFloat()) return value.floating() != 0;
  if (value.IsString()) return !value.text().empty();
  if (value.IsDict()) return !value.dict().entries().empty();
  if (const Sequence* sequence = value.sequence()) {
    return sequence->kind == Sequence::Kind::kGenerator || !sequence->items.empty();
  }
  return true;
}

bool Equal(const Value& a, const Value& b, Budget& budget) {
  if (!budget.Spend(1)) return false;
  if (a.IsNumber() && b.IsNumber()) return Widen(a) == Widen(b);
  if (a.IsString() && b.IsString()) {
    budget.SpendBytes(std::min(a.text().size(), b.text().size()));
    return a.text().view() == b.text().view();
  }
  if (a.IsUndefined() || a.IsNone()) return a.IsUndefined() ? b.IsUndefined() : b.IsNone();
  if (a.IsDict() && b.IsDict()) {
    if (&a.dict() == &b.dict()) return true;
    if (a.dict().entries().size() != b.dict().entries().size()) return false;
    return std::all_of(a.dict().entries().begin(), a.dict().entries().end(),
                       [&](const auto& entry) {
                         const Value* other = b.dict().Find(entry.first);
                         return other != nullptr && Equal(entry.second, *other, budget);
                       });
  }
  const Sequence* left = a.sequence();
  const Sequence* right = b.sequence();
  if (left != nullptr && right != nullptr) {
    if (left == right) return true;
    if (left->kind != right->kind || !left->IsIndexable()) return false;
    return std::equal(left->items.begin(), left->items.end(), right->items.begin(),
                      right->items.end(),
                      [&](const Value& x, const Value& y) { return Equal(x, y, budget); });
  }
  if (a.ns() != nullptr) return a.ns() == b.ns();
  if (a.loop() != nullptr) return a.loop() == b.loop();
  return a.callable() != nullptr && a.callable() == b.callable();
}

absl::StatusOr<bool> Less(const Value& a, const Value& b, Budget& budget) {
  if (!budget.Spend(1)) return budget.status();
  if (a.IsUndefined()) return absl::InvalidArgumentError(a.UndefinedMessage());
  if (b.IsUndefined()) return absl::InvalidArgumentError(b.UndefinedMessage());
  if (a.IsNumber() && b.IsNumber()) return Widen(a) < Widen(b);
  if (a.IsString() && b.IsString()) {
    // Byte order of UTF-8 is code point order.
    budget.SpendBytes(std::min(a.text().size(), b.text().size()));
    return a.text().view() < b.text().view();
  }
  const Sequence* left = a.sequence();
  const Sequence* right = b.sequence();
  if (left == nullptr || right == nullptr || left->kind != right->kind || !left->IsListOrTuple()) {
    return CannotOrder(a, b);
  }
  for (size_t i = 0; i < left->items.size() && i < right->items.size(); ++i) {
    if (Equal(left->items[i], right->items[i], budget)) continue;
    return Less(left->items[i], right->items[i], budget);
  }
  return left->items.size() < right->items.size();
}

absl::string_view TypeName(const Value& value) {
  if (value.IsUndefined()) return "Undefined";
  if (value.IsNone()) return "None";
  if (value.IsBool()) return "bool";
  if (value.IsInt()) return "int";
  if (value.IsFloat()) return "float";
  if (value.IsString()) return "str";
  if (value.IsDict()) return "dict";
  if (value.ns() != nullptr) return "namespace";
  if (value.loop() != nullptr) return "loop";
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return "function";
  switch (sequence->kind) {
    case Sequence::Kind::kList:
      return "list";
    case Sequence::Kind::kTuple:
      return "tuple";
    case Sequence::Kind::kRange:
      return "range";
    case Sequence::Kind::kKeys:
      return "dict_keys";
    case Sequence::Kind::kValues:
      return "dict_values";
    case Sequence::Kind::kItems:
      return "dict_items";
    case Sequence::Kind::kGenerator:
      break;
  }
  return "generator";
}

}  // namespace octavo::jinja
