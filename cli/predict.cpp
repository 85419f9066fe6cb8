// `varve predict`: what a trained network makes of pictures or text.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/subject.h"
#include "cli/text.h"
#include "varve/io.h"
#include "varve/ops.h"
#include "varve/toml.h"
#include "varve/train/run.h"

namespace varve::cli {
namespace {

struct PredictOptions {
  std::string run;
  std::vector<std::string> files;
  int top = 3;
  bool json = false;
};

constexpr const char* kPredictExamples =
    R"(Pictures (JPEG, PNG) are resized to what the network takes. Text may be a file or the words themselves.

Examples:
  varve predict runs/lenet5-1 digit.png
  varve predict runs/cnn-cifar-1 *.jpg top=1
  varve predict runs/lstm-imdb-1 "A film to remember, for the wrong reasons.")";

Tensor picture_tensor(const train::TrainedModel& run, const std::string& file) {
  const Shape& input = run.input;
  const Picture picture = resize_to_fill(load_picture(file, static_cast<int>(input[2])), input[0], input[1]);
  std::vector<float> values(picture.pixels.begin(), picture.pixels.end()), scratch(values.size());
  for (float& value : values) value /= 255;
  data::Image image{values, scratch, picture.height, picture.width, picture.channels};
  data::Random unused(0, 0, 0);
  for (const data::Transform& transform : train::normalization(run.config, {f32, input}))
    transform.apply(image, unused);
  return tensor(values, {1, picture.height, picture.width, picture.channels});
}

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> all;
  for (const char c : text)
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80 && !all.empty())
      all.back() += c;
    else
      all.emplace_back(1, c);
  return all;
}

// A vocabulary of single characters reads text by characters; any other by words.
std::vector<std::int32_t> encoded(const data::Vocabulary& words, const std::string& text, std::int64_t length) {
  const auto& known = words.words();
  const auto single = [](const std::string& word) { return width(word) <= 1; };
  const bool by_characters = known.size() > 2 && std::all_of(known.begin() + 2, known.end(), single);
  if (!by_characters) return words.encode(text, length);
  const std::vector<std::string> all = characters_of(text);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length), 0);
  const std::size_t count = std::min(all.size(), ids.size());
  for (std::size_t i = 0; i < count; ++i) ids[ids.size() - count + i] = words.id(all[all.size() - count + i]);
  return ids;
}

Tensor text_tensor(const train::TrainedModel& run, const std::string& word) {
  if (!run.vocabulary) throw Error("the run keeps no vocabulary: its network cannot be asked with text.");
  const std::string text = std::filesystem::is_regular_file(word) ? load_text(word, 64 << 20) : word;
  const Tensor one = tensor(encoded(*run.vocabulary, text, run.input[0]), {1, run.input[0]});
  // A language model, whose answers are words, may carry the state of as many texts as it was trained with.
  const bool answers_words = run.classes.size() == run.vocabulary->words().size();
  return answers_words ? tile(one, {run.config.batch, 1}) : one;
}

Tensor input_tensor(const train::TrainedModel& run, const std::string& file) {
  if (run.dtype == i32 && run.input.rank() == 1) return text_tensor(run, file);
  if (run.input.rank() == 3 && (run.input[2] == 1 || run.input[2] == 3)) return picture_tensor(run, file);
  if (!file.ends_with(".npy"))
    throw Error(cat("the network takes samples of ", run.input, ", neither pictures nor text: give a .npy file."));
  const Tensor x = load_npy(file);
  if (x.shape() != run.input) throw Error(cat(file, ": expected shape ", run.input, ", got ", x.shape(), "."));
  return expand_dims(x, 0).to(run.dtype);
}

struct Answer {
  std::string name;
  double value = 0;
};

// Probabilities where the loss was of classes, and the last step's of a sequence; other outputs as they are.
std::vector<Answer> answers(const train::TrainedModel& run, Tensor output, int top) {
  if (output.rank() > 2) output = output.reshape({-1, output.dim(-1)});
  output = output.slice({{-1}});
  const bool classes = run.config.loss == "cross_entropy";
  if (classes) output = softmax(output);
  if (run.config.loss == "binary_cross_entropy") output = sigmoid(output);
  const std::vector<double> values = output.to_vector<double>();
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (classes)
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  order.resize(classes ? std::min(order.size(), static_cast<std::size_t>(top)) : order.size());
  std::vector<Answer> all;
  for (const std::size_t i : order) {
    const std::string name = i < run.classes.size() ? run.classes[i] : cat(i);
    const bool hidden = name.size() == 1 && name[0] >= 0 && name[0] <= ' ';  // a space, or the end of a line
    all.push_back({hidden ? text::quoted(name) : name, values[i]});
  }
  return all;
}

int predict(const PredictOptions& options) {
  if (options.files.empty()) throw UsageError("predict needs something to look at: varve predict RUN FILE…");
  if (!is_run(options.run))
    throw UsageError(cat("'", options.run, "' is not the folder of a run, such as runs/lenet-1."));
  const train::TrainedModel run = train::load_run(options.run);
  train::use_machine(run.config);
  auto list = nlohmann::ordered_json::array();
  for (const std::string& file : options.files) {
    run.model->reset_state();
    const Tensor output = train::predict(*run.model, input_tensor(run, file));
    const std::vector<Answer> best = answers(run, output, options.top);
    if (options.json) {
      auto classes = nlohmann::ordered_json::array();
      for (const Answer& answer : best) classes.push_back({{"name", answer.name}, {"value", answer.value}});
      list.push_back({{"input", file}, {"answers", classes}});
      continue;
    }
    if (options.files.size() > 1) std::cout << file << '\n';
    std::vector<std::vector<std::string>> rows;
    for (const Answer& answer : best) rows.push_back({answer.name + " ", fixed(answer.value, 4)});
    std::cout << aligned(rows, options.files.size() > 1 ? "  " : "");
  }
  if (options.json) std::cout << list.dump(1) << '\n';
  return kOk;
}

}  // namespace

void add_predict(Menu& menu) {
  auto options = std::make_shared<PredictOptions>();
  menu.command(
          {.name = "predict", .what = "Ask a trained network about pictures or text", .examples = kPredictExamples},
          [options] { return predict(*options); })
      .option("run", options->run, "the run's folder", {.required = true})
      .option("files", options->files, "pictures, text files or text")
      .option("--top", options->top, "how many classes", {.least = 1, .most = 1000})
      .flag("--json", options->json, "one JSON array");
}

}  // namespace varve::cli
