// Whether a loss, its targets and the network's outputs fit each other, before anything is computed.
#include <algorithm>
#include <cmath>

#include "page/numbers.h"
#include "train/evaluator.h"

namespace varve::train {
namespace {

constexpr std::int64_t kSamples = 64;  // looked at: what does not fit shows in the first ones

bool one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string sample_name(const data::Dataset& dataset, std::int64_t i) {
  return "sample " + std::to_string(i) + " of \"" + dataset.info().name + "\"";
}

// Rows of probabilities: none negative, and 1 in all.
void check_distribution(const std::vector<float>& values, std::int64_t classes, const std::string& where) {
  for (std::size_t row = 0; row < values.size(); row += static_cast<std::size_t>(classes)) {
    double sum = 0, least = 0;
    for (std::size_t i = row; i < row + static_cast<std::size_t>(classes); ++i) {
      sum += values[i];
      least = std::min<double>(least, values[i]);
    }
    if (least < 0 || !(std::abs(sum - 1) < 1e-2))
      throw Error(
          "cross_entropy: the targets of " + where + " are no probabilities: " +
          (least < 0 ? "one is " + page::general(least, 6) : "they add up to " + page::general(sum, 6)) +
          ". A regression takes the loss mse (or mae, huber); several labels at once take binary_cross_entropy.");
  }
}

void check_unit_interval(const std::vector<float>& values, const std::string& where) {
  for (const float value : values)
    if (!(value >= 0 && value <= 1))
      throw Error("binary_cross_entropy: a target of " + where + " is " + page::general(value, 6) +
                  ": expected 0 to 1. A regression takes the loss mse (or mae, huber); more than two classes take " +
                  "cross_entropy.");
}

}  // namespace

namespace {

void check_target(const Loss& loss, const data::Dataset& dataset, std::size_t target) {
  const TensorType y = dataset.targets().at(target).type;
  const bool classes = one_of(loss.name, {"cross_entropy", "smoothed_cross_entropy"}) && is_floating(y.dtype);
  const bool binary = loss.name == "binary_cross_entropy";
  if (loss.of_input || (!classes && !binary) || y.shape.numel() == 0) return;
  if (classes && (y.shape.rank() == 0 || y.shape[y.shape.rank() - 1] == 1))
    throw Error(
        "cross_entropy: the targets of \"" + dataset.info().name + "\", " + y.str() +
        ", are one number each, and neither classes nor probabilities of classes. A regression takes the loss " +
        "mse (or mae, huber); 0 or 1 takes binary_cross_entropy.");
  for (std::int64_t i = 0; i < std::min(dataset.size(), kSamples); ++i) {
    const std::vector<float> values = dataset.sample(i).second[target].to(f32).to_vector<float>();
    if (binary)
      check_unit_interval(values, sample_name(dataset, i));
    else
      check_distribution(values, y.shape[y.shape.rank() - 1], sample_name(dataset, i));
  }
}

}  // namespace

void check_targets(const Loss& loss, const data::Dataset& dataset) {
  if (loss.function && dataset.targets().size() == 1) check_target(loss, dataset, 0);
}

namespace {

// As many outputs as the target has classes.
void check_classes(const Tensor& output, const data::Dataset& dataset, const Objective::Term& term) {
  const TensorType& y = dataset.targets()[term.target].type;
  if (!one_of(term.loss.name, {"cross_entropy", "smoothed_cross_entropy"}) || !is_integer(y.dtype) ||
      output.rank() == 0)
    return;
  const std::int64_t given = output.dim(-1), classes = dataset.classes(term.target);
  const bool named = !dataset.class_names(term.target).empty() && y.shape.rank() == 0;
  if (!named && term.loss.ignore_index && *term.loss.ignore_index >= given) return;  // it is among the labels
  if (given < classes || (named && given != classes))
    throw Error("the network gives " + std::to_string(given) + " outputs" +
                (term.name.empty() ? "" : " as '" + term.name + "'") + ", but " + dataset.info().name + " has " +
                std::to_string(classes) + " classes: the last layer must have as many.");
}

// A batch of nothing, for shapes.
data::Batch empty_batch(const data::Dataset& dataset, std::int64_t batch) {
  const std::int64_t rows = dataset.streams() > 0 ? dataset.streams() : batch;
  const auto all = [&](const std::vector<Field>& fields) {
    Tensors made;
    for (const auto& [name, type] : fields) {
      Shape shape = {rows};
      for (const std::int64_t size : type.shape) shape.push_back(size);
      made.add(name, zeros(shape, type.dtype));
    }
    return made;
  };
  data::Batch empty(all(dataset.inputs()), all(dataset.targets()));
  if (dataset.varies()) empty.lengths = zeros({rows}, i32);
  if (dataset.has_weights()) empty.weight = ones({rows});
  return empty;
}

void check_shapes(const nn::MaskedTensors& outputs, const data::Batch& batch, const data::Dataset& dataset,
                  const Objective& objective) {
  for (const Objective::Term& term : objective.terms()) check_classes(outputs.y[term.output], dataset, term);
  objective.measure(outputs, objective.loss(outputs, batch), batch);
}

}  // namespace

void check_outputs(nn::Module& model, const data::Dataset& dataset, const Objective& objective, std::int64_t batch) {
  const data::Batch samples = empty_batch(dataset, batch);
  const distributed::WholeBatch same;  // a model that is cut up among ranks asks for it
  const nn::MaskedTensors outputs = model.masked_all(samples.inputs(), Mode::infer, {samples.mask()});
  check_shapes(outputs, samples, dataset, objective);  // for shapes, never computed
  model.reset_state();
}

Objective objective_of(nn::Module& model, const data::Dataset& dataset, const Loss& loss,
                       const std::vector<Metric>& metrics, std::int64_t batch) {
  const data::Batch samples = empty_batch(dataset, batch);
  const distributed::WholeBatch same;  // a model that is cut up among ranks asks for it
  const nn::MaskedTensors outputs = model.masked_all(samples.inputs(), Mode::infer, {samples.mask()});
  Objective objective(loss, metrics, outputs.y.fields(), dataset);
  if (!loss.function)
    for (const Objective::Term& term : objective.terms()) check_target(term.loss, dataset, term.target);
  check_shapes(outputs, samples, dataset, objective);
  model.reset_state();
  return objective;
}

}  // namespace varve::train
