#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

// The blocks of the paper's figures 5 to 7 and the reductions between them; children named as in torchvision.

Named conv_of(const std::string& name, std::int64_t out, std::int64_t height = 1, std::int64_t width = 1) {
  const nn::ConvPadding around(Padding(height / 2), Padding(width / 2));
  return named(name, basic_conv(out, {.kernel = {height, width}, .padding = around}));
}
Named halving(const std::string& name, std::int64_t out) {
  return named(name, basic_conv(out, {.kernel = 3, .stride = 2, .padding = nn::valid}));
}
Named average() { return named("pool", nn::avg_pool2d(3, {.stride = 1, .padding = 1, .count_padding = true})); }
Named halving_pool() { return named("pool", nn::max_pool2d(3, {.stride = 2})); }

nn::Graph block_a(std::int64_t pooled) {
  return side_by_side(
      {{conv_of("branch1x1", 64)},
       {conv_of("branch5x5_1", 48), conv_of("branch5x5_2", 64, 5, 5)},
       {conv_of("branch3x3dbl_1", 64), conv_of("branch3x3dbl_2", 96, 3, 3), conv_of("branch3x3dbl_3", 96, 3, 3)},
       {average(), conv_of("branch_pool", pooled)}});
}

nn::Graph block_b() {
  return side_by_side(
      {{halving("branch3x3", 384)},
       {conv_of("branch3x3dbl_1", 64), conv_of("branch3x3dbl_2", 96, 3, 3), halving("branch3x3dbl_3", 96)},
       {halving_pool()}});
}

nn::Graph block_c(std::int64_t w) {
  return side_by_side(
      {{conv_of("branch1x1", 192)},
       {conv_of("branch7x7_1", w), conv_of("branch7x7_2", w, 1, 7), conv_of("branch7x7_3", 192, 7, 1)},
       {conv_of("branch7x7dbl_1", w), conv_of("branch7x7dbl_2", w, 7, 1), conv_of("branch7x7dbl_3", w, 1, 7),
        conv_of("branch7x7dbl_4", w, 7, 1), conv_of("branch7x7dbl_5", 192, 1, 7)},
       {average(), conv_of("branch_pool", 192)}});
}

nn::Graph block_d() {
  return side_by_side({{conv_of("branch3x3_1", 192), halving("branch3x3_2", 320)},
                       {conv_of("branch7x7x3_1", 192), conv_of("branch7x7x3_2", 192, 1, 7),
                        conv_of("branch7x7x3_3", 192, 7, 1), halving("branch7x7x3_4", 192)},
                       {halving_pool()}});
}

// Branches that part a second time.
nn::Graph block_e() {
  nn::Graph g;
  const auto add = [&](const Named& layer, const std::string& from) { step(g, layer.first, layer.second, {from}); };
  add(conv_of("branch1x1", 320), "input");
  add(conv_of("branch3x3_1", 384), "input");
  add(conv_of("branch3x3_2a", 384, 1, 3), "branch3x3_1");
  add(conv_of("branch3x3_2b", 384, 3, 1), "branch3x3_1");
  add(conv_of("branch3x3dbl_1", 448), "input");
  add(conv_of("branch3x3dbl_2", 384, 3, 3), "branch3x3dbl_1");
  add(conv_of("branch3x3dbl_3a", 384, 1, 3), "branch3x3dbl_2");
  add(conv_of("branch3x3dbl_3b", 384, 3, 1), "branch3x3dbl_2");
  add(average(), "input");
  add(conv_of("branch_pool", 192), "pool");
  join(g, "concat", nn::Join::concat,
       {"branch1x1", "branch3x3_2a", "branch3x3_2b", "branch3x3dbl_3a", "branch3x3dbl_3b", "branch_pool"});
  return g;
}

nn::Layer inception_network(const std::map<std::string, double>& given) {
  nn::Sequential all;
  all.push(basic_conv(32, {.kernel = 3, .stride = 2, .padding = nn::valid}), "Conv2d_1a_3x3")
      .push(basic_conv(32, {.padding = nn::valid}), "Conv2d_2a_3x3");
  all.push(basic_conv(64, {.padding = 1}), "Conv2d_2b_3x3").push(nn::max_pool2d(3, {.stride = 2}), "maxpool1");
  all.push(basic_conv(80), "Conv2d_3b_1x1").push(basic_conv(192, {.padding = nn::valid}), "Conv2d_4a_3x3");
  all.push(nn::max_pool2d(3, {.stride = 2}), "maxpool2");
  all.push(block_a(32), "Mixed_5b").push(block_a(64), "Mixed_5c").push(block_a(64), "Mixed_5d");
  all.push(block_b(), "Mixed_6a");
  all.push(block_c(128), "Mixed_6b").push(block_c(160), "Mixed_6c").push(block_c(160), "Mixed_6d");
  all.push(block_c(192), "Mixed_6e").push(block_d(), "Mixed_7a");
  all.push(block_e(), "Mixed_7b").push(block_e(), "Mixed_7c");
  all.push(nn::global_avg_pool2d(), "avgpool").push(nn::dropout(0.5), "dropout");
  all.push(nn::dense(Sizes(given).classes(1000)), "fc");
  return nn::layer(std::move(all));
}

}  // namespace

std::vector<Entry> inception() {
  return {{.name = "inception3",
           .doc = "Inception v3 without the auxiliary head (Szegedy et al. 2016)",
           .input = {299, 299, 3},
           .parameters = 23834568,
           .smallest = {75, 75, 3},
           .make = inception_network}};
}

}  // namespace varve::zoo
