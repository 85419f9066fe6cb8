// `varve predict`: what a trained network makes of pictures, sounds, rows of a table or text.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/predict_fields.h"
#include "cli/predict_inputs.h"
#include "cli/predict_places.h"
#include "cli/subject.h"
#include "cli/text.h"
#include "page/numbers.h"
#include "varve/ops.h"
#include "varve/toml.h"
#include "varve/train/run.h"

namespace varve::cli {
namespace {

struct PredictOptions {
  std::string run;
  std::vector<std::string> files;
  int top = 0;
  std::string out = ".";
  double score = 0.3;
  bool json = false, csv = false;
};

constexpr const char* kPredictExamples =
    R"(Samples are prepared as those that the run was trained with: pictures (JPEG, PNG, WebP, GIF, BMP) resized to what the
network takes, sounds (WAV) by its rate and bands, rows of a table by the run's own columns, categories and scaling, text
by its vocabulary. A regression answers in the unit of the table. A folder stands for the pictures or sounds in it, - for
the standard input: rows, a text on each line, a picture or a sound.

Examples:
  varve predict runs/lenet5-1 digit.png
  varve predict runs/cnn-cifar-1 *.jpg top=1
  varve predict runs/cnn-cifar-1 photos --csv > answers.csv
  varve predict runs/speech-1 word.wav
  varve predict runs/street-1 photo.jpg out=masks     a class for each pixel: masks/photo.mask.png
  varve predict runs/houses-1 new.csv --csv
  varve predict runs/houses-1 120,4,brick         one row, without its target
  varve predict runs/digit-pairs-1 left=a.png right=b.png     several inputs, each by its name; or an .npz file
  varve predict runs/lstm-imdb-1 "A film to remember, for the wrong reasons.")";

struct Answer {
  std::string name;
  double value = 0;
};
struct Answers {
  std::string input;
  std::vector<Answer> all;  // the best first, of classes
};

std::string answer_name(const train::TrainedModel& run, std::size_t i, std::size_t count) {
  if (run.table && run.table->regression() && count == 1) return run.table->target.name;
  if (i >= run.classes.size()) return cat(i);
  const std::string& name = run.classes[i];
  const bool hidden = name.size() == 1 && name[0] >= 0 && name[0] <= ' ';  // a space, or the end of a line
  return hidden ? text::quoted(name) : name;
}

bool of_classes(const train::TrainedModel& run) {
  return run.config.loss.ends_with("cross_entropy") && run.config.loss != "binary_cross_entropy";
}

// Probabilities where the loss was of classes, numbers in the unit of the table, other outputs as they are.
Tensor answered(const train::TrainedModel& run, const Tensor& output) {
  if (run.config.loss == "binary_cross_entropy") return sigmoid(output);
  if (of_classes(run)) return softmax(output);
  return run.table && run.table->regression() ? run.table->unscaled(output) : output;
}

std::vector<Answer> best_of(const train::TrainedModel& run, const std::vector<double>& values, int top) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (of_classes(run)) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  }
  std::vector<Answer> all;
  for (const std::size_t i : order) all.push_back({answer_name(run, i, values.size()), values[i]});
  return all;
}

// One for each sample: of a sequence, what the last step gives.
void add_answers(const train::TrainedModel& run, const Samples& samples, int top, std::vector<Answers>& to) {
  run.model->reset_state();
  Tensor output = answered(run, train::predict(*run.model, samples.x));
  const std::int64_t last = output.rank() > 1 ? output.dim(-1) : 1;
  if (samples.one) {
    output = output.reshape({-1, last}).slice({{-1}}).reshape({1, last});
  } else {
    output = output.reshape({std::ssize(samples.names), -1});
  }
  const std::vector<double> values = output.to_vector<double>();
  const auto width = static_cast<std::ptrdiff_t>(values.size() / samples.names.size());
  for (std::size_t i = 0; i < samples.names.size(); ++i) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i) * width;
    to.push_back({samples.names[i], best_of(run, {begin, begin + width}, top)});
  }
}

void print_json(const std::vector<Answers>& all) {
  auto list = nlohmann::ordered_json::array();
  for (const Answers& one : all) {
    auto answers = nlohmann::ordered_json::array();
    for (const Answer& answer : one.all) answers.push_back({{"name", answer.name}, {"value", answer.value}});
    list.push_back({{"input", one.input}, {"answers", answers}});
  }
  std::cout << list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

// Classes: the name and the probability of each answer. Numbers: a column for each output.
void print_csv(const train::TrainedModel& run, const std::vector<Answers>& all) {
  const bool classes = of_classes(run);
  std::string head = "input";
  for (std::size_t i = 0; i < all[0].all.size(); ++i) {
    const std::string number = i == 0 ? "" : cat("_", i + 1);
    head += classes ? cat(",prediction", number, ",probability", number) : "," + csv_field(all[0].all[i].name);
  }
  std::cout << head << '\n';
  for (const Answers& one : all) {
    std::cout << csv_field(one.input);
    for (const Answer& answer : one.all)
      std::cout << ',' << (classes ? csv_field(answer.name) + "," : "") << page::general(answer.value, 9);
    std::cout << '\n';
  }
}

std::string value_of(double value) { return std::abs(value) >= 1e6 ? page::general(value, 9) : fixed(value, 4); }

// One answer each: a line for each sample. Several: a block.
void print_for_people(const std::vector<Answers>& all) {
  const bool lines = all.size() > 1 && all[0].all.size() == 1;
  std::vector<std::vector<std::string>> rows;
  for (const Answers& one : all) {
    if (lines) {
      rows.push_back({one.input + " ", one.all[0].name + " ", value_of(one.all[0].value)});
      continue;
    }
    if (all.size() > 1) std::cout << printable(one.input) << '\n';
    rows.clear();
    for (const Answer& answer : one.all) rows.push_back({answer.name + " ", value_of(answer.value)});
    std::cout << aligned(rows, all.size() > 1 ? "  " : "");
  }
  if (lines) std::cout << aligned(rows);
}

int predict(const PredictOptions& options) {
  if (options.files.empty()) throw UsageError("predict needs something to look at: varve predict RUN FILE…");
  if (!is_run(options.run))
    throw UsageError(cat("'", options.run, "' is not the folder of a run, such as runs/lenet-1."));
  const train::TrainedModel run = train::load_run(options.run);
  train::use_machine(run.config);
  const int top = options.top > 0 ? options.top : options.csv || run.table ? 1 : 3;
  if (has_fields(run)) return predict_fields(run, {options.files, top, options.json, options.csv});
  if (answers_places(run))
    return predict_places(
        run,
        {.files = options.files, .out = options.out, .score = options.score, .json = options.json, .csv = options.csv});
  std::vector<Answers> all;
  read_samples(run, options.files, [&](const Samples& samples) { add_answers(run, samples, top, all); });
  if (all.empty()) throw Error("the standard input is empty: there is nothing to look at.");
  if (options.json)
    print_json(all);
  else if (options.csv)
    print_csv(run, all);
  else
    print_for_people(all);
  return kOk;
}

}  // namespace

void add_predict(Menu& menu) {
  auto options = std::make_shared<PredictOptions>();
  menu.command({.name = "predict",
                .what = "Ask a trained network about pictures, sounds, rows of a table or text",
                .examples = kPredictExamples,
                .takes_names = true},
               [options] { return predict(*options); })
      .option("run", options->run, "the run's folder", {.required = true})
      .option("files", options->files,
              "pictures, sounds, folders, tables, rows, text files or text; -: the standard input")
      .option("--top", options->top, "how many classes; 0: three, and one of each row of a table",
              {.least = 0, .most = 1000})
      .option("--out", options->out, "the folder that masks are written into")
      .option("--score", options->score, "boxes that are less sure are left out", {.least = 0, .most = 1})
      .flag("--json", options->json, "one JSON array")
      .flag("--csv", options->csv, "a table with a line for each sample")
      .exclusive("--json", "--csv");
}

}  // namespace varve::cli
