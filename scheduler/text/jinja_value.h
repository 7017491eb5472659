// Values of the template interpreter: Python's, as far as templates see them. Lists and dicts never
// change once made (the sandbox of Hugging Face forbids it), so values form no cycles; namespaces
// and scopes, which do change, belong to the render and are referred to by plain pointers.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_VALUE_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/text/jinja_budget.h"
#include "scheduler/text/jinja_text.h"

namespace octavo::jinja {

struct Sequence;
class Dict;
struct Namespace;
struct Callable;
struct LoopState;

struct Undefined {
  std::shared_ptr<const std::string> hint;  // why, for the error of whoever needs the value
};
struct None {};

class Value {
 public:
  using Rep = std::variant<Undefined, None, bool, int64_t, double, Text,
                           std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Namespace*,
                           std::shared_ptr<const Callable>, std::shared_ptr<LoopState>>;

  Value() = default;  // undefined
  explicit Value(Text text) : rep_(std::move(text)) {}
  explicit Value(std::shared_ptr<const Sequence> sequence) : rep_(std::move(sequence)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : rep_(std::move(dict)) {}
  explicit Value(Namespace* ns) : rep_(ns) {}
  explicit Value(std::shared_ptr<const Callable> callable) : rep_(std::move(callable)) {}
  explicit Value(std::shared_ptr<LoopState> loop) : rep_(std::move(loop)) {}
  static Value MakeUndefined(std::string hint);
  static Value MakeNone() { return Value(Rep(None{})); }
  static Value Bool(bool value) { return Value(Rep(value)); }
  static Value Int(int64_t value) { return Value(Rep(value)); }
  static Value Float(double value) { return Value(Rep(value)); }
  static Value String(absl::string_view bytes, bool marked = false) {
    return Value(Text(bytes, marked));
  }

  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(rep_);
  }
  bool IsUndefined() const { return Is<Undefined>(); }
  bool IsNone() const { return Is<None>(); }
  bool IsBool() const { return Is<bool>(); }
  bool IsInt() const { return Is<int64_t>(); }
  bool IsFloat() const { return Is<double>(); }
  bool IsNumber() const { return IsBool() || IsInt() || IsFloat(); }  // Python: bool is an int
  bool IsIntegral() const { return IsBool() || IsInt(); }
  bool IsString() const { return Is<Text>(); }
  bool IsDict() const { return Is<std::shared_ptr<const Dict>>(); }

  // REQUIRES: of that kind.
  const Text& text() const { return *std::get_if<Text>(&rep_); }
  const Dict& dict() const { return **std::get_if<std::shared_ptr<const Dict>>(&rep_); }
  bool boolean() const { return *std::get_if<bool>(&rep_); }
  double floating() const { return *std::get_if<double>(&rep_); }
  int64_t integral() const { return IsBool() ? boolean() : *std::get_if<int64_t>(&rep_); }
  double number() const { return IsFloat() ? floating() : static_cast<double>(integral()); }

  // nullptr when not of that kind.
  const Sequence* sequence() const;
  std::shared_ptr<const Sequence> shared_sequence() const;
  Namespace* ns() const;
  const Callable* callable() const;
  LoopState* loop() const;

  // Why an undefined value is undefined.
  std::string UndefinedMessage() const;

 private:
  explicit Value(Rep rep) : rep_(std::move(rep)) {}

  Rep rep_;
};

struct Sequence {
  enum class Kind { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;
  mutable size_t taken = 0;  // kGenerator: items already handed out; each is handed out once

  bool IsListOrTuple() const { return kind == Kind::kList || kind == Kind::kTuple; }
  bool IsIndexable() const { return IsListOrTuple() || kind == Kind::kRange; }
};

// Insertion-ordered; keys are strings, numbers, booleans, none or undefined.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  static bool IsKey(const Value& value);
  // Whether Python could look for it, and at most not find it: anything but lists and dicts.
  static bool IsHashable(const Value& value);
  // REQUIRES: IsKey(key). An equal key keeps its place and gets the new value.
  void Set(Value key, Value value);
  // nullptr when absent.
  const Value* Find(const Value& key) const;
  const Value* Find(absl::string_view key) const;

  const std::vector<Entry>& entries() const { return entries_; }
  int depth() const { return depth_; }

 private:
  size_t IndexOf(const Value& key) const;  // entries().size() when absent

  std::vector<Entry> entries_;
  absl::flat_hash_map<std::string, size_t> index_;  // of large dicts only; never iterated
  int depth_ = 1;
};

struct Namespace {
  absl::flat_hash_map<std::string, Value> attributes;  // never iterated
};

struct MacroDef;
struct Scope;

struct Callable {
  enum class Kind { kGlobal, kMethod, kMacro };

  Kind kind = Kind::kGlobal;
  std::string name;  // of the global or the method
  Value self;        // kMethod
  const MacroDef* macro = nullptr;
  Scope* closure = nullptr;  // kMacro
};

// What `loop` is inside a for.
struct LoopState {
  std::shared_ptr<const Sequence> items;
  size_t index = 0;
  std::vector<Value> last_changed;  // arguments of the last loop.changed(...)
  bool has_changed = false;
  bool ended = false;  // keeps no arguments any more: one could be this loop
};

// How deeply `value` nests; what is made from it must stay under kMaxValueDepth.
int Depth(const Value& value);

// The makers charge the budget, and give an empty value when it is exhausted.
Value MakeSequence(Budget& budget, Sequence::Kind kind, std::vector<Value> items);
Value MakeDict(Budget& budget, Dict dict);
Value MakeText(Budget& budget, absl::string_view bytes, bool marked);
Value MakeMethod(Budget& budget, Value self, absl::string_view name);
Value MakeLoop(Budget& budget, std::shared_ptr<const Sequence> items);

bool Truthy(const Value& value);
bool Equal(const Value& a, const Value& b, Budget& budget);
// INVALID_ARGUMENT when Python could not order the two.
absl::StatusOr<bool> Less(const Value& a, const Value& b, Budget& budget);

// Python's name of the type: "str", "dict", ...
absl::string_view TypeName(const Value& value);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_VALUE_H_
