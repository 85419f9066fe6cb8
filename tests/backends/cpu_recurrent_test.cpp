// LSTM layers as one kernel each way: when the CPU backend takes them, when it must not, and that the results are the
// reference's either way.
#include "base/threads.h"
#include "cpu_programs.h"
#include "ops/recurrent.h"

namespace varve {
namespace {

struct Layer {
  std::int64_t steps = 5, batch = 17, features = 7, width = 33;
  bool bias = true, states = false, lengths = false, backward = false, sequences = true;
  int layers = 1;
  std::int64_t vocabulary = 0;  // not 0: the sequences are rows of a table

  // Sequences first, as layers get them, or their table; then for each layer and direction weights, bias and states.
  TensorList inputs() const {
    TensorList in{vocabulary > 0 ? values({vocabulary, features}, 1) : values({batch, steps, features}, 1)};
    unsigned seed = 2;
    for (int layer = 0; layer < layers; ++layer)
      for (int direction = 0; direction < directions(); ++direction) {
        in.push_back(values({layer == 0 ? features : directions() * width, 4 * width}, seed++) * 0.4f);
        in.push_back(values({width, 4 * width}, seed++) * 0.3f);
        in.push_back(values({4 * width}, seed++));
        in.push_back(values({batch, width}, seed++));
        in.push_back(values({batch, width}, seed++));
      }
    return in;
  }
  int directions() const { return backward ? 2 : 1; }
  Tensor sequences_of(const Tensor& given) const {
    if (vocabulary == 0) return given;
    return embedding(given, reshape(arange(batch * steps) * 7 % vocabulary, {batch, steps}).to(i32));
  }

  Tensor loss(const TensorList& in) const {
    std::vector<RecurrentWeights> weights;
    RecurrentOptions options{.bidirectional = backward};
    for (std::size_t at = 1; at < in.size(); at += 5) {
      weights.push_back({in[at], in[at + 1], bias ? in[at + 2] : Tensor()});
      if (!states) continue;
      options.h0.push_back(in[at + 3]);
      options.c0.push_back(in[at + 4]);
    }
    if (lengths) options.lengths = minimum(arange(batch) % (steps + 2), steps);
    const RecurrentResult result = lstm(transpose(sequences_of(in[0]), {1, 0, 2}), weights, options);
    const Tensor last = sum(square(result.h.back())) + sum(result.c.back() * 0.5f);
    return sequences ? last + sum(square(result.y)) : last;
  }

  // The loss and the gradients of all that takes part in it.
  Function step() const {
    return [*this](const TensorList& in) {
      const Tensor total = loss(in);
      TensorList wanted{in[0]};
      for (std::size_t at = 1; at < in.size(); at += 5) {
        wanted.insert(wanted.end(), {in[at], in[at + 1]});
        if (bias) wanted.push_back(in[at + 2]);
        if (states) wanted.insert(wanted.end(), {in[at + 3], in[at + 4]});
      }
      TensorList results = gradients(total, wanted);
      results.push_back(total);
      return results;
    };
  }
};

void expect_whole(const Layer& layer) {
  const std::string text = checked(layer.step(), layer.inputs());
  expect_kernel(text, "cpu lstm+input  <-");
  expect_kernel(text, "cpu lstm gradients  <-");
  expect_no_kernel(text, "onednn matmul");
}

TEST(CpuLstm, ALayerIsOneKernelEachWay) {
  expect_whole({});
  expect_whole({.steps = 2, .batch = 1, .features = 1, .width = 1});
  expect_whole({.steps = 3, .batch = 150, .features = 32, .width = 20});  // several blocks of sequences
}

TEST(CpuLstm, WithAndWithoutWhatIsOptional) {
  expect_whole({.bias = false});
  expect_whole({.sequences = false});
  expect_whole({.states = true});
  expect_whole({.lengths = true});
  expect_whole({.states = true, .lengths = true, .sequences = false});
  expect_whole({.batch = 6, .width = 9, .layers = 2});
  expect_whole({.batch = 6, .width = 9, .states = true, .lengths = true, .backward = true, .layers = 2});
}

TEST(CpuLstm, OnlyTheGradientsThatAreWanted) {
  const Layer layer{.batch = 6, .width = 9};
  for (const std::size_t wanted : {0, 1, 2, 3}) {
    const std::string text = checked(
        [&](const TensorList& in) { return TensorList{gradients(layer.loss(in), {in[wanted]})[0]}; }, layer.inputs());
    expect_kernel(text, "cpu lstm gradients  <-");
  }
}

TEST(CpuLstm, ASingleStep) { checked(Layer{.steps = 1}.step(), Layer{.steps = 1}.inputs()); }

TEST(CpuLstm, LargeWeightsAreMultipliedForAllStepsAtOnce) {
  const Layer layer{.steps = 2, .batch = 3, .features = 130, .width = 200};
  const std::string text = checked(layer.step(), layer.inputs());
  expect_kernel(text, "cpu lstm  <-");
  expect_kernel(text, "cpu lstm_grad  <-");
}

TEST(CpuLstm, TheSameWeightsForInputAndState) {
  const Layer layer{.batch = 4, .features = 9, .width = 9};
  checked(
      [&](const TensorList& in) {
        TensorList tied = in;
        tied[2] = tied[1];
        const Tensor total = layer.loss(tied);
        return TensorList{total, gradients(total, {in[1]})[0]};
      },
      layer.inputs());
}

TEST(CpuLstm, ASumOfTheGatesGradientElsewhereIsNotLost) {
  // The input's gradient is read as the gradient of two products.
  const Layer layer{.batch = 4, .width = 9};
  checked(
      [&](const TensorList& in) {
        TensorList shared = in;
        shared[3] = in[3] + sum(in[1], {.axes = Axes{0}});
        const Tensor total = layer.loss(shared);
        return TensorList{gradients(total, {in[1]})[0], gradients(total, {in[3]})[0]};
      },
      layer.inputs());
}

// A small table is multiplied instead of its rows, which the kernels then take and add up by themselves.
TEST(CpuLstm, RowsOfATable) {
  const ThreadsRestored restored;
  set_threads(2);
  for (const Layer& layer :
       {Layer{.features = 9, .vocabulary = 3}, Layer{.features = 8, .bias = false, .vocabulary = 1},
        Layer{.steps = 9, .batch = 150, .features = 32, .width = 20, .vocabulary = 40},
        Layer{.features = 9, .states = true, .lengths = true, .sequences = false, .vocabulary = 3}}) {
    const std::string text = checked(layer.step(), layer.inputs());
    expect_kernel(text, "cpu lstm+table  <-");
    expect_kernel(text, "cpu lstm gradients  <-");
    expect_no_kernel(text, "cpu embedding");
  }
}

TEST(CpuLstm, ATableWithTooManySumsIsLeftToItsOwnKernel) {
  const ThreadsRestored restored;
  set_threads(2);
  const Layer layer{.features = 9, .vocabulary = 20};  // 85 rows
  const std::string text = checked(layer.step(), layer.inputs());
  expect_kernel(text, "cpu lstm+table  <-");
  expect_kernel(text, "cpu lstm gradients  <-");
  expect_kernel(text, "cpu embedding_grad  <-");
  set_deterministic(true);  // sums of workers would depend on how many there are
  const Layer small{.features = 9, .vocabulary = 3};
  expect_kernel(checked(small.step(), small.inputs()), "cpu embedding_grad  <-");
}

// Each row of this table is the gates of two steps.
TEST(CpuLstm, RowsOfATableThatAreNoSteps) {
  const Function step = [](const TensorList& in) {
    const Tensor ids = (arange(48) * 7 % 3).to(i32), state = zeros({16, 8});
    const Tensor pre = reshape(embedding(in[0], ids), {6, 16, 32});
    const Tensor total = sum(square(lstm_layer({.pre = pre, .hidden = in[1], .h0 = state, .c0 = state}).y));
    return TensorList{total, gradients(total, {in[0]})[0]};
  };
  checked(step, {values({3, 64}, 1), values({8, 32}, 2) * 0.3f});
}

TEST(CpuLstm, AnIdThatTheTableDoesNotHave) {
  const Layer layer{.features = 9, .vocabulary = 3};
  for (const int wrong : {3, -1, 1 << 30}) {
    const Function step = [&](const TensorList& in) {
      Layer rows = layer;
      rows.vocabulary = 0;
      const Tensor ids = full({layer.batch, layer.steps}, wrong, i32);
      TensorList given = in;
      given[0] = embedding(in[0], ids);
      const Tensor total = rows.loss(given);
      return TensorList{total, gradients(total, {in[0]})[0]};
    };
    try {
      run_on("cpu", step, layer.inputs());
      FAIL() << wrong;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(std::to_string(wrong)), std::string::npos) << e.what();
    }
  }
}

TEST(CpuLstm, AWrongIdAfterTheEndOfAllSequences) {
  const Layer layer{.features = 9, .vocabulary = 3};
  const Function step = [&](const TensorList& in) {
    const Tensor ids = reshape(floor_divide(arange(layer.batch * layer.steps) % layer.steps, layer.steps - 1) * 5,
                               {layer.batch, layer.steps});  // 0, but 5 in the last step
    const RecurrentOptions options{.lengths = full({layer.batch}, layer.steps - 1, i64)};
    return TensorList{lstm(transpose(embedding(in[0], ids.to(i32)), {1, 0, 2}), {{in[1], in[2], in[3]}}, options).y};
  };
  expect_kernel(detail::text(*detail::compile(step, {.device = "cpu"}), layer.inputs()), "cpu lstm+table  <-");
  EXPECT_THROW(run_on("cpu", step, layer.inputs()), Error);
}

// Sums stay f32 within the kernels, so what bf16 costs are the digits of the operands.
TEST(CpuLstm, HalfPrecision) {
  for (const Layer& layer :
       {Layer{}, Layer{.states = true, .lengths = true}, Layer{.bias = false, .sequences = false},
        Layer{.steps = 2, .batch = 3, .features = 130, .width = 200}, Layer{.features = 9, .vocabulary = 3}}) {
    const Function half = [&](const TensorList& in) {
      TensorList narrow;
      for (const Tensor& t : in) narrow.push_back(t.to(bf16));
      TensorList results = layer.step()(narrow);
      for (Tensor& t : results) t = t.to(f32);
      return results;
    };
    const Outcome got = run_on("cpu", half, layer.inputs()), want = run_on("reference", layer.step(), layer.inputs());
    expect_kernel(got.text, "cpu lstm");
    expect_no_kernel(got.text, "loop");
    if (layer.vocabulary > 0) expect_kernel(got.text, "cpu lstm+table  <-");
    for (std::size_t i = 0; i < want.results.size(); ++i) {
      double worst = 0, largest = 0;
      for (std::size_t k = 0; k < want.results[i].size(); ++k) {
        worst = std::max<double>(worst, std::abs(got.results[i][k] - want.results[i][k]));
        largest = std::max<double>(largest, std::abs(want.results[i][k]));
      }
      EXPECT_LE(worst, 0.03 * largest) << "result " << i << "\n" << got.text;
    }
  }
}

TEST(CpuLstm, TheSameBitsForAnyNumberOfThreads) {
  const ThreadsRestored restored;
  set_deterministic(true);
  for (const std::int64_t vocabulary : {0, 3}) {
    const Layer layer{
        .batch = 70, .features = 9, .width = 9, .states = true, .lengths = true, .vocabulary = vocabulary};
    set_threads(1);
    const Outcome one = run_on("cpu", layer.step(), layer.inputs());
    for (const int count : {2, 3, 4}) {
      set_threads(count);
      EXPECT_EQ(run_on("cpu", layer.step(), layer.inputs()).results, one.results) << count << " threads";
    }
  }
}

TEST(CpuLstm, ARunRepeatsBitForBit) {
  const Layer layer{.batch = 150, .width = 9};
  EXPECT_EQ(run_on("cpu", layer.step(), layer.inputs()).results, run_on("cpu", layer.step(), layer.inputs()).results);
}

}  // namespace
}  // namespace varve
