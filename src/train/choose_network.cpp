// A network for data that comes without one.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "varve/io.h"
#include "varve/toml.h"
#include "varve/train/run.h"

namespace varve::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kManyPictures = 5000;  // enough for a residual network to be worth its time

std::string named(const std::string& layer) { return "[[layer]]\n" + layer + "\n"; }

std::string join_sizes(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text;
}

// What the data asks of the last layer.
struct Head {
  std::int64_t outputs = 1;
  bool classes = false;
  bool pixels = false, boxes = false;  // a class for each pixel; boxes around things of so many classes
  std::string str() const {
    if (pixels) return std::to_string(outputs) + " classes of each pixel";
    if (boxes) return "boxes of " + std::to_string(outputs) + (outputs == 1 ? " class" : " classes");
    return classes        ? std::to_string(outputs) + " classes"
           : outputs == 1 ? std::string("a number")
                          : std::to_string(outputs) + " numbers";
  }
};
Head head_of(const data::Dataset& train) {
  const auto named = static_cast<std::int64_t>(train.info().classes.size());
  if (train.info().boxes) return {.outputs = named, .boxes = true};
  if (train.y().dtype == i32 && train.y().shape.rank() == 2 && train.x().shape.rank() == 3)
    return {.outputs = train.classes(), .classes = true, .pixels = true};
  if (train.inputs().size() > 1 || train.targets().size() > 1)
    throw Error("no network is chosen for samples of " + str(train.inputs()) + " with " + str(train.targets()) +
                ": name a network file.");
  if (is_integer(train.y().dtype) && train.y().shape.rank() == 0) return {train.classes(), true};
  if (is_floating(train.y().dtype) && train.y().shape.rank() == 1) return {train.y().shape[0], false};
  throw Error("no network is chosen for targets of " + train.y().str() + ": name a network file or one of the zoo.");
}

// ---- pictures

// Some files of a folder, from all of its classes.
std::vector<std::string> some_pictures(const std::string& folder) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> all, some;
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(folder, ignored), end; it != end; it.increment(ignored))
    if (it->is_regular_file(ignored) && has_picture_name(it->path().string())) all.push_back(it->path().string());
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < std::min(kMost, all.size()); ++i)
    some.push_back(all[i * all.size() / kMost % all.size()]);
  return some;
}

// A side that the pictures fill, and that a processor can train with.
void choose_picture_size(Config& config) {
  const bool voc = config.data.starts_with("voc:");
  if (!voc && !config.data.starts_with("folder:")) return;
  std::vector<std::int64_t> sides;
  bool grey = true;
  for (const std::string& file : some_pictures(voc ? config.data.substr(4) + "/JPEGImages" : config.data.substr(7))) {
    const Picture picture = load_picture(file);
    sides.push_back(std::min(picture.height, picture.width));
    grey = grey && picture.channels == 1;
  }
  if (sides.empty()) return;  // what is wrong with the folder is said when it is loaded
  std::nth_element(sides.begin(), sides.begin() + std::ssize(sides) / 2, sides.end());
  const std::int64_t middle = sides[sides.size() / 2];
  const std::int64_t side = middle < 32    ? std::max<std::int64_t>(8, middle / 4 * 4)
                            : middle < 64  ? 32
                            : middle < 200 ? 64
                                           : 96;
  config.data_options.try_emplace("height", static_cast<double>(side));
  config.data_options.try_emplace("width", static_cast<double>(side));
  config.data_options.try_emplace("channels", grey ? 1 : 3);
}

// Down to an eighth of the size, and for masks up again beside what was seen on the way.
std::string place_layers(const Shape& sample, const Head& head, std::string& what) {
  const auto convolution = [](int out, const std::string& more = "") {
    return named("conv2d = {out = " + std::to_string(out) + ", kernel = 3, padding = \"same\", bias = false}" + more) +
           named("batch_norm = {activation = \"relu\"}");
  };
  const auto as = [](const std::string& layers, const std::string& name) {  // the last one's name
    const std::string mark = "[[layer]]\n";
    const std::size_t last = layers.rfind(mark) + mark.size();
    return layers.substr(0, last) + "name = \"" + name + "\"\n" + layers.substr(last);
  };
  std::string layers = "input = [" + join_sizes(sample) + "]\n";
  if (head.boxes) {
    for (const int width : {16, 32, 64}) layers += convolution(width) + named("max_pool2d = 2");
    what = "4 convolutions of 16 to 96 channels, which answer for each cell of 8×8 pixels";
    return layers + convolution(96) + named("conv2d = {out = " + std::to_string(5 + head.outputs) + ", kernel = 1}");
  }
  layers += as(convolution(16), "whole") + named("max_pool2d = 2") + as(convolution(32), "half") +
            named("max_pool2d = 2") + convolution(64) + convolution(64);
  for (const auto& [name, width] : {std::pair("half", 32), std::pair("whole", 16)})
    layers += as(named("upsample2d = 2"), std::string("up_") + name) +
              named("concat = [\"up_" + std::string(name) + "\", \"" + name + "\"]") + convolution(width);
  what = "6 convolutions of 16 to 64 channels, down to a quarter of the size and up again";
  return layers + named("conv2d = {out = " + std::to_string(head.outputs) + ", kernel = 1}");
}

std::string picture_layers(const Shape& sample, const Head& head, std::string& what) {
  std::string layers = "input = [" + join_sizes(sample) + "]\n";
  std::int64_t width = 32, side = std::min(sample[0], sample[1]);
  int convolutions = 0;
  for (; convolutions < 4 && (side >= 8 || convolutions < 1); ++convolutions, side /= 2, width *= 2) {
    layers += named("conv2d = {out = " + std::to_string(width) + ", kernel = 3, padding = \"same\", bias = false}") +
              named("batch_norm = {activation = \"relu\"}");
    if (side >= 8) layers += named("max_pool2d = 2");
  }
  what = convolutions == 1
             ? "a convolution of 32 channels"
             : std::to_string(convolutions) + " convolutions of 32 to " + std::to_string(width / 2) + " channels";
  return layers + named("global_avg_pool2d = {}") + named("dropout = 0.2") +
         named("dense = " + std::to_string(head.outputs));
}

// ---- texts and sequences

// What words mean, over all words of a text.
std::string text_layers(std::int64_t length, std::int64_t vocabulary, const Head& head) {
  return "input = [" + std::to_string(length) + "]\n" +
         named("embedding = {vocabulary = " + std::to_string(vocabulary) + ", width = 32}") +
         named("conv1d = {out = 64, kernel = 3, padding = \"same\", activation = \"relu\"}") +
         named("mean_steps = {}") + named("dropout = 0.2") + named("dense = " + std::to_string(head.outputs));
}

// ---- settings

// Enough steps to learn something, and not so many epochs that it takes all day.
std::string training(const Head& head, std::int64_t samples, std::int64_t steps, std::int64_t most_epochs) {
  const std::int64_t batch = samples < 5000 ? 32 : 128;
  const std::int64_t epochs =
      std::clamp<std::int64_t>(steps * batch / std::max<std::int64_t>(samples, 1), 5, most_epochs);
  const char* loss = head.boxes ? "\"detection\"" : head.classes ? "\"cross_entropy\"" : "\"mse\"";
  return std::string("[train]\nloss = ") + loss +
         "\noptimizer = {adam = {rate = 1e-3}}\nbatch = " + std::to_string(batch) +
         "\nepochs = " + std::to_string(epochs) + "\n";
}

std::string run_name(const Config& config, const data::Dataset& train) {
  std::string name = train.info().name.empty() ? config.data : fs::path(train.info().name).stem().string();
  for (char& c : name)
    if (c == '/' || c == ':' || c == '=' || static_cast<unsigned char>(c) < 0x20) c = '-';
  return name.empty() || name.starts_with(".") ? "data" : name;
}

}  // namespace

Chosen choose_network(const std::vector<std::string>& overrides, const data::FetchOptions& fetch) {
  // The settings of the data, read beside a network that is none.
  std::vector<std::string> of_data, others;
  for (const std::string& setting : overrides)
    (setting.starts_with("data=") || setting.starts_with("data.") ? of_data : others).push_back(setting);
  Config config = config_from_toml("input = [1]\n[[layer]]\ndense = 1\n[train]\ndata = \"\"\n", "data", of_data);
  if (config.data.empty()) throw Error("choose_network: expected data=…, the data to choose a network for.");
  choose_picture_size(config);
  const auto of_numbers = [](const std::string& s) { return s == "loss=mse" || s == "loss=mae" || s == "loss=huber"; };
  const bool boxes = std::any_of(others.begin(), others.end(), [](const auto& o) { return o == "loss=detection"; });
  if (config.data.starts_with("voc:") && boxes)
    config.data_options.try_emplace("task", static_cast<double>(data::VocTask::detection));
  if (config.data.starts_with("csv:") && std::any_of(others.begin(), others.end(), of_numbers))
    config.data_options.try_emplace("classes", 0);
  const data::Dataset train = data::load(config.data, config.data_options, fetch).train;
  const Head head = head_of(train);
  const Shape sample = train.x().shape;
  std::string text, what;
  if (train.x().dtype == f32 && sample.rank() == 1) {
    const std::string hidden = std::to_string(train.size() < 10'000 ? 64 : 128);
    text = "input = [" + join_sizes(sample) + "]\n";
    for (int i = 0; i < 2; ++i) text += named("dense = {out = " + hidden + ", activation = \"relu\"}");
    text += named("dense = " + std::to_string(head.outputs)) + training(head, train.size(), 4000, 100);
    what = "two hidden layers of " + hidden + " units, for " + std::to_string(sample[0]) +
           (sample[0] == 1 ? " input" : " inputs");
  } else if (head.pixels || head.boxes) {
    if (sample[0] % 8 != 0 || sample[1] % 8 != 0)
      throw Error("no network is chosen for pictures of " + sample.str() +
                  ": give a height and a width that are "
                  "multiples of 8 (data.height=64 data.width=64), or name a network file.");
    text = place_layers(sample, head, what) + training(head, train.size(), 2000, 40);
    what += ", for pictures of " + std::to_string(sample[0]) + "×" + std::to_string(sample[1]) + "×" +
            std::to_string(sample[2]);
  } else if (train.x().dtype == f32 && sample.rank() == 3) {
    const bool residual = train.size() >= kManyPictures && std::min(sample[0], sample[1]) >= 32 && sample[2] == 3;
    text = residual ? "network = \"resnet20\"\n" : picture_layers(sample, head, what);
    if (residual && !head.classes) text += "[sizes]\nclasses = " + std::to_string(head.outputs) + "\n";
    if (residual) what = "resnet20";
    text += training(head, train.size(), 2000, 30);
    what += ", for pictures of " + std::to_string(sample[0]) + "×" + std::to_string(sample[1]) + "×" +
            std::to_string(sample[2]);
  } else if (train.x().dtype == i32 && sample.rank() == 1 && train.info().vocabulary && train.streams() == 0) {
    const std::int64_t words = train.info().vocabulary->size();
    text = text_layers(sample[0], words, head) + training(head, train.size(), 1000, 30);
    what = "an embedding and a convolution, for texts of " + std::to_string(sample[0]) + " words";
  } else {
    throw Error("no network is chosen for samples of " + train.x().str() + " (" + config.data +
                "): name a network file or one of the zoo.");
  }
  Chosen chosen{.config = {}, .what = what + " and " + head.str()};
  // What was found out about the data stands in the file, where settings may still change it.
  Config file = config_from_toml(text, run_name(config, train));
  file.data = config.data;
  file.data_options = config.data_options;
  chosen.config = config_from_toml(file.toml(), file.name, others);
  return chosen;
}

}  // namespace varve::train
