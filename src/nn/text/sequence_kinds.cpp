// Layers of sequences: token ids [T], and vectors over time [T, C].
#include "nn/text/keys.h"

namespace varve::nn {
namespace {

LayerKind embedding_kind() {
  return {{"embedding",
           "A vector for each token id",
           {{"vocabulary", kWhole, "", "how many tokens there are"},
            {"width", kWhole, "", "size of a vector"},
            {"weight_init", kInit, "\"auto\"", "where vectors start; auto: normal, deviation 1"},
            {"padding", kWhole, "-1", "the id of padding, which is masked; -1: there is none"}}},
          [](const Fields& f) {
            EmbeddingOptions options{.weight_init = f.init("weight_init")};
            if (const std::int64_t padding = f.whole("padding", -1, kLargestSize); padding >= 0)
              options.padding = padding;
            return layer(embedding(f.size("vocabulary"), f.size("width"), options));
          }};
}

LayerKind recurrent_kind(const std::string& name, const std::string& doc, Recurrent::Kind kind) {
  std::vector<LayerKey> keys = {{"width", kWhole, "", "size of the state"},
                                {"layers", kWhole, "1", "how many, one above the other"},
                                {"bidirectional", kFlag, "false", "whether another reads from the end"},
                                {"sequences", kFlag, "true", "every step's state; false: only the last"},
                                {"stateful", kFlag, "false", "whether a batch goes on where the last one ended"},
                                {"dropout", kNumber, "0.0", "between layers"},
                                bias_key(),
                                {"input_init", kInit, "\"auto\"", "weights of the input; auto: Glorot"},
                                {"hidden_init", kInit, "\"auto\"", "weights of the state; auto: orthogonal"}};
  if (kind == Recurrent::rnn) keys.push_back({"relu", kFlag, "false", "relu in place of tanh"});
  if (kind == Recurrent::lstm) keys.push_back({"forget_bias", kNumber, "1.0", "where the forget gate's bias starts"});
  return {{name, doc, keys}, [kind](const Fields& f) {
            RecurrentLayerOptions options{.layers = static_cast<int>(f.whole("layers", 1, 64)),
                                          .bidirectional = f.flag("bidirectional"),
                                          .sequences = f.flag("sequences"),
                                          .stateful = f.flag("stateful"),
                                          .dropout = f.share("dropout"),
                                          .bias = f.flag("bias"),
                                          .input_init = f.init("input_init"),
                                          .hidden_init = f.init("hidden_init")};
            if (kind == Recurrent::rnn) options.relu = f.flag("relu");
            if (kind == Recurrent::lstm) options.forget_bias = f.number("forget_bias", -100, 100);
            return layer(Recurrent(kind, f.size("width"), options));
          }};
}

LayerKind attention_kind() {
  return {{"multi_head_attention",
           "Self-attention",
           {{"heads", kWhole, "", "how many; they divide the width"},
            {"causal", kFlag, "false", "whether a step sees only those before it"},
            {"dropout", kNumber, "0.0", "of the output"},
            bias_key()}},
          [](const Fields& f) {
            return layer(multi_head_attention(
                f.size("heads"), {.causal = f.flag("causal"), .dropout = f.share("dropout"), .bias = f.flag("bias")}));
          }};
}

LayerKind transformer_kind() {
  return {{"transformer_block",
           "Attention and a perceptron, each with a norm and a shortcut",
           {{"width", kWhole, "", "of the vectors"},
            {"heads", kWhole, "8", "of the attention"},
            {"hidden", kWhole, "0", "width of the perceptron; 0: four times the width"},
            {"causal", kFlag, "false", "whether a step sees only those before it"},
            {"norm_first", kFlag, "true", "norms before the parts; false: after them"},
            {"dropout", kNumber, "0.0", "of what each part adds"},
            activation_key("\"gelu\"")}},
          [](const Fields& f) {
            return layer(transformer_block(f.size("width"), {.heads = f.size("heads"),
                                                             .hidden = f.whole("hidden", 0, kLargestSize),
                                                             .causal = f.flag("causal"),
                                                             .norm_first = f.flag("norm_first"),
                                                             .dropout = f.share("dropout"),
                                                             .activation = f.activation("activation")}));
          }};
}

}  // namespace

std::vector<LayerKind> sequence_kinds() {
  return {
      embedding_kind(),
      {{"tied_dense",
        "The output layer of a language model, with the weights of an embedding",
        {{"embedding", kWord, "", "that layer's name"}, {"bias", kFlag, "false", "whether a bias is added"}}},
       [](const Fields& f) { return layer(TiedDense(f.embedding("embedding"), f.flag("bias"))); }},
      {{"position_embedding",
        "Adds a learnt vector for each position",
        {{"context", kWhole, "", "the longest sequence"},
         {"weight_init", kInit, "\"auto\"", "where vectors start; auto: normal, deviation 0.02"}}},
       [](const Fields& f) { return layer(position_embedding(f.size("context"), f.init("weight_init"))); }},
      recurrent_kind("rnn", "A plain recurrent layer", Recurrent::rnn),
      recurrent_kind("lstm", "Long short-term memory", Recurrent::lstm),
      recurrent_kind("gru", "Gated recurrent unit", Recurrent::gru),
      {{"last_step", "The last valid step: [T, C] to [C]", {}}, [](const Fields&) { return layer(last_step()); }},
      {{"mean_steps", "The average over valid steps: [T, C] to [C]", {}},
       [](const Fields&) { return layer(mean_steps()); }},
      {{"max_steps", "The largest over valid steps: [T, C] to [C]", {}},
       [](const Fields&) { return layer(max_steps()); }},
      {{"mask_steps",
        "Steps whose features all equal a value are padding from here on",
        {{"value", kNumber, "0.0", "that value"}}},
       [](const Fields& f) { return layer(mask_steps(f.number("value", -1e30, 1e30))); }},
      {{"unmask", "From here on every step counts, padding too", {}}, [](const Fields&) { return layer(unmask()); }},
      attention_kind(),
      transformer_kind(),
  };
}

}  // namespace varve::nn
