// The table of layers that network files know: what each accepts, and how it is made.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "varve/nn/layers.h"
#include "varve/nn/text.h"
#include "varve/toml.h"

namespace varve::nn {

constexpr std::int64_t kLargestSize = 100'000'000;  // of channels, features, words: more is a slip of the pen

// Embeddings by name, for layers that tie their weights to one. Inside a block those outside it are seen too.
struct Embeddings {
  std::map<std::string, Embedding> made;
  const Embeddings* outer = nullptr;
};

// The keys of one layer as the file gives them, with standards in place of those it leaves out.
class Fields {
 public:
  Fields(const LayerSchema& schema, const text::Value& value, const text::Place& place, const Embeddings& embeddings);

  std::int64_t size(const std::string& key) const { return whole(key, 1, kLargestSize); }
  std::int64_t whole(const std::string& key, std::int64_t low, std::int64_t high) const;
  double number(const std::string& key, double low, double high) const;
  double share(const std::string& key) const { return number(key, 0, 1); }
  bool flag(const std::string& key) const;
  Pair pair(const std::string& key, std::int64_t low = 1) const;
  ConvPadding padding(const std::string& key) const;
  std::pair<Padding, Padding> sides(const std::string& key) const;  // rows, columns
  Activation activation(const std::string& key) const;
  Initializer init(const std::string& key) const;  // empty for "auto"
  std::vector<std::int64_t> sizes(const std::string& key, std::int64_t low) const;
  // An integer, or an array of as many as one of `counts` says.
  std::vector<std::int64_t> some_sizes(const std::string& key, std::int64_t low, const std::vector<std::size_t>& counts,
                                       const char* expected) const;
  bool is(const std::string& key, const std::string& word) const;  // the string `word`
  // What the key's word stands for; any other is refused.
  template <class T>
  T choice(const std::string& key, const std::vector<std::pair<const char*, T>>& words) const {
    std::vector<std::string> known;
    for (const auto& [word, meaning] : words) {
      if (is(key, word)) return meaning;
      known.push_back(word);
    }
    unknown_word(key, known);
  }
  Embedding embedding(const std::string& key) const;

 private:
  const text::Value& at(const std::string& key) const;
  [[noreturn]] void unknown_word(const std::string& key, const std::vector<std::string>& known) const;
  Padding side(const text::Value& value, const std::string& key) const;
  const LayerSchema& schema_;
  text::Value values_;
  text::Place place_;
  const Embeddings& embeddings_;
};

struct LayerKind {
  LayerSchema schema;
  std::function<Layer(const Fields&)> make;
};
const std::vector<LayerKind>& layer_kinds();
const LayerKind* find_kind(const std::string& name);  // null when there is none

// The rows of the table, by topic.
std::vector<LayerKind> image_kinds();
std::vector<LayerKind> volume_kinds();
std::vector<LayerKind> sequence_kinds();
std::vector<LayerKind> plain_kinds();

}  // namespace varve::nn
