// Refusals of the larger operators: convolution, pooling, normalisation, recurrence, losses, random, updates.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/refusal.h"
#include "varve/compile.h"

namespace varve::test {

namespace {

TEST(Refusals, Convolution) {
  const Tensor w = zeros({6, 3, 3, 4});
  expect_refused({
      {"an image without channels", [&] { conv2d(matrix(), w); }},
      {"other channels",
       [&] {
         conv2d(image(), zeros({6, 3, 3, 5}));
       }},
      {"a stride of zero",
       [&] {
         conv2d(image(), w, {.stride = {0, 1}});
       }},
      {"one stride for two axes", [&] { conv2d(image(), w, {.stride = {1}}); }},
      {"a negative dilation",
       [&] {
         conv2d(image(), w, {.dilation = {-1, 1}});
       }},
      {"a dilation that overflows",
       [&] {
         conv2d(image(), w, {.dilation = {kLargest, 1}});
       }},
      {"no groups", [&] { conv2d(image(), w, {.groups = 0}); }},
      {"groups that do not divide", [&] { conv2d(image(), w, {.groups = 3}); }},
      {"padding that overflows",
       [&] {
         conv2d(image(), w, {.padding = {Padding(kLargest), 0}});
       }},
      {"a kernel larger than the image",
       [&] {
         conv2d(image(), zeros({6, 9, 9, 4}));
       }},
      {"no kernel",
       [&] {
         conv2d(image(), zeros({6, 0, 3, 4}));
       }},
      {"a sequence of another rank",
       [&] {
         conv1d(image(), zeros({6, 3, 4}));
       }},
      {"other channels on the way up", [&] { conv2d_transpose(image(), w); }},
      {"output padding beyond the stride",
       [&] {
         conv2d_transpose(image(), zeros({4, 3, 3, 6}), {.output_padding = {5, 5}});
       }},
      {"a negative window",
       [] {
         max_pool2d(image(), {.window = {-2, 2}});
       }},
      {"a window of zero",
       [] {
         avg_pool2d(image(), {.window = {0, 2}});
       }},
      {"a pooling stride of zero",
       [] {
         max_pool2d(image(), {.stride = {0, 1}});
       }},
      {"a window larger than the image",
       [] {
         max_pool2d(image(), {.window = {9, 9}});
       }},
      {"padding of whole windows",
       [] {
         max_pool2d(image(), {.padding = {Padding(5), Padding(5)}});
       }},
      {"a pooled vector", [] { avg_pool2d(zeros({3})); }},
      {"no adaptive output", [] { adaptive_avg_pool2d(image(), 0, 3); }},
      {"a negative adaptive output", [] { adaptive_max_pool2d(image(), -1, 3); }},
  });
}

TEST(Refusals, Layers) {
  const RecurrentWeights weights{.input = zeros({4, 12}), .hidden = zeros({3, 12})};
  const auto body = [](const Tensors& carry, const Tensors&) { return ScanStep{carry, {}}; };
  expect_refused({
      {"a scale of another size", [] { layer_norm(matrix(), zeros({3}), zeros({4})); }},
      {"a scale of another rank",
       [] {
         batch_norm_train(image(), zeros({4, 4}), zeros({4}));
       }},
      {"statistics of another size", [] { batch_norm(image(), {}, {}, zeros({3}), zeros({4})); }},
      {"groups that do not divide", [] { group_norm(image(), 3, {}, {}); }},
      {"no groups", [] { group_norm(image(), 0, {}, {}); }},
      {"a neighbourhood of zero", [] { local_response_norm(image(), {.size = 0}); }},
      {"queries and keys of different sizes",
       [] {
         attention(zeros({2, 3, 4}), zeros({2, 3, 5}), zeros({2, 3, 5}));
       }},
      {"keys and values of different lengths",
       [] {
         attention(zeros({2, 3, 4}), zeros({2, 5, 4}), zeros({2, 6, 4}));
       }},
      {"a mask that does not fit",
       [] {
         attention(matrix(), matrix(), matrix(), {.mask = zeros({7, 7})});
       }},
      {"a scan of unknown length", [&] { scan(body, {matrix()}, {}); }},
      {"a scan of different lengths",
       [&] {
         scan(body, {matrix()}, {zeros({2}), zeros({3})});
       }},
      {"a scan over a scalar", [&] { scan(body, {matrix()}, {zeros({})}); }},
      {"a body that loses its carry",
       [] {
         scan([](const Tensors&, const Tensors&) { return ScanStep{}; }, {matrix()}, {zeros({2, 3})});
       }},
      {"a carry that changes its shape",
       [] {
         scan(
             [](const Tensors& c, const Tensors&) {
               return ScanStep{{concat({c[0], c[0]})}, {}};
             },
             {matrix()}, {zeros({2, 3})});
       }},
      {"no layers",
       [] {
         lstm(zeros({5, 2, 4}), {});
       }},
      {"undefined weights",
       [] {
         lstm(zeros({5, 2, 4}), {RecurrentWeights{}});
       }},
      {"features that differ",
       [&] {
         lstm(zeros({5, 2, 7}), {weights});
       }},
      {"gates that do not divide",
       [&] {
         gru(zeros({5, 2, 4}), {weights});
       }},
      {"one direction of two",
       [&] {
         lstm(zeros({5, 2, 4}), {weights}, {.bidirectional = true});
       }},
      {"a state of another size",
       [&] {
         lstm(zeros({5, 2, 4}), {weights}, {.h0 = {zeros({2, 4})}});
       }},
      {"lengths of another batch",
       [&] {
         lstm(zeros({5, 2, 4}), {weights}, {.lengths = whole({3})});
       }},
      {"a length beyond the sequence",
       [&] {
         lstm(zeros({5, 2, 4}), {weights}, {.lengths = tensor<std::int32_t>({5, 6})});
       }},
      {"a negative length",
       [&] {
         lstm(zeros({5, 2, 4}), {weights}, {.lengths = tensor<std::int64_t>({-1, 3})});
       }},
      {"labels of another shape", [] { cross_entropy(matrix(), whole({4})); }},
      {"fractional labels", [] { cross_entropy(matrix(), zeros({3})); }},
      {"targets of another shape",
       [] {
         mse_loss(matrix(), zeros({4, 3}));
       }},
      {"a negative delta", [] { huber_loss(matrix(), matrix(), -1); }},
  });
}

TEST(Refusals, RandomAndUpdates) {
  expect_refused({
      {"a negative size", [] { uniform({-1}); }},
      {"sizes that overflow",
       [] {
         normal({kHuge, kHuge});
       }},
      {"whole random numbers", [] { normal({3}, {.dtype = i32}); }},
      {"a negative permutation", [] { permutation(-1); }},
      {"a negative rate", [] { dropout(matrix(), -0.1); }},
      {"a rate of more than one", [] { dropout(matrix(), 1.5); }},
      {"a rate of NaN", [] { dropout(matrix(), std::nan("")); }},
      {"a fractional counter", [] { uniform({3}, {.counter = zeros({})}); }},
      {"a counter with an axis", [] { uniform({3}, {.counter = whole({2})}); }},
      {"a gradient of another shape", [] { sgd_update(matrix(), zeros({4}), {}, 0.1); }},
      {"momentum without a velocity", [] { sgd_update(matrix(), matrix(), {}, 0.1, {.momentum = 0.9}); }},
      {"a moment of another shape",
       [] { adam_update(matrix(), matrix(), zeros({4}), matrix(), 0.1, full_int({}, 1)); }},
  });
}

// Lengths that a program is given, or computes, are checked when it runs, as indices are.
TEST(Refusals, LengthsOfProgramsAreChecked) {
  const std::string before = device();
  for (const char* device_name : {"cpu", "reference"}) {
    set_device(device_name);
    const RecurrentWeights w{.input = zeros({4, 3}), .hidden = zeros({3, 3}), .bias = zeros({3})};
    auto last = compile([&](Tensor x, Tensor lengths) { return rnn(x, {w}, {.lengths = lengths}).y; });
    EXPECT_NO_THROW(last(zeros({5, 2, 4}), tensor<std::int32_t>({0, 5})).eval());
    for (const std::int32_t wrong : {-1, 6, 2147483647}) {
      try {
        last(zeros({5, 2, 4}), tensor<std::int32_t>({3, wrong})).eval();
        ADD_FAILURE() << device_name << ": a length of " << wrong << " was taken";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("out of range [0, 6)"), std::string::npos) << error.what();
      }
    }
  }
  set_device(before);
}

}  // namespace

}  // namespace varve::test
