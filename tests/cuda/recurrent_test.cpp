// Recurrent kernels in every layout over the multiprocessors, whatever the planner would choose: against plain loops in
// double. Without a GPU they are compiled only.
#include <cmath>
#include <cstring>
#include <random>

#include "backends/cuda/recurrent/recurrent.h"
#include "base/text.h"
#include "cuda/compiles.h"
#include "cuda/gpu_here.h"

namespace varve::cuda {
namespace {

using Numbers = std::vector<double>;
using In = ForwardOperands;
using Back = BackwardOperands;

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

struct CellSizes {
  std::int64_t steps = 0, batch = 0, width = 0;
};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Every operand of either pass, by its number; those of the other cells are empty.
struct Problem {
  CellSizes size;
  std::int64_t gates = 4, kept = 4;
  bool relu = false;
  std::vector<std::int64_t> lengths;
  std::vector<Numbers> forward{In::kCount}, backward{Back::kCount + 1};
};

Numbers random_numbers(std::int64_t count, std::mt19937& random, double most = 0.8) {
  std::uniform_real_distribution<double> any(-most, most);
  Numbers all(at(count));
  for (double& x : all) x = static_cast<float>(any(random));
  return all;
}

// One step there, of one sequence: gates from the state before.
void advance(Problem& p, std::int64_t t, std::int64_t b, Numbers& h, Numbers& c) {
  const std::int64_t width = p.size.width, columns = p.gates * width, place = t * p.size.batch + b;
  const Numbers before = h;
  const auto share = [&](std::int64_t gate, std::int64_t unit) {
    double sum = p.gates == 3 ? p.forward[In::kBias][at(gate * width + unit)] : 0;
    for (std::int64_t k = 0; k < width; ++k)
      sum += before[at(k)] * p.forward[In::kHidden][at(k * columns + gate * width + unit)];
    return sum;
  };
  const bool on = t < p.lengths[at(b)];
  for (std::int64_t u = 0; u < width; ++u) {
    const auto pre = [&](std::int64_t gate) { return p.forward[In::kPre][at(place * columns + gate * width + u)]; };
    Numbers kept;
    double next_h = 0, next_c = 0;
    if (p.gates == 4) {
      const double i = sigma(pre(0) + share(0, u)), f = sigma(pre(1) + share(1, u));
      const double g = std::tanh(pre(2) + share(2, u)), o = sigma(pre(3) + share(3, u));
      next_c = f * c[at(u)] + i * g;
      next_h = o * std::tanh(next_c);
      kept = {i, f, g, o};
    } else if (p.gates == 3) {
      const double r = sigma(pre(0) + share(0, u)), z = sigma(pre(1) + share(1, u));
      const double n = std::tanh(pre(2) + r * share(2, u));
      next_h = (1 - z) * n + z * before[at(u)];
      kept = {r, z, n, share(2, u)};
    } else {
      const double x = pre(0) + share(0, u);
      next_h = p.relu ? std::max(x, 0.0) : std::tanh(x);
    }
    if (on) {
      h[at(u)] = next_h;
      c[at(u)] = next_c;
    }
    p.forward[In::kY][at(place * width + u)] = on ? next_h : 0;
    for (std::size_t i = 0; i < kept.size(); ++i)
      p.forward[In::kGates][(at(place) * kept.size() + i) * at(width) + at(u)] = kept[i];
    if (p.gates == 4) p.forward[In::kCells][at(place * width + u)] = c[at(u)];
  }
}

// And back: from what flows into the state after the step to what flows into the one before.
void retreat(Problem& p, std::int64_t t, std::int64_t b, Numbers& dh, Numbers& dc) {
  if (t >= p.lengths[at(b)]) return;
  const std::int64_t width = p.size.width, columns = p.gates * width, place = t * p.size.batch + b;
  Numbers share(at(columns)), past(at(width));
  const auto before = [&](In::Number all, In::Number first, std::int64_t u) {
    return t > 0 ? p.forward[all][at((place - p.size.batch) * width + u)] : p.forward[first][at(b * width + u)];
  };
  for (std::int64_t u = 0; u < width; ++u) {
    const auto kept = [&](std::int64_t i) { return p.forward[In::kGates][at((place * p.kept + i) * width + u)]; };
    const double d = dh[at(u)] + p.backward[Back::kDy][at(place * width + u)];
    Numbers pre;
    if (p.gates == 4) {
      const double i = kept(0), f = kept(1), g = kept(2), o = kept(3);
      const double tanh_c = std::tanh(p.forward[In::kCells][at(place * width + u)]);
      const double all = dc[at(u)] + d * o * (1 - tanh_c * tanh_c);
      pre = {all * g * i * (1 - i), all * before(In::kCells, In::kC0, u) * f * (1 - f), all * i * (1 - g * g),
             d * tanh_c * o * (1 - o)};
      dc[at(u)] = all * f;
    } else if (p.gates == 3) {
      const double r = kept(0), z = kept(1), n = kept(2), dn = d * (1 - z) * (1 - n * n);
      pre = {dn * kept(3) * r * (1 - r), d * (before(In::kY, In::kH0, u) - n) * z * (1 - z), dn};
      past[at(u)] = d * z;
    } else {
      const double y = p.forward[In::kY][at(place * width + u)];
      pre = {p.relu ? (y > 0 ? d : 0) : d * (1 - y * y)};
    }
    for (std::int64_t g = 0; g < p.gates; ++g) {
      p.backward[Back::kDpre][at(place * columns + g * width + u)] = pre[at(g)];
      share[at(g * width + u)] = p.gates == 3 && g == 2 ? pre[2] * kept(0) : pre[at(g)];
      if (p.gates == 3) p.backward[Back::kDshare][at(place * columns + g * width + u)] = share[at(g * width + u)];
    }
  }
  for (std::int64_t k = 0; k < width; ++k) {
    dh[at(k)] = past[at(k)];
    for (std::int64_t j = 0; j < columns; ++j) dh[at(k)] += share[at(j)] * p.forward[In::kHidden][at(k * columns + j)];
  }
}

Numbers row_of(const Numbers& all, std::int64_t row, std::int64_t width) {
  return {all.begin() + row * width, all.begin() + (row + 1) * width};
}
void put_row(const Numbers& row, std::int64_t number, Numbers& all) {
  std::copy(row.begin(), row.end(), all.begin() + number * static_cast<std::int64_t>(row.size()));
}

Problem solve(const CellOffer& offer, const CellSizes& size, bool ragged, bool relu) {
  std::mt19937 random(7);
  Problem p{.size = size, .gates = offer.gates, .kept = offer.gates == 1 ? 0 : 4, .relu = relu};
  const std::int64_t places = size.steps * size.batch, width = size.width, columns = p.gates * width;
  const auto any = [&](std::int64_t count) { return random_numbers(count, random); };
  const auto zeros = [](std::int64_t count) { return Numbers(at(count)); };
  auto& f = p.forward;
  f[In::kPre] = any(places * columns);
  f[In::kHidden] = random_numbers(width * columns, random, 1 / std::sqrt(static_cast<double>(width)));
  f[In::kBias] = any(columns);
  f[In::kH0] = any(size.batch * width);
  f[In::kC0] = any(size.batch * width);
  f[In::kY] = f[In::kCells] = zeros(places * width);
  f[In::kH] = f[In::kC] = zeros(size.batch * width);
  f[In::kGates] = zeros(places * p.kept * width);
  for (std::int64_t b = 0; b < size.batch; ++b) p.lengths.push_back(ragged ? b % (size.steps + 1) : size.steps);
  for (std::int64_t b = 0; b < size.batch; ++b) {
    Numbers h = row_of(f[In::kH0], b, width), c = row_of(f[In::kC0], b, width);
    for (std::int64_t t = 0; t < size.steps; ++t) advance(p, t, b, h, c);
    put_row(h, b, f[In::kH]);
    put_row(c, b, f[In::kC]);
  }
  auto& d = p.backward;
  for (const auto& [to, from] : {std::pair{+Back::kHidden, +In::kHidden},
                                 {+Back::kH0, +In::kH0},
                                 {+Back::kC0, +In::kC0},
                                 {+Back::kY, +In::kY},
                                 {+Back::kGates, +In::kGates},
                                 {+Back::kCells, +In::kCells}})
    d[to] = f[from];
  d[Back::kDy] = any(places * width);
  d[Back::kDh] = any(size.batch * width);
  d[Back::kDc] = any(size.batch * width);
  d[Back::kDpre] = d[Back::kDshare] = zeros(places * columns);
  d[Back::kDh0] = d[Back::kDc0] = zeros(size.batch * width);
  for (std::int64_t b = 0; b < size.batch; ++b) {
    Numbers dh = row_of(d[Back::kDh], b, width), dc = row_of(d[Back::kDc], b, width);
    for (std::int64_t t = size.steps; t-- > 0;) retreat(p, t, b, dh, dc);
    put_row(dh, b, d[Back::kDh0]);
    put_row(dc, b, d[Back::kDc0]);
  }
  d[Back::kDbias] = zeros(columns);
  for (std::int64_t i = 0; i < places * columns; ++i) d[Back::kDbias][at(i % columns)] += d[Back::kDpre][at(i)];
  return p;
}

// ---- on the GPU

std::shared_ptr<ir::Remote> on_gpu(const void* data, std::size_t bytes) {
  auto memory = context().allocate(bytes);
  context().upload(memory->address, data, bytes, context().mark().get());
  return memory;
}

template <class Real>
std::shared_ptr<ir::Remote> on_gpu(const Numbers& numbers) {
  const std::vector<Real> all(numbers.begin(), numbers.end());
  return on_gpu(all.data(), all.size() * sizeof(Real));
}

CellCall call_of(const CellOffer& offer, const Problem& p, DType dtype, TensorCores tensor,
                 const RecurrentPlan& chosen) {
  CellCall call{.offer = offer, .dtype = dtype, .lengths = i64, .relu = p.relu};
  call.shape = {.pass = offer.pass,
                .gates = offer.gates,
                .steps = p.size.steps,
                .batch = p.size.batch,
                .width = p.size.width,
                .real_bytes = dtype == f64 ? 8 : 4,
                .tensor = tensor};
  const auto plan = complete(call.shape, chosen, gpu());
  if (!plan) throw Error("no room for this plan");
  call.plan = *plan;
  call.at.fill(-1);
  for (std::size_t i = 0; i < offer.in.size(); ++i) call.at[offer.in[i]] = static_cast<int>(i);
  for (std::size_t o = 0; o < offer.out.size(); ++o) call.at[offer.out[o]] = static_cast<int>(o);
  return call;
}

template <class Real>
void expect_right(CellOffer offer, const Problem& p, const RecurrentPlan& chosen,
                  TensorCores tensor = TensorCores::none) {
  if (offer.pass == Pass::backward) offer.out.push_back(Back::kDbias);
  const CellCall call = call_of(offer, p, sizeof(Real) == 8 ? f64 : f32, tensor, chosen);
  const std::vector<Numbers>& operands = offer.pass == Pass::forward ? p.forward : p.backward;
  std::vector<std::shared_ptr<ir::Remote>> in, out;
  std::vector<const void*> in_at;
  std::vector<void*> out_at;
  for (const std::size_t operand : offer.in) {
    in.push_back(operand == offer.lengths() ? on_gpu(p.lengths.data(), p.lengths.size() * 8)
                                            : on_gpu<Real>(operands[operand]));
    in_at.push_back(in.back()->address);
  }
  for (const std::size_t operand : offer.out) {
    out.push_back(on_gpu<Real>(Numbers(operands[operand].size(), 77)));
    out_at.push_back(out.back()->address);
  }
  const backend::Prepared prepared = prepare_cell(call);
  const auto scratch = context().allocate(prepared.scratch_bytes);
  for (int run = 0; run < 2; ++run) prepared.kernel->run({in_at.data(), out_at.data(), scratch->address, nullptr});
  const double tolerance = tensor == TensorCores::bf16   ? 2e-2
                           : tensor != TensorCores::none ? 3e-3
                           : sizeof(Real) == 8           ? 1e-12
                                                         : 4e-6;
  for (std::size_t o = 0; o < offer.out.size(); ++o) {
    const Numbers& expected = operands[offer.out[o]];
    std::vector<Real> got(expected.size());
    out[o]->fetch(got.data());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::abs(got[i] - expected[i]);
      worst = std::isnan(error) ? error : std::max(worst, error);
      if (std::isnan(error)) break;
    }
    EXPECT_LE(worst, tolerance) << offer.op << ", output " << o << ": rows " << chosen.rows << ", group "
                                << chosen.group << ", lanes " << chosen.lanes << ", outputs " << chosen.outputs
                                << ", split " << chosen.split << ", strips " << chosen.strips;
  }
}

void expect_right_everywhere(const CellSizes& size, const std::vector<RecurrentPlan>& plans, bool ragged,
                             bool in_double = true) {
  for (const CellOffer& offer : cell_offers()) {
    const Problem p = solve(offer, size, ragged, offer.gates == 1 && ragged);
    for (const RecurrentPlan& plan : plans) {
      expect_right<float>(offer, p, plan);
      if (plan.group == 1 && in_double) expect_right<double>(offer, p, plan);
    }
  }
}

TEST(RecurrentKernels, OneBlockForAllUnits) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  expect_right_everywhere({5, 7, 13}, {{.rows = 1}, {.rows = 8, .lanes = 2, .outputs = 4}}, false);
  expect_right_everywhere({3, 9, 6}, {{.rows = 4, .lanes = 4, .outputs = 2}, {.rows = 2, .lanes = 32, .outputs = 8}},
                          true);
}

TEST(RecurrentKernels, BlocksThatExchangeStates) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  expect_right_everywhere({5, 7, 13}, {{.rows = 4, .group = 2, .lanes = 4, .outputs = 2}}, true);
  expect_right_everywhere({4, 5, 11}, {{.rows = 1, .group = 4, .lanes = 2}}, false);
}

TEST(RecurrentKernels, WeightsInSharedMemory) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  expect_right_everywhere({2, 3, 100}, {{.rows = 4, .lanes = 4, .outputs = 2}}, false, false);
}

void expect_right_by_tensor_cores(const CellSizes& size, const std::vector<RecurrentPlan>& plans, bool ragged,
                                  TensorCores tensor) {
  for (const CellOffer& offer : cell_offers()) {
    const Problem p = solve(offer, size, ragged, offer.gates == 1 && ragged);
    for (RecurrentPlan plan : plans) {
      plan.tensor = true;
      if (plan.group > 1 && offer.pass == Pass::backward) plan.split = 1;
      expect_right<float>(offer, p, plan, tensor);
    }
  }
}

TEST(RecurrentKernels, TensorCores) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  expect_right_by_tensor_cores({4, 7, 21}, {{.rows = 4}, {.rows = 8, .split = 2, .strips = 2}}, true,
                               TensorCores::tf32);
  expect_right_by_tensor_cores({3, 19, 37}, {{.rows = 16, .split = 2}}, false, TensorCores::bf16);
  expect_right_by_tensor_cores({3, 9, 20}, {{.rows = 4, .split = 2}, {.rows = 16}}, false, TensorCores::f16);
  expect_right_by_tensor_cores({4, 17, 29}, {{.rows = 8, .group = 2, .split = 2}, {.rows = 8, .group = 4}}, true,
                               TensorCores::tf32);
}

TEST(RecurrentKernels, FragmentsInSharedMemory) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  expect_right_by_tensor_cores({2, 5, 100}, {{.rows = 4}}, false, TensorCores::tf32);
}

TEST(RecurrentKernels, CompileForEveryKindOfGpu) {
  if (has_gpu()) GTEST_SKIP() << "its kernels are compiled when they run";
  const auto expect_to_compile = [](const CellOffer& offer, const CellSizes& size, DType dtype, TensorCores tensor) {
    CellCall call{.offer = offer, .dtype = dtype, .lengths = i32};
    call.shape = {.pass = offer.pass,
                  .gates = offer.gates,
                  .steps = size.steps,
                  .batch = size.batch,
                  .width = size.width,
                  .real_bytes = dtype == f64 ? 8 : 4,
                  .tensor = tensor};
    const auto plan = plan_recurrence(call.shape, gpu());
    ASSERT_TRUE(plan.has_value()) << offer.op << " " << name(dtype) << " " << size.width;
    call.plan = *plan;
    SCOPED_TRACE(testing::Message() << offer.op << " " << name(dtype));
    expect_text_compiles(cell_text(call));
  };
  for (const CellOffer& offer : cell_offers()) {
    for (const DType dtype : {f32, f64}) expect_to_compile(offer, {3, 5, 17}, dtype, TensorCores::none);
    expect_to_compile(offer, {32, 128, 256}, bf16, TensorCores::bf16);
    expect_to_compile(offer, {32, 128, 256}, f32, TensorCores::tf32);
  }
  expect_to_compile(lstm_offer(), {500, 500, 100}, f32, TensorCores::tf32);
  expect_to_compile(lstm_offer(), {500, 500, 100}, f32, TensorCores::none);
  expect_to_compile(lstm_offer(), {32, 128, 256}, f16, TensorCores::f16);
}

}  // namespace
}  // namespace varve::cuda
