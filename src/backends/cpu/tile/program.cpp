#include "backends/cpu/tile/program.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cpu/common/index.h"
#include "backends/cpu/tile/liveness.h"
#include "base/convert.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cpu {
namespace {
using expr::Instr;
using expr::Prim;

std::int64_t constant_bits(double value, DType compute) {
  if (compute == DType::f64) return std::bit_cast<std::int64_t>(value);
  if (compute == DType::f32) {
    const float single = static_cast<float>(value);
    return std::int64_t{std::bit_cast<std::uint32_t>(single)};
  }
  if (std::trunc(value) != value) {
    throw Error(cat("tile code: the constant ", value, " is not an integer; compute in f32 or f64."));
  }
  return cast_to<std::int64_t>(value);  // infinities become the limits
}

class Compiler {
 public:
  Compiler(const Group& group, const Plan& plan, bool nontemporal)
      : group_(group), plan_(plan), nontemporal_(nontemporal), code_(analyse(group.code, group.compute)) {
    const int accesses = static_cast<int>(plan.accesses.size());
    for (int i = 0; i < accesses; ++i) add_place(Place::memory, i);
    place_.assign(code_.instrs.size(), -1);
    find_levels();
    program_.chain = chain_kernel(group.compute);
    if (program_.chain != nullptr) make_chains(code_, level_);
    input_place_.assign(group.inputs.size(), -1);
    input_last_use_.assign(group.inputs.size(), -1);
    written_.assign(group.outputs.size(), false);
    reads_.assign(code_.instrs.size(), false);
    for (int i = 0; i < static_cast<int>(code_.instrs.size()); ++i) {
      if (!code_.live[at(i)]) continue;
      for (const int operand : operands(i)) reads_[at(operand)] = true;
    }
    for (std::size_t i = 0; i < code_.instrs.size(); ++i) {
      if (!code_.live[i] || code_.instrs[i].prim != Prim::input) continue;
      int& last = input_last_use_[at(code_.instrs[i].input)];
      last = std::max(last, code_.last_use[i]);
    }
  }

  Program run() {
    for (int i = 0; i < static_cast<int>(code_.instrs.size()); ++i) {
      if (code_.live[at(i)] && !code_.chain[at(i)].empty()) instruction(i);
    }
    for (int o = 0; o < static_cast<int>(group_.outputs.size()); ++o) finish_output(o);
    program_.tile.insert(program_.tile.end(), stores_.begin(), stores_.end());  // after the last read of any input
    return std::move(program_);
  }

 private:
  int add_place(Place::Kind kind, int index) {
    program_.places.push_back({kind, index});
    return static_cast<int>(program_.places.size()) - 1;
  }
  int new_slot() { return add_place(Place::slot, program_.slots++); }
  int new_register() { return add_place(Place::reg, program_.registers++); }
  int take_register() {
    if (free_.empty()) return new_register();
    const int place = free_.back();
    free_.pop_back();
    return place;
  }
  int add_table(const Access& access) {
    program_.tables.push_back(plan_.table(access));
    return add_place(Place::table, static_cast<int>(program_.tables.size()) - 1);
  }
  std::vector<Step>& steps(Level level) {
    return level == Level::once ? program_.once : level == Level::per_tile ? program_.per_tile : program_.tile;
  }

  void find_levels() {
    level_.assign(code_.instrs.size(), Level::once);
    for (std::size_t i = 0; i < code_.instrs.size(); ++i) {
      const Instr& instr = code_.instrs[i];
      if (instr.prim == Prim::input) {
        const Access& access = plan_.accesses[at(instr.input)];
        const bool scalar = plan_.layout(access) == Layout::scalar;
        level_[i] = !scalar ? Level::tile : plan_.constant(access) ? Level::once : Level::per_tile;
        continue;
      }
      for (const int operand : operands(static_cast<int>(i))) level_[i] = std::max(level_[i], level_[at(operand)]);
    }
  }

  std::vector<int> operands(int i) const {
    const Instr& instr = code_.instrs[at(i)];
    const int count = code_.fused[at(i)] != Fused::none ? 1 : expr::arity(instr.prim);
    const int given[3] = {instr.a, instr.b, instr.c};
    return {given, given + count};
  }

  void instruction(int i) {
    const Instr& instr = code_.instrs[at(i)];
    if (instr.prim == Prim::input) return input(i, instr.input);
    if (instr.prim == Prim::constant) {
      program_.constants.push_back(constant_bits(instr.value, group_.compute));
      place_[at(i)] = add_place(Place::constant, static_cast<int>(program_.constants.size()) - 1);
      return;
    }
    if (program_.chain != nullptr && level_[at(i)] == Level::tile && chainable(code_, i)) {
      chain(i);
    } else {
      operation(i, instr);
    }
  }

  // An input is read in place when it lies dense in the compute type, and through a register otherwise.
  void input(int i, int index) {
    int& place = input_place_[at(index)];
    if (place < 0) place = load(index, level_[at(i)]);
    place_[at(i)] = place;
  }

  int load(int index, Level level) {
    const Access& access = group_.inputs[at(index)];
    const Access& planned = plan_.accesses[at(index)];
    const Layout layout = plan_.layout(planned);
    const bool same = access.dtype == group_.compute;
    if (layout == Layout::scalar) {
      if (same) return index;
      const int slot = new_slot();
      steps(level).push_back({load_kernel(access.dtype, group_.compute), index, 0, 0, slot});
      return slot;
    }
    // The value of an input that is itself an output must survive the stores of the other outputs, in place perhaps.
    const bool kept = input_last_use_[at(index)] == end() && group_.outputs.size() > 1;
    if (layout == Layout::dense && same && !kept) return index;
    // Loaded registers are not shared: the value may have to outlive this tile.
    const int place = new_register();
    Step step{.a = index, .out = place, .repeats = plan_.repeats(planned) ? index : -1};
    if (layout == Layout::dense) {
      step.fn = load_kernel(access.dtype, group_.compute);
    } else if (layout == Layout::rows) {
      step.fn = repeat_kernel(access.dtype, group_.compute);
      program_.tables.push_back({plan_.inner, planned.strides[at(plan_.axis)]});
      step.b = add_place(Place::table, static_cast<int>(program_.tables.size()) - 1);
    } else {
      step.fn = gather_kernel(access.dtype, group_.compute);
      step.b = add_table(planned);
    }
    program_.tile.push_back(step);
    return place;
  }

  void operation(int i, const Instr& instr) {
    const Fused fused = code_.fused[at(i)];
    const std::vector<int> given = operands(i);
    const Level level = level_[at(i)];
    Step step;
    int* places[3] = {&step.a, &step.b, &step.c};
    for (std::size_t k = 0; k < given.size(); ++k) *places[k] = place_[at(given[k])];
    if (fused != Fused::none) {
      step.fn = fused_kernel(group_.compute, fused);
    } else if (level == Level::tile && given.size() > 1) {
      choose_form(instr, given, places, step);
    } else {
      step.fn = prim_kernel(group_.compute, instr.prim, Form::vv);
    }
    if (step.fn == nullptr) {
      throw Error(cat("tile code: no ", expr::name(instr.prim), " in ", group_.compute, "; compute in f32 or f64."));
    }
    if (level == Level::tile) release(i, given);
    step.out = level == Level::tile ? result_place(i) : new_slot();
    place_[at(i)] = step.out;
    steps(level).push_back(step);
    free_.insert(free_.end(), borrowed_.begin(), borrowed_.end());
    borrowed_.clear();
  }

  // All instructions of the chain that ends with i, as one step.
  void chain(int i) {
    const std::vector<int>& members = code_.chain[at(i)];
    Step step;
    step.first_link = static_cast<int>(program_.links.size());
    step.links = static_cast<int>(members.size());
    std::vector<int> read;  // operands from outside the chain
    int running = -1;
    for (const int member : members) {
      const std::vector<int> given = operands(member);
      if (running < 0) {  // start from an operand that changes from point to point
        for (const int operand : given) running = running < 0 && level_[at(operand)] == Level::tile ? operand : running;
        step.a = place_[at(running)];
        read.push_back(running);
      }
      program_.links.push_back(make_link(member, given, running, read));
      running = member;
    }
    release(i, read);
    const int through = nontemporal_ ? nontemporal_output(i) : -1;
    step.nontemporal = through >= 0;
    step.out = through >= 0 ? output_place(through) : result_place(i);
    place_[at(i)] = step.out;
    program_.tile.push_back(step);
  }

  Link make_link(int member, const std::vector<int>& given, int running, std::vector<int>& read) const {
    Link link{.prim = code_.instrs[at(member)].prim};
    if (code_.fused[at(member)] != Fused::none)
      link.call = fused_kernel(group_.compute, code_.fused[at(member)]);
    else if (!inlined_in_chain(link.prim))
      link.call = prim_kernel(group_.compute, link.prim, Form::vv);
    const auto role = std::find(given.begin(), given.end(), running) - given.begin();
    link.role = static_cast<Role>(role);
    int* places[2] = {&link.p, &link.q};
    bool* scalars[2] = {&link.p_scalar, &link.q_scalar};
    std::size_t others = 0;
    for (std::size_t k = 0; k < given.size(); ++k) {
      if (k == static_cast<std::size_t>(role)) continue;
      *places[others] = place_[at(given[k])];
      *scalars[others] = level_[at(given[k])] != Level::tile;
      read.push_back(given[k]);
      ++others;
    }
    return link;
  }

  // The output that a chain may write past the caches: nobody else reads the value.
  int nontemporal_output(int i) {
    if (std::count(code_.outputs.begin(), code_.outputs.end(), i) != 1) return -1;
    const auto o = std::find(code_.outputs.begin(), code_.outputs.end(), i) - code_.outputs.begin();
    const int output = static_cast<int>(o);
    if (reads_[at(i)] || !direct(output)) return -1;
    written_[at(output)] = true;
    return output;
  }

  // The last two operands may be single values where such a loop exists; others are spread over a register.
  void choose_form(const Instr& instr, const std::vector<int>& given, int** places, Step& step) {
    const auto scalar = [&](std::size_t k) { return level_[at(given[k])] != Level::tile; };
    const std::size_t first = given.size() - 2, second = given.size() - 1;
    Form form = Form::vv;
    if (scalar(second))
      form = Form::vs;
    else if (scalar(first))
      form = Form::sv;
    step.fn = prim_kernel(group_.compute, instr.prim, form);
    if (step.fn == nullptr) {
      form = Form::vv;
      step.fn = prim_kernel(group_.compute, instr.prim, form);
    }
    for (std::size_t k = 0; k < given.size(); ++k) {
      const bool taken = (k == second && form == Form::vs) || (k == first && form == Form::sv);
      if (scalar(k) && !taken) *places[k] = spread(*places[k], level_[at(given[k])]);
    }
  }

  int spread(int place, Level level) {
    const KernelFn fn = splat_kernel(group_.compute);
    if (level == Level::once) {
      const int filled = new_register();  // for the whole run
      program_.fills.push_back({fn, place, 0, 0, filled});
      return filled;
    }
    const int borrowed = take_register();
    program_.tile.push_back({fn, place, 0, 0, borrowed});
    borrowed_.push_back(borrowed);
    return borrowed;
  }

  // Loops may write over their operands, so a register whose value dies here can take the result.
  void release(int i, const std::vector<int>& given) {
    for (auto k = given.begin(); k != given.end(); ++k) {
      const int operand = *k, place = place_[at(operand)];
      if (std::find(given.begin(), k, operand) != k) continue;  // seen already
      const Prim prim = code_.instrs[at(operand)].prim;
      if (code_.last_use[at(operand)] != i || level_[at(operand)] != Level::tile) continue;
      if (prim != Prim::input && program_.places[at(place)].kind == Place::reg) free_.push_back(place);
    }
  }

  int result_place(int i) {
    for (std::size_t o = 0; o < group_.outputs.size(); ++o) {
      if (code_.outputs[o] == i && writes_through(static_cast<int>(o), i)) {
        written_[o] = true;
        return output_place(static_cast<int>(o));
      }
    }
    return take_register();
  }

  // Whether instruction i may write output o itself, while inputs of the same memory may still be read.
  bool writes_through(int o, int i) const {
    if (nontemporal_ || !direct(o)) return false;
    const Access& access = group_.outputs[at(o)];
    const Access& planned = plan_.accesses[at(output_place(o))];
    for (std::size_t k = 0; k < group_.inputs.size(); ++k) {
      const bool may_alias = group_.inputs[k].dtype == access.dtype && plan_.accesses[k].strides == planned.strides;
      if (may_alias && input_last_use_[k] > i) return false;
    }
    return true;
  }

  bool direct(int o) const {  // every point's value goes to memory as it is
    return group_.reduce[at(o)] == Reduce::none && group_.outputs[at(o)].dtype == group_.compute &&
           plan_.layout(plan_.accesses[at(output_place(o))]) == Layout::dense;
  }

  void finish_output(int o) {
    const int value = code_.outputs[at(o)];
    int place = place_[at(value)];
    const bool reduces = group_.reduce[at(o)] != Reduce::none;
    program_.results.push_back(place);
    if (written_[at(o)]) return;
    const Access& planned = plan_.accesses[at(output_place(o))];
    const bool dense = plan_.layout(planned) == Layout::dense;
    const bool scalar = level_[at(value)] != Level::tile;
    if (scalar) {
      place = new_register();
      (level_[at(value)] == Level::once ? program_.fills : program_.tile)
          .push_back({splat_kernel(group_.compute), place_[at(value)], 0, 0, place});
      program_.results.back() = place;
    }
    if (reduces) return;
    Step step{.a = place, .out = output_place(o)};
    const DType to = group_.outputs[at(o)].dtype;
    if (!dense) {
      step.fn = scatter_kernel(group_.compute, to);
      step.b = add_table(planned);
    } else if (nontemporal_ && to == group_.compute) {
      step.fn = nontemporal_kernel(group_.compute);
    } else {
      step.fn = store_kernel(group_.compute, to);
    }
    stores_.push_back(step);
  }

  int output_place(int o) const { return static_cast<int>(group_.inputs.size()) + o; }
  int end() const { return static_cast<int>(code_.instrs.size()); }

  const Group& group_;
  const Plan& plan_;
  const bool nontemporal_;
  Analysed code_;
  Program program_;
  std::vector<int> place_;  // of each instruction's value
  std::vector<Level> level_;
  std::vector<int> input_place_;  // of each input's value, -1: not read yet
  std::vector<int> input_last_use_;
  std::vector<bool> reads_;           // whether an instruction reads it, not only an output
  std::vector<bool> written_;         // outputs that an instruction has written itself
  std::vector<int> free_, borrowed_;  // registers
  std::vector<Step> stores_;
};

}  // namespace

int estimate_registers(const Group& group) {
  const Analysed code = analyse(group.code, group.compute);
  int most = 1;
  for (int i = 0; i < static_cast<int>(code.instrs.size()); ++i) {
    int live = 0;
    for (int k = 0; k <= i; ++k) {
      const Instr& instr = code.instrs[at(k)];
      if (!code.live[at(k)] || code.last_use[at(k)] <= i || instr.prim == Prim::constant) continue;
      live += instr.prim != Prim::input || group.inputs[at(instr.input)].dtype != group.compute;
    }
    most = std::max(most, live);
  }
  return most;
}

Program compile(const Group& group, const Plan& plan, bool nontemporal) {
  return Compiler(group, plan, nontemporal).run();
}

}  // namespace varve::cpu
