// oneDNN's matrix products against plain loops: the shapes and strides that go wrong first.

#ifdef VARVE_HAS_ONEDNN

#include "backends/onednn_helpers.h"

namespace varve::cpu::dnn {
namespace {

std::int64_t extent(const Strides& s, std::int64_t batch, std::int64_t rows, std::int64_t cols) {
  return std::max<std::int64_t>(1, (batch - 1) * s.batch + (rows - 1) * s.row + (cols - 1) * s.col + 1);
}

void check_matmul(const MatmulSpec& s, const std::string& what) {
  SCOPED_TRACE(what);
  const Offer<Matmul> matmul = Matmul::prepare(s);
  ASSERT_TRUE(matmul) << matmul.reason();
  const Values a = values(extent(s.a, s.batch, s.m, s.k), 1);
  const Values b = values(extent(s.b, s.batch, s.k, s.n), 2);
  const Values bias = values(s.n, 3);
  // Without beta, what was in C must not matter.
  Values expected =
      s.beta == 0 ? Values(extent(s.c, s.batch, s.m, s.n), kNan) : values(extent(s.c, s.batch, s.m, s.n), 4);
  Values c = expected;
  for (float& x : expected) x = s.beta == 0 ? 0 : x;
  naive_matmul(s, a, b, bias, expected);
  const Bytes scratch(matmul->scratch_bytes());
  matmul->run(
      {.a = a.data(), .b = b.data(), .bias = s.bias ? bias.data() : nullptr, .c = c.data(), .scratch = scratch.get()});
  if (s.beta == 0) {
    // Gaps between rows keep their NaN: they are not ours to write.
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (std::isnan(c[i]) && expected[i] == 0) c[i] = 0;
    }
  }
  expect_near(expected, c.data(), 1e-5 * std::sqrt(static_cast<double>(s.k) + 1) + 1e-5,
              what + " by " + matmul->implementation());
}

TEST(OneDnnMatmul, RowMajor) {
  check_matmul(row_major(1, 1, 1), "1x1x1");
  check_matmul(row_major(3, 5, 7), "3x5x7");
  check_matmul(row_major(80, 784, 512), "80x784x512");
  check_matmul(row_major(1, 33, 65), "one row");
  check_matmul(row_major(65, 33, 1), "one column");
}

TEST(OneDnnMatmul, Transposed) {
  MatmulSpec s = row_major(37, 50, 66);
  s.a = {.row = 1, .col = 37};
  check_matmul(s, "A transposed");
  s.b = {.row = 1, .col = 50};
  check_matmul(s, "both transposed");
  s.a = {.row = 50, .col = 1};
  check_matmul(s, "B transposed");
  s.c = {.row = 1, .col = 37};
  check_matmul(s, "B and C transposed");
}

TEST(OneDnnMatmul, LeadingDimensionsLargerThanRows) {
  MatmulSpec s = row_major(9, 20, 30);
  s.a.row = 25;
  s.b.row = 41;
  s.c.row = 33;
  check_matmul(s, "gaps");
}

TEST(OneDnnMatmul, Batched) {
  MatmulSpec s = row_major(8, 16, 24);
  s.batch = 5;
  s.a.batch = 8 * 16;
  s.b.batch = 16 * 24;
  s.c.batch = 8 * 24;
  check_matmul(s, "batch");
  s.bias = true;
  s.activation = Activation::relu;
  check_matmul(s, "batch, bias, relu");
  s.b.batch = 0;
  check_matmul(s, "B repeated");
  s.b = {.batch = 16 * 24, .row = 1, .col = 16};
  s.a.batch = 0;
  check_matmul(s, "A repeated, B transposed");
}

TEST(OneDnnMatmul, AttentionHeadsInterleaved) {
  // [batch, time, head, feature]: one head's rows lie heads·features apart.
  constexpr std::int64_t time = 12, heads = 4, features = 16;
  const Strides head{.batch = features, .row = heads * features, .col = 1};
  check_matmul({.batch = heads,
                .m = time,
                .n = time,
                .k = features,
                .a = head,
                .b = {.batch = features, .row = 1, .col = heads * features},
                .c = {.batch = time * time, .row = time, .col = 1}},
               "scores");
}

TEST(OneDnnMatmul, Activations) {
  for (const auto activation : {Activation::relu, Activation::tanh, Activation::sigmoid, Activation::gelu_erf,
                                Activation::gelu_tanh, Activation::silu}) {
    MatmulSpec s = row_major(17, 40, 70);
    s.bias = true;
    s.activation = activation;
    check_matmul(s, "activation " + std::to_string(static_cast<int>(activation)));
  }
}

TEST(OneDnnMatmul, Accumulates) {
  for (const bool single : {false, true}) {
    MatmulSpec s = row_major(96, 64, 130);
    s.a = {.row = 1, .col = 96};
    s.beta = 1;
    s.single_thread = single;
    check_matmul(s, "beta");
    s.beta = 0.5;
    check_matmul(s, "beta 0.5");
    s.k = 700;
    check_matmul(s, "a long sum");
    s.batch = 3;
    s.a.batch = 0;
    s.b.batch = 700 * 130;
    s.c.batch = 96 * 130;
    check_matmul(s, "batch with A repeated");
  }
}

TEST(OneDnnMatmul, EmptySumsFillTheOutput) {
  MatmulSpec s = row_major(3, 0, 5);
  check_matmul(s, "zeros");
  s.bias = true;
  s.activation = Activation::sigmoid;
  check_matmul(s, "bias and sigmoid");
  s.beta = 2;
  check_matmul(s, "beta");
  check_matmul(row_major(0, 4, 5), "no rows");
}

TEST(OneDnnMatmul, RefusesWithAReason) {
  MatmulSpec s = row_major(4, 4, 4);
  s.packed_b = true;
  s.batch = 2;
  const Offer<Matmul> refused = Matmul::prepare(s);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.reason().find("batch"), std::string::npos);
}

TEST(OneDnnMatmul, Bf16) {
  for (const Type output : {Type::f32, Type::bf16}) {
    MatmulSpec s = row_major(33, 64, 48);
    s.input = Type::bf16;
    s.output = output;
    const Offer<Matmul> matmul = Matmul::prepare(s);
    ASSERT_EQ(static_cast<bool>(matmul), has_bf16());
    if (!matmul) {
      EXPECT_EQ(matmul.reason(), "matmul: this CPU has no bf16 products");
      continue;
    }
    Values a = values(33 * 64, 1), b = values(64 * 48, 2);
    const Halves a16 = to_bf16(a), b16 = to_bf16(b);
    Values expected(33 * 48), actual(33 * 48);
    Halves c16(33 * 48);
    naive_matmul(s, a, b, {}, expected);
    const Bytes scratch(matmul->scratch_bytes());
    void* c = output == Type::f32 ? static_cast<void*>(actual.data()) : c16.data();
    matmul->run({.a = a16.data(), .b = b16.data(), .c = c, .scratch = scratch.get()});
    if (output == Type::bf16) {
      for (std::size_t i = 0; i < c16.size(); ++i) {
        actual[i] = std::bit_cast<float>(static_cast<std::uint32_t>(c16[i]) << 16);
      }
    }
    expect_near(expected, actual.data(), output == Type::f32 ? 1e-4 : 0.05, matmul->implementation());
  }
}

TEST(OneDnnThreads, SingleThreadInstancesRunSideBySideAndAgreeBitForBit) {
  MatmulSpec s = row_major(64, 300, 200);
  s.packed_b = true;
  s.single_thread = true;
  const Values a = values(64 * 300, 1), w = values(300 * 200, 2);
  std::vector<Matmul> instances;
  for (int i = 0; i < 4; ++i) {
    auto offered = Matmul::prepare(s);
    ASSERT_TRUE(offered) << offered.reason();
    instances.push_back(std::move(*offered));
  }
  const PackedLayout& layout = instances[0].b_layout();
  const Bytes packed(layout.bytes());
  layout.pack(w.data(), packed.get());
  Values alone(64 * 200);
  const Bytes scratch(instances[0].scratch_bytes());
  instances[0].run({.a = a.data(), .b = packed.get(), .c = alone.data(), .scratch = scratch.get()});

  std::vector<Values> together(4, Values(64 * 200));
#pragma omp parallel for num_threads(4)
  for (int i = 0; i < 4; ++i) {
    const Bytes own(instances[i].scratch_bytes());
    for (int repeat = 0; repeat < 20; ++repeat) {
      instances[i].run({.a = a.data(), .b = packed.get(), .c = together[i].data(), .scratch = own.get()});
    }
  }
  for (const Values& result : together) EXPECT_EQ(alone, result);
}

}  // namespace
}  // namespace varve::cpu::dnn

#endif  // VARVE_HAS_ONEDNN
