// Views, state updated in place, the order of units, and one arena in which nothing overlaps.
#include "compiler/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "compiler/homes.h"
#include "compiler/random_graph.h"
#include "compiler/traced.h"

namespace varve::compiler {
namespace {

const TensorType kStored{f32, {6, 8}};

// ---- views

TEST(Views, AreFreeForReadersThatTakeStrides) {
  const auto plan =
      planned(traced([](const Tensors& in) { return Tensors{varve::exp(transpose(in[0])) + 1}; }, {kStored}));
  EXPECT_EQ(plan->steps.size(), 1u) << plan->explain;
}

TEST(Views, AreCopiedForReadersThatDoNot) {
  const auto plan = planned(traced(
      [](const Tensors& in) {
        return Tensors{cumsum(transpose(in[0]), 0), cumsum(transpose(in[0]), 1)};
      },
      {kStored}));
  EXPECT_EQ(steps_of(*plan, "copy"), 1) << plan->explain;  // once for both
}

TEST(Views, AnOutputIsAValueOfItsOwn) {
  const auto plan = planned(traced(
      [](const Tensors& in) {
        return Tensors{transpose(in[0]), in[0], in[0], slice(in[0], {{1, 3}})};
      },
      {kStored}));
  EXPECT_EQ(steps_of(*plan, "copy"), 4) << plan->explain;
  for (const char* device : {"reference", "cpu"}) {
    auto f = varve::compile([](const Tensor& x) { return std::pair(transpose(x), x); }, {.device = device});
    const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
    const auto [t, same] = f(x);
    EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, 3, 2, 4}));
    EXPECT_EQ(same.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  }
}

// ---- state

ir::Graph updating(const std::function<Tensors(const Tensors&, Variable&)>& f) {
  Variable v("v", zeros({6, 8}).eval());
  return traced([&](const Tensors& in) { return f(in, v); }, {kStored});
}

TEST(State, IsUpdatedInPlaceWhenEveryReaderComesBefore) {
  const auto plan = planned(updating([](const Tensors& in, Variable& v) {
    const Tensor loss = sum(v.value() * in[0]);
    v.assign(v.value() - in[0] * 0.1);
    return Tensors{loss};
  }));
  EXPECT_TRUE(plan->copies.empty()) << plan->explain;
  EXPECT_TRUE(plan->written[1]);
  EXPECT_FALSE(plan->returned[1]);
  EXPECT_FALSE(contains(plan->explain, "copied back"));
}

TEST(State, AReaderAfterTheUpdateMakesACopyThatIsReported) {
  const auto plan = planned(updating([](const Tensors& in, Variable& v) {
    const Tensor old = v.value();
    v.assign(softmax(old + in[0]));
    return Tensors{cumsum(old * sum(v.value()))};  // reads the old value after the new one is there
  }));
  EXPECT_EQ(plan->copies.size(), 1u) << plan->explain;
  EXPECT_TRUE(contains(plan->explain, "state 'v' is copied back")) << plan->explain;
}

TEST(State, ReadThroughAViewByItsOwnUpdateIsNotInPlace) {
  Variable v("v", zeros({8, 8}).eval());
  const auto plan = planned(traced(
      [&](const Tensors&) {
        v.assign(v.value() + transpose(v.value()));
        return Tensors{};
      },
      {}));
  EXPECT_EQ(plan->copies.size(), 1u) << plan->explain;
}

TEST(State, TwoVariablesChangePlaces) {
  for (const char* device : {"reference", "cpu"}) {
    Variable a("a", tensor({1.f, 2.f})), b("b", tensor({3.f, 4.f}));
    auto swap = varve::compile(
        [&] {
          const Tensor old = a.value();
          a.assign(b.value());
          b.assign(old);
        },
        {.device = device});
    swap();
    EXPECT_EQ(a.value().to_vector<float>(), (std::vector<float>{3, 4})) << device;
    EXPECT_EQ(b.value().to_vector<float>(), (std::vector<float>{1, 2})) << device;
    swap();
    EXPECT_EQ(a.value().to_vector<float>(), (std::vector<float>{1, 2})) << device;
  }
}

TEST(State, OneValueForTwoVariablesAndTheResult) {
  for (const char* device : {"reference", "cpu"}) {
    Variable a("a", zeros({3})), b("b", zeros({3}));
    auto f = varve::compile(
        [&](const Tensor& x) {
          const Tensor y = x * 2;
          a.assign(y);
          b.assign(y);
          return y;
        },
        {.device = device});
    EXPECT_EQ(f(ones({3})).to_vector<float>(), (std::vector<float>{2, 2, 2}));
    EXPECT_EQ(a.value().to_vector<float>(), (std::vector<float>{2, 2, 2}));
    EXPECT_EQ(b.value().to_vector<float>(), (std::vector<float>{2, 2, 2}));
  }
}

// ---- order and arena

TEST(Schedule, BranchesEndBeforeOthersBegin) {
  // Each branch needs one large buffer; all at once they would need sixteen.
  const auto f = [](const Tensors& in) {
    std::vector<Tensor> ends;
    for (int i = 0; i < 16; ++i) ends.push_back(sum(cumsum(cumsum(in[0] + i))));
    Tensor total = ends[0];
    for (const Tensor& end : ends) total = total + end;
    return Tensors{total};
  };
  const auto plan = planned(traced(f, {{f32, {256, 256}}}));
  EXPECT_LE(plan->arena_bytes, 3u * 256 * 256 * 4);
}

TEST(Arena, AChainSharesTwoBuffers) {
  const auto f = [](const Tensors& in) {
    Tensor x = in[0];
    for (int i = 0; i < 20; ++i) x = cumsum(x + i);
    return Tensors{x};
  };
  EXPECT_LE(planned(traced(f, {{f32, {64, 64}}}))->arena_bytes, 2u * 64 * 64 * 4);
}

TEST(Arena, WhatBecomesAResultInPlaceIsComputedThere) {
  const auto f = [](const Tensors& in) { return Tensors{varve::exp(cumsum(in[0]))}; };
  EXPECT_EQ(planned(traced(f, {{f32, {64, 64}}}))->arena_bytes, 0u);
  const auto twice = [](const Tensors& in) {  // the sum is still needed when its exponential is there
    const Tensor x = cumsum(in[0]);
    return Tensors{cumsum(varve::exp(x)) + cumsum(x)};
  };
  EXPECT_GT(planned(traced(twice, {{f32, {64, 64}}}))->arena_bytes, 0u);
}

// Plays a program on memory that remembers whose bytes lie where.
class Replay {
 public:
  Replay(const Draft& draft, const Memory& memory, std::size_t arena_bytes)
      : draft_(draft), memory_(memory), arena_bytes_(arena_bytes) {
    for (const ir::NodePtr& input : draft.graph.inputs) write({input, 0});
  }

  void run(const std::vector<int>& order) {
    for (const int u : order) {
      const Unit& unit = draft_.units[static_cast<std::size_t>(u)];
      for (const ir::Value& input : unit.claim.inputs) read(source(input), unit.claim.kernel);
      scratch(static_cast<std::size_t>(u));
      for (const ir::Value& input : unit.claim.inputs)  // scratch must not lie on inputs, which are read throughout
        if (!shared_with_output(unit, source(input))) read(source(input), unit.claim.kernel + " scratch");
      for (const ir::Value& output : unit.claim.outputs) write(output);
      for (const ir::Value& output : unit.claim.outputs) read(output, unit.claim.kernel + " outputs");
    }
    for (const auto& [out, in] : memory_.late) read(draft_.graph.outputs[out], "late copy");
    for (std::size_t o = 0; o < draft_.graph.outputs.size(); ++o) read(draft_.graph.outputs[o], "result");
  }

 private:
  using Owner = std::pair<const ir::Node*, int>;
  using Space = std::pair<int, int>;  // arena, an input, an output

  const Buffer& buffer_of(const ir::Value& value) const {
    return memory_.buffers[static_cast<std::size_t>(root(memory_, memory_.of.at(value)))];
  }
  bool shared_with_output(const Unit& unit, const ir::Value& value) const {
    return std::any_of(unit.claim.outputs.begin(), unit.claim.outputs.end(),
                       [&](const ir::Value& output) { return &buffer_of(output) == &buffer_of(value); });
  }

  template <class Visit>
  void cells(const Buffer& buffer, Visit visit) {
    if (buffer.place.kind == Place::Kind::arena) {
      EXPECT_EQ(buffer.place.offset % 64, 0);
      EXPECT_LE(static_cast<std::size_t>(buffer.place.offset) + buffer.bytes, arena_bytes_);
    }
    const Space space{static_cast<int>(buffer.place.kind), buffer.place.index};
    for (std::size_t at = 0; at < buffer.bytes; at += 4)
      visit(owners_[{space, buffer.place.offset + static_cast<std::int64_t>(at)}]);
  }
  void write(const ir::Value& value) {
    cells(buffer_of(value), [&](Owner& owner) { owner = {value.node.get(), value.index}; });
  }
  void scratch(std::size_t unit) {
    if (unit < memory_.scratch.size() && memory_.scratch[unit] >= 0)
      cells(memory_.buffers[static_cast<std::size_t>(memory_.scratch[unit])], [](Owner& owner) {
        owner = {nullptr, 0};
      });
  }
  void read(const ir::Value& value, const std::string& who) {
    int wrong = 0;
    cells(buffer_of(value), [&](const Owner& owner) { wrong += owner != Owner{value.node.get(), value.index}; });
    EXPECT_EQ(wrong, 0) << who << " finds other bytes in place of " << value.node->op->name;
  }

  const Draft& draft_;
  const Memory& memory_;
  std::size_t arena_bytes_;
  std::map<std::pair<Space, std::int64_t>, Owner> owners_;
};

TEST(Arena, NoTwoLiveBuffersOverlap) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::vector<Variable> state = random_state();
    for (Variable& v : state) v.value().eval();
    const RandomProgram program(seed);
    const ir::Graph graph = traced([&](const Tensors& in) { return program(in, state); },
                                   {kStored, {f32, {8, 6}}, {f32, {8}}, {f32, {6, 1}}});
    const Trace recording;
    std::vector<Layout> layouts;
    for (const ir::NodePtr& input : graph.inputs) layouts.push_back(contiguous(input->types[0].shape));
    Draft draft = select(optimize(graph), runtime::backend_named("null"), layouts);
    fuse(draft);
    resolve_views(draft);
    Memory memory = make_memory(draft);
    std::mt19937 random(seed);
    for (std::size_t u = 0; u < draft.units.size(); ++u) {  // scratch of all sizes
      memory.scratch.push_back(random() % 2 ? static_cast<int>(memory.buffers.size()) : -1);
      if (memory.scratch.back() < 0) continue;
      Buffer buffer;
      buffer.bytes = random() % 500 + 1;
      buffer.writer = static_cast<int>(u);
      memory.buffers.push_back(buffer);
    }
    const std::vector<int> order = schedule(draft, memory);
    const std::size_t bytes = plan_arena(draft, order, memory);
    Replay(draft, memory, bytes).run(order);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << ir::print(draft.graph);
  }
}

// The same programs give the same numbers on both devices, compiled or not, and leave the same state behind.
TEST(RandomPrograms, AgreeOnEveryDevice) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const RandomProgram program(seed);
    std::vector<std::vector<float>> first;
    for (const std::string device : {"reference", "cpu", "lazy"}) {
      std::vector<Variable> state = random_state();
      std::vector<std::vector<float>> numbers;
      const Tensors in = random_inputs();
      auto fn = [&](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
        return program({a, b, c, d}, state);
      };
      auto step = varve::compile(fn, {.device = device == "lazy" ? "cpu" : device});
      for (int i = 0; i < 2; ++i)
        for (const Tensor& t : device == "lazy" ? fn(in[0], in[1], in[2], in[3]) : step(in[0], in[1], in[2], in[3]))
          numbers.push_back(t.to_vector<float>());
      for (const Variable& v : state) numbers.push_back(v.value().to_vector<float>());
      if (first.empty()) first = numbers;
      ASSERT_EQ(first.size(), numbers.size());
      for (std::size_t r = 0; r < first.size(); ++r) {
        ASSERT_EQ(first[r].size(), numbers[r].size());
        // bf16 in the middle: where a value lies on the border between two, the last bit of f32 decides.
        for (std::size_t i = 0; i < first[r].size(); ++i)
          ASSERT_NEAR(first[r][i], numbers[r][i], 0.02) << device << " seed " << seed << " result " << r;
      }
    }
  }
}

TEST(RandomPrograms, GradientsAgreeOnEveryDevice) {
  for (unsigned seed = 1000; seed < 1040; ++seed) {
    const RandomProgram program(seed, 25);
    std::vector<std::vector<float>> first;
    for (const char* device : {"reference", "cpu"}) {
      const std::vector<Variable> state = random_state();
      std::vector<Variable> none;
      const Tensors in = random_inputs();
      auto step = varve::compile(
          [&](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
            return value_and_grad(
                       [&] {
                         Tensor total = tensor(0.f);
                         for (const Tensor& t :
                              program({a * state[0], b, c * state[3], d, state[1] * 1, state[2] * 1}, none))
                           total = total + mean(varve::sin(t));
                         return total;
                       },
                       state)
                .second;
          },
          {.device = device});
      std::vector<std::vector<float>> numbers;
      for (const Tensor& t : step(in[0], in[1], in[2], in[3])) numbers.push_back(t.to_vector<float>());
      if (first.empty()) first = numbers;
      for (std::size_t r = 0; r < first.size(); ++r)
        for (std::size_t i = 0; i < first[r].size(); ++i)
          ASSERT_NEAR(first[r][i], numbers[r][i], 0.02 * (1 + std::abs(first[r][i])))
              << device << " seed " << seed << " gradient " << r;
    }
  }
}

}  // namespace
}  // namespace varve::compiler
