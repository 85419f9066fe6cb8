#include "train/step.h"

#include <algorithm>

#include "varve/autodiff.h"
#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve::train {

TrainStep::TrainStep(Parts parts)
    : parts_(std::move(parts)),
      batch_([this](const data::Batch& batch) { return shards_ ? record_shard(batch) : record(batch); }, parts_.held,
             {.name = "train", .tf32 = parts_.precision.tf32}),
      apply_(compile(
          [this] {
            std::optional<distributed::Alone> alone;
            if (parts_.alone) alone.emplace();
            std::vector<Tensor> means;
            for (Variable& sum : sums_) {
              means.push_back(sum.value() / count_);
              sum.assign(zeros(sum.shape(), sum.type().dtype));
            }
            count_.assign(zeros({}));
            update(means);
          },
          {.name = "apply", .tf32 = parts_.precision.tf32})),
      whole_(compile([this] { return record_whole(); }, {.name = "whole", .tf32 = parts_.precision.tf32})) {
  if (parts_.shards > 0)
    make_shards();
  else if (distributed::size() > 1)
    share_ = Variable("share", ones({5}), false);
  shares_ = distributed::shares_batch();
  if (!keeps_gradients()) return;
  for (const Variable& parameter : parts_.optimizer.parameters()) {
    sums_.emplace_back("gradient." + parameter.name(), zeros(parameter.shape(), parameter.type().dtype), false);
    distributed::keep_like(parameter, {sums_.back()});
    sums_.back() = distributed::part_of(sums_.back());  // gradients are of a rank's slice, where parameters are split
  }
  count_ = Variable("accumulated", zeros({}), false);
}

void TrainStep::make_shards() {
  shards_.emplace(parts_.shards, parts_.model, parts_.optimizer.parameters(), [this] {
    const data::Batch batch = parts_.held ? parts_.held->batch(parts_.spare.x) : parts_.spare;
    const Forward all = forward_at_once(batch);
    return parts_.objective.measure(all.outputs, all.loss, batch);
  });
}

void TrainStep::take_part(const Share& share) {
  part_ = share;
  if (!share_.state()) return;
  // The mean over ranks is then the mean over samples, whatever the ranks' shares.
  const auto weight =
      static_cast<float>(parts_.sharers * static_cast<double>(share.samples) / static_cast<double>(share.of));
  share_.assign(tensor({weight, share.samples > 0 ? 1.f : 0.f, share.ends ? 1.f : 0.f, share.stops ? 1.f : 0.f,
                        share.saves ? 1.f : 0.f}));
}

// What all ranks know, and their wishes.
std::vector<Tensor> TrainStep::with_wishes(std::vector<Tensor> measured) const {
  measured.push_back(distributed::all_sum(share_.value().slice({{2, 5}})));
  return measured;
}

// Of all ranks: the mean loss over the batch, sums of metrics, wishes; in one message.
std::vector<Tensor> TrainStep::measured_by_all(const ShardStep::Computed& own) const {
  const std::vector<Tensor>& measured = own.measured;
  const Tensor share = share_.value();
  const auto part = [&](std::int64_t i) { return share.slice({{i, i + 1}}); };
  std::vector<Tensor> flat = {measured[0].reshape({1}) * own.factor.reshape({1}) * (1.0 / distributed::size())};
  std::vector<std::int64_t> sizes = {1};
  for (std::size_t i = 1; i < measured.size(); ++i) {
    flat.push_back(measured[i].reshape({-1}) * part(1));
    sizes.push_back(measured[i].numel());
  }
  flat.push_back(share.slice({{2, 5}}));
  sizes.push_back(3);
  std::vector<Tensor> sums = split(distributed::all_sum(concat(flat, 0)), sizes, 0);
  for (std::size_t i = 0; i < measured.size(); ++i) sums[i] = sums[i].reshape(measured[i].shape());
  return sums;
}

TrainStep::Wishes TrainStep::wishes(const std::vector<Tensor>& measured) {
  if (distributed::size() == 1) return {};
  const std::vector<float> sums = measured.back().to_vector<float>();
  return {sums[0] > 0, sums[1] > 0, sums[2] > 0};
}

// With shards, the gradients are all ranks' already.
void TrainStep::update(const std::vector<Tensor>& gradients) {
  if (shards_)
    parts_.optimizer.apply_whole(gradients);
  else
    parts_.optimizer.apply(gradients);
  if (parts_.average) parts_.average->update();
}

void TrainStep::use(const std::vector<Tensor>& gradients) {
  std::optional<distributed::Alone> alone;
  if (parts_.alone) alone.emplace();
  if (!keeps_gradients()) return update(gradients);
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].assign(sums_[i] + cast(gradients[i], sums_[i].type().dtype));
  count_.assign(count_ + 1);
}

TrainStep::Forward TrainStep::forward_at_once(const data::Batch& batch) const {
  Forward all;
  nn::AddedLosses added;
  all.outputs = parts_.model.masked_all(batch.inputs(), Mode::train, {batch.mask()});
  all.loss = parts_.objective.loss(all.outputs, batch);
  if (!added.empty()) all.loss = all.loss + added.total().to(all.loss.dtype());
  all.weight = parts_.objective.weight(all.outputs, batch);
  return all;
}

namespace {

// Parts of a batch, one behind the other.
nn::MaskedTensors behind_each_other(const std::vector<nn::MaskedTensors>& parts) {
  nn::MaskedTensors all;
  for (std::size_t i = 0; i < parts[0].y.size(); ++i) {
    std::vector<Tensor> values, steps;
    for (const nn::MaskedTensors& part : parts) {
      values.push_back(part.y[i]);
      if (part.masks[i].defined()) steps.push_back(part.masks[i].valid());
    }
    all.y.add(parts[0].y.name(i), concat(values, 0));
    all.masks.push_back(steps.size() == parts.size() ? nn::Mask::of_valid(concat(steps, 0)) : nn::Mask{});
  }
  return all;
}

}  // namespace

// One after the other, each as large as its share of what counts; the backward pass then begins with the last, so that
// a pipeline's ranks have several under way.
TrainStep::Forward TrainStep::forward(const data::Batch& batch) const {
  const std::int64_t samples = batch.samples();
  const std::int64_t count = std::max<std::int64_t>(1, std::min(parts_.micro_batches, samples));
  if (count == 1) return forward_at_once(batch);
  std::vector<nn::MaskedTensors> outputs;
  Tensor loss, weight;
  for (std::int64_t m = 0; m < count; ++m) {
    const std::int64_t begin = samples * m / count, end = samples * (m + 1) / count;
    const Forward part = forward_at_once(batch.rows(begin, end));
    outputs.push_back(part.outputs);
    const double rows = static_cast<double>(end - begin) / static_cast<double>(samples);
    const Tensor share = part.weight.defined() ? part.loss * part.weight : part.loss * rows;
    loss = loss.defined() ? loss + share : share;
    if (part.weight.defined()) weight = weight.defined() ? weight + part.weight : part.weight;
  }
  if (weight.defined()) loss = loss / where(weight == 0, ones({}), weight);
  return {behind_each_other(outputs), loss, weight};
}

// Of a shard: what it counts. Of a rank: what it counts of all ranks' mean. Undefined: it stands alone.
Tensor TrainStep::factor_of(const Forward& own, const Tensor& share) const {
  if (!share.defined() || !own.weight.defined()) return share;
  // A rank, or a shard, without samples computes a spare one, which counts for nothing.
  const Tensor counts = where(share > 0, own.weight, zeros({}));
  if (shards_) return counts;
  const Tensor all = distributed::all_sum(counts);
  return counts * static_cast<double>(parts_.sharers) / where(all == 0, ones({}), all);
}

// Of the weighted loss; what is measured is not weighted.
ShardStep::Computed TrainStep::computed(const data::Batch& batch, const Tensor& share) {
  const nn::Precision precision(parts_.precision.dtype);
  std::optional<distributed::Alone> alone;
  if (parts_.alone) alone.emplace();
  std::optional<nn::Watch> watch;
  if (parts_.check_layers)
    watch.emplace([](const nn::Watch::Call& call) {
      return is_floating(call.y.dtype())
                 ? check_finite(call.y, "layer \"" + call.path + "\" (" + call.module.kind() + ")")
                 : call.y;
    });
  Forward own;
  Tensor factor;
  const auto [loss, gradients] = value_and_grad(
      [&] {
        own = forward(batch);
        factor = factor_of(own, share);
        return factor.defined() ? own.loss * factor : own.loss;
      },
      parts_.optimizer.parameters());
  own.outputs.y = own.outputs.y.map([](const Tensor& output) { return stop_gradient(output); });
  const Tensor unweighted = factor.defined() ? stop_gradient(own.loss) : loss;
  return {gradients, parts_.objective.measure(own.outputs, unweighted, batch), factor};
}

std::vector<Tensor> TrainStep::record(const data::Batch& batch) {
  const auto share = [&](std::int64_t i) { return share_.value().slice({{i, i + 1}}).reshape({}); };
  std::optional<nn::SyncBatchNorm> sync;
  if (parts_.sync_batch_norm && shares_) sync.emplace(share(1));
  ShardStep::Computed own = computed(batch, shares_ ? share(0) : Tensor{});
  if (share_.state() && !parts_.alone) own.measured = shares_ ? measured_by_all(own) : with_wishes(own.measured);
  use(own.gradients);
  return own.measured;
}

std::vector<Tensor> TrainStep::record_shard(const data::Batch& batch) {
  shards_->record([&](const Tensor& samples) { return computed(batch, samples); });
  return {};
}

std::vector<Tensor> TrainStep::record_whole() {
  const ShardStep::Computed all = shards_->whole();
  use(all.gradients);
  return all.measured;
}

void TrainStep::count_gradients() { count_.assign((count_.value() + 1).eval()); }

void TrainStep::forget_gradients() {
  for (Variable& sum : sums_) sum.assign(zeros(sum.shape(), sum.type().dtype).eval());
  count_.assign(zeros({}).eval());
}

std::vector<Tensor> TrainStep::operator()(const data::Batch& batch, bool apply) {
  std::vector<Tensor> measured;
  if (shards_) {
    const auto flag = [](bool is_set) { return is_set ? 1.f : 0.f; };
    shards_->run(batch, parts_.spare, {part_.of, {flag(part_.ends), flag(part_.stops), flag(part_.saves)}},
                 [this](const data::Batch& shard) { batch_(shard); });
    measured = whole_();
  } else {
    measured = batch_(batch);
  }
  if (apply && keeps_gradients()) apply_();
  return measured;
}

// With shards, of three programs, which share the parameters and the shards' values.
std::int64_t TrainStep::peak_bytes(const data::Batch& batch) {
  if (!shards_) return batch_.peak_bytes(batch);
  const data::Batch shard = shards_->largest(batch);
  std::int64_t shared = shards_->sums().bytes_of_values();
  for (const Variable& parameter : parts_.optimizer.parameters())
    shared += static_cast<std::int64_t>(parameter.type().bytes());
  return batch_.peak_bytes(shard) + shards_->sums().bytes_beside() + whole_.peak_bytes() - shared;
}

}  // namespace varve::train
