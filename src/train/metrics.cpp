// Metrics: what a batch adds to their sums, with public operators, and what the sums come to.
#include "varve/train/metrics.h"

#include <cmath>
#include <limits>

#include "train/targets.h"

namespace varve::train {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kMostClasses = 4096;  // of a confusion matrix
constexpr std::int64_t kBins = 4096;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// [sum of what holds, how many there are]
Tensor share(const Tensor& holds) {
  const Tensor total = sum(holds.to(f32));
  return stack({total, full({}, static_cast<double>(holds.numel()))});
}

double mean_of(const std::vector<double>& sums) { return sums.at(1) > 0 ? sums[0] / sums[1] : kNone; }

Tensor true_classes(const Tensor& output, const Tensor& target, const char* who) {
  if (!holds_classes(target)) return argmax(probabilities(output, target, who));
  return class_numbers(output, target, who).to(i64);
}

Tensor accuracy_sums(const Tensor& output, const Tensor& target) {
  return share(argmax(output.to(f32)) == true_classes(output, target, "accuracy"));
}

// How many classes stand before the true one: larger logits, and equal ones with smaller numbers, so that top 1 is what
// argmax says. A NaN stands before everything.
Tensor top_k_sums(const Tensor& output, const Tensor& target, std::int64_t k) {
  const Tensor logits = output.to(f32);
  const Tensor classes = expand_dims(true_classes(output, target, "top_k_accuracy"), -1);
  const Tensor own = take_along_axis(logits, classes, -1);
  const Tensor before = !(logits <= own) || (logits == own && arange(output.dim(-1)) < classes);
  return share(sum(before.to(f32), {.axes = Axes{-1}}) < static_cast<double>(k));
}

// One logit decides between two classes by its sign; several by the largest.
struct Decided {
  Tensor predicted, actual;
  std::int64_t classes;
};
Decided decide(const Tensor& output, const Tensor& target, const char* who) {
  const bool one_logit = output.numel() == target.numel() &&
                         (holds_classes(target) || output.rank() == 1 || (output.rank() > 0 && output.dim(-1) == 1));
  if (one_logit) return {(output.to(f32) > 0).to(i64), (values_like(output, target, who) > 0.5).to(i64), 2};
  return {argmax(output.to(f32)), true_classes(output, target, who), output.dim(-1)};
}

// Rows: true classes. A product of two one-hot matrices, [C, N] · [N, C].
Tensor confusion_sums(const Tensor& output, const Tensor& target, const char* who, std::int64_t classes = 0) {
  const Decided decided = decide(output, target, who);
  if (classes != 0 && classes != decided.classes)
    throw Error(std::string(who) + ": the data has " + std::to_string(classes) +
                (classes == 1 ? " class" : " classes") + ", but the output " + output.type().str() + " has " +
                std::to_string(decided.classes) + ": the last layer must have as many.");
  if (decided.classes > kMostClasses)
    throw Error(std::string(who) + ": " + std::to_string(decided.classes) + " classes are too many for a matrix of " +
                "them all (at most " + std::to_string(kMostClasses) + ").");
  const Tensor actual = one_hot(decided.actual.reshape({-1}), decided.classes);
  const Tensor predicted = one_hot(decided.predicted.reshape({-1}), decided.classes);
  return matmul(transpose(actual), predicted).reshape({-1});
}

// Over the classes that occur, as targets or as predictions.
Metric macro(const char* name, double ClassScores::*score) {
  return {.name = name,
          .sums = [name](const Tensor& output, const Tensor& target) { return confusion_sums(output, target, name); },
          .value =
              [score](const std::vector<double>& sums) {
                const auto classes = static_cast<std::int64_t>(std::llround(std::sqrt(sums.size())));
                double total = 0, count = 0;
                const std::vector<ClassScores> scores = class_scores(sums, classes);
                for (std::int64_t c = 0; c < classes; ++c) {
                  double occurs = scores[static_cast<std::size_t>(c)].support;
                  for (std::int64_t row = 0; row < classes; ++row)
                    occurs += sums[static_cast<std::size_t>(row * classes + c)];
                  if (occurs == 0) continue;
                  total += scores[static_cast<std::size_t>(c)].*score;
                  count += 1;
                }
                return count > 0 ? total / count : kNone;
              }};
}

Tensor binary_accuracy_sums(const Tensor& output, const Tensor& target) {
  return share((output.to(f32) > 0) == (values_like(output, target, "binary_accuracy") > 0.5));
}

Tensor perplexity_sums(const Tensor& output, const Tensor& target) {
  const Tensor logits = output.to(f32);
  const Tensor total = holds_classes(target)
                           ? varve::cross_entropy(logits, class_numbers(output, target, "perplexity"), Reduction::sum)
                           : -sum(probabilities(output, target, "perplexity") * log_softmax(logits));
  const std::int64_t tokens = output.dim(-1) > 0 ? output.numel() / output.dim(-1) : 0;
  return stack({total, full({}, static_cast<double>(tokens))});
}

Tensor absolute_error_sums(const Tensor& output, const Tensor& target) {
  const Tensor errors = abs(output.to(f32) - values_like(output, target, "mean_absolute_error"));
  return stack({sum(errors), full({}, static_cast<double>(errors.numel()))});
}

// How many of each label have their probability in each bin: first all bins of label 0.
Tensor auc_sums(const Tensor& output, const Tensor& target) {
  const Tensor logits = output.to(f32);
  const bool two_logits =
      output.rank() > 1 && output.dim(-1) == 2 && (output.shape() != target.shape() || !holds_classes(target));
  Tensor score = logits, label;
  if (two_logits) {
    const std::vector<Tensor> parts = split(logits, 2, -1);
    score = parts[1] - parts[0];
    label = true_classes(output, target, "auc").reshape({-1}) > 0;
  } else {
    label = values_like(output, target, "auc").reshape({-1}) > 0.5;
  }
  // A NaN counts as the lowest score: an integer cannot hold it.
  const Tensor p = sigmoid(score.reshape({-1}));
  const Tensor bin = where(is_nan(p), 0, clip(floor(p * kBins), 0, kBins - 1)).to(i64);
  return scatter_add(zeros({2 * kBins}), bin + label.to(i64) * kBins, ones(p.shape()));
}

double auc_value(const std::vector<double>& sums) {
  double area = 0, negatives = 0, positives = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const double no = sums.at(bin), yes = sums.at(kBins + bin);
    area += yes * (negatives + no / 2);  // equal scores count half
    negatives += no;
    positives += yes;
  }
  return negatives > 0 && positives > 0 ? area / (negatives * positives) : kNone;
}

}  // namespace

Metric accuracy() { return {.name = "accuracy", .sums = accuracy_sums, .value = mean_of}; }

Metric binary_accuracy() { return {.name = "binary_accuracy", .sums = binary_accuracy_sums, .value = mean_of}; }

Metric top_k_accuracy(std::int64_t k) {
  if (k < 1) throw Error("top_k_accuracy: k must be at least 1, got " + std::to_string(k) + ".");
  return {.name = "top" + std::to_string(k),
          .sums = [k](const Tensor& output, const Tensor& target) { return top_k_sums(output, target, k); },
          .value = mean_of};
}

Metric precision() { return macro("precision", &ClassScores::precision); }
Metric recall() { return macro("recall", &ClassScores::recall); }
Metric f1() { return macro("f1", &ClassScores::f1); }

Metric perplexity() {
  return {.name = "perplexity",
          .sums = perplexity_sums,
          .value = [](const std::vector<double>& sums) { return std::exp(mean_of(sums)); },
          .higher_is_better = false};
}

Metric mean_absolute_error() {
  return {.name = "mean_absolute_error", .sums = absolute_error_sums, .value = mean_of, .higher_is_better = false};
}

Metric confusion(std::int64_t classes) {
  if (classes < 1 || classes > kMostClasses)
    throw Error("confusion: needs 1 to " + std::to_string(kMostClasses) + " classes, got " + std::to_string(classes) +
                ".");
  return {.name = "confusion",
          .sums = [classes](const Tensor& output,
                            const Tensor& target) { return confusion_sums(output, target, "confusion", classes); },
          .value =
              [classes](const std::vector<double>& sums) {
                double right = 0, all = 0;
                for (std::size_t i = 0; i < sums.size(); ++i) {
                  all += sums[i];
                  if (i % static_cast<std::size_t>(classes + 1) == 0) right += sums[i];
                }
                return all > 0 ? right / all : kNone;
              }};
}

std::vector<ClassScores> class_scores(const std::vector<double>& confusion, std::int64_t classes) {
  const auto n = static_cast<std::size_t>(classes);
  if (classes < 0 || classes > 1 << 20 || confusion.size() != n * n)
    throw Error("class_scores: a matrix of " + std::to_string(classes) + " × " + std::to_string(classes) +
                " classes is needed, got " + std::to_string(confusion.size()) + " numbers.");
  std::vector<ClassScores> scores(n);
  for (std::size_t c = 0; c < n; ++c) {
    double predicted = 0, actual = 0;
    for (std::size_t i = 0; i < n; ++i) {
      predicted += confusion[i * n + c];
      actual += confusion[c * n + i];
    }
    const double right = confusion[c * n + c];
    const double f1_score = ratio(2 * right, predicted + actual);
    scores[c] = {ratio(right, predicted), ratio(right, actual), f1_score, actual};
  }
  return scores;
}

Metric auc() { return {.name = "auc", .sums = auc_sums, .value = auc_value}; }

}  // namespace varve::train
