#include "train/model_card.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "varve/io.h"

namespace varve::train {
namespace {

using nlohmann::json;

json from_column(const data::TableColumn& column) {
  return {{"name", column.name},
          {"categories", column.categories},
          {"mean", column.mean},
          {"deviation", column.deviation},
          {"date", column.date},
          {"missing", static_cast<int>(column.missing)},
          {"fill", column.fill},
          {"fill_category", column.fill_category},
          {"missing_count", column.missing_count}};
}

data::TableColumn to_column(const json& j, const std::string& path) {
  data::TableColumn column = {.name = j.at("name"),
                              .categories = j.at("categories").get<std::vector<std::string>>(),
                              .mean = j.at("mean"),
                              .deviation = j.at("deviation")};
  // Runs of before there were dates and missing values do not speak of them.
  column.date = j.value("date", false);
  column.fill = j.value("fill", 0.0);
  column.fill_category = j.value("fill_category", "");
  column.missing_count = j.value("missing_count", std::int64_t{0});
  const std::int64_t missing = j.value("missing", std::int64_t{0});
  const bool known = missing >= 0 && missing <= static_cast<std::int64_t>(data::Missing::category);
  if (!known || !std::isfinite(column.fill) || !std::isfinite(column.mean) ||
      !(std::isfinite(column.deviation) && column.deviation > 0))
    throw Error(path + ": column \"" + column.name + "\" cannot be scaled by what is written there.");
  column.missing = static_cast<data::Missing>(missing);
  return column;
}

json from_table(const data::TableEncoder& table) {
  json inputs = json::array();
  for (const data::TableColumn& column : table.inputs) inputs.push_back(from_column(column));
  return {{"inputs", std::move(inputs)},
          {"target", from_column(table.target)},
          {"target_place", table.target_place},
          {"named", table.named},
          {"separator", std::string(1, table.separator)}};
}

data::TableEncoder to_table(const json& j, const ModelCard& card, const std::string& path) {
  data::TableEncoder table;
  for (const json& column : j.at("inputs")) table.inputs.push_back(to_column(column, path));
  table.target = to_column(j.at("target"), path);
  table.target_place = j.at("target_place");
  table.named = j.at("named");
  const std::string separator = j.at("separator");
  const bool fits = card.input == Shape{table.width()} && card.dtype == f32 && table.target_place >= 0 &&
                    table.target_place <= std::ssize(table.inputs) && table.target.categories == card.classes &&
                    separator.size() == 1 && separator.find_first_of("\"\r\n") == std::string::npos;
  if (!fits) throw Error(path + ": the columns of its table do not fit a sample of " + card.input.str() + ".");
  table.separator = separator[0];
  return table;
}

json from_sound(const data::SoundEncoder& sound) {
  return {{"rate", sound.rate}, {"frames", sound.frames},   {"mels", sound.mels}, {"window", sound.window},
          {"step", sound.step}, {"picture", sound.picture}, {"mean", sound.mean}, {"deviation", sound.deviation}};
}

data::SoundEncoder to_sound(const json& j, const ModelCard& card, const std::string& path) {
  const data::SoundEncoder sound = {.rate = j.at("rate"),
                                    .frames = j.at("frames"),
                                    .mels = j.at("mels"),
                                    .window = j.at("window"),
                                    .step = j.at("step"),
                                    .picture = j.at("picture"),
                                    .mean = j.at("mean"),
                                    .deviation = j.at("deviation")};
  if (card.input != sound.shape() || card.dtype != f32 || !std::isfinite(sound.mean) ||
      !(std::isfinite(sound.deviation) && sound.deviation > 0))
    throw Error(path + ": its sounds do not fit a sample of " + card.input.str() + ".");
  return sound;
}

}  // namespace

data::Info ModelCard::info() const {
  return {.name = "",
          .classes = classes,
          .vocabulary = words.empty() ? nullptr : std::make_shared<const data::Vocabulary>(words),
          .table = table,
          .sound = sound,
          .target_classes = target_classes};
}

ModelCard card_of(const data::Dataset& train) {
  const data::Info& info = train.info();
  std::map<std::string, std::vector<std::string>> target_classes;
  for (std::size_t i = 0; train.targets().size() > 1 && i < train.targets().size(); ++i)
    if (const auto names = train.class_names(i); !names.empty()) target_classes[train.targets()[i].name] = names;
  return {.input = train.x().shape,
          .dtype = train.x().dtype,
          .classes = info.classes,
          .words = info.vocabulary ? info.vocabulary->words() : std::vector<std::string>{},
          .table = info.table,
          .sound = info.sound,
          .target_classes = std::move(target_classes)};
}

std::string card_text(const ModelCard& card) {
  json j = {{"format", 1},
            {"input", card.input.vec()},
            {"dtype", name(card.dtype)},
            {"classes", card.classes},
            {"words", card.words}};
  if (card.table) j["table"] = from_table(*card.table);
  if (card.sound) j["sound"] = from_sound(*card.sound);
  if (!card.target_classes.empty()) j["target_classes"] = card.target_classes;
  // Words of a corpus may be any bytes: what is not UTF-8 is replaced rather than refused.
  return j.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

ModelCard parse_card(const std::string& text, const std::string& path) {
  try {
    const json j = json::parse(text);
    ModelCard card;
    for (const json& size : j.at("input"))
      if (!size.is_number_integer()) throw Error(path + ": input " + j.at("input").dump() + " is not a shape.");
    card.input = Shape(j.at("input").get<std::vector<std::int64_t>>());
    for (const std::int64_t size : card.input)
      if (size < 1) throw Error(path + ": input " + card.input.str() + " is not the shape of a sample.");
    card.input.numel();
    card.dtype = parse_dtype(j.at("dtype").get<std::string>());
    card.classes = j.at("classes").get<std::vector<std::string>>();
    card.words = j.at("words").get<std::vector<std::string>>();
    if (j.contains("target_classes"))
      card.target_classes = j["target_classes"].get<std::map<std::string, std::vector<std::string>>>();
    if (j.contains("table")) card.table = std::make_shared<const data::TableEncoder>(to_table(j["table"], card, path));
    if (j.contains("sound")) card.sound = std::make_shared<const data::SoundEncoder>(to_sound(j["sound"], card, path));
    return card;
  } catch (const json::exception& e) {
    throw Error(path + ": is not the description of a model that a run writes (" + e.what() + ").");
  }
}

ModelCard load_card(const std::string& folder) {
  const std::string path = folder + "/model.json";
  return parse_card(load_text(path), path);
}

}  // namespace varve::train
