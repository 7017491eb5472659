// A parsed template. Immutable after parsing, so renders on several threads share it.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_AST_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/text/jinja_value.h"

namespace octavo::jinja {

// Names are numbered, so that scopes compare integers.
using Symbol = int;

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

enum class ExprOp {
  kConst,    // constant
  kName,     // symbol, name
  kTuple,    // args
  kList,     // args
  kDict,     // args: key, value, key, value, ...
  kCond,     // args: test, then, else (null: undefined)
  kOr,       // args: left, right
  kAnd,      // args: left, right
  kNot,      // args: operand
  kNeg,      // args: operand
  kPos,      // args: operand
  kBinary,   // name: + - * / // % **; args: left, right
  kCompare,  // names: == != < <= > >= in notin; args: one more than names
  kConcat,   // args joined as text
  kAttr,     // args: object; name
  kItem,     // args: object, key
  kSlice,    // args: object, start, stop, step (null: absent)
  kCall,     // args: callee, then the arguments
  kFilter,   // args: subject (null in a filter block: its body), then the arguments; name
  kTest,     // args: subject, then the arguments; name
};

struct Expr {
  ExprOp op = ExprOp::kConst;
  int line = 0;
  int height = 1;  // of this tree
  Symbol symbol = -1;
  std::string name;
  Value constant;
  std::vector<ExprPtr> args;
  std::vector<std::string> names;
  std::vector<std::pair<std::string, ExprPtr>> kwargs;
  ExprPtr star_args;    // f(*this)
  ExprPtr star_kwargs;  // f(**this)
};

// What for, set and with assign to: a name, an attribute of a namespace, or a tuple of these.
struct Target {
  Symbol symbol = -1;
  std::string name;
  std::string attribute;
  bool is_tuple = false;
  std::vector<Target> items;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<const Stmt>>;

struct MacroDef {
  struct Param {
    Symbol symbol = -1;
    std::string name;
    ExprPtr default_value;  // null: undefined
  };

  std::string name;  // "caller" for the body of a call block
  std::vector<Param> params;
  // Which of the names that every macro knows its body mentions.
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
  Body body;
};

enum class StmtKind {
  kText,         // text
  kOutput,       // expr
  kIf,           // branches
  kFor,          // target, expr (what is iterated), test, body, orelse
  kSet,          // target, expr
  kSetBlock,     // target, expr (filters; may be null), body
  kMacro,        // macro; target: its name
  kCallBlock,    // macro (the body), expr (the call)
  kFilterBlock,  // expr (filters), body
  kWith,         // assignments, body
  kScope,        // body: a generation block
  kBreak,
  kContinue,
};

struct Stmt {
  struct Branch {
    ExprPtr test;  // null: else
    Body body;
  };
  struct Assignment {
    Target target;
    ExprPtr value;
  };

  StmtKind kind = StmtKind::kText;
  int line = 0;
  Text text;
  Target target;
  ExprPtr expr;
  ExprPtr test;
  Body body;
  Body orelse;
  std::vector<Branch> branches;
  std::vector<Assignment> assignments;
  std::unique_ptr<MacroDef> macro;
};

// Symbols of the names that macros and loops define themselves; the parser numbers them first.
inline constexpr Symbol kLoopSymbol = 0;
inline constexpr Symbol kCallerSymbol = 1;
inline constexpr Symbol kVarargsSymbol = 2;
inline constexpr Symbol kKwargsSymbol = 3;

struct Template {
  Body body;
  std::vector<std::string> symbols;  // names by symbol
};

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_AST_H_
