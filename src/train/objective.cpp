#include "train/objective.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "train/targets.h"

namespace varve::train {
namespace {

template <class... Part>
std::string cat(const Part&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "'" : ", '") + name + "'";
  return all;
}

constexpr const char* kName = "name a loss for each: .loss = train::losses({{\"NAME\", train::cross_entropy}, …})";

// The target of each output: by name where all have one, else by place. Where they are not as many, by name alone.
std::vector<std::optional<std::size_t>> targets_of(const std::vector<Field>& outputs,
                                                   const std::vector<Field>& targets) {
  std::vector<std::optional<std::size_t>> found;
  if (outputs.size() == targets.size()) {
    for (const std::size_t place : places_of(outputs, targets, "fit: targets for the outputs of the network"))
      found.emplace_back(place);
    return found;
  }
  for (const Field& output : outputs) {
    const auto at = std::find_if(targets.begin(), targets.end(),
                                 [&](const Field& t) { return !t.name.empty() && t.name == output.name; });
    found.push_back(at == targets.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - targets.begin())));
  }
  return found;
}

std::vector<std::string> names_of(const std::vector<Field>& outputs, const std::vector<Field>& targets,
                                  const std::vector<std::optional<std::size_t>>& places) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string of_target = places[i] ? targets[*places[i]].name : "";
    names.push_back(!outputs[i].name.empty() ? outputs[i].name : !of_target.empty() ? of_target : std::to_string(i));
  }
  return names;
}

std::size_t output_of(const std::string& wanted, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  for (std::size_t i = 0; i < names.size(); ++i)
    if (wanted == std::to_string(i)) return i;
  throw Error(
      cat("fit: the network has no output '", wanted, "': it has ", listed(names), ".", did_you_mean(wanted, names)));
}

TargetUnit unit_of(const data::Dataset& dataset, const Loss& loss) {
  const auto& table = dataset.info().table;
  if (!table || !table->regression() || loss.of_input) return {};
  return {table->target.mean, table->target.deviation};
}

// The mean over all that counts, from sums over batches.
Metric loss_metric(const Loss& loss) {
  const auto sums = [loss](const Tensor& output, const Tensor& target, const Tensor& weights) {
    const double rows = output.rank() > 0 ? static_cast<double>(output.dim(0)) : 1;
    const Tensor counted = loss.weights_of(output, target, weights);
    const Tensor total = counted.defined() ? sum(counted) : full({}, rows);
    return stack({cast(loss(output, target, weights), f32) * total, total});
  };
  return {.name = "loss",
          .sums = [sums](const Tensor& output, const Tensor& target) { return sums(output, target, {}); },
          .value = [](const std::vector<double>& all) { return all.at(0) / all.at(1); },
          .higher_is_better = false,
          .weighted = sums};
}

// What the rows of an output count: those of valid steps, and as the samples' weights say. Undefined: 1.
Tensor row_weights(const nn::Mask& mask, const data::Batch& batch) {
  if (!mask.defined()) return batch.weight;
  return batch.weight.defined() ? mask.weights() * expand_dims(batch.weight, 1) : mask.weights();
}

Shape rows_of_classes(const Tensor& output) {
  return Shape(std::vector<std::int64_t>(output.shape().begin(), output.shape().end() - 1));
}

}  // namespace

Objective::Objective(const Loss& loss, const std::vector<Metric>& metrics, const std::vector<Field>& outputs,
                     const data::Dataset& dataset)
    : loss_(loss) {
  add_terms(outputs, dataset);
  add_metrics(metrics, dataset);
  // Batches whose rows do not all count the same: their losses are no mean of means.
  if (terms_.size() != 1 || !terms_[0].name.empty()) return;
  const Loss& only = terms_[0].loss;
  if (dataset.has_weights() || dataset.varies() || only.counts || only.ignore_index)
    metrics_.insert(metrics_.begin(), loss_metric(only)), of_term_.insert(of_term_.begin(), 0);
}

void Objective::add_terms(const std::vector<Field>& outputs, const data::Dataset& dataset) {
  if (loss_.of_all) return;
  const std::vector<Field>& targets = dataset.targets();
  if (loss_.parts.empty() && outputs.size() == 1 && (targets.size() == 1 || loss_.of_input)) {
    terms_.push_back({loss_, 0, 0, "", unit_of(dataset, loss_)});
    return;
  }
  const auto places = targets_of(outputs, targets);
  const std::vector<std::string> names = names_of(outputs, targets, places);
  if (loss_.parts.empty())
    throw Error(cat("fit: the network gives ", outputs.size(), outputs.size() == 1 ? " output (" : " outputs (",
                    str(outputs), "), the data has ", targets.size(), targets.size() == 1 ? " target (" : " targets (",
                    str(targets), "): ", kName, "."));
  for (const Loss& part : loss_.parts) {
    const std::size_t output = output_of(part.of_output, names);
    if (std::any_of(terms_.begin(), terms_.end(), [&](const Term& term) { return term.output == output; }))
      throw Error(cat("fit: the output '", names[output], "' has two losses."));
    if (!part.of_input && !places[output])
      throw Error(cat("fit: the output '", names[output], "' has a loss, but the data has no target of that name: its ",
                      targets.size() == 1 ? "target is " : "targets are ", str(targets), "."));
    terms_.push_back({part, output, part.of_input ? 0 : *places[output], names[output],
                      targets.size() == 1 ? unit_of(dataset, part) : TargetUnit{}});
  }
}

void Objective::add_metric(Metric metric, std::size_t term) {
  if (!terms_[term].name.empty()) metric.name = terms_[term].name + "_" + metric.name;
  metrics_.push_back(std::move(metric));
  of_term_.push_back(term);
}

void Objective::add(const Metric& metric) {
  if (terms_.size() != 1) throw Error(metric.name + ": is of one output, and the network has several.");
  add_metric(metric, 0);
}

void Objective::add_metrics(const std::vector<Metric>& metrics, const data::Dataset& dataset) {
  if (terms_.empty() && !metrics.empty())
    throw Error(metrics[0].name + ": a loss of all outputs at once has no metrics beside it: name a loss for each.");
  const bool several = !terms_.empty() && !terms_[0].name.empty();
  for (std::size_t i = 0; several && i < terms_.size(); ++i) add_metric(loss_metric(terms_[i].loss), i);
  if (metrics.empty())
    for (std::size_t i = 0; i < terms_.size(); ++i)
      for (const Metric& metric : metrics_for(terms_[i].loss.name, dataset.targets()[terms_[i].target].type))
        add_metric(metric, i);
  std::vector<std::string> names;
  for (const Term& term : terms_) names.push_back(term.name);
  for (const Metric& metric : metrics) {
    if (several && metric.of_output.empty())
      throw Error(cat(metric.name, ": say which output it measures, such as train::of(\"", names[0],
                      "\", metric): the network has ", listed(names), "."));
    add_metric(metric, metric.of_output.empty() || (!several && metric.of_output == "0")
                           ? 0
                           : output_of(metric.of_output, names));
  }
}

Tensor Objective::target_of(const Term& term, const data::Batch& batch) const {
  if (!term.loss.of_input) return batch.targets()[term.target];
  const Tensors inputs = batch.inputs();
  return inputs.has(term.name) ? inputs[term.name] : inputs[0];
}

Tensor Objective::loss(const nn::MaskedTensors& outputs, const data::Batch& batch) const {
  if (loss_.of_all) {
    if (batch.weight.defined())
      throw Error("loss \"" + loss_.name + "\": takes no weights of samples, as it is of all outputs at once.");
    return cast(loss_.of_all(outputs.y, batch.targets()), f32);
  }
  Tensor total;
  for (const Term& term : terms_) {
    const Tensor weights = row_weights(outputs.masks[term.output], batch);
    Tensor own = cast(term.loss(outputs.y[term.output], target_of(term, batch), weights), f32);
    if (term.loss.weight != 1) own = own * term.loss.weight;
    total = total.defined() ? total + own : own;
  }
  return total;
}

Tensor Objective::weight(const nn::MaskedTensors& outputs, const data::Batch& batch) const {
  if (terms_.size() != 1) return {};
  const Term& term = terms_[0];
  const Tensor rows = term.loss.weights_of(outputs.y[term.output], target_of(term, batch),
                                           row_weights(outputs.masks[term.output], batch));
  return rows.defined() ? stop_gradient(sum(rows)) : rows;
}

Tensor Objective::measured(const Metric& metric, const Term& term, const nn::MaskedTensors& outputs,
                           const data::Batch& batch) const {
  const bool is_loss = metric.name == (term.name.empty() ? "loss" : term.name + "_loss");
  const TargetUnit unit = is_loss ? TargetUnit{} : term.unit;
  const Tensor output = unit(outputs.y[term.output]);
  Tensor target = unit(target_of(term, batch)), weights = row_weights(outputs.masks[term.output], batch);
  if (term.loss.ignore_index && !is_loss) {
    const KeptClasses kept = without_ignored(target, *term.loss.ignore_index, metric.name.c_str());
    const Tensor rows = kept.weights.reshape(rows_of_classes(output));
    target = kept.target;
    weights = weights.defined() ? weights_of_rows(weights, rows.shape(), metric.name.c_str()) * rows : rows;
  }
  if (!weights.defined()) return metric.sums(output, target);
  if (!metric.weighted)
    throw Error("metric \"" + metric.name +
                "\": takes no weights, and some rows are padding or count more than others. Give it `weighted`.");
  return metric.weighted(output, target, weights);
}

std::vector<Tensor> Objective::measure(const nn::MaskedTensors& outputs, const Tensor& loss,
                                       const data::Batch& batch) const {
  std::vector<Tensor> all = {cast(loss, f32)};
  for (std::size_t i = 0; i < metrics_.size(); ++i)
    all.push_back(measured(metrics_[i], terms_[of_term_[i]], outputs, batch));
  return all;
}

}  // namespace varve::train
