#include "zoo/families.h"

namespace varve::zoo {

namespace {

// Norms first, learnt positions, and the embedding's table again as the output layer.
nn::Layer gpt_network(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const std::int64_t width = s.whole("width", 512), layers = s.whole("layers", 6, 1000);
  const double dropout = s.share("dropout", 0);
  const nn::Embedding table =
      nn::embedding(s.whole("vocabulary", s.classes(10000), 1 << 24), width, {.weight_init = nn::init::normal(0.02)});
  nn::Sequential blocks, all;
  for (std::int64_t i = 0; i < layers; ++i)
    blocks.push(
        nn::transformer_block(width, {.heads = s.whole("heads", 8, 1 << 16), .causal = true, .dropout = dropout}));
  all.push(table, "embedding").push(nn::position_embedding(s.whole("context", 256)), "positions");
  if (dropout > 0) all.push(nn::dropout(dropout), "dropout");
  all.push(std::move(blocks), "blocks").push(nn::layer_norm(), "norm").push(nn::TiedDense(table), "head");
  return nn::layer(std::move(all));
}

}  // namespace

std::vector<Entry> gpt() {
  return {{.name = "gpt-small",
           .doc = "decoder-only transformer: d 512, 6 layers, 8 heads, context 256, tied output layer",
           .input = {256},
           .dtype = i32,
           .classes = 10000,
           .parameters = 24166400,
           .smallest = {16},
           .train = R"(data = {ptb = {steps = 256, streams = 16}}
optimizer = {adamw = {rate = 3e-4, weight_decay = 0.1}}
schedule = {cosine = {final = 0.1}}
warmup = 1
clip_norm = 1
epochs = 10
batch = 16
)",
           .sizes = {"vocabulary", "width", "layers", "heads", "context", "dropout"},
           .make = gpt_network}};
}

}  // namespace varve::zoo
