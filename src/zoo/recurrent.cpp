#include "zoo/families.h"

namespace varve::zoo {

namespace {

// An image read a row at a time, and classified after the last.
Entry rows(const std::string& name, nn::Recurrent (*make)(std::int64_t, nn::RecurrentLayerOptions),
           std::int64_t parameters) {
  return {.name = name,
          .doc = name + " of 128 units that reads a 28×28 image a row at a time",
          .input = {28, 28, 1},
          .classes = 10,
          .parameters = parameters,
          .train = R"(data = "mnist"
optimizer = {adam = {rate = 1e-3}}
clip_norm = 1
epochs = 10
batch = 128
validation = 0.1
)",
          .sizes = {"width"},
          .make = [make](const auto& given) {
            const Sizes s(given);
            return nn::layer(nn::sequential(nn::reshape({28, 28}), make(s.whole("width", 128), {.sequences = false}),
                                            nn::dense(s.classes(10))));
          }};
}

nn::Layer sentiment(const std::map<std::string, double>& given) {
  const Sizes s(given);
  nn::Sequential all;
  all.push(nn::embedding(s.whole("vocabulary", 5000, 1 << 24), s.whole("embedded", 32),
                         {.weight_init = nn::init::uniform(0.05)}),
           "embedding");
  all.push(nn::lstm(s.whole("width", 100), {.sequences = false}), "lstm");
  all.push(nn::dense(s.classes(2)), "fc");
  return nn::layer(std::move(all));
}

Entry lstm_imdb() {
  return {.name = "lstm-imdb",
          .doc = "embedding 5000×32, LSTM 100, dense 2, on IMDb reviews (Kabakus 2020)",
          .input = {500},
          .dtype = i32,
          .classes = 2,
          .parameters = 213402,
          .smallest = {16},
          .train = R"(data = "imdb"
optimizer = {adam = {rate = 1e-2, weight_decay = 3e-4}}
schedule = {cosine = {}}
clip_norm = 1
label_smoothing = 0.1
epochs = 10
batch = 500
validation = 0.2
)",
          .sizes = {"vocabulary", "embedded", "width"},
          .make = sentiment};
}

struct Language {
  std::int64_t width = 256;
  int layers = 1;
  bool stateful = true;  // each batch goes on where the last one ended
  double dropout = 0;    // after the embedding, between layers and before the output, as Zaremba et al. do
};

// The next word from those before it: [N, T] to [N, T, vocabulary].
nn::Layer language(const Language& standard, const std::map<std::string, double>& given) {
  const Sizes s(given);
  const std::int64_t width = s.whole("width", standard.width), words = s.whole("vocabulary", s.classes(10000), 1 << 24);
  const double dropout = s.share("dropout", standard.dropout);
  nn::Sequential all;
  all.push(nn::embedding(words, width, {.weight_init = nn::init::uniform(0.1)}), "embedding");
  if (dropout > 0) all.push(nn::dropout(dropout), "dropout0");
  all.push(nn::lstm(width, {.layers = static_cast<int>(s.whole("layers", standard.layers, 1000)),
                            .stateful = s.flag("stateful", standard.stateful),
                            .dropout = dropout,
                            .forget_bias = 0}),
           "lstm");
  if (dropout > 0) all.push(nn::dropout(dropout), "dropout1");
  all.push(nn::dense(words), "fc");
  return nn::layer(std::move(all));
}

struct Text {
  std::string name, doc = {};
  std::int64_t steps = 20, parameters = 0;
  std::string train = {};
};
Entry entry(const Text& text, const Language& standard) {
  return {.name = text.name,
          .doc = text.doc,
          .input = {text.steps},
          .dtype = i32,
          .classes = 10000,
          .parameters = text.parameters,
          .smallest = {5},
          .train = text.train,
          .sizes = {"vocabulary", "width", "layers", "dropout", "stateful"},
          .make = [standard](const auto& given) { return language(standard, given); }};
}

// Descent at full rate first, then a smaller one from epoch to epoch (Zaremba et al. 2014). Rates and norms are of the
// mean loss of a word; theirs are of its sum over the steps.
struct Descent {
  std::string factor;
  int after = 4, epochs = 10;
};
Entry ptb(const Text& text, const Language& standard, const Descent& descent) {
  const std::string size = std::to_string(standard.layers) + "×" + std::to_string(standard.width);
  Text full = text;
  full.doc = "word model of Penn Treebank, LSTM " + size + ", state kept from batch to batch (Kabakus 2020)";
  full.train = "data = {ptb = {steps = " + std::to_string(text.steps) + R"(, streams = 20}}
optimizer = {sgd = {rate = 20}}
schedule = {step_decay = {every = 1, factor = )" +
               descent.factor + ", after = " + std::to_string(descent.after) + R"(}}
clip_norm = 0.25
batch = 20
epochs = )" + std::to_string(descent.epochs) +
               "\n";
  return entry(full, standard);
}

Entry unrolled(const std::string& name, std::int64_t steps) {
  return entry(
      {.name = name,
       .doc = "embedding 10000×256, 2 × LSTM 256, dense 10000, " + std::to_string(steps) + " steps (Shi et al. 2016)",
       .steps = steps,
       .parameters = 6180624,
       .train = "data = {ptb = {steps = " + std::to_string(steps) + R"(, streams = 128}}
optimizer = {sgd = {rate = 20}}
clip_norm = 0.25
epochs = 10
batch = 128
)"},
      {.width = 256, .layers = 2, .stateful = false});
}

}  // namespace

std::vector<Entry> recurrent() {
  return {
      rows("rnn", nn::rnn, 21386),
      rows("gru", nn::gru, 61962),
      rows("lstm", nn::lstm, 81674),
      lstm_imdb(),
      unrolled("lstm32", 32),
      unrolled("lstm64", 64),
      ptb({.name = "ptb-small", .steps = 20, .parameters = 4330800}, {.width = 200, .dropout = 0.2}, {.factor = "0.5"}),
      ptb({.name = "ptb-medium", .steps = 40, .parameters = 14892400}, {.width = 600, .dropout = 0.5},
          {.factor = "0.8", .after = 6, .epochs = 20}),
      ptb({.name = "ptb-large", .steps = 50, .parameters = 19775200}, {.width = 650, .layers = 2, .dropout = 0.5},
          {.factor = "0.8", .after = 6, .epochs = 20})};
}

}  // namespace varve::zoo
