// Memory that other libraries have on the GPU, and ours that they read, on a GPU or the emulated one.
#include <gtest/gtest.h>

#include <cuda.h>

#include "cuda/on_cuda.h"
#include "varve/varve.h"

namespace varve {
namespace {

using Neighbours = OnDevice;

// What a library of its own would hold: memory of the GPU, and a stream.
struct Other {
  explicit Other(const std::vector<float>& values) : count(values.size()) {
    static_cast<void>(full({2}, 1.0).to_vector<float>());  // the context is there
    CUcontext context = nullptr;
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc(&memory, count * sizeof(float)), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoD(memory, values.data(), count * sizeof(float)), CUDA_SUCCESS);
  }
  ~Other() {
    cuMemFree(memory);
    cuStreamDestroy(stream);
  }
  const void* pointer() const { return reinterpret_cast<const void*>(memory); }
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  std::size_t count;
};

std::vector<float> read(const void* there, std::size_t count) {
  std::vector<float> values(count);
  EXPECT_EQ(cuMemcpyDtoH(values.data(), reinterpret_cast<CUdeviceptr>(there), count * sizeof(float)), CUDA_SUCCESS);
  return values;
}

TEST_F(Neighbours, MemoryOfOthersIsReadInPlaceAndGivenBackOnce) {
  const Other other({1, 2, 3});
  int released = 0;
  {
    const Tensor t = from_memory(other.pointer(), {f32, {3}}, "cuda", [&] { ++released; });
    EXPECT_EQ(device_of(t), "cuda");
    EXPECT_EQ(data_on("cuda", t).get(), other.pointer());
    EXPECT_EQ((t * 2).to_vector<float>(), (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(t.to_vector<float>()[2], 3.0f);  // the processor's copy
    EXPECT_EQ(device_of(t), "cuda");           // it still lives there
    auto plus = compile([](Tensor x) { return x + 1; });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(plus(t).to_vector<float>()[0], 2.0f);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(read(other.pointer(), 3)[0], 1.0f);
}

TEST_F(Neighbours, MemoryOfOthersIsNeverWritten) {
  const Other other({1, 2, 3});
  Variable v("v", zeros({3}));
  v.assign(from_memory(other.pointer(), {f32, {3}}, "cuda"));
  auto step = compile([&] {
    v.assign(v.value() + 1);
    return sum(v.value());
  });
  EXPECT_EQ(step().item<float>(), 9.0f);
  EXPECT_EQ(step().item<float>(), 12.0f);
  EXPECT_EQ(read(other.pointer(), 3), (std::vector<float>{1, 2, 3}));
}

TEST_F(Neighbours, AddressesThatAreNotTheGpusAreRefused) {
  const float here[3] = {};
  EXPECT_THROW(from_memory(here, {f32, {3}}, "cuda"), Error);
  EXPECT_THROW(from_memory(nullptr, {f32, {3}}, "cuda"), Error);
  EXPECT_EQ(from_memory(nullptr, {f32, {0}}, "cuda").numel(), 0);
  EXPECT_EQ(from_memory(here, {f32, {3}}, "cpu").data(), here);
}

TEST_F(Neighbours, ResultsAreReadInPlaceAndStayWhileHeld) {
  auto plus = compile([](Tensor x) { return x + 1; });
  const Tensor x = full({2000}, 1.0);
  Tensor first = plus(x);
  std::shared_ptr<const void> there = data_on("cuda", first);
  for (int i = 2; i < 6; ++i) EXPECT_EQ(plus(full({2000}, i)).to_vector<float>()[0], i + 1.0f);
  EXPECT_EQ(data_on("cuda", first).get(), there.get());
  EXPECT_EQ(read(there.get(), 2000)[1999], 2.0f);
  first = Tensor();  // the pointer alone holds it
  for (int i = 2; i < 6; ++i) static_cast<void>(plus(full({2000}, i)).eval());
  EXPECT_EQ(read(there.get(), 2000)[1999], 2.0f);
  there = nullptr;
  EXPECT_EQ(plus(x).to_vector<float>()[7], 2.0f);
}

TEST_F(Neighbours, AResultThatWasReadHereStaysThereToo) {
  auto plus = compile([](Tensor x) { return x + 1; });
  const Tensor first = plus(full({2000}, 1.0));
  const std::shared_ptr<const void> there = data_on("cuda", first);
  EXPECT_EQ(first.to_vector<float>()[0], 2.0f);
  for (int i = 2; i < 6; ++i) static_cast<void>(plus(full({2000}, i)).eval());
  EXPECT_EQ(read(there.get(), 2000)[1999], 2.0f);
}

TEST_F(Neighbours, SmallResultsAndLazyOnesAndThoseOfTheProcessor) {
  auto plus = compile([](Tensor x) { return x + 1; });
  EXPECT_EQ(read(data_on("cuda", plus(full({2}, 1.0))).get(), 2)[1], 2.0f);
  const Tensor lazy = full({3000}, 2.0) * 3;
  EXPECT_EQ(device_of(lazy), "cuda");
  EXPECT_EQ(read(data_on("cuda", lazy).get(), 3000)[2999], 6.0f);
  const Tensor here = tensor({1.0f, 2.0f});
  EXPECT_EQ(device_of(here), "cpu");
  EXPECT_EQ(read(data_on("cuda", here).get(), 2)[1], 2.0f);
  EXPECT_EQ(data_on("cpu", here).get(), here.data());
  EXPECT_EQ(read(data_on("cuda", transpose(tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}))).get(), 4)[1], 3.0f);
}

TEST_F(Neighbours, StreamsOfOthersAreOrdered) {
  const Other other({1, 2});
  EXPECT_NE(device_stream("cuda"), 0);
  EXPECT_THROW(device_stream("cpu"), Error);
  const Tensor t = full({2000}, 3.0) + 1;
  for (const std::intptr_t stream :
       {std::intptr_t{-1}, std::intptr_t{1}, std::intptr_t{2}, reinterpret_cast<std::intptr_t>(other.stream)})
    EXPECT_EQ(read(data_on("cuda", t, stream).get(), 2000)[3], 4.0f) << stream;
}

}  // namespace
}  // namespace varve
