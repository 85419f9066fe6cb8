#include "backends/cpu/tile/liveness.h"

#include <algorithm>
#include <array>

#include "backends/cpu/common/index.h"
#include "backends/cpu/tile/chain.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cpu {
namespace {
using expr::Instr;
using expr::Prim;

std::array<int, 3> operands(const Instr& instr, Fused fused) {
  const int count = fused != Fused::none ? 1 : expr::arity(instr.prim);
  return {count > 0 ? instr.a : -1, count > 1 ? instr.b : -1, count > 2 ? instr.c : -1};
}

void check(const expr::Code& code) {
  for (std::size_t i = 0; i < code.instrs.size(); ++i) {
    const Instr& instr = code.instrs[i];
    const std::array<int, 3> given = {instr.a, instr.b, instr.c};
    for (int k = 0; k < expr::arity(instr.prim); ++k) {
      const int operand = given[at(k)];
      if (operand < 0 || operand >= static_cast<int>(i)) {
        throw Error(cat("tile code: instruction ", i, " (", expr::name(instr.prim), ") reads instruction ", operand,
                        ", which does not come before it."));
      }
    }
    if (instr.prim == Prim::input && (instr.input < 0 || instr.input >= code.inputs)) {
      throw Error(cat("tile code: input ", instr.input, " of ", code.inputs, "."));
    }
  }
  for (const int output : code.outputs) {
    if (output < 0 || output >= static_cast<int>(code.instrs.size())) {
      throw Error(cat("tile code: output is instruction ", output, " of ", code.instrs.size(), "."));
    }
  }
}

class Peephole {
 public:
  explicit Peephole(Analysed& code) : code_(code) {}

  void apply(int i) {
    Instr& instr = code_.instrs[at(i)];
    if (instr.prim == Prim::pow && is_constant(instr.b, 2)) {
      instr.prim = Prim::mul;  // the square is correctly rounded either way
      instr.b = instr.a;
    } else if (const int x = sigmoid_of(instr); x >= 0) {
      code_.fused[at(i)] = Fused::sigmoid;
      instr.a = x;
    }
  }

 private:
  bool is(int i, Prim prim) const { return code_.instrs[at(i)].prim == prim; }
  bool is_constant(int i, double value) const { return is(i, Prim::constant) && code_.instrs[at(i)].value == value; }

  // 1 / (1 + exp(-x)), the sum either way round: x, or -1.
  int sigmoid_of(const Instr& instr) const {
    if (instr.prim != Prim::div || !is_constant(instr.a, 1) || !is(instr.b, Prim::add)) return -1;
    const Instr& sum = code_.instrs[at(instr.b)];
    const int exponential = is_constant(sum.a, 1) ? sum.b : is_constant(sum.b, 1) ? sum.a : -1;
    if (exponential < 0 || !is(exponential, Prim::exp)) return -1;
    const int negated = code_.instrs[at(exponential)].a;
    return is(negated, Prim::neg) ? code_.instrs[at(negated)].a : -1;
  }

  Analysed& code_;
};

void find_live(Analysed& code) {
  for (const int output : code.outputs) code.live[at(output)] = true;
  for (int i = static_cast<int>(code.instrs.size()) - 1; i >= 0; --i) {
    if (!code.live[at(i)]) continue;
    for (const int operand : operands(code.instrs[at(i)], code.fused[at(i)])) {
      if (operand >= 0) code.live[at(operand)] = true;
    }
  }
}

// A chain reads all its operands where its last instruction stands.
void find_last_uses(Analysed& code) {
  const int count = static_cast<int>(code.instrs.size());
  std::fill(code.last_use.begin(), code.last_use.end(), -1);
  for (int i = 0; i < count; ++i) {
    if (!code.live[at(i)]) continue;
    for (const int member : code.chain[at(i)]) {
      for (const int operand : operands(code.instrs[at(member)], code.fused[at(member)])) {
        if (operand >= 0) code.last_use[at(operand)] = i;
      }
    }
  }
  for (const int output : code.outputs) code.last_use[at(output)] = count;
}

std::vector<int> count_uses(const Analysed& code) {
  std::vector<int> uses(code.instrs.size(), 0);
  for (std::size_t i = 0; i < code.instrs.size(); ++i) {
    if (!code.live[i]) continue;
    for (const int operand : operands(code.instrs[i], code.fused[i])) {
      if (operand >= 0) ++uses[at(operand)];
    }
  }
  for (const int output : code.outputs) ++uses[at(output)];
  return uses;
}

}  // namespace

Analysed analyse(const expr::Code& code, DType compute) {
  check(code);
  const std::size_t count = code.instrs.size();
  Analysed result{code.instrs,
                  std::vector<Fused>(count, Fused::none),
                  code.outputs,
                  std::vector<bool>(count, false),
                  std::vector<int>(count, -1),
                  std::vector<std::vector<int>>(count)};
  for (int i = 0; i < static_cast<int>(count); ++i) result.chain[at(i)] = {i};
  if (compute != DType::i64) {
    Peephole peephole(result);
    for (int i = 0; i < static_cast<int>(count); ++i) peephole.apply(i);
  }
  find_live(result);
  find_last_uses(result);
  return result;
}

bool chainable(const Analysed& code, int i) {
  const Prim prim = code.instrs[at(i)].prim;
  return code.fused[at(i)] != Fused::none || inlined_in_chain(prim) || expr::arity(prim) == 1;
}

void make_chains(Analysed& code, const std::vector<Level>& level) {
  const std::vector<int> uses = count_uses(code);
  const auto links = [&](int i) { return level[at(i)] == Level::tile && chainable(code, i); };
  for (int i = 0; i < static_cast<int>(code.instrs.size()); ++i) {
    if (!code.live[at(i)] || !links(i)) continue;
    int before = -1;  // the longest chain that ends in an operand of i alone
    for (const int operand : operands(code.instrs[at(i)], code.fused[at(i)])) {
      if (operand < 0 || uses[at(operand)] != 1 || !links(operand)) continue;
      if (before < 0 || code.chain[at(operand)].size() > code.chain[at(before)].size()) before = operand;
    }
    if (before < 0) continue;
    std::vector<int> joined = std::move(code.chain[at(before)]);
    code.chain[at(before)].clear();
    joined.push_back(i);
    code.chain[at(i)] = std::move(joined);
  }
  find_last_uses(code);
}

}  // namespace varve::cpu
