#include "cli/predict_places.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/predict_inputs.h"
#include "cli/text.h"
#include "varve/io.h"
#include "varve/ops.h"
#include "varve/train/detection.h"

namespace varve::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint8_t kNotSeen = 255;

// One thing in one picture: a box, or a class with its share of the pixels.
struct Seen {
  std::string name;
  double value = 0;           // the score, or the share
  std::vector<double> place;  // left, top, right, bottom of a box, in pixels
};
struct SeenIn {
  std::string picture, mask;  // mask: the file that was written
  std::vector<Seen> all;
};

std::string class_name(const train::TrainedModel& run, std::int64_t number) {
  return number < std::ssize(run.classes) ? run.classes[static_cast<std::size_t>(number)] : cat(number);
}

// Of the picture's own size; what the network was not shown is 255.
Picture whole_mask(const std::vector<std::uint8_t>& labels, const Shape& shape, const FilledPart& part) {
  const Picture small = {.height = shape[0], .width = shape[1], .channels = 1, .pixels = labels};
  const Picture seen = take_nearest(small, {0, 0, shape[0], shape[1], shape[0], shape[1]}, part.height, part.width);
  Picture mask = {.height = part.of_height, .width = part.of_width, .channels = 1, .pixels = {}};
  mask.pixels.assign(static_cast<std::size_t>(mask.height * mask.width), kNotSeen);
  for (std::int64_t row = 0; row < part.height; ++row)
    std::copy_n(seen.pixels.begin() + row * part.width, part.width,
                mask.pixels.begin() + (part.top + row) * mask.width + part.left);
  return mask;
}

// Masks of pictures of the same name in several folders are numbered.
std::string mask_file(const std::string& folder, const std::string& picture, const std::vector<SeenIn>& before) {
  const std::string stem = (fs::path(folder) / fs::path(picture).stem()).lexically_normal().string();
  std::string file = stem + ".mask.png";
  const auto taken = [&] {
    return std::any_of(before.begin(), before.end(), [&](const SeenIn& other) { return other.mask == file; });
  };
  for (int i = 2; taken(); ++i) file = cat(stem, "-", i, ".mask.png");
  return file;
}

void see_mask(const train::TrainedModel& run, const Tensor& output, const FilledPart& part, SeenIn& seen) {
  std::vector<std::uint8_t> labels;
  std::vector<double> counts(static_cast<std::size_t>(output.dim(-1)));
  for (const std::int64_t label : argmax(output).to_vector<std::int64_t>()) {
    labels.push_back(static_cast<std::uint8_t>(label));
    ++counts[static_cast<std::size_t>(label)];
  }
  save_mask(seen.mask, whole_mask(labels, {output.dim(1), output.dim(2)}, part));
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] > 0)
      seen.all.push_back(
          {class_name(run, static_cast<std::int64_t>(c)), counts[c] / static_cast<double>(labels.size()), {}});
  std::stable_sort(seen.all.begin(), seen.all.end(), [](const Seen& a, const Seen& b) { return a.value > b.value; });
}

void see_boxes(const train::TrainedModel& run, const Tensor& output, const FilledPart& part, double score,
               SeenIn& seen) {
  const std::vector<train::FoundBox> found = train::find_boxes(output, {.score = score}).at(0);
  for (const train::FoundBox& box : found) {
    const auto x = [&](double share) {
      return static_cast<double>(part.left) + share * static_cast<double>(part.width);
    };
    const auto y = [&](double share) {
      return static_cast<double>(part.top) + share * static_cast<double>(part.height);
    };
    seen.all.push_back({class_name(run, box.kind), box.score, {x(box.left), y(box.top), x(box.right), y(box.bottom)}});
  }
}

void print_places_json(const std::vector<SeenIn>& all) {
  auto list = nlohmann::ordered_json::array();
  for (const SeenIn& seen : all) {
    nlohmann::ordered_json one{{"input", seen.picture}};
    if (!seen.mask.empty()) one["mask"] = seen.mask;
    auto things = nlohmann::ordered_json::array();
    for (const Seen& thing : seen.all) {
      nlohmann::ordered_json answer{{"name", thing.name}, {"value", thing.value}};
      if (!thing.place.empty()) answer["box"] = thing.place;
      things.push_back(std::move(answer));
    }
    one["answers"] = std::move(things);
    list.push_back(std::move(one));
  }
  std::cout << list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

std::vector<std::string> cells_of(const Seen& thing) {
  std::vector<std::string> cells = {thing.name, fixed(thing.value, 4)};
  for (const double at : thing.place) cells.push_back(fixed(at, 1));
  return cells;
}

void print_places_csv(const std::vector<SeenIn>& all, bool masks) {
  std::cout << (masks ? "input,mask,class,share\n" : "input,class,score,left,top,right,bottom\n");
  for (const SeenIn& seen : all)
    for (const Seen& thing : seen.all) {
      std::cout << csv_field(seen.picture) << (masks ? "," + csv_field(seen.mask) : "");
      std::vector<std::string> cells = cells_of(thing);
      cells[0] = csv_field(cells[0]);
      std::cout << ',' << joined(cells, ",") << '\n';
    }
}

void print_places(const std::vector<SeenIn>& all) {
  for (const SeenIn& seen : all) {
    std::cout << printable(seen.picture) << (seen.mask.empty() ? "" : " → " + printable(seen.mask)) << '\n';
    std::vector<std::vector<std::string>> rows;
    for (const Seen& thing : seen.all) rows.push_back(cells_of(thing));
    std::cout << (rows.empty() ? "  nothing found\n" : aligned(rows, "  "));
  }
}

}  // namespace

bool answers_places(const train::TrainedModel& run) {
  if (run.config.loss == "detection") return true;
  if (run.input.rank() != 3 || run.dtype != f32 || !run.config.loss.ends_with("cross_entropy")) return false;
  Shape one = {1};
  for (const std::int64_t size : run.input) one.push_back(size);
  const Tensor output = (*run.model)(zeros(one));  // for its shape, never computed
  return output.rank() == 4 && output.dim(1) == run.input[0] && output.dim(2) == run.input[1];
}

int predict_places(const train::TrainedModel& run, const PlaceOptions& options) {
  const bool boxes = run.config.loss == "detection";
  std::vector<SeenIn> all;
  if (!boxes && !fs::is_directory(options.out))
    throw Error(cat("'", options.out, "' is no folder to write masks into."));
  for (const std::string& file : pictures_of(options.files)) {
    const Picture whole = load_picture(file, static_cast<int>(run.input[2]));
    const FilledPart part = filled_part(whole.height, whole.width, run.input[0], run.input[1]);
    const Tensor output = train::predict(*run.model, picture_sample(run, file));
    SeenIn seen = {.picture = file, .mask = boxes ? "" : mask_file(options.out, file, all), .all = {}};
    if (boxes)
      see_boxes(run, output, part, options.score, seen);
    else
      see_mask(run, output, part, seen);
    all.push_back(std::move(seen));
  }
  if (options.json)
    print_places_json(all);
  else if (options.csv)
    print_places_csv(all, !boxes);
  else
    print_places(all);
  return kOk;
}

}  // namespace varve::cli
