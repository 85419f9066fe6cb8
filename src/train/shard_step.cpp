#include "train/shard_step.h"

#include <algorithm>

#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve::train {
namespace {

constexpr std::int64_t kFlags = 3;

// What a model has besides parameters, each once.
std::vector<Variable> buffers_of(const nn::Module& model, const std::vector<Variable>& parameters) {
  std::vector<Variable> buffers;
  const auto is_in = [](const std::vector<Variable>& list, const Variable& variable) {
    return std::any_of(list.begin(), list.end(), [&](const Variable& each) { return each.same(variable); });
  };
  for (const nn::NamedVariable& named : model.named_variables())
    if (!is_in(parameters, named.variable) && !is_in(buffers, named.variable)) buffers.push_back(named.variable);
  return buffers;
}

}  // namespace

ShardStep::ShardStep(std::int64_t shards, const nn::Module& model, const std::vector<Variable>& parameters,
                     const std::function<std::vector<Tensor>()>& forward)
    : shards_(shards),
      parameters_(parameters.size()),
      number_("shard.number", full_int({}, 0, i64), false),
      samples_("shard.samples", ones({}), false),
      flags_("shard.flags", zeros({kFlags}), false) {
  find_remembered(model, parameters, forward);
  std::vector<TensorType> types;
  for (const Variable& parameter : parameters) types.push_back(parameter.type());
  for (const Variable& average : averages_) types.push_back(average.type());
  types.push_back(samples_.type());
  types.insert(types.end(), measured_.begin(), measured_.end());
  types.push_back(flags_.type());
  sums_ = std::make_unique<ShardSums>(shards, types);
}

// A forward pass that is recorded and never computed shows which variables it assigns.
void ShardStep::find_remembered(const nn::Module& model, const std::vector<Variable>& parameters,
                                const std::function<std::vector<Tensor>()>& forward) {
  std::vector<Variable> buffers = buffers_of(model, parameters);
  std::vector<Tensor> before;
  for (const Variable& buffer : buffers) before.push_back(buffer.value());
  for (const Tensor& measured : forward()) measured_.push_back(measured.type());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Variable& buffer = buffers[i];
    if (buffer.value().node() == before[i].node()) continue;
    buffer.assign(before[i]);
    const TensorType type = buffer.type();
    if (is_floating(type.dtype)) {
      averages_.push_back(buffer);
    } else {
      counters_.push_back(buffer);
      counted_.emplace_back(buffer.name(), zeros(type.shape, type.dtype), false);
    }
  }
}

void ShardStep::record(const std::function<Computed(const Tensor& samples)>& compute) {
  const nn::Shard scope(number_.value(), shards_);
  const Tensor samples = samples_.value();
  std::vector<Tensor> averages, counters;
  for (const Variable& average : averages_) averages.push_back(average.value());
  for (const Variable& counter : counters_) counters.push_back(counter.value());
  const Computed computed = compute(samples);
  const Tensor counts = computed.factor;
  std::vector<Tensor> given = computed.gradients;
  for (const Variable& average : averages_) given.push_back(average.value() * counts.to(average.type().dtype));
  given.push_back(counts);
  for (std::size_t i = 0; i < computed.measured.size(); ++i)
    given.push_back(computed.measured[i] * (i == 0 ? counts : minimum(samples, 1)));
  given.push_back(flags_.value());
  std::vector<Variable>& values = sums_->values();
  for (std::size_t i = 0; i < values.size(); ++i) values[i].assign(given[i].to(values[i].type().dtype));
  // Every shard of a step begins with what the last step has left.
  for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i].assign(averages[i]);
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    counted_[i].assign(counters_[i].value());
    counters_[i].assign(counters[i]);
  }
}

ShardStep::Computed ShardStep::whole() {
  const std::vector<Variable>& values = sums_->values();
  auto next = values.begin();
  const Tensor counted = values[parameters_ + averages_.size()].value();
  const Tensor counts = where(counted == 0, ones({}), counted);  // where nothing does, the sums are 0
  const auto mean = [&] {
    const Tensor sum = (next++)->value();
    return sum / counts.to(sum.dtype());
  };
  Computed all;
  for (std::size_t i = 0; i < parameters_; ++i) all.gradients.push_back(mean());
  for (Variable& average : averages_) average.assign(mean());
  for (std::size_t i = 0; i < counters_.size(); ++i) counters_[i].assign(counted_[i].value());
  ++next;  // what they count
  all.measured.push_back(mean());
  for (; next != values.end(); ++next) all.measured.push_back(next->value());
  return all;
}

void ShardStep::run(const data::Batch& own, const data::Batch& spare, const Share& share,
                    const std::function<void(const data::Batch& shard)>& program) {
  const ShardRange& range = sums_->own();
  const auto first_row = [&](std::int64_t shard) { return share.samples * shard / shards_; };
  flags_.assign(tensor(share.flags));
  for (std::int64_t shard = range.begin; shard < range.end; ++shard) {
    const std::int64_t begin = first_row(shard), end = first_row(shard + 1), before = first_row(range.begin);
    number_.assign(full_int({}, shard, i64));
    samples_.assign(full({}, static_cast<double>(end - begin)));
    program(end > begin ? own.rows(begin - before, end - before) : spare);
    sums_->take();
  }
  sums_->finish();
}

data::Batch ShardStep::largest(const data::Batch& own) const {
  const std::int64_t shards = sums_->own().size(), rows = own.samples();
  return own.rows(0, (rows + shards - 1) / shards);
}

}  // namespace varve::train
