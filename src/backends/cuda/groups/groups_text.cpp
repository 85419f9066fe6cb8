#include "backends/cuda/groups/groups_text.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "backends/cuda/device/stored_type.h"
#include "base/convert.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Reduce;
using expr::Instr;
using expr::Prim;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// ---- formulas

// Read back to the very bits: as many digits as tell neighbours apart.
std::string constant(double value, DType compute) {
  char text[64];
  if (compute == i64) {
    const auto whole = cast_to<std::int64_t>(value);  // infinities become the limits
    std::snprintf(text, sizeof text, "(i64)0x%llxull", static_cast<unsigned long long>(whole));
    return text;
  }
  const bool single = compute == f32;
  const double exact = single ? static_cast<double>(static_cast<float>(value)) : value;
  if (!std::isfinite(exact)) {
    if (single)
      std::snprintf(text, sizeof text, "__uint_as_float(0x%xu)",
                    std::bit_cast<std::uint32_t>(static_cast<float>(exact)));
    else
      std::snprintf(text, sizeof text, "__longlong_as_double((i64)0x%llxull)",
                    static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(exact)));
    return text;
  }
  std::snprintf(text, sizeof text, single ? "%.9g" : "%.17g", exact);
  std::string number = text;
  if (number.find_first_of(".e") == std::string::npos) number += ".0";
  return cat("(", number, single ? "f" : "", ")");
}

std::vector<bool> live_instructions(const expr::Code& code) {
  std::vector<bool> live(code.instrs.size(), false);
  for (const int output : code.outputs) live[at(output)] = true;
  for (std::size_t i = code.instrs.size(); i-- > 0;) {
    if (!live[i]) continue;
    const Instr& instr = code.instrs[i];
    for (const int operand : {instr.a, instr.b, instr.c})
      if (operand >= 0) live[at(operand)] = true;
  }
  return live;
}

// The exponential e of 1 / (1 + e), the sum either way round, or -1.
int exponential_of(const expr::Code& code, const Instr& instr) {
  const auto is = [&](int i, Prim prim) { return code.instrs[at(i)].prim == prim; };
  const auto is_one = [&](int i) { return is(i, Prim::constant) && code.instrs[at(i)].value == 1; };
  if (instr.prim != Prim::div || !is_one(instr.a) || !is(instr.b, Prim::add)) return -1;
  const Instr& sum = code.instrs[at(instr.b)];
  const int e = is_one(sum.a) ? sum.b : is_one(sum.b) ? sum.a : -1;
  return e >= 0 && is(e, Prim::exp) ? e : -1;
}

// Results of 16 bits are no better for more digits.
bool is_half(const GroupPlan& plan) {
  return plan.compute == f32 &&
         std::all_of(plan.operands.begin(), plan.operands.end(), [](const GroupOperand& operand) {
           return !operand.output || operand.dtype == bf16 || operand.dtype == f16;
         });
}

std::string statement(const GroupPlan& plan, int i, const std::string& input) {
  const expr::Code& code = plan.code;
  const Instr& instr = code.instrs[at(i)];
  const std::string declared = cat("const Number t", i, " = ");
  if (instr.prim == Prim::input) return cat(declared, "read<Number>(", input, ");\n");
  if (instr.prim == Prim::constant) return cat(declared, constant(instr.value, plan.compute), ";\n");
  const Instr* exponent = instr.prim == Prim::pow ? &code.instrs[at(instr.b)] : nullptr;
  if (exponent && exponent->prim == Prim::constant && exponent->value == 2)  // correctly rounded either way
    return cat(declared, "t", instr.a, " * t", instr.a, ";\n");
  if (const int e = exponential_of(code, instr); e >= 0)
    return cat(declared, is_half(plan) ? "h_" : "p_", "inverse_above_one(t", e, ");\n");
  const bool brief = (instr.prim == Prim::exp || instr.prim == Prim::erfc) && is_half(plan);
  std::string call = cat(declared, brief ? "h_" : "p_", expr::name(instr.prim), "(t", instr.a);
  for (const int operand : {instr.b, instr.c})
    if (operand >= 0) call += cat(", t", operand);
  return call + ");\n";
}

bool in_integers(Prim prim) { return prim <= Prim::trunc ? prim != Prim::atan2 : prim >= Prim::logical_not; }

// ---- structures

class Writer {
 public:
  explicit Writer(const GroupPlan& plan) : plan_(plan), live_(live_instructions(plan.code)) {
    used_.assign(plan.operands.size(), true);
    for (std::size_t i = 0; i < plan.operands.size(); ++i) {
      if (plan.operands[i].output) continue;
      used_[i] = false;
      for (std::size_t n = 0; n < live_.size(); ++n)
        used_[i] = used_[i] || (live_[n] && plan.code.instrs[n].prim == Prim::input &&
                                plan.code.instrs[n].input == plan.operands[i].number);
    }
    for (std::size_t i = 0; i < plan.operands.size(); ++i)
      place_.push_back(used_[i] && plan.reach(plan.operands[i]) != Reach::scalar ? places_++ : -1);
  }

  bool has_place(std::size_t i) const { return place_[i] >= 0; }

  std::string text() {
    constants();
    fields();
    inputs();
    offsets("kept", false);
    if (plan_.walk != Walk::flat) offsets("reduced", true);
    load();
    formula();
    store();
    if (plan_.walk != Walk::flat) finish();
    run();
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(const Args&... args) {
    out_ += cat("  ", args..., "\n");
  }
  std::string name(std::size_t i) const {
    return cat(plan_.operands[i].output ? "out" : "in", plan_.operands[i].number);
  }
  std::string stride(std::size_t i, std::size_t axis) const { return cat("(Offset)s", i, "_", axis); }
  std::string address(std::size_t i) const { return place_[i] < 0 ? name(i) : cat(name(i), " + at[", place_[i], "]"); }
  // Of neighbour v, seen from the place of the first.
  std::string neighbour(std::size_t i) const {
    if (place_[i] < 0 || plan_.width == 1)
      return cat(name(i), "[", place_[i] < 0 ? "0" : cat("at[", place_[i], "]"), "]");
    return cat(name(i), "[at[", place_[i], "] + v * ", stride(i, plan_.axes.size() - 1), "]");
  }
  bool single(std::size_t i) const {
    const Reach reach = plan_.reach(plan_.operands[i]);
    return reach == Reach::scalar || reach == Reach::splat;
  }

  void constants() {
    line("typedef ", plan_.wide ? "u64" : "u32", " Index;");
    line("typedef ", plan_.wide ? "i64" : "int", " Offset;");
    line("typedef ", type_name(plan_.compute), " Number;");
    line("static constexpr int kWidth = ", plan_.width, ", kUnroll = ", plan_.unroll,
         ", kPlaces = ", std::max(places_, 1), ", kResults = ", plan_.code.outputs.size(), ";");
    if (plan_.walk == Walk::flat) return;
    line("static constexpr int kLanes = ", plan_.lanes, ", kReduced = ", plan_.reduced(),
         ", kReducedWidth = ", plan_.walk == Walk::rows ? plan_.width : 1, ";");
    std::string ops, results;
    int k = 0;
    for (const GroupOperand& operand : plan_.operands) {
      if (operand.reduce == Reduce::none) continue;
      ops += cat("k == ", k, " ? ", static_cast<int>(operand.reduce), " : ");
      results += cat("k == ", k++, " ? ", operand.result, " : ");
    }
    line("static __device__ __forceinline__ constexpr int op(int k) { return ", ops, "0; }");
    line("static __device__ __forceinline__ constexpr int result(int k) { return ", results, "0; }");
  }

  void fields() {
    for (std::size_t i = 0; i < plan_.operands.size(); ++i)
      line(plan_.operands[i].output ? "" : "const ", stored_type(plan_.operands[i].dtype), "* ", name(i), ";");
    if (plan_.walk != Walk::flat) line("void* scratch; u32* counters;");
    line("Index units, slice_units; u32 slices, unused; u64 columns;");
    for (std::size_t a = 0; a < plan_.axes.size(); ++a) line(plan_.wide ? "Extent64" : "Extent32", " n", a, ";");
    for (std::size_t i = 0; i < plan_.operands.size(); ++i)
      for (std::size_t a = 0; a < plan_.axes.size(); ++a)
        if (place_[i] >= 0 && plan_.operands[i].strides[a] != 0) line("i64 s", i, "_", a, ";");
  }

  void inputs() {
    line("struct In {");
    for (std::size_t i = 0; i < plan_.operands.size(); ++i)
      if (!plan_.operands[i].output && used_[i])
        line("  Pack<", stored_type(plan_.operands[i].dtype), ", ", single(i) ? 1 : plan_.width, "> x", i, ";");
    line("};");
  }

  // Coordinates of a flat index over the kept axes, or the reduced ones, and what they mean for each operand.
  void offsets(const char* function, bool reduced) {
    line("__device__ __forceinline__ void ", function, "(Index e, Offset* at) const {");
    std::vector<std::size_t> axes;
    for (std::size_t a = 0; a < plan_.axes.size(); ++a)
      if (plan_.walk == Walk::flat || plan_.axes[a].reduced == reduced) axes.push_back(a);
    line("  Index rest = e;");
    for (std::size_t i = axes.size(); i-- > 0;) {
      const std::size_t a = axes[i];
      if (i == 0) {
        line("  const Index c", a, " = rest;");
      } else {
        line("  const Index q", a, " = n", a, ".quotient(rest), c", a, " = rest - q", a, " * n", a, ".size;");
        line("  rest = q", a, ";");
      }
    }
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      if (place_[i] < 0) continue;
      std::string sum;
      for (const std::size_t a : axes)
        if (plan_.operands[i].strides[a] != 0)
          sum += cat(sum.empty() ? "" : " + ", "(Offset)c", a, " * ", stride(i, a));
      if (plan_.walk == Walk::flat && plan_.dense(plan_.operands[i])) sum = "(Offset)e";
      if (reduced && sum.empty()) continue;
      line("  at[", place_[i], "] ", reduced ? "+= " : "= ", sum.empty() ? "0" : sum, ";");
    }
    line("}");
  }

  void load() {
    line("__device__ __forceinline__ void load(Index e, const Offset* at, In& in) const {");
    std::string crossing;
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const GroupOperand& operand = plan_.operands[i];
      if (operand.output || !used_[i]) continue;
      const Reach reach = plan_.reach(operand);
      if (reach == Reach::vector)
        line("  in.x", i, " = *(const Pack<", stored_type(operand.dtype), ", ", plan_.width, ">*)(", address(i), ");");
      else if (reach != Reach::gather)
        line("  in.x", i, ".at[0] = *(", address(i), ");");
      else if (plan_.crossing)
        crossing += cat("      in.x", i, ".at[v] = *(", address(i), ");\n");
      else
        line("  for (int v = 0; v < kWidth; ++v) in.x", i, ".at[v] = ", neighbour(i), ";");
    }
    if (!crossing.empty()) each_crossing(crossing);
    line("}");
  }

  // Neighbours of which each may be the first of another row.
  void each_crossing(const std::string& body) {
    line("  for (int v = 0; v < kWidth; ++v) {");
    line("    Offset at[kPlaces];");
    line("    kept(e + v, at);");
    out_ += body;
    line("  }");
  }

  void formula() {
    line("static __device__ __forceinline__ void formula(const In& in, int v, Number* y) {");
    for (std::size_t n = 0; n < live_.size(); ++n) {
      if (!live_[n]) continue;
      const auto input = static_cast<std::size_t>(std::max(plan_.code.instrs[n].input, 0));
      const std::string from =
          plan_.code.instrs[n].prim != Prim::input ? "" : cat("in.x", input, ".at[", single(input) ? "0" : "v", "]");
      out_ += "    " + statement(plan_, static_cast<int>(n), from);
    }
    for (std::size_t o = 0; o < plan_.code.outputs.size(); ++o) line("  y[", o, "] = t", plan_.code.outputs[o], ";");
    line("}");
  }

  void store() {
    line("__device__ __forceinline__ void store(Index e, const Offset* at, const Number (*y)[kResults]) const {");
    std::string crossing;
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const GroupOperand& operand = plan_.operands[i];
      if (!operand.output || operand.reduce != Reduce::none) continue;
      const char* type = stored_type(operand.dtype);
      const std::string value = cat("write<", type, ">(y[v][", operand.result, "])");
      if (plan_.reach(operand) == Reach::vector) {
        line("  {");
        line("    Pack<", type, ", kWidth> pack;");
        line("    for (int v = 0; v < kWidth; ++v) pack.at[v] = ", value, ";");
        line("    *(Pack<", type, ", kWidth>*)(", address(i), ") = pack;");
        line("  }");
      } else if (plan_.crossing) {
        crossing += cat("      *(", address(i), ") = ", value, ";\n");
      } else {
        line("  for (int v = 0; v < kWidth; ++v) ", neighbour(i), " = ", value, ";");
      }
    }
    if (!crossing.empty()) each_crossing(crossing);
    line("}");
  }

  void finish() {
    line("template <class T> __device__ __forceinline__ void finish(int k, const Offset* at, int v, T total) const {");
    int k = 0;
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const GroupOperand& operand = plan_.operands[i];
      if (operand.reduce == Reduce::none) continue;
      const std::string where = plan_.walk == Walk::rows || place_[i] < 0 ? cat("*(", address(i), ")") : neighbour(i);
      line("  if (k == ", k++, ") ", where, " = write<", stored_type(operand.dtype), ">(total);");
    }
    line("}");
    line("template <class T> __device__ __forceinline__ void finish_column(int k, u64 column, T total) const {");
    line("  Offset at[kPlaces];");
    line("  kept((Index)column, at);");
    line("  finish(k, at, 0, total);");
    line("}");
  }

  void run() {
    const char* walk = plan_.walk == Walk::flat ? "flat" : plan_.walk == Walk::rows ? "rows" : "columns";
    line("template <class G> static __device__ __forceinline__ void run(const G& g, u32 block, void* shared) {");
    line("  run_", walk, plan_.walk == Walk::flat ? "(g, block);" : "(g, block, shared);");
    line("}");
  }

  const GroupPlan& plan_;
  std::vector<bool> live_, used_;
  std::vector<int> place_;
  int places_ = 0;
  std::string out_;
};

}  // namespace

std::string formula_refusal(const expr::Code& code, DType compute) {
  if (compute != i64) return "";
  const std::vector<bool> live = live_instructions(code);
  for (std::size_t i = 0; i < code.instrs.size(); ++i) {
    const Instr& instr = code.instrs[i];
    if (!live[i]) continue;
    if (!in_integers(instr.prim)) return cat("no ", expr::name(instr.prim), " in integers");
    if (instr.prim == Prim::constant && std::trunc(instr.value) != instr.value)
      return cat("the constant ", instr.value, " is not an integer");
  }
  return "";
}

std::string group_text(const GroupPlan& plan) { return Writer(plan).text(); }

void add_group_words(const GroupPlan& plan, Words& words) {
  const Writer writer(plan);
  const auto units = static_cast<std::uint64_t>(plan.units), slice = static_cast<std::uint64_t>(plan.slice_units);
  if (plan.wide) {
    words.add(units);
    words.add(slice);
  } else {
    words.add_halves(units, slice);
  }
  words.add(plan.slices);
  words.add(plan.columns);
  for (const GroupAxis& axis : plan.axes) words.add_extent(axis.size, plan.wide);
  for (std::size_t i = 0; i < plan.operands.size(); ++i)
    for (const std::int64_t stride : plan.operands[i].strides)
      if (writer.has_place(i) && stride != 0) words.add(stride);
}

std::size_t shared_bytes(const GroupPlan& plan) {
  if (plan.walk == Walk::flat) return 0;
  const std::size_t totals = plan.walk == Walk::columns ? static_cast<std::size_t>(plan.width) : 1;
  return totals * kGroupThreads * 8;
}

KernelText groups_kernel(const std::vector<std::string>& texts, const std::vector<int>& counts,
                         std::size_t shared_bytes) {
  std::string text, fields, calls;
  int groups = 0;
  for (std::size_t k = 0; k < texts.size(); ++k) {
    text += cat("struct Group", k, " {\n", texts[k], "};\n");
    fields += cat("  Group", k, " kind", k, "[", counts[k], "];\n");
    calls += cat("  if (group < ", groups + counts[k], ") return ", "Group", k, "::run(arguments.kind", k, "[group - ",
                 groups, "], block, shared);\n");
    groups += counts[k];
  }
  text += cat("struct Arguments {\n  u32 ends[", (groups + 1) / 2 * 2, "];\n", fields, "};\n");
  text +=
      "extern \"C\" __global__ void __launch_bounds__(kThreads) groups(const __grid_constant__ Arguments arguments) "
      "{\n  begin_kernel();\n";
  text += cat("  __shared__ u64 shared[", std::max<std::size_t>(shared_bytes / 8, 1), "];\n");
  text += "  u32 block = blockIdx.x;\n";
  if (groups == 1) {
    text += "  constexpr int group = 0;\n";
  } else {
    text += cat("  int group = 0;\n  for (int many = ", groups, "; many > 0;) {\n    int half = many / 2;\n",
                "    if (arguments.ends[group + half] <= block) {\n      group += half + 1;\n      many -= half + 1;\n",
                "    } else {\n      many = half;\n    }\n  }\n  if (group > 0) block -= arguments.ends[group - 1];\n");
  }
  return {"groups/groups.cu", text + calls + "}\n"};
}

}  // namespace varve::cuda
