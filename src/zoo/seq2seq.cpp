#include "zoo/families.h"

namespace varve::zoo {

namespace {

struct Translation {
  std::int64_t source = 0;  // tokens of the input that are the sentence to translate; the others are the target so far
  std::int64_t vocabulary = 0, width = 0;
  bool lstm = false;  // instead of GRU
};

// The encoder reads the source; the decoder starts from its last state, and each of its steps looks back at every
// encoder output: y = V·tanh(W·[h; attention(h, encoded)]).
class Seq2Seq : public nn::Module {
 public:
  explicit Seq2Seq(const Translation& sizes)
      : sizes_(sizes),
        source_(nn::embedding(sizes.vocabulary, sizes.width, {.weight_init = nn::init::uniform(0.1)})),
        target_(nn::embedding(sizes.vocabulary, sizes.width, {.weight_init = nn::init::uniform(0.1)})),
        mix_(nn::dense(sizes.width, {.activation = nn::tanh})),
        out_(nn::dense(sizes.vocabulary)) {
    add("source_embedding", source_);
    add("target_embedding", target_);
    add("mix", mix_);
    add("out", out_);
    learns_size();
  }

  // Token ids [N, S + T] -> [N, T, V]
  Tensor forward(Tensor x, Mode mode) override {
    if (x.rank() != 2 || x.dim(1) <= sizes_.source)
      throw Error(where() + ": expected token ids [N, T], the first " + std::to_string(sizes_.source) +
                  " of them the source and at least one of the target, got shape " + x.shape().str() + ".");
    const Tensor source = source_(x.slice({{}, {0, sizes_.source}}), mode);
    const Tensor target = target_(x.slice({{}, {sizes_.source, kEnd}}), mode);
    const RecurrentResult encoded = run("encoder", source, {});
    const RecurrentResult decoded = run("decoder", target, {.h0 = encoded.h, .c0 = encoded.c});
    const Tensor memory = by_sample(encoded.y), h = by_sample(decoded.y);
    const Tensor mixed = mix_(concat({h, attention(h, memory, memory)}, -1), mode);
    return out_(mixed, mode);
  }
  std::string kind() const override { return "seq2seq"; }

 private:
  static Tensor by_sample(const Tensor& steps) { return transpose(steps, {1, 0, 2}); }  // [T, N, D] <-> [N, T, D]

  RecurrentResult run(const std::string& name, const Tensor& x, const RecurrentOptions& options) {
    const std::int64_t w = sizes_.width, gates = sizes_.lstm ? 4 : 3;
    const auto weight = [&](const std::string& part, const nn::Initializer& initial) {
      return nn::compute_type(parameter(name + part, {w, gates * w}, nn::init::gates(initial, gates),
                                        {.fans = {w, w}, .foreign = {nn::ForeignLayout::transposed}}));
    };
    const auto bias = [&](const std::string& part) {
      return nn::compute_type(
          parameter(name + part, {gates * w}, sizes_.lstm ? nn::init::forget_bias() : nn::init::zeros()));
    };
    RecurrentWeights weights = {.input = weight(".weight_ih_l0", nn::init::glorot_uniform()),
                                .hidden = weight(".weight_hh_l0", nn::init::orthogonal()),
                                .bias = bias(".bias_ih_l0")};
    if (!sizes_.lstm) weights.hidden_bias = bias(".bias_hh_l0");
    const Tensor steps = by_sample(nn::compute_type(x));
    return sizes_.lstm ? lstm(steps, {weights}, options) : gru(steps, {weights}, options);
  }

  Translation sizes_;
  nn::Embedding source_, target_;
  nn::Dense mix_, out_;
};

constexpr std::int64_t kSource = 20, kTarget = 20;

nn::Layer seq2seq_network(const std::map<std::string, double>& given) {
  const Sizes s(given);
  return nn::layer(Seq2Seq({.source = s.whole("source", kSource),
                            .vocabulary = s.whole("vocabulary", s.classes(10000), 1 << 24),
                            .width = s.whole("width", 256),
                            .lstm = given.contains("lstm") && given.at("lstm") != 0}));
}

}  // namespace

std::vector<Entry> seq2seq() {
  return {{.name = "seq2seq",
           .doc = "encoder and decoder (GRU, or LSTM with lstm = 1) with attention (Luong et al. 2015); its input is "
                  "the source's tokens, then the target's",
           .input = {kSource + kTarget},
           .dtype = i32,
           .classes = 10000,
           .parameters = 8610832,
           .smallest = {kSource + 4},
           .sizes = {"source", "vocabulary", "width", "lstm"},
           .make = seq2seq_network}};
}

}  // namespace varve::zoo
