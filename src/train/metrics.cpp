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

// [Σ w·value, Σ w]; undefined weights: each counts 1.
Tensor sum_and_count(const Tensor& values, const Tensor& weights, const char* who) {
  if (!weights.defined()) return stack({sum(values), full({}, static_cast<double>(values.numel()))});
  const Tensor rows = weights_of_rows(weights, values.shape(), who);
  return stack({sum(where(rows != 0, values, zeros({}, values.dtype())) * rows), sum(rows)});
}
Tensor share(const Tensor& holds, const Tensor& weights, const char* who) {
  return sum_and_count(holds.to(f32), weights, who);
}

using Sums = std::function<Tensor(const Tensor& output, const Tensor& target, const Tensor& weights)>;

Metric metric_of(const std::string& name, const Sums& sums, std::function<double(const std::vector<double>&)> value) {
  return {.name = name,
          .sums = [sums](const Tensor& output, const Tensor& target) { return sums(output, target, {}); },
          .value = std::move(value),
          .weighted = sums};
}

double mean_of(const std::vector<double>& sums) { return sums.at(1) > 0 ? sums[0] / sums[1] : kNone; }

Tensor true_classes(const Tensor& output, const Tensor& target, const char* who) {
  if (!holds_classes(target)) return argmax(probabilities(output, target, who));
  return class_numbers(output, target, who).to(i64);
}

Tensor accuracy_sums(const Tensor& output, const Tensor& target, const Tensor& weights) {
  return share(argmax(output.to(f32)) == true_classes(output, target, "accuracy"), weights, "accuracy");
}

// How many classes stand before the true one: larger logits, and equal ones with smaller numbers, so that top 1 is what
// argmax says. A NaN stands before everything.
Tensor top_k_sums(const Tensor& output, const Tensor& target, const Tensor& weights, std::int64_t k) {
  const Tensor logits = output.to(f32);
  const Tensor classes = expand_dims(true_classes(output, target, "top_k_accuracy"), -1);
  const Tensor own = take_along_axis(logits, classes, -1);
  const Tensor before = !(logits <= own) || (logits == own && arange(output.dim(-1)) < classes);
  return share(sum(before.to(f32), {.axes = Axes{-1}}) < static_cast<double>(k), weights, "top_k_accuracy");
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
Tensor confusion_sums(const Tensor& output, const Tensor& target, const Tensor& weights, const char* who,
                      std::int64_t classes = 0) {
  const Decided decided = decide(output, target, who);
  if (classes != 0 && classes != decided.classes)
    throw Error(std::string(who) + ": the data has " + std::to_string(classes) +
                (classes == 1 ? " class" : " classes") + ", but the output " + output.type().str() + " has " +
                std::to_string(decided.classes) + ": the last layer must have as many.");
  if (decided.classes > kMostClasses)
    throw Error(std::string(who) + ": " + std::to_string(decided.classes) + " classes are too many for a matrix of " +
                "them all (at most " + std::to_string(kMostClasses) + ").");
  Tensor actual = one_hot(decided.actual.reshape({-1}), decided.classes);
  if (weights.defined()) actual = actual * weights_of_rows(weights, decided.actual.shape(), who).reshape({-1, 1});
  const Tensor predicted = one_hot(decided.predicted.reshape({-1}), decided.classes);
  return matmul(transpose(actual), predicted).reshape({-1});
}

// Over the classes that occur, as targets or as predictions.
Metric macro(const char* name, double ClassScores::*score) {
  return metric_of(
      name,
      [name](const Tensor& output, const Tensor& target, const Tensor& weights) {
        return confusion_sums(output, target, weights, name);
      },
      [score](const std::vector<double>& sums) {
        const auto classes = static_cast<std::int64_t>(std::llround(std::sqrt(sums.size())));
        double total = 0, count = 0;
        const std::vector<ClassScores> scores = class_scores(sums, classes);
        for (std::int64_t c = 0; c < classes; ++c) {
          double occurs = scores[static_cast<std::size_t>(c)].support;
          for (std::int64_t row = 0; row < classes; ++row) occurs += sums[static_cast<std::size_t>(row * classes + c)];
          if (occurs == 0) continue;
          total += scores[static_cast<std::size_t>(c)].*score;
          count += 1;
        }
        return count > 0 ? total / count : kNone;
      });
}

Tensor binary_accuracy_sums(const Tensor& output, const Tensor& target, const Tensor& weights) {
  return share((output.to(f32) > 0) == (values_like(output, target, "binary_accuracy") > 0.5), weights,
               "binary_accuracy");
}

Tensor perplexity_sums(const Tensor& output, const Tensor& target, const Tensor& weights) {
  const Tensor logits = output.to(f32);
  const Tensor losses =
      holds_classes(target)
          ? varve::cross_entropy(logits, class_numbers(output, target, "perplexity"), Reduction::none)
          : -sum(probabilities(output, target, "perplexity") * log_softmax(logits), {.axes = Axes{-1}});
  return sum_and_count(losses, weights, "perplexity");
}

Tensor absolute_error_sums(const Tensor& output, const Tensor& target, const Tensor& weights) {
  const Tensor errors = abs(output.to(f32) - values_like(output, target, "mean_absolute_error"));
  return sum_and_count(errors, weights, "mean_absolute_error");
}

// How many of each label have their probability in each bin: first all bins of label 0.
Tensor auc_sums(const Tensor& output, const Tensor& target, const Tensor& weights) {
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
  const Shape rows =
      two_logits ? Shape(std::vector<std::int64_t>(output.shape().begin(), output.shape().end() - 1)) : output.shape();
  const Tensor counts = weights.defined() ? weights_of_rows(weights, rows, "auc").reshape({-1}) : ones(p.shape());
  return scatter_add(zeros({2 * kBins}), bin + label.to(i64) * kBins, counts);
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

Metric accuracy() { return metric_of("accuracy", accuracy_sums, mean_of); }

Metric binary_accuracy() { return metric_of("binary_accuracy", binary_accuracy_sums, mean_of); }

Metric top_k_accuracy(std::int64_t k) {
  if (k < 1) throw Error("top_k_accuracy: k must be at least 1, got " + std::to_string(k) + ".");
  return metric_of(
      "top" + std::to_string(k),
      [k](const Tensor& output, const Tensor& target, const Tensor& weights) {
        return top_k_sums(output, target, weights, k);
      },
      mean_of);
}

Metric precision() { return macro("precision", &ClassScores::precision); }
Metric recall() { return macro("recall", &ClassScores::recall); }
Metric f1() { return macro("f1", &ClassScores::f1); }

Metric mean_iou() {
  return metric_of(
      "mean_iou",
      [](const Tensor& output, const Tensor& target, const Tensor& weights) {
        return confusion_sums(output, target, weights, "mean_iou");
      },
      [](const std::vector<double>& sums) {
        const auto classes = static_cast<std::size_t>(std::llround(std::sqrt(sums.size())));
        double total = 0, count = 0;
        for (std::size_t c = 0; c < classes; ++c) {
          double either = -sums[c * classes + c];
          for (std::size_t i = 0; i < classes; ++i) either += sums[c * classes + i] + sums[i * classes + c];
          if (either <= 0) continue;
          total += sums[c * classes + c] / either;
          count += 1;
        }
        return count > 0 ? total / count : kNone;
      });
}

Metric perplexity() {
  Metric metric =
      metric_of("perplexity", perplexity_sums, [](const std::vector<double>& sums) { return std::exp(mean_of(sums)); });
  metric.higher_is_better = false;
  return metric;
}

Metric mean_absolute_error() {
  Metric metric = metric_of("mean_absolute_error", absolute_error_sums, mean_of);
  metric.higher_is_better = false;
  return metric;
}

Metric confusion(std::int64_t classes) {
  if (classes < 1 || classes > kMostClasses)
    throw Error("confusion: needs 1 to " + std::to_string(kMostClasses) + " classes, got " + std::to_string(classes) +
                ".");
  return metric_of(
      "confusion",
      [classes](const Tensor& output, const Tensor& target, const Tensor& weights) {
        return confusion_sums(output, target, weights, "confusion", classes);
      },
      [classes](const std::vector<double>& sums) {
        double right = 0, all = 0;
        for (std::size_t i = 0; i < sums.size(); ++i) {
          all += sums[i];
          if (i % static_cast<std::size_t>(classes + 1) == 0) right += sums[i];
        }
        return all > 0 ? right / all : kNone;
      });
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

Metric auc() { return metric_of("auc", auc_sums, auc_value); }

}  // namespace varve::train
