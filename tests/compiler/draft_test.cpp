// What the verifier refuses of a draft, and that passes over drafts leave sound ones.
#include "compiler/draft.h"

#include <gtest/gtest.h>

#include "compiler/traced.h"

namespace varve::compiler {
namespace {

Tensors product_then_softmax(const Tensors& in) { return {softmax(cumsum(matmul(in[0], in[1]), 0))}; }

Draft sound() {
  const ir::Graph graph = optimize(traced(product_then_softmax, {{f32, {4, 6}}, {f32, {6, 8}}}));
  Draft draft = select(graph, runtime::backend_named("reference"), {contiguous({4, 6}), contiguous({6, 8})});
  draft.parameters = {false, false};
  resolve_views(draft);
  return draft;
}

std::string refusal(const Draft& draft) {
  try {
    verify(draft, "test", Stage::in_order);
  } catch (const Error& e) {
    return e.what();
  }
  return "sound";
}

// What a pass could do wrong, and the answer.
struct Mistake {
  void (*make)(Draft& draft);
  const char* answer;
};

TEST(VerifyDraft, RefusesWhatCannotBePlanned) {
  EXPECT_EQ(refusal(sound()), "sound");
  for (const Mistake& mistake : {
           Mistake{[](Draft& d) { d.units.erase(d.units.begin()); }, "nobody writes"},
           Mistake{[](Draft& d) { std::swap(d.units[0], d.units[1]); }, "before unit 1 writes it"},
           Mistake{[](Draft& d) { d.units[1].claim.outputs.push_back(d.units[0].claim.outputs[0]); },
                   "as another does"},
           Mistake{[](Draft& d) { d.units[0].claim.outputs[0].index = 7; }, "output 7"},
           Mistake{[](Draft& d) {
                     d.units[0].claim.outputs.push_back({d.graph.inputs[0], 0});
                   },
                   "writes an input of the program"},
           Mistake{[](Draft& d) {
                     d.units[0].claim.in_place = {{0, 2}};
                   },
                   "in place of input 2"},
           Mistake{[](Draft& d) { d.units[0].claim.refusal = "no"; }, "has refused: no"},
           Mistake{[](Draft& d) {
                     d.units[0].claim.outputs[0].node->types[0] = {u8, {3}};
                   },
                   "is u8"},
           Mistake{[](Draft& d) {
                     d.graph.updates = {{0, 0}};
                   },
                   "is updated by"},
       }) {
    Draft draft = sound();
    mistake.make(draft);
    const std::string answer = refusal(draft);
    EXPECT_TRUE(contains(answer, mistake.answer)) << "expected: " << mistake.answer << "\ngot: " << answer;
    EXPECT_TRUE(contains(answer, "after 'test'") || answer == "sound") << answer;
  }
}

// exp writes which of its results are above 0 beside them; the kernel of tan needs no more of its input.
class Signs final : public backend::Backend {
 public:
  std::string name() const override { return "signs"; }
  bool executes() const override { return false; }
  std::vector<backend::Claim> claims(const backend::Site& site) const override {
    backend::Claim claim = backend::Claim::of(site.node().op->name, site.root(), [](const auto&, const auto&) {
      return backend::prepared([](const backend::RunArgs&) {});
    });
    if (site.node().is("exp")) claim.sign_bits.output = 0;
    if (site.node().is("tan")) claim.sign_bits.input = 0, claim.in_place.clear();
    return {claim};
  }
  backend::Prepared prepare_copy(const backend::Port&, const backend::Port&) const override {
    return backend::prepared([](const backend::RunArgs&) {});
  }
};

TEST(VerifyDraft, BitsOfSignsHaveTheTypeOfTheirOperator) {
  const auto graph =
      traced([](const Tensors& in) { return Tensors{varve::tan(varve::exp(in[0]))}; }, {{f32, {256, 1024}}});
  const auto plan = compile(graph, Signs());  // verified after each pass
  ASSERT_EQ(plan->steps.size(), 2u);
  EXPECT_EQ(plan->steps[0].out_ports.at(1).type, (TensorType{u8, {256 * 1024 / 8}}));
  EXPECT_EQ(plan->steps[1].in_ports.at(0).type, (TensorType{u8, {256 * 1024 / 8}}));
  EXPECT_TRUE(contains(plan->explain, "is read as bits")) << plan->explain;
}

}  // namespace
}  // namespace varve::compiler
