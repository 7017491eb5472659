// Macros, and the functions that every template knows.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_format.h"
#include "scheduler/text/jinja_interpreter.h"
#include "scheduler/text/jinja_print.h"
#include "scheduler/text/jinja_unicode.h"

namespace octavo::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;      // Jinja's sandbox has the same limit
constexpr size_t kMaxExceptionBytes = 512;  // of raise_exception's message

constexpr absl::string_view kGlobals[] = {"dict", "namespace", "raise_exception", "range",
                                          "strftime_now"};

Value GlobalFunction(absl::string_view name) {
  auto function = std::make_shared<Callable>();
  function->name = std::string(name);
  return Value(std::shared_ptr<const Callable>(std::move(function)));
}

// As many whole characters as fit.
absl::string_view Truncate(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (text[bytes] & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

// dict(mapping or pairs, **named).
absl::StatusOr<Value> MakeDictFrom(Runtime& runtime, const Args& args) {
  if (args.positional.size() > 1) return absl::InvalidArgumentError("dict: too many arguments");
  Dict dict;
  if (!args.positional.empty() && args.positional[0].IsDict()) {
    dict = args.positional[0].dict();
  } else if (!args.positional.empty()) {
    OCTAVO_ASSIGN_OR_RETURN(const auto pairs, Iterate(runtime, args.positional[0]));
    for (const Value& item : pairs->items) {
      OCTAVO_ASSIGN_OR_RETURN(const auto pair, Iterate(runtime, item));
      if (pair->items.size() != 2 || !Dict::IsKey(pair->items[0])) {
        return absl::InvalidArgumentError("dict needs pairs of a key and a value");
      }
      dict.Set(pair->items[0], pair->items[1]);
    }
  }
  for (const auto& [name, value] : args.named) {
    dict.Set(MakeText(runtime.budget, name, args.names_marked), value);
  }
  return MakeDict(runtime.budget, std::move(dict));
}

}  // namespace

bool IsGlobalFunction(absl::string_view name) {
  return std::find(std::begin(kGlobals), std::end(kGlobals), name) != std::end(kGlobals);
}

Value Interpreter::Lookup(Symbol symbol, absl::string_view name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    runtime_.budget.Spend(static_cast<int64_t>(scope->variables.size() / kVariablesPerStep));
    for (const auto& [known, value] : scope->variables) {
      if (known == symbol) return value;
    }
  }
  if (const Value* value = context_.dict().Find(name)) return *value;
  if (IsGlobalFunction(name)) return GlobalFunction(name);
  return Value::MakeUndefined(absl::StrCat("'", name.substr(0, 64), "' is undefined"));
}

Value Interpreter::MakeMacro(const MacroDef& macro) {
  runtime_.budget.Allocate(sizeof(Callable) + sizeof(Scope));
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) {
    scope->captured = true;
  }
  auto callable = std::make_shared<Callable>();
  callable->kind = Callable::Kind::kMacro;
  callable->name = macro.name;
  callable->macro = &macro;
  callable->closure = scope_;
  return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

absl::StatusOr<Value> Interpreter::Call(const Value& callee, const Args& args) {
  const Callable* callable = callee.callable();
  if (callable == nullptr) return Unsuitable(callee, "be called");
  switch (callable->kind) {
    case Callable::Kind::kGlobal:
      return CallGlobal(callable->name, args);
    case Callable::Kind::kMacro:
      return CallMacro(*callable, args);
    case Callable::Kind::kMethod:
      break;
  }
  if (LoopState* loop = callable->self.loop()) return CallLoopMethod(*loop, callable->name, args);
  return CallMethod(runtime_, callable->self, callable->name, args);
}

absl::StatusOr<Value> Interpreter::CallMacro(const Callable& callable, const Args& args) {
  const MacroDef& macro = *callable.macro;
  const auto fail = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("macro ", macro.name, " ", parts...));
  };
  const DepthGuard depth(this);
  if (!depth.Check()) return runtime_.budget.status();
  std::vector<std::pair<std::string, Value>> named = args.named;
  runtime_.budget.Spend(
      static_cast<int64_t>(macro.params.size() * named.size() / kVariablesPerStep));
  const auto take = [&](absl::string_view name) -> std::optional<Value> {
    const auto it = std::find_if(named.begin(), named.end(),
                                 [&](const auto& argument) { return argument.first == name; });
    if (it == named.end()) return std::nullopt;
    Value value = std::move(it->second);
    named.erase(it);
    return value;
  };
  const size_t positional = std::min(args.positional.size(), macro.params.size());
  const ScopeGuard scope(this, callable.closure);
  for (size_t i = 0; i < macro.params.size(); ++i) {
    const MacroDef::Param& param = macro.params[i];
    std::optional<Value> value;
    if (i < positional) {
      value = args.positional[i];
    } else {
      value = take(param.name);
    }
    if (!value.has_value() && param.default_value != nullptr) {
      OCTAVO_ASSIGN_OR_RETURN(value, Eval(*param.default_value));
    } else if (!value.has_value()) {
      value = Value::MakeUndefined(absl::StrCat("parameter '", param.name, "' was not provided"));
    }
    SetVariable(scope_, param.symbol, *std::move(value));
  }
  const bool has_caller_param =
      std::any_of(macro.params.begin(), macro.params.end(),
                  [](const MacroDef::Param& param) { return param.symbol == kCallerSymbol; });
  if (macro.uses_caller && !has_caller_param) {
    SetVariable(scope_, kCallerSymbol,
                take("caller").value_or(Value::MakeUndefined("no caller defined")));
  }
  if (macro.uses_kwargs) {
    Args rest;
    rest.named = std::move(named);
    rest.names_marked = args.names_marked;
    OCTAVO_ASSIGN_OR_RETURN(Value kwargs, MakeDictFrom(runtime_, rest));
    SetVariable(scope_, kKwargsSymbol, std::move(kwargs));
  } else if (!named.empty()) {
    return fail("takes no argument ", named.front().first);
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest(args.positional.begin() + static_cast<std::ptrdiff_t>(positional),
                            args.positional.end());
    SetVariable(scope_, kVarargsSymbol,
                MakeSequence(runtime_.budget, Sequence::Kind::kTuple, std::move(rest)));
  } else if (args.positional.size() > macro.params.size()) {
    return fail("takes at most ", macro.params.size(), " arguments, got ", args.positional.size());
  }
  return CaptureBody(macro.body);
}

absl::StatusOr<Value> Interpreter::CallLoopMethod(LoopState& loop, absl::string_view name,
                                                  const Args& args) {
  if (!args.named.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("loop.", name, " takes no named arguments"));
  }
  if (name == "cycle") {
    if (args.positional.empty()) return absl::InvalidArgumentError("loop.cycle without items");
    return args.positional[loop.index % args.positional.size()];
  }
  const bool same =
      loop.has_changed &&
      std::equal(loop.last_changed.begin(), loop.last_changed.end(), args.positional.begin(),
                 args.positional.end(),
                 [&](const Value& a, const Value& b) { return Equal(a, b, runtime_.budget); });
  if (!loop.ended) {
    loop.last_changed = args.positional;
    loop.has_changed = true;
  }
  return Value::Bool(!same);
}

absl::StatusOr<Value> Interpreter::MakeNamespace(const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const Value attributes, MakeDictFrom(runtime_, args));
  if (!runtime_.budget.Allocate(sizeof(Namespace))) return runtime_.budget.status();
  auto ns = std::make_unique<Namespace>();
  for (const auto& [key, value] : attributes.dict().entries()) {
    if (!key.IsString() || key.text().view().substr(0, 1) == "_") {
      return absl::InvalidArgumentError("attributes of a namespace are names without a leading _");
    }
    ns->attributes.emplace(std::string(key.text().view()), value);
  }
  namespaces_.push_back(std::move(ns));
  return Value(namespaces_.back().get());
}

absl::StatusOr<Value> Interpreter::MakeRange(const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("range", args, {"start", "stop", "step"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t first, bound.Integer(0, 0));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t second, bound.Integer(1, 0));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t step, bound.Integer(2, 1));
  const int64_t start = bound[1] == nullptr ? 0 : first;
  const int64_t stop = bound[1] == nullptr ? first : second;
  if (step == 0) return absl::InvalidArgumentError("range: step is 0");
  // 128 bits hold every difference of two int64.
  const absl::int128 from = start;
  const absl::int128 distance = step > 0 ? stop - from : from - stop;
  const absl::int128 stride = step > 0 ? absl::int128(step) : -absl::int128(step);
  const absl::int128 count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > kMaxRange) {
    return absl::ResourceExhaustedError(
        absl::StrCat("range of more than the limit of ", kMaxRange, " items"));
  }
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (absl::int128 i = 0; i < count; ++i) {
    items.push_back(Value::Int(static_cast<int64_t>(from + i * step)));
  }
  return MakeSequence(runtime_.budget, Sequence::Kind::kRange, std::move(items));
}

absl::StatusOr<Value> Interpreter::CallGlobal(absl::string_view name, const Args& args) {
  if (name == "range") return MakeRange(args);
  if (name == "namespace") return MakeNamespace(args);
  if (name == "dict") return MakeDictFrom(runtime_, args);
  if (name == "strftime_now") {
    OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind(name, args, {"format"}, 1));
    OCTAVO_ASSIGN_OR_RETURN(const Text format, bound.String(0, ""));
    OCTAVO_ASSIGN_OR_RETURN(Text text, FormatTime(runtime_, format));
    return Value(std::move(text));
  }
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind(name, args, {"message"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const Text message, Str(*bound[0], runtime_.budget));
  return absl::InvalidArgumentError(Truncate(message.view(), kMaxExceptionBytes));
}

}  // namespace octavo::jinja
