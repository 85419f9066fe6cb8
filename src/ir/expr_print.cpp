// Formulas as text: infix, with only the parentheses that the tree needs.
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "ir/expr_walk.h"

namespace varve::expr {
namespace {

constexpr std::size_t kMost = 1 << 20;  // a shared subtree is printed at each use: some would fill the memory

struct Operator {
  const char* symbol;
  int precedence;
};
constexpr int kUnary = 7, kAtom = 8;

// A null symbol: printed as a call.
Operator infix(Prim prim) {
  switch (prim) {
    case Prim::logical_or:
      return {"||", 1};
    case Prim::logical_and:
      return {"&&", 2};
    case Prim::eq:
      return {"==", 3};
    case Prim::ne:
      return {"!=", 3};
    case Prim::lt:
      return {"<", 4};
    case Prim::le:
      return {"<=", 4};
    case Prim::add:
      return {"+", 5};
    case Prim::sub:
      return {"-", 5};
    case Prim::mul:
      return {"*", 6};
    case Prim::div:
      return {"/", 6};
    default:
      return {nullptr, kAtom};
  }
}

std::string number(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;  // the shortest that reads back
  return {text.data(), end};
}

// What is still to be printed: text, or an expression (owned, since sigmoid's argument is made on the way).
struct Piece {
  std::string text;
  std::optional<Expr> expr = std::nullopt;
  int least = 0;  // in parentheses below this precedence
};

class Printer {
 public:
  std::string run(const Expr& root) {
    push(root, 0);
    while (!pieces_.empty() && out_.size() < kMost) {
      const Piece piece = std::move(pieces_.back());
      pieces_.pop_back();
      if (!piece.expr)
        out_ += piece.text;
      else
        expand(*piece.expr, piece.least);
    }
    return pieces_.empty() ? out_ : out_ + " …";
  }

 private:
  void push(const Expr& e, int least) { pieces_.push_back({.text = {}, .expr = e, .least = least}); }
  void push(std::string text) { pieces_.push_back({.text = std::move(text)}); }

  void call(const char* function, const std::vector<Expr>& operands) {
    out_ += function;
    out_ += '(';
    push(")");
    for (std::size_t i = operands.size(); i-- > 0;) {
      push(operands[i], 0);
      if (i > 0) push(", ");
    }
  }

  void expand(const Expr& e, int least) {
    const ExprNode& node = e.node();
    if (node.prim == Prim::input) {
      out_ += "x" + std::to_string(node.index);
    } else if (node.prim == Prim::constant) {
      out_ += number(node.value);
    } else if (const Expr* u = sigmoid_argument(e)) {
      call("sigmoid", {-*u});
    } else if (node.prim == Prim::neg || node.prim == Prim::logical_not) {
      out_ += node.prim == Prim::neg ? "-" : "!";
      push(node.operands[0], kUnary);
    } else if (const Operator op = infix(node.prim); op.symbol != nullptr) {
      // To the right an equal precedence needs parentheses too: a + (b + c) rounds differently from a + b + c.
      if (op.precedence < least) {
        out_ += '(';
        push(")");
      }
      push(node.operands[1], op.precedence + 1);
      push(" " + std::string(op.symbol) + " ");
      push(node.operands[0], op.precedence);
    } else {
      call(name(node.prim), node.operands);
    }
  }

  std::string out_;
  std::vector<Piece> pieces_;  // the next one last
};

}  // namespace

std::string print(const Expr& e) { return Printer().run(e); }

}  // namespace varve::expr
