// What cuDNN plans for a GPU that is not there: it takes a description of one in its place.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/conv/conv_cudnn.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

constexpr std::size_t kFirstWithProperties = 91100;  // the version of cuDNN

std::shared_ptr<const dnn::Descriptor> h200() {
  const std::string properties = R"({"deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000,
    "cudaDeviceId": 0, "pciDeviceId": 9013, "multiProcessorCount": 132, "totalGlobalMem": 150119841792,
    "l2CacheSize": 62914560, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
    "isTccDriver": 0, "supportCoopLaunch": 1})";
  auto gpu = std::make_shared<dnn::Descriptor>(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  gpu->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::vector<char>(properties.begin(), properties.end()));
  gpu->finish();
  return gpu;
}

struct DnnSizes {
  std::int64_t batch, side, in, out, kernel, stride = 1, before = 0, after = 0, groups = 1;
};
ConvShape square(const DnnSizes& s) {
  const std::int64_t side = (s.side + s.before + s.after - s.kernel) / s.stride + 1;
  return {.batch = s.batch,
          .groups = s.groups,
          .in_height = s.side,
          .in_width = s.side,
          .in_channels = s.in,
          .out_height = side,
          .out_width = side,
          .out_channels = s.out,
          .kernel_height = s.kernel,
          .kernel_width = s.kernel,
          .stride_height = s.stride,
          .stride_width = s.stride,
          .dilation_height = 1,
          .dilation_width = 1,
          .pad_top = s.before,
          .pad_bottom = s.after,
          .pad_left = s.before,
          .pad_right = s.after};
}

class Cudnn : public testing::Test {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < kFirstWithProperties) GTEST_SKIP() << "cuDNN " << cudnnGetVersion();
    gpu_ = h200();
  }
  std::vector<std::string> tags(const ConvSpec& conv) const {
    DnnConvGraph made(conv, gpu_);
    std::vector<std::string> found;
    for (const dnn::Candidate& candidate : made.graph.candidates(accepted_for(conv))) found.push_back(candidate.tag);
    return found;
  }
  // How many of its suggestions cuDNN can make plans of.
  std::size_t plans(const ConvSpec& conv) const {
    DnnConvGraph made(conv, gpu_);
    std::size_t count = 0;
    for (dnn::Candidate& candidate : made.graph.candidates(accepted_for(conv)))
      if (made.graph.plan(std::move(candidate), accepted_for(conv))) ++count;
    return count;
  }

 private:
  std::shared_ptr<const dnn::Descriptor> gpu_;
};

const std::vector<DnnSizes> kSizes = {
    {.batch = 64, .side = 224, .in = 3, .out = 64, .kernel = 7, .stride = 2, .before = 3, .after = 3},
    {.batch = 64, .side = 56, .in = 64, .out = 256, .kernel = 1},
    {.batch = 64, .side = 14, .in = 256, .out = 256, .kernel = 3, .before = 1, .after = 1},
    {.batch = 128, .side = 224, .in = 3, .out = 64, .kernel = 11, .stride = 4, .before = 3, .after = 4},
    {.batch = 128, .side = 28, .in = 1, .out = 32, .kernel = 5},
    {.batch = 8, .side = 28, .in = 128, .out = 128, .kernel = 3, .before = 1, .after = 1, .groups = 2}};

TEST_F(Cudnn, PlansEveryPassInEveryType) {
  for (const DnnSizes& sizes : kSizes)
    for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad})
      for (const DType dtype : {f32, bf16, f16})
        for (const bool tf32 : {false, true}) {
          if (tf32 && dtype != f32) continue;
          const ConvSpec conv{{pass, square(sizes), false}, dtype, {}, tf32};
          EXPECT_GT(plans(conv), 0u) << conv.key();
        }
}

TEST_F(Cudnn, PlansBiasAndReluWithTheConvolution) {
  for (const DnnSizes& sizes : kSizes)
    for (const DType dtype : {f32, bf16, f16})
      for (const bool relu : {false, true}) {
        const ConvSpec conv{{ConvPass::forward, square(sizes), false}, dtype, {true, relu}, false};
        EXPECT_GT(plans(conv), 0u) << conv.key();
      }
}

TEST_F(Cudnn, F32LeavesTensorCoresOutUnlessTf32IsChosen) {
  const ConvCall call{ConvPass::forward, square(kSizes[2]), false};
  const std::vector<std::string> exact = tags({call, f32, {}, false}), rounded = tags({call, f32, {}, true});
  EXPECT_LT(exact.size(), rounded.size());
  for (const std::string& tag : exact) EXPECT_NE(std::find(rounded.begin(), rounded.end(), tag), rounded.end()) << tag;
}

// What is kept on disk names an algorithm by its tag.
TEST_F(Cudnn, SuggestsTheSameAgain) {
  const ConvSpec conv{{ConvPass::weight_grad, square(kSizes[2]), false}, bf16, {}, false};
  EXPECT_EQ(tags(conv), tags(conv));
}

TEST_F(Cudnn, ErrorsNameTheCall) {
  try {
    dnn::Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensor.finish();
    FAIL() << "a tensor without sizes was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cudnnBackendFinalize failed"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace varve::cuda
