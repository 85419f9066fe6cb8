#include "train/objective.h"

#include <algorithm>
#include <optional>
#include <sstream>

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

// The mean over all samples, from sums over batches.
Metric loss_metric(const Loss& loss) {
  return {.name = "loss",
          .sums =
              [loss](const Tensor& output, const Tensor& target) {
                const double rows = output.rank() > 0 ? static_cast<double>(output.dim(0)) : 1;
                return stack({cast(loss(output, target), f32) * rows, full({}, rows)});
              },
          .value = [](const std::vector<double>& sums) { return sums.at(0) / sums.at(1); },
          .higher_is_better = false};
}

}  // namespace

Objective::Objective(const Loss& loss, const std::vector<Metric>& metrics, const std::vector<Field>& outputs,
                     const data::Dataset& dataset)
    : loss_(loss) {
  add_terms(outputs, dataset);
  add_metrics(metrics, dataset);
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

Tensor Objective::loss(const Tensors& outputs, const data::Batch& batch) const {
  if (loss_.of_all) return cast(loss_.of_all(outputs, batch.targets()), f32);
  Tensor total;
  for (const Term& term : terms_) {
    Tensor own = cast(term.loss(outputs[term.output], target_of(term, batch)), f32);
    if (term.loss.weight != 1) own = own * term.loss.weight;
    total = total.defined() ? total + own : own;
  }
  return total;
}

std::vector<Tensor> Objective::measure(const Tensors& outputs, const Tensor& loss, const data::Batch& batch) const {
  std::vector<Tensor> measured = {cast(loss, f32)};
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    const Term& term = terms_[of_term_[i]];
    const bool is_loss = metrics_[i].name == term.name + "_loss";
    const TargetUnit unit = is_loss ? TargetUnit{} : term.unit;
    measured.push_back(metrics_[i].sums(unit(outputs[term.output]), unit(target_of(term, batch))));
  }
  return measured;
}

}  // namespace varve::train
