// `varve ops`: every operator of the table, as text, JSON, or the page docs/operators.md.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/op_facts.h"
#include "cli/text.h"
#include "varve/ops.h"

namespace varve::cli {
namespace {

struct OpsOptions {
  std::vector<std::string> filters;
  bool json = false;
  bool markdown = false;
};

bool contains(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

std::vector<const OpRecord*> chosen_operators(const std::vector<std::string>& filters) {
  std::vector<const OpRecord*> found;
  std::vector<bool> used(filters.size());
  std::vector<std::string> known;
  for (const OpRecord* op : operators()) {
    known.push_back(op->name);
    if (known.end() == std::find(known.begin(), known.end(), op->family)) known.push_back(op->family);
    bool wanted = filters.empty();
    for (std::size_t i = 0; i < filters.size(); ++i) {
      if (!contains(op->name, filters[i]) && !contains(op->family, filters[i])) continue;
      used[i] = wanted = true;
    }
    if (wanted) found.push_back(op);
  }
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if (used[i]) continue;
    throw UsageError(cat("no operator or family has '", filters[i], "' in its name.", did_you_mean(filters[i], known)));
  }
  return found;
}

std::string inputs_of(const OpRecord& op) { return op.arity < 0 ? "any" : cat(op.arity); }

// "all", "floating", or the types by name.
std::string types_of(const OpFacts& facts) {
  const auto& types = facts.types;
  if (types.empty()) return "-";
  if (types.size() == std::size(kAllDTypes)) return "all";
  if (types.size() == 4 && std::all_of(types.begin(), types.end(), is_floating)) return "floating";
  std::string text;
  for (const DType type : types) text += (text.empty() ? "" : " ") + std::string(name(type));
  return text;
}

std::string in_place_of(const OpRecord& op) {
  std::string text;
  for (const auto& [output, input] : op.in_place) text += cat(text.empty() ? "" : ", ", output, "→", input);
  return text.empty() ? op.elementwise() ? "any" : "" : text;
}

std::string run_by(const OpFacts& facts, const std::string& backend) {
  for (const auto& [name, how] : facts.runs)
    if (name == backend) return how;
  return "-";
}

// Families in the order of the table, each once.
std::vector<std::string> families(const std::vector<OpFacts>& all) {
  std::vector<std::string> names;
  for (const OpFacts& facts : all)
    if (std::find(names.begin(), names.end(), facts.record->family) == names.end())
      names.push_back(facts.record->family);
  return names;
}

void print_json(const std::vector<OpFacts>& all) {
  auto list = nlohmann::ordered_json::array();
  for (const OpFacts& facts : all) {
    const OpRecord& op = *facts.record;
    auto types = nlohmann::ordered_json::array();
    for (const DType type : facts.types) types.push_back(name(type));
    nlohmann::ordered_json row{{"name", op.name}, {"family", op.family}, {"doc", op.doc}};
    row["inputs"] = op.arity < 0 ? nlohmann::ordered_json("any") : nlohmann::ordered_json(op.arity);
    row["differentiable"] = op.differentiable;
    row["gradient"] = facts.gradient;
    row["vmap"] = facts.batching;
    row["elementwise"] = op.elementwise();
    if (op.elementwise()) row["formula"] = facts.formula;
    row["view"] = static_cast<bool>(op.view);
    row["decomposes"] = static_cast<bool>(op.decompose);
    row["in_place"] = op.in_place;
    row["types"] = types;
    for (const auto& [backend, how] : facts.runs) row["backends"][backend] = how;
    list.push_back(std::move(row));
  }
  std::cout << list.dump(1) << '\n';
}

void print_text(const std::vector<OpFacts>& all) {
  for (const std::string& family : families(all)) {
    std::vector<std::vector<std::string>> rows = {{"", "inputs", "gradient", "vmap", "types", "cpu", "reference", ""}};
    for (const OpFacts& facts : all)
      if (facts.record->family == family)
        rows.push_back({facts.record->name, inputs_of(*facts.record), facts.gradient, facts.batching, types_of(facts),
                        run_by(facts, "cpu"), run_by(facts, "reference"), facts.record->doc});
    std::cout << family << '\n' << aligned(rows, "  ") << '\n';
  }
  std::cout << all.size() << " operators\n";
}

constexpr const char* kPage = R"(# Operators

This page is what `varve ops --markdown` prints; a test keeps it so. Functions of the public API that are not listed, such as `mean` or `stack`, are composed of these.

- **gradient**: by the `formula` (symbolic derivative, or a better one the record gives), its `own` rule, or its `decomposition`; `none`: no gradient flows.
- **vmap**: many calls as one, by the same; `refused`: by name, with a reason; `-`: it has no inputs.
- **types**: of its floating inputs, as the shape rule accepts them; `floating` is f64, f32, f16, bf16. Numbers and mixed types are converted before.
- **in place**: output→input that may share memory; `any`: an elementwise result may take any input of its type and shape.
- **cpu**, **reference**: a `kernel` of its own; `fused`: computed with its neighbours from the formula; `decomposed` into other operators; `view`: no work, another look at the same memory; `loop`: its body is a program of its own; `input`: bound, not computed. On the CPU larger patterns (a product with its bias and activation, say) may be claimed whole.
)";

void print_markdown(const std::vector<OpFacts>& all) {
  std::cout << kPage;
  for (const std::string& family : families(all)) {
    std::cout << "\n## " << family
              << "\n\n| operator | | inputs | gradient | vmap | types | in place | cpu | reference "
                 "|\n|---|---|---|---|---|---|---|---|---|\n";
    for (const OpFacts& facts : all) {
      const OpRecord& op = *facts.record;
      if (op.family != family) continue;
      std::cout << "| `" << op.name << "` | " << in_cell(op.doc) << " | " << inputs_of(op) << " | " << facts.gradient
                << " | " << facts.batching << " | " << types_of(facts) << " | " << in_place_of(op) << " | "
                << run_by(facts, "cpu") << " | " << run_by(facts, "reference") << " |\n";
    }
  }
}

int run_ops(const OpsOptions& options) {
  const std::vector<OpFacts> all = op_facts(chosen_operators(options.filters));
  if (options.json)
    print_json(all);
  else if (options.markdown)
    print_markdown(all);
  else
    print_text(all);
  return kOk;
}

}  // namespace

void add_ops(Menu& menu) {
  auto options = std::make_shared<OpsOptions>();
  menu.command({.name = "ops",
                .what = "List the operators: what each computes, its gradient, who runs it",
                .examples = "Example: varve ops --markdown > docs/operators.md"},
               [options] { return run_ops(*options); })
      .option("filter", options->filters, "only operators with one of these words in name or family")
      .flag("--json", options->json, "one JSON array")
      .flag("--markdown", options->markdown, "the page docs/operators.md")
      .exclusive("--markdown", "--json");
}

}  // namespace varve::cli
