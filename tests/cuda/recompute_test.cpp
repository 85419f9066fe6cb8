// Results of the forward pass that kernels in the backward pass write once more instead of keeping them. Planned
// without a GPU; the same bits where there is one, if only an emulated one.
#include <cstdlib>

#include "cuda/claimed.h"
#include "cuda/on_cuda.h"
#include "varve/autodiff.h"

namespace varve {
namespace {

// Leaves out the lever, beside those that are left out already.
class Kept {
 public:
  Kept() { setenv("VARVE_WITHOUT", (before_ + (before_.empty() ? "recompute" : ",recompute")).c_str(), 1); }
  ~Kept() { before_.empty() ? unsetenv("VARVE_WITHOUT") : setenv("VARVE_WITHOUT", before_.c_str(), 1); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

 private:
  const char* set_ = std::getenv("VARVE_WITHOUT");
  const std::string before_ = set_ ? set_ : "";
};

struct Network {
  const char* name;
  std::vector<Shape> inputs;
  Tensor (*result)(const TensorList& in);
  DType dtype = f32;
  int written_again = 0;  // how many values

  TensorList operator()(const TensorList& in) const {
    const Tensor y = result(in);
    TensorList all = gradients(sum(square(y.to(f32)) * 0.01), in);
    all.push_back(y);
    return all;
  }
  std::vector<TensorType> types() const {
    std::vector<TensorType> types;
    for (const Shape& shape : inputs) types.push_back({shape.rank() == 1 ? f32 : dtype, shape});
    return types;
  }
};

// in: x, then weights
Tensor dense_layers(const TensorList& in) {
  Tensor h = in[0];
  for (std::size_t i = 1; i < in.size(); ++i) h = gelu(matmul(h, in[i]));
  return h;
}

// in: x, then weights, scale and shift of each layer
Tensor conv_layers(const TensorList& in) {
  Tensor h = in[0];
  for (std::size_t i = 1; i < in.size(); i += 3)
    h = relu(batch_norm_train(conv2d(h, in[i], {.padding = {1, 1}}), in[i + 1], in[i + 2]).y);
  return h;
}

// The last layer's result is what the program returns, that of the dense one before is read again too soon (but for the
// conversions of bf16), and small ones are not worth it.
const std::vector<Network> kNetworks = {
    {"dense", {{1024, 64}, {64, 64}, {64, 64}, {64, 64}}, dense_layers, f32, 1},
    {"dense in bf16", {{1024, 128}, {128, 128}, {128, 128}, {128, 128}}, dense_layers, bf16, 2},
    {"small", {{64, 64}, {64, 64}, {64, 64}, {64, 64}}, dense_layers, f32, 0},
    {"conv", {{4, 32, 32, 16}, {16, 3, 3, 16}, {16}, {16}, {16, 3, 3, 16}, {16}, {16}}, conv_layers, f32, 1},
    {"conv in bf16", {{8, 32, 32, 16}, {16, 3, 3, 16}, {16}, {16}, {16, 3, 3, 16}, {16}, {16}}, conv_layers, bf16, 1}};

int times(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::shared_ptr<const compiler::Plan> planned(const Network& network) {
  return compiler::compile(compiler::traced(network, network.types()), *cuda::make_cuda_backend(0, false));
}

TEST(WrittenAgain, LessIsKeptAndNoKernelIsAdded) {
  for (const Network& network : kNetworks) {
    SCOPED_TRACE(network.name);
    const auto plan = planned(network), kept = [&] {
      const Kept all;
      return planned(network);
    }();
    EXPECT_EQ(times("is recomputed", plan->explain), network.written_again) << plan->explain;
    EXPECT_EQ(times("is recomputed", kept->explain), 0);
    EXPECT_EQ(plan->steps.size(), kept->steps.size());
    if (network.written_again)
      EXPECT_LT(plan->arena_bytes, kept->arena_bytes);
    else
      EXPECT_EQ(plan->arena_bytes, kept->arena_bytes);
  }
}

TEST(WrittenAgain, ValuesHaveTheSameBits) {
  if (!has_cuda()) GTEST_SKIP() << no_cuda();
  for (const Network& network : kNetworks) {
    SCOPED_TRACE(network.name);
    TensorList in;
    for (const TensorType& type : network.types())
      in.push_back(
          (values(type.shape, static_cast<int>(in.size())) * (type.shape.rank() == 2 ? 0.1 : 1)).to(type.dtype));
    const Outcome again = run_on("cuda", network, in);
    const Kept all;
    EXPECT_EQ(run_on("cuda", network, in).results, again.results) << again.text;
  }
}

TEST(WrittenAgain, TextsCompile) {
  if (has_cuda()) GTEST_SKIP() << "compiled when they run";
  for (const Network& network : kNetworks) planned(network);
  cuda::expect_compiles("norm/batch_norm_backward.cu");
}

}  // namespace
}  // namespace varve
