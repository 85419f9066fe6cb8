// Collectives of 1 to 4 ranks against what one process computes from all ranks' values.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

#include "distributed/ranks.h"
#include "runtime/plugin.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;

// What rank r has.
Tensor values_of(int r, const Shape& shape, DType dtype = f32) {
  return (arange(shape.numel()).reshape(shape) * (r + 1) + r).to(dtype);
}

void expect_same(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.type().str(), expected.type().str());
  EXPECT_EQ(got.to_vector<double>(), expected.to_vector<double>());
}

Tensor sum_over_ranks(const Shape& shape, DType dtype) {
  Tensor total = values_of(0, shape, dtype).to(f64);
  for (int r = 1; r < dist::size(); ++r) total = total + values_of(r, shape, dtype).to(f64);
  return total.to(dtype);
}

const std::vector<Shape> kShapes = {{}, {1}, {7}, {3, 5}, {0, 4}, {4, 3, 100}};

class Collectives : public Ranks {};

TEST_P(Collectives, SumOfEveryType) {
  if (started()) return;
  for (const std::string& device : devices_of_ranks())
    for (const DType dtype : {f32, f64, bf16, f16, i32, i64, u8, i8})
      for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{0, 2}}) {
        set_device(device);
        expect_same(dist::all_sum(values_of(dist::rank(), shape, dtype)), sum_over_ranks(shape, dtype));
      }
}

// Small whole numbers, other ones from place to place.
Tensor saw(std::int64_t length) {
  const Tensor x = arange(length).to(f32);
  return x - floor(x * (1.0 / 997)) * 997;
}

// In one piece and in several; and whatever came before.
TEST_P(Collectives, ValuesOfAnyLength) {
  if (started({.threads = 3})) return;
  const int n = dist::size(), r = dist::rank();
  for (const std::int64_t length : {1023, 1024, 1025, 16384, 65535, 65536, 65537, 131073, 300007}) {
    const Tensor mine = saw(length) * (r + 1);
    const Tensor sum = saw(length) * (n * (n + 1) / 2);
    expect_same(dist::all_sum(mine), sum);
    expect_same(dist::all_sum(mine.to(f64)), sum.to(f64));
    expect_same(dist::all_max(mine), saw(length) * n);
    const Tensor all = dist::all_gather(mine);
    for (int other : {0, n - 1})
      expect_same(all.slice({{other * length, (other + 1) * length}}), saw(length) * (other + 1));
    expect_same(dist::sum_scatter(all), mine * n);
    expect_same(dist::broadcast(mine, n - 1), saw(length) * n);
    dist::rank_barrier();
  }
}

TEST_P(Collectives, MeanMaxMinGatherScatterBroadcast) {
  if (started()) return;
  const int n = dist::size(), r = dist::rank();
  for (const std::string& device : devices_of_ranks())
    for (const Shape& shape : kShapes) {
      set_device(device);
      const Tensor mine = values_of(r, shape);
      expect_same(dist::all_mean(mine), sum_over_ranks(shape, f32) * (1.0 / n));
      expect_same(dist::all_max(mine), values_of(n - 1, shape));
      expect_same(dist::all_min(mine), values_of(0, shape));
      expect_same(dist::broadcast(mine, n - 1), values_of(n - 1, shape));
      std::vector<Tensor> all;
      for (int other = 0; other < n; ++other) all.push_back(values_of(other, shape));
      expect_same(dist::all_gather(mine), shape.rank() == 0 ? stack(all) : concat(all, 0));
      if (shape.rank() == 3) expect_same(dist::all_gather(mine, 2), concat(all, 2));
      const Tensor whole = values_of(r, Shape{2 * n, 3});
      std::vector<Tensor> ours;  // everybody's part for this rank
      for (int other = 0; other < n; ++other)
        ours.push_back(slice(values_of(other, Shape{2 * n, 3}), {{2 * r, 2 * r + 2}}));
      expect_same(dist::all_to_all(whole), concat(ours, 0));
      expect_same(dist::sum_scatter(whole), slice(sum_over_ranks({2 * n, 3}, f32), {{2 * r, 2 * r + 2}}));
    }
}

// NaN wins, whoever has it; types that NCCL does not compare as we do.
TEST_P(Collectives, ExtremesOfEveryType) {
  if (started()) return;
  const int n = dist::size(), r = dist::rank();
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const std::string& device : devices_of_ranks()) {
    set_device(device);
    for (const DType dtype : {f32, f64, bf16, f16, i32, i64, u8, i8}) {
      const bool floating = is_floating(dtype);
      const double own = r + 1, low = floating ? -own : own;
      const Tensor x = tensor({low, own, floating && r == n - 1 ? nan : own, floating && r == 0 ? -infinity : own});
      const auto most = dist::all_max(x.to(dtype)).to_vector<double>();
      const auto least = dist::all_min(x.to(dtype)).to_vector<double>();
      EXPECT_EQ(most[0], floating ? -1 : n);
      EXPECT_EQ(most[1], n);
      EXPECT_EQ(least[0], floating ? -n : 1);
      EXPECT_EQ(least[1], 1);
      if (!floating) continue;
      EXPECT_TRUE(std::isnan(most[2]) && std::isnan(least[2])) << device;
      EXPECT_EQ(most[3], n == 1 ? -infinity : n);
      EXPECT_EQ(least[3], -infinity);
    }
  }
}

TEST_P(Collectives, AreMovedByTheDevicesEngine) {
  if (started()) return;
  dist::all_sum(ones({3})).eval();
  const std::string host = dist::size() == 1 ? "none" : "gloo";
  const bool on_gpu = device().starts_with("cuda");
  EXPECT_EQ(dist::engine(), dist::size() > 1 && on_gpu ? "nccl" : host);
  if (!on_gpu) return;
  const int own = dist::local_rank() % runtime::count_gpus();
  EXPECT_EQ(device(), own == 0 ? "cuda" : "cuda:" + std::to_string(own));
}

// Large gradients leave one by one while the backward pass goes on, without a copy, and are awaited in that order.
TEST_P(Collectives, GradientsTravelDuringTheBackwardPass) {
  if (started()) return;
  if (device() != "cpu") GTEST_SKIP() << "on a GPU the recorded step decides";
  std::vector<Variable> all;
  for (const auto& [in, out] :
       {std::pair{1450, 1460}, std::pair{1460, 1470}, std::pair{1470, 1480}, std::pair{1480, 4}})
    all.emplace_back("w", zeros({in, out}));
  auto optimizer = optim::sgd(0.1).over(all);
  auto step = compile([&](Tensor x) {
    const auto [loss, gradients] = value_and_grad(
        [&] {
          Tensor y = x;
          for (const Variable& w : all) y = tanh(matmul(y, w));
          return mean(y);
        },
        all);
    optimizer.apply(gradients);
    return loss;
  });
  step(ones({2, 1450})).eval();
  std::vector<std::string> begun, ended;
  std::size_t first_begin = 0, last_product = 0, at = 0;
  for (const ProfileRow& row : step.profile(1, ones({2, 1450})).rows) {
    ++at;
    if (row.op == "all_sum_begin") begun.push_back(row.shape);
    if (row.op == "all_sum_begin" && first_begin == 0) first_begin = at;
    if (row.op == "all_sum_end") ended.push_back(row.shape);
    if (row.shape.find("[1450, 1460]") != std::string::npos && row.op == "matmul") last_product = at;
  }
  if (dist::size() == 1) {
    EXPECT_TRUE(begun.empty());
    return;
  }
  EXPECT_EQ(begun.size(), 4u) << "each large gradient by itself, and the small one";
  EXPECT_EQ(begun, ended);
  EXPECT_LT(first_begin, last_product) << "of the first layer";
}

// The loss is the sum of the ranks' losses: each rank's gradient is that of the whole by its own input.
TEST_P(Collectives, Gradients) {
  if (started()) return;
  const int n = dist::size(), r = dist::rank();
  const Tensor x = values_of(r, {3});
  const Tensor weight = full({}, r + 1.0);
  const double weights = n * (n + 1) / 2.0;
  const auto of = [&](auto collective) {
    return grad([&](const Tensor& t) { return sum(collective(t)) * weight; })(x);
  };
  expect_same(of([](const Tensor& t) { return dist::all_sum(t); }), full({3}, weights));
  expect_same(of([](const Tensor& t) { return dist::all_max(t); }), full({3}, r == n - 1 ? weights : 0));
  expect_same(of([](const Tensor& t) { return dist::all_gather(t); }), full({3}, weights));
  expect_same(of([](const Tensor& t) { return dist::broadcast(t, 0); }), full({3}, r == 0 ? weights : 0));
  // Rank k's part of the sum has weight k + 1.
  std::vector<Tensor> parts;
  for (int k = 0; k < n; ++k) parts.push_back(full({2}, k + 1.0));
  expect_same(grad([&](const Tensor& t) { return sum(dist::sum_scatter(t)) * weight; })(zeros({2 * n})),
              concat(parts, 0));
  expect_same(grad([&](const Tensor& t) { return sum(dist::all_to_all(t)) * weight; })(zeros({2 * n})),
              concat(parts, 0));
}

TEST_P(Collectives, InCompiledProgramsTheyRunInOneOrder) {
  if (started()) return;
  const int n = dist::size(), r = dist::rank();
  auto program = compile([](Tensor x) {
    const Tensor a = dist::all_sum(x), b = dist::all_max(x * 2), c = dist::all_sum(a + b);
    return std::tuple(c, dist::all_min(x), dist::all_sum(x * x));
  });
  for (int step = 0; step < 20; ++step) {
    const Tensor x = full({1000}, r + step);
    const auto [c, least, squares] = program(x);
    double total = 0, square = 0;
    for (int k = 0; k < n; ++k) {
      total += k + step;
      square += (k + step) * (k + step);
    }
    EXPECT_EQ(c.to_vector<float>()[999], n * (total + 2 * (n - 1 + step)));
    EXPECT_EQ(least.to_vector<float>()[0], step);
    EXPECT_EQ(squares.to_vector<float>()[500], square);
  }
}

TEST_P(Collectives, MessagesAndBarriers) {
  if (started()) return;
  const int n = dist::size(), r = dist::rank();
  if (n > 1) {  // round the ring, the first one sends first
    const Tensor mine = full({4}, r);
    Tensor got;
    if (r == 0) dist::send(mine, 1, 3);
    got = dist::recv({f32, {4}}, (r + n - 1) % n, 3);
    if (r != 0) dist::send(mine, (r + 1) % n, 3);
    EXPECT_EQ(got.to_vector<float>()[3], static_cast<float>((r + n - 1) % n));
    auto both = compile([&](Tensor x) {  // nobody reads what is sent: it is sent all the same
      if (r == 0) dist::send(x, 1, 5);
      return r == 1 ? dist::recv({f32, {2}}, 0, 5) : x;
    });
    for (int step = 0; step < 3; ++step)
      EXPECT_EQ(both(full({2}, step + 10.0 * r)).to_vector<float>()[0], r == 1 ? step : step + 10.0f * r);
  }
  dist::rank_barrier();
  EXPECT_EQ(dist::gather_text("rank " + std::to_string(r)).back(), "rank " + std::to_string(n - 1));
}

TEST_P(Collectives, RanksThatDifferAreNamed) {
  if (GetParam() == 1 || started()) return;
  try {
    const Tensor x = full({dist::rank() == 1 ? 5 : 4}, 1.0);
    dist::all_sum(x).eval();
    FAIL() << "ranks with other shapes went on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 exchanges other values"), std::string::npos) << error.what();
  }
}

// The addresses on which a process waits for connections, as /proc/net/tcp writes them.
std::vector<std::string> listens_on(pid_t process) {
  std::set<std::string> sockets;
  std::error_code error;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", error))
    sockets.insert(std::filesystem::read_symlink(fd.path(), error).string());
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state >> skipped >> skipped >> skipped >> skipped >> skipped >> inode;
      if (state == "0A" && sockets.count("socket:[" + inode + "]")) found.push_back(local.substr(0, local.find(':')));
    }
  }
  return found;
}

TEST_P(Collectives, NothingListensBeyondLoopback) {
  if (started()) return;
  dist::join();
  dist::rank_barrier();
  EXPECT_EQ(listens_on(getpid()).size(), 0u);  // connected, and closed to others
  EXPECT_EQ(listens_on(getppid()), std::vector<std::string>{"0100007F"});
}

INSTANTIATE_TEST_SUITE_P(Of, Collectives, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace varve::test
