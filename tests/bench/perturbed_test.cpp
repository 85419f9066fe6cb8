// Nothing is made for the benchmarks' own sizes: networks like them, with odd channels, other kernels and other
// batches, are claimed by the same kernels.
#include "claims_of.h"

namespace varve {
namespace {

using test::claims_of;
using test::Subject;
using test::zoo_of;

const std::regex kAlgorithm("(winograd|onednn) (conv2d.*)");

struct Pair {
  const char* name;
  Subject usual, perturbed;
};

nn::Layer convolutions(std::int64_t channels, std::int64_t kernel) {
  const nn::Conv2dOptions conv = {.kernel = kernel, .padding = nn::valid, .activation = nn::relu};
  return nn::layer(nn::sequential(nn::conv2d(channels, conv), nn::max_pool2d(2), nn::dropout(0.25),
                                  nn::conv2d(2 * channels, conv), nn::max_pool2d(2), nn::dropout(0.25), nn::flatten(),
                                  nn::dense(16 * channels, {.activation = nn::relu}), nn::dense(10)));
}

nn::Layer plain(std::int64_t width, nn::Activation activation) {
  return nn::layer(nn::sequential(nn::flatten(), nn::dense(width, {.activation = activation}),
                                  nn::dense(width, {.activation = activation}), nn::dense(10)));
}

// The first layer's channels fill vectors alike in both: kernels for few input channels take it, or leave it.
std::pair<double, double> widths_of_vgg() {
  return __builtin_cpu_supports("avx512f") ? std::pair{16.0, 17.0} : std::pair{24.0, 25.0};
}

std::vector<Pair> pairs() {
  const auto [vgg, other_vgg] = widths_of_vgg();
  return {
      {"feed-forward",
       {.make = [] { return plain(512, nn::relu); }, .input = {28, 28, 1}, .batch = 80, .optimizer = "adam"},
       {.make = [] { return plain(487, nn::relu); }, .input = {29, 31, 1}, .batch = 17, .optimizer = "adam"}},
      {"sigmoid, descent",
       {.make = [] { return plain(512, nn::sigmoid); }, .input = {512}, .batch = 64},
       {.make = [] { return plain(387, nn::sigmoid); }, .input = {519}, .batch = 17}},
      {"convolutions",
       {.make = [] { return convolutions(32, 5); }, .input = {28, 28, 1}, .batch = 32, .optimizer = "adam"},
       {.make = [] { return convolutions(29, 5); }, .input = {41, 37, 1}, .batch = 17, .optimizer = "adam"}},
      {"vgg",
       {.make = zoo_of("vgg16-cifar", {{"width", vgg}}), .input = {32, 32, 3}, .batch = 16, .optimizer = "adam"},
       {.make = zoo_of("vgg16-cifar", {{"width", other_vgg}}), .input = {32, 32, 3}, .batch = 17, .optimizer = "adam"}},
      {"alexnet",
       {.make = zoo_of("alexnet", {{"width", 16}}), .input = {99, 99, 3}, .batch = 16},
       {.make = zoo_of("alexnet", {{"width", 15}}), .input = {107, 103, 3}, .batch = 17}},
      {"word model",
       {.make = zoo_of("lstm32", {{"width", 64}, {"vocabulary", 1000}}),
        .input = {8},
        .batch = 16,
        .dtype = i32,
        .classes = 1000,
        .tokens = true},
       {.make = zoo_of("lstm32", {{"width", 61}, {"vocabulary", 997}}),
        .input = {7},
        .batch = 17,
        .dtype = i32,
        .classes = 997,
        .tokens = true}},
      {"sentiment",
       {.make = zoo_of("lstm-imdb", {}), .input = {16}, .batch = 32, .dtype = i32, .classes = 2, .optimizer = "adam"},
       {.make = zoo_of("lstm-imdb", {{"width", 93}, {"embedded", 31}, {"vocabulary", 4999}}),
        .input = {13},
        .batch = 17,
        .dtype = i32,
        .classes = 2,
        .optimizer = "adam"}},
      {"sentiment, few words",
       {.make = zoo_of("lstm-imdb", {{"vocabulary", 5}}),
        .input = {64},
        .batch = 32,
        .dtype = i32,
        .classes = 2,
        .optimizer = "adam"},
       {.make = zoo_of("lstm-imdb", {{"width", 93}, {"embedded", 31}, {"vocabulary", 4}}),
        .input = {53},
        .batch = 17,
        .dtype = i32,
        .classes = 2,
        .optimizer = "adam"}},
      {"transformer",
       {.make = zoo_of("gpt-small", {{"width", 128}, {"layers", 2}, {"heads", 8}, {"vocabulary", 1000}}),
        .input = {64},
        .batch = 8,
        .dtype = i32,
        .classes = 1000,
        .tokens = true,
        .optimizer = "adamw"},
       {.make = zoo_of("gpt-small", {{"width", 93}, {"layers", 2}, {"heads", 3}, {"vocabulary", 997}}),
        .input = {51},
        .batch = 17,
        .dtype = i32,
        .classes = 997,
        .tokens = true,
        .optimizer = "adamw"}},
      {"residual",
       {.make = zoo_of("resnet50", {}), .input = {64, 64, 3}, .batch = 2, .classes = 1000},
       {.make = zoo_of("resnet50", {{"classes", 97}}), .input = {71, 67, 3}, .batch = 3, .classes = 97}},
  };
}

TEST(Perturbed, OtherSizesAreClaimedByTheSameKernels) {
  for (const Pair& pair : pairs()) EXPECT_EQ(claims_of(pair.usual), claims_of(pair.perturbed)) << pair.name;
}

// Which algorithm wins depends on the kernel's size; what is done in one pass does not.
TEST(Perturbed, LargerKernelsAreFusedAlike) {
  const auto patterns = [](std::int64_t kernel) {
    std::set<std::string> names;
    for (const std::string& name : claims_of({.make = [kernel] { return convolutions(29, kernel); },
                                   .input = {41, 37, 1},
                                   .batch = 17,
                                   .optimizer = "adam"}))
      names.insert(std::regex_replace(name, kAlgorithm, "$2"));
    return names;
  };
  EXPECT_EQ(patterns(5), patterns(7));
}

}  // namespace
}  // namespace varve
