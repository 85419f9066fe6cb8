// The samples that a trained network understands least: where data is wrong, or a class is missing, they show it.
#include <algorithm>
#include <cmath>

#include "page/numbers.h"
#include "train/report.h"
#include "varve/compile.h"
#include "varve/io.h"
#include "varve/ops.h"

namespace varve::train {
namespace {

constexpr std::size_t kMostShown = 12;
constexpr std::int64_t kMostRead = 10000, kMostPixels = 96;

struct Candidate {
  double loss;
  std::int64_t index;
  std::int32_t truth = 0, predicted = 0;
  double probability = 0;
  std::vector<float> wanted = {}, got = {};  // of numbers
};

std::string base64(const std::vector<std::uint8_t>& bytes) {
  constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? kLetters[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// Values from 0 to 1 as they are; normalised ones from the least to the most.
std::string picture_of(const Tensor& x) {
  const std::vector<float> values = x.to_vector<float>();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const bool plain = *low >= 0 && *high <= 1;
  const float from = plain ? 0 : *low, span = plain ? 1 : std::max(*high - *low, 1e-12f);
  Picture picture{.height = x.dim(0), .width = x.dim(1), .channels = x.dim(2), .pixels = {}};
  for (const float value : values) {
    const float level = (value - from) / span;
    picture.pixels.push_back(static_cast<std::uint8_t>(std::isfinite(level) ? std::clamp(level, 0.f, 1.f) * 255 : 0));
  }
  const std::int64_t side = std::max(picture.height, picture.width);
  if (side > kMostPixels)
    picture = resize(picture, std::max<std::int64_t>(picture.height * kMostPixels / side, 1),
                     std::max<std::int64_t>(picture.width * kMostPixels / side, 1));
  return base64(encode_png(picture));
}

std::string numbers_text(const std::vector<float>& values) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMost); ++i)
    text += (i ? ", " : "") + page::general(values[i], 4);
  return values.size() > kMost ? text + ", …" : text;
}

// Of a regression from a table, in the table's unit.
std::string targets_text(const std::vector<float>& values, const data::Info& info) {
  if (!info.table || !info.table->regression()) return numbers_text(values);
  const Tensor scaled = tensor(values, {1, static_cast<std::int64_t>(values.size())});
  return numbers_text(info.table->unscaled(scaled).to_vector<float>());
}

std::string words_of(const Tensor& x, const data::Vocabulary& words) {
  std::string text;
  for (const std::int32_t id : x.to_vector<std::int32_t>())
    if (id > 0 && id < words.size()) text += (text.empty() ? "" : " ") + words.word(id);
  return text;
}

// A row in the table's own units: "area 120, wall brick".
std::string row_of(const std::vector<float>& x, const data::TableEncoder& table) {
  std::string text;
  std::size_t at = 0;
  for (const data::TableColumn& column : table.inputs) {
    text += (text.empty() ? "" : ", ") + column.name + " ";
    if (column.categories.empty()) {
      const double value = at < x.size() ? x[at] * column.deviation + column.mean : 0;
      text += at >= x.size() ? "?" : column.date ? column.value_text(value) : page::general(value, 6);
      at += static_cast<std::size_t>(column.width());
      continue;
    }
    std::string value = "?";
    for (const std::string& category : column.categories)
      if (at < x.size() && x[at++] > 0.5f) value = category;
    text += value;
  }
  return text;
}

void show(WorstSample& sample, const Tensor& x, const data::Info& info) {
  const bool picture = x.rank() == 3 && x.dtype() == f32 && (x.dim(2) == 1 || x.dim(2) == 3) && x.numel() > 0;
  if (picture)
    sample.png = picture_of(x);
  else if (x.rank() == 1 && x.dtype() == i32 && info.vocabulary)
    sample.text = words_of(x, *info.vocabulary);
  else if (x.rank() == 1 && x.dtype() == f32 && info.table)
    sample.text = row_of(x.to_vector<float>(), *info.table);
  else if (x.rank() == 1 && x.dtype() == f32)
    sample.text = numbers_text(x.to_vector<float>());
}

// Negative log-probability of the true class of a row of logits.
Candidate of_classes(const float* logits, std::int64_t classes, std::int32_t truth) {
  const float* const best = std::max_element(logits, logits + classes);
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(logits[c]) - *best);
  Candidate result{.loss = 0, .index = 0, .truth = truth, .predicted = static_cast<std::int32_t>(best - logits)};
  result.probability = 1 / sum;
  const bool known = truth >= 0 && truth < classes;
  result.loss = known ? std::log(sum) - (static_cast<double>(logits[truth]) - *best) : 0;
  return result;
}

Candidate of_numbers(const float* got, const float* wanted, std::int64_t count) {
  Candidate result{.loss = 0, .index = 0};
  result.wanted.assign(wanted, wanted + count);
  result.got.assign(got, got + count);
  for (std::int64_t i = 0; i < count; ++i) result.loss += std::pow(double{got[i]} - wanted[i], 2) / double(count);
  return result;
}

class Worst {
 public:
  void add(Candidate candidate) {
    if (!std::isfinite(candidate.loss)) return;
    found_.push_back(std::move(candidate));
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.loss > b.loss; });
    if (found_.size() > kMostShown) found_.pop_back();
  }
  bool interested(double loss) const { return found_.size() < kMostShown || loss > found_.back().loss; }
  const std::vector<Candidate>& found() const { return found_; }

 private:
  std::vector<Candidate> found_;
};

std::string class_name(const data::Info& info, std::int32_t number) {
  const auto at = static_cast<std::size_t>(number);
  return at < info.classes.size() ? info.classes[at] : std::to_string(number);
}

}  // namespace

std::vector<WorstSample> worst_samples(nn::Module& model, const data::Dataset& dataset, const Loss& loss) {
  const bool classes = is_integer(dataset.y().dtype) && dataset.y().shape.rank() == 0;
  const bool numbers = dataset.y().dtype == f32 && dataset.y().shape.rank() == 1;
  if (dataset.inputs().size() > 1 || dataset.targets().size() > 1 || !loss.function) return {};
  if (dataset.streams() > 0 || loss.of_input || !(classes || numbers) || dataset.size() == 0 ||
      !dataset.parts().empty())
    return {};
  if (classes && loss.name.find("cross_entropy") == std::string::npos) return {};
  const data::Dataset some = dataset.take(std::min(dataset.size(), kMostRead));
  auto program = compile(
      [&model](Tensor x, Tensor lengths) {
        return cast(model(x, Mode::infer, nn::Mask::of_lengths(lengths, x.dim(1))), f32);
      },
      {.name = "predict"});
  auto of_whole = compile([&model](Tensor x) { return cast(model(x, Mode::infer), f32); }, {.name = "predict"});
  Worst worst;
  std::int64_t index = 0;
  for (const data::Batch& batch : data::batches(some, {.batch = 256, .shuffle = false, .ranks = 1})) {
    const Tensor output = batch.lengths.defined() ? program(batch.x, batch.lengths) : of_whole(batch.x);
    if (output.rank() != 2 || (numbers && output.dim(1) != batch.y.dim(1)) || (classes && output.dim(1) < 2)) return {};
    const std::vector<float> rows = output.to_vector<float>();
    const std::vector<float> wanted = numbers ? batch.y.to_vector<float>() : std::vector<float>{};
    const std::vector<std::int32_t> truths =
        classes ? batch.y.to(i32).to_vector<std::int32_t>() : std::vector<std::int32_t>{};
    const std::int64_t width = output.dim(1);
    for (std::int64_t row = 0; row < output.dim(0); ++row, ++index) {
      const float* const got = rows.data() + row * width;
      Candidate candidate = classes ? of_classes(got, width, truths[static_cast<std::size_t>(row)])
                                    : of_numbers(got, wanted.data() + row * width, width);
      candidate.index = index;
      if (worst.interested(candidate.loss)) worst.add(std::move(candidate));
    }
  }
  std::vector<WorstSample> samples;
  for (const Candidate& candidate : worst.found()) {
    WorstSample sample{.loss = candidate.loss, .truth = {}, .predicted = {}, .index = candidate.index};
    sample.truth = classes ? class_name(some.info(), candidate.truth) : targets_text(candidate.wanted, some.info());
    sample.predicted =
        classes ? class_name(some.info(), candidate.predicted) + " (" + page::fixed(candidate.probability, 2) + ")"
                : targets_text(candidate.got, some.info());
    show(sample, some.at(candidate.index).first, some.info());
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace varve::train
