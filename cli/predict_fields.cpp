#include "cli/predict_fields.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/predict_inputs.h"
#include "cli/text.h"
#include "page/numbers.h"
#include "varve/io.h"
#include "varve/ops.h"
#include "varve/train/run.h"

namespace varve::cli {
namespace fields {  // its answers are of several outputs
namespace {

struct Asked {
  std::vector<std::string> names;  // one for each row
  Tensors x;
};

// What one output answers about one sample: classes with probabilities, the best first, or numbers.
struct Answer {
  std::string name;
  double value = 0;
};
struct Answers {
  std::string output;
  bool classes = false;
  std::vector<Answer> all;
};
struct Row {
  std::string input;
  std::vector<Answers> outputs;
};

// ---- inputs

std::string how(const train::TrainedModel& run) {
  std::string text;
  for (const Field& input : run.inputs) text += (text.empty() ? "" : " ") + input.name + "=FILE";
  return cat("give each input, ", text, ", an .npz file that holds them (", str(run.inputs),
             "), or test:N, a sample of the run's test data");
}

Tensor checked(const Field& input, const Tensor& given, const std::string& source) {
  const Tensor x = given.shape() == input.type.shape ? expand_dims(given, 0) : given;
  Shape rows = {x.rank() > 0 ? x.dim(0) : 0};
  for (const std::int64_t size : input.type.shape) rows.push_back(size);
  if (x.shape() != rows || rows[0] == 0)
    throw Error(
        cat(source, ": expected ", input.type.shape, " as ", input.name, ", or rows of it, got ", x.shape(), "."));
  // Bytes are pixels, as in the arrays that a network is trained with.
  return given.dtype() == u8 && input.type.dtype == f32 ? x.to(f32) / 255 : x.to(input.type.dtype);
}

Tensor picture_of(const train::TrainedModel& run, const Field& input, const std::string& file) {
  const Shape& shape = input.type.shape;
  const Picture picture = resize_to_fill(load_picture(file, static_cast<int>(shape[2])), shape[0], shape[1]);
  std::vector<float> values(picture.pixels.begin(), picture.pixels.end()), scratch(values.size());
  for (float& value : values) value /= 255;
  data::Image image{values, scratch, picture.height, picture.width, picture.channels};
  data::Random unused(0, 0, 0);
  for (const data::Transform& transform : train::normalization(run.config, input.type)) transform.apply(image, unused);
  return tensor(values, shape);
}

Tensor numbers_of(const Field& input, const std::string& text) {
  std::vector<double> numbers;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    double number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (rest != end && *rest != ','))
      throw Error(
          cat(input.name, "=", text, ": there is no such file, and these are no numbers with commas between them."));
    numbers.push_back(number);
    at = rest == end ? end : rest + 1;
  }
  if (std::ssize(numbers) != input.type.shape.numel())
    throw Error(
        cat(input.name, "=", text, ": expected ", input.type.shape.numel(), " numbers, got ", numbers.size(), "."));
  return tensor(numbers, input.type.shape);
}

Tensor read_input(const train::TrainedModel& run, const Field& input, const std::string& value) {
  const Shape& shape = input.type.shape;
  const bool picture = shape.rank() == 3 && (shape[2] == 1 || shape[2] == 3);
  const bool text = run.vocabulary && input.type.dtype == i32 && shape.rank() == 1;
  if (value.ends_with(".npy")) return load_npy(value);
  if (picture) return picture_of(run, input, value);
  std::error_code ignored;
  const bool file = std::filesystem::is_regular_file(value, ignored);
  if (text) return tensor(run.vocabulary->encode(file ? load_text(value, 64 << 20) : value, shape[0]), shape);
  return numbers_of(input, file ? load_text(value) : value);
}

std::vector<std::string> row_names(const std::string& name, std::int64_t rows) {
  if (rows == 1) return {name};
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < rows; ++i) names.push_back(cat(name, ":", i));
  return names;
}

void check_rows(const Tensors& x) {
  for (const auto& [name, tensor] : x)
    if (tensor.dim(0) != x[0].dim(0)) throw Error(cat("expected as many rows of every input, got ", x.str(), "."));
}

// left=a.png right=b.png
Asked read_named(const train::TrainedModel& run, const std::vector<std::string>& words) {
  std::map<std::string, std::string> given;
  std::vector<std::string> known;
  for (const Field& input : run.inputs) known.push_back(input.name);
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError(
          cat("the network has no input '", name, "'.", did_you_mean(name, known), " It takes ", str(run.inputs), "."));
    if (!given.emplace(name, word.substr(name.size() + 1)).second)
      throw UsageError(cat("the input '", name, "' is given twice."));
  }
  for (const std::string& name : known)
    if (!given.contains(name)) throw UsageError(cat("the input '", name, "' is missing: ", how(run), "."));
  Asked asked;
  for (const Field& input : run.inputs) {
    const std::string& value = given.at(input.name);
    asked.x.add(input.name, checked(input, read_input(run, input, value), value));
  }
  check_rows(asked.x);
  asked.names = row_names(joined(words, " "), asked.x[0].dim(0));
  return asked;
}

Asked read_npz(const train::TrainedModel& run, const std::string& file) {
  const std::map<std::string, Tensor> arrays = load_npz(file);
  Asked asked;
  for (const Field& input : run.inputs) {
    const auto found = arrays.find(input.name);
    if (found == arrays.end())
      throw Error(cat(file, ": holds no array '", input.name, "': the network takes ", str(run.inputs), "."));
    asked.x.add(input.name, checked(input, found->second, file));
  }
  check_rows(asked.x);
  asked.names = row_names(file, asked.x[0].dim(0));
  return asked;
}

// test:3
Asked read_test(const train::TrainedModel& run, const std::string& word) {
  const std::string number = word.substr(5);
  std::int64_t index = 0;
  const char* end = number.data() + number.size();
  const auto [rest, error] = std::from_chars(number.data(), end, index);
  if (error != std::errc() || rest != end) throw UsageError(cat("'", word, "': expected test:N, a sample's number."));
  const data::Dataset test = train::test_data(run.config, {run.config.data, run.info(), run.input});
  if (!test.defined()) throw Error(cat(run.config.data, " has no test part."));
  Asked asked{.names = {word}, .x = {}};
  const Tensors sample = test.sample(index).first.as(run.inputs, word);
  for (const auto& [name, x] : sample) asked.x.add(name, expand_dims(x, 0));
  return asked;
}

std::vector<Asked> read_all(const train::TrainedModel& run, const std::vector<std::string>& words) {
  std::vector<Asked> all;
  std::vector<std::string> named;
  for (const std::string& word : words) {
    if (word.starts_with("test:"))
      all.push_back(read_test(run, word));
    else if (run.inputs.size() == 1)
      read_samples(run, {word}, [&](const Samples& samples) { all.push_back({samples.names, Tensors(samples.x)}); });
    else if (word.ends_with(".npz"))
      all.push_back(read_npz(run, word));
    else if (word.find('=') != std::string::npos)
      named.push_back(word);
    else
      throw UsageError(cat("'", word, "' does not say which input it is: ", how(run), "."));
  }
  if (!named.empty()) all.push_back(read_named(run, named));
  return all;
}

// ---- answers

std::string loss_of(const train::TrainedModel& run, const std::string& output) {
  const auto found = run.config.output_losses.find(output);
  return found != run.config.output_losses.end() ? found->second
         : run.config.output_losses.empty()      ? run.config.loss
                                                 : "";
}

std::string class_name(const train::TrainedModel& run, const std::string& output, std::size_t i) {
  const auto found = run.target_classes.find(output);
  return found != run.target_classes.end() && i < found->second.size() ? found->second[i] : cat(i);
}

Answers answers_of(const train::TrainedModel& run, const std::string& output, const std::vector<double>& values,
                   int top) {
  const std::string loss = loss_of(run, output);
  Answers answers{output, loss.ends_with("cross_entropy") && loss != "binary_cross_entropy", {}};
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (answers.classes) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  }
  for (const std::size_t i : order)
    answers.all.push_back({answers.classes ? class_name(run, output, i) : values.size() == 1 ? "" : cat(i), values[i]});
  return answers;
}

Tensor answered(const std::string& loss, const Tensor& output) {
  if (loss == "binary_cross_entropy") return sigmoid(output);
  return loss.ends_with("cross_entropy") ? softmax(output) : output;
}

void add_rows(const train::TrainedModel& run, const Asked& asked, int top, std::vector<Row>& rows) {
  run.model->reset_state();
  const std::size_t first = rows.size(), count = asked.names.size();
  for (const std::string& name : asked.names) rows.push_back({name, {}});
  std::size_t place = 0;
  for (const auto& [given, output] : train::predict_all(*run.model, asked.x)) {
    const std::string name = given.empty() ? cat(place) : given;
    ++place;
    const std::vector<double> values = answered(loss_of(run, name), output).to_vector<double>();
    const std::size_t width = values.size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * width);
      rows[first + i].outputs.push_back(
          answers_of(run, name, {begin, begin + static_cast<std::ptrdiff_t>(width)}, top));
    }
  }
}

// ---- printing

void print_json(const std::vector<Row>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    auto outputs = nlohmann::ordered_json::object();
    for (const Answers& answers : row.outputs) {
      auto all = nlohmann::ordered_json::array();
      for (const Answer& answer : answers.all)
        all.push_back({{"name", answer.name.empty() ? answers.output : answer.name}, {"value", answer.value}});
      outputs[answers.output] = all;
    }
    list.push_back({{"input", row.input}, {"outputs", outputs}});
  }
  std::cout << list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

void print_csv(const std::vector<Row>& rows) {
  std::string head = "input";
  for (const Answers& answers : rows[0].outputs)
    for (std::size_t i = 0; i < answers.all.size(); ++i) {
      const std::string suffix = answers.all.size() > 1 ? cat("_", i + 1) : "";
      head += "," + csv_field(answers.output + suffix) +
              (answers.classes ? "," + csv_field(answers.output + suffix + "_probability") : "");
    }
  std::cout << head << '\n';
  for (const Row& row : rows) {
    std::cout << csv_field(row.input);
    for (const Answers& answers : row.outputs)
      for (const Answer& answer : answers.all)
        std::cout << ',' << (answers.classes ? csv_field(answer.name) + "," : "") << page::general(answer.value, 9);
    std::cout << '\n';
  }
}

void print_for_people(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (rows.size() > 1) std::cout << printable(row.input) << '\n';
    std::vector<std::vector<std::string>> lines;
    for (const Answers& answers : row.outputs)
      for (const Answer& answer : answers.all)
        lines.push_back(
            {(&answer == answers.all.data() ? answers.output : "") + " ", answer.name + " ", fixed(answer.value, 4)});
    std::cout << aligned(lines, rows.size() > 1 ? "  " : "");
  }
}

}  // namespace
}  // namespace fields

bool has_fields(const train::TrainedModel& run) { return run.inputs.size() > 1 || !run.config.output_losses.empty(); }

int predict_fields(const train::TrainedModel& run, const FieldsAsked& asked) {
  std::vector<fields::Row> rows;
  for (const fields::Asked& each : fields::read_all(run, asked.words)) fields::add_rows(run, each, asked.top, rows);
  if (rows.empty()) throw Error("there is nothing to look at.");
  if (asked.json)
    fields::print_json(rows);
  else if (asked.csv)
    fields::print_csv(rows);
  else
    fields::print_for_people(rows);
  return kOk;
}

}  // namespace varve::cli
