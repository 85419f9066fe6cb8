// What is needed to use a network besides its weights. It is the run's model.json, and metadata of its weights.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "varve/data.h"

namespace varve::train {

struct ModelCard {
  Shape input;
  DType dtype = f32;
  std::vector<std::string> classes;
  std::vector<std::string> words;                        // of the vocabulary; empty when there is none
  std::shared_ptr<const data::TableEncoder> table = {};  // of a network that takes rows of a table
  std::shared_ptr<const data::SoundEncoder> sound = {};  // of one that takes sounds

  std::map<std::string, std::vector<std::string>> target_classes = {};  // of several targets, by name

  data::Info info() const;  // as data::load takes it
};
ModelCard card_of(const data::Dataset& train);
std::string card_text(const ModelCard& card);
ModelCard parse_card(const std::string& text, const std::string& path);  // `path` for messages
ModelCard load_card(const std::string& folder);

inline constexpr const char* kCardKey = "varve.model";  // in the metadata of weights

}  // namespace varve::train
