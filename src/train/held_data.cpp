#include "train/held_data.h"

#include <cstring>
#include <memory>

#include "varve/ops.h"

namespace varve::train {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

class RowNumbers final : public data::Source {
 public:
  explicit RowNumbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  TensorType x() const override { return {i32, {}}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const auto number = static_cast<std::int32_t>(index);
    std::memcpy(x, &number, sizeof number);
    std::memcpy(y, &number, sizeof number);
  }

 private:
  std::int64_t size_;
};

}  // namespace

HeldData::HeldData(const Tensors& inputs, const Tensors& targets)
    : rows_(std::make_shared<RowNumbers>(inputs[0].dim(0)), {}) {
  for (const auto& [name, x] : inputs) inputs_.emplace_back(name, Variable("held.x." + name, x, false));
  for (const auto& [name, y] : targets) targets_.emplace_back(name, Variable("held.y." + name, y, false));
}

std::optional<HeldData> HeldData::of(const data::Dataset& dataset, const std::function<bool()>& go_on) {
  std::int64_t bytes = 0;  // of a sample
  for (const std::vector<Field>& fields : {dataset.inputs(), dataset.targets()})
    for (const Field& field : fields) bytes += static_cast<std::int64_t>(field.type.bytes());
  if (!has_own_memory() || !dataset.fixed() || dataset.streams() > 0 || !dataset.parts().empty()) return std::nullopt;
  if (dataset.varies() || dataset.has_weights()) return std::nullopt;
  if (dataset.size() == 0 || bytes == 0 || dataset.size() > kMostBytes / bytes) return std::nullopt;
  const auto all = data::whole_fields(dataset, go_on);
  if (!all) return std::nullopt;
  return HeldData(all->first, all->second);
}

data::Batch HeldData::batch(const Tensor& rows) const {
  Tensors inputs, targets;
  for (const auto& [name, held] : inputs_) inputs.add(name, gather(held.value(), rows, 0));
  for (const auto& [name, held] : targets_) targets.add(name, gather(held.value(), rows, 0));
  return {std::move(inputs), std::move(targets)};
}

namespace {

// The fields of a batch in one row, and back.
std::vector<Tensor> packed(const data::Batch& batch) {
  std::vector<Tensor> all = batch.inputs().list();
  for (const Tensor& target : batch.targets().list()) all.push_back(target);
  for (const Tensor& more : {batch.lengths, batch.weight})
    if (more.defined()) all.push_back(more);
  return all;
}

// What a batch consists of.
struct Layout {
  std::vector<std::string> inputs, targets;
  bool lengths = false, weight = false;
};
Layout layout_of(const data::Batch& batch) {
  return {batch.inputs().names(), batch.targets().names(), batch.lengths.defined(), batch.weight.defined()};
}

data::Batch unpacked(const std::vector<Tensor>& all, const Layout& layout) {
  Tensors x, y;
  auto next = all.begin();
  for (const std::string& name : layout.inputs) x.add(name, *next++);
  for (const std::string& name : layout.targets) y.add(name, *next++);
  data::Batch batch(std::move(x), std::move(y));
  if (layout.lengths) batch.lengths = *next++;
  if (layout.weight) batch.weight = *next++;
  return batch;
}

std::string text_of(const Layout& layout) {
  std::string text = std::string(layout.lengths ? "lengths\n" : "") + (layout.weight ? "weight\n" : "");
  for (const std::string& name : layout.inputs) text += "x" + name + "\n";
  for (const std::string& name : layout.targets) text += "y" + name + "\n";
  return text;
}

}  // namespace

BatchProgram::BatchProgram(Body body, std::optional<HeldData> held, CompileOptions options)
    : body_(std::move(body)), held_(std::move(held)), options_(std::move(options)) {}

BatchProgram::Program& BatchProgram::program_for(const data::Batch& batch) {
  Program& program = programs_[held_ ? "" : text_of(layout_of(batch))];
  if (program) return program;
  if (held_)
    program = detail::compile(
        [body = body_, held = *held_](const std::vector<Tensor>& rows) { return body(held.batch(rows[0])); }, options_);
  else
    program = detail::compile([body = body_, layout = layout_of(batch)](
                                  const std::vector<Tensor>& all) { return body(unpacked(all, layout)); },
                              options_);
  return program;
}

std::vector<Tensor> BatchProgram::operator()(const data::Batch& batch) {
  Program& program = program_for(batch);
  const std::vector<Tensor> fields = held_ ? std::vector<Tensor>{batch.x} : packed(batch);
  std::vector<const Tensor*> pointers;
  for (const Tensor& field : fields) pointers.push_back(&field);
  std::vector<Tensor> results;
  detail::call(*program, pointers.data(), pointers.size(), results);
  return results;
}

std::int64_t BatchProgram::peak_bytes(const data::Batch& batch) {
  return detail::peak_bytes(*program_for(batch), held_ ? std::vector<Tensor>{batch.x} : packed(batch));
}

}  // namespace varve::train
