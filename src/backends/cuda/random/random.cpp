// Random numbers: pure functions of seed, stream, counter and position, equal to the other backends' bit for bit.
#include "base/philox.h"

#include "backends/cuda/device/launch.h"
#include "backends/cuda/random/dropout.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// Seed and counter are read on the GPU, when the program runs.
const std::int64_t* scalar(const void* address) { return static_cast<const std::int64_t*>(address); }

// ---- draws

Prepared draw(const Task& task, const char* made_by) {
  const std::int64_t count = task.shape_out().numel();
  if (count == 0) return nothing();
  const std::uint64_t stream = mix64(static_cast<std::uint64_t>(task.attrs.integer("stream")));
  const KernelText text{"random/random.cu", defines({{"NUMBER", type_name(task.dtype_out())}, {"OF", made_by}})};
  return backend::prepared([=, kernel = Function("draw", text)](const RunArgs& args) {
    kernel(striding(ceil_div(count, 4)), args.out[0], count, scalar(args.in[0]), scalar(args.in[1]), stream,
           static_cast<int>(aligned(16, args.out[0])));
  });
}

Prepared uniform(const Task& task) { return draw(task, "uniform_of"); }
Prepared normal(const Task& task) { return draw(task, "normal_of"); }
Prepared bits(const Task& task) { return draw(task, "bits_of"); }

// ---- dropout, and what may follow it

// One step that reads what was dropped and a tensor of its type: `formula` of the dropped number d and its other o.
struct DropoutStep {
  ir::NodePtr node;  // null: none
  int other = 0;     // the input that is not the dropped tensor
  std::string name, formula;
};

DropoutStep step_after(const Site& site) {
  const ir::Value dropped{site.root(), 0};
  const ir::NodePtr next = site.sole_user(dropped);
  if (!next || next->inputs.size() != 2) return {};
  const int other = next->inputs[0] == dropped ? 1 : 0;
  const TensorType& beside = next->inputs[static_cast<std::size_t>(other)].type();
  if (next->types[0] != dropped.type() || beside != dropped.type()) return {};
  if (next->is("add")) return {next, other, "add", "d + o"};
  if (next->is("relu_grad") && other == 0) return {next, other, "relu_grad", "o > (S)0 ? d : (S)0"};
  return {};
}

Prepared prepare_dropout(const Drop& drop, const TensorType& type, const std::string& formula) {
  const std::int64_t count = type.shape.numel();
  if (count == 0) return nothing();
  const int per = element_bytes(type.dtype) == 2 ? 8 : 4;
  Constants constants = {{"ELEMENT", type_name(type.dtype)}, {"PER", cat(per)}};
  if (!formula.empty()) constants.emplace_back("OTHER", formula);
  const KernelText text{"random/dropout.cu", defines(constants)};
  return backend::prepared([=, kernel = Function("drop", text), both = !formula.empty()](const RunArgs& args) {
    const void* other = both ? args.in[3] : nullptr;
    kernel(striding(ceil_div(count, per)), args.in[0], other, args.out[0], count, scalar(args.in[1]),
           scalar(args.in[2]), drop.stream, drop.rate, drop.kept,
           static_cast<int>(aligned(16, args.in[0], other, args.out[0])));
  });
}

void claim_dropout(const Site& site, std::vector<Claim>& claims) {
  const ir::NodePtr& node = site.root();
  const auto claim = [&](const std::string& name, const std::string& formula) {
    return Claim::of(name, node, [drop = Drop(*node), formula](const std::vector<Port>&, const std::vector<Port>& out) {
      return prepare_dropout(drop, out[0].type, formula);
    });
  };
  if (const DropoutStep step = step_after(site); step.node) {
    Claim both = claim("cuda dropout+" + step.name, step.formula);
    both.nodes.push_back(step.node);
    both.inputs.push_back(step.node->inputs[static_cast<std::size_t>(step.other)]);
    both.outputs = {{step.node, 0}};
    both.in_place = {{0, 0}, {0, 3}};
    claims.push_back(std::move(both));
  }
  claims.push_back(claim("cuda dropout", ""));
}

}  // namespace

void add_random_claims(ClaimMap& map) {
  offer(map, "random_uniform", uniform);
  offer(map, "random_normal", normal);
  offer(map, "random_bits", bits);
  map["dropout"].push_back(claim_dropout);
}

}  // namespace varve::cuda
