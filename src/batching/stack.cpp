#include "batching/stack.h"

#include <cstring>
#include <numeric>

#include "ir/array.h"
#include "varve/ops.h"

namespace varve {
namespace {

void add_tensor(ir::Fingerprint& print, const Tensor& tensor) {
  print.add(reinterpret_cast<std::uintptr_t>(tensor.node().get()));
  print.add(static_cast<std::uint64_t>(tensor.index()));
}

Shape with_leading(std::int64_t first, const Shape& shape) {
  Ints sizes{first};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return Shape(std::move(sizes));
}

bool counts_up(const std::vector<std::int64_t>& rows) {
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (rows[i] != rows[0] + static_cast<std::int64_t>(i)) return false;
  return true;
}

// A constant in the processor's memory that no gradient flows to.
std::shared_ptr<const ir::Array> known_array(const Tensor& tensor) {
  if (!tensor.node()->inputs.empty() || tensor.node()->lineage()) return nullptr;
  auto array = tensor.node()->slots[static_cast<std::size_t>(tensor.index())].value();
  return array && !array->storage->is_far() && !array->storage->error ? array : nullptr;
}

}  // namespace

Tensor Stacks::in_rows_of(const Tensor& rows, const Shape& shape) {
  const std::int64_t size = shape.numel();
  Shape to = with_leading(size ? rows.numel() / size : 0, shape);
  if (to == rows.shape()) return rows;
  ir::Fingerprint print;
  print.add(1u);
  add_tensor(print, rows);
  print.add(to.vec());
  Tensor& known = known_[print];
  if (!known.defined()) {
    known = rows.reshape(to);
    if (const auto filled = filled_.find(rows.value()); filled != filled_.end())
      note_filled(known, filled->second * to[0] / rows.dim(0));
  }
  return known;
}

Tensor Stacks::alone(const Place& place, const TensorType& type) {
  if (place.row < 0) return place.of;
  ir::Fingerprint print;
  print.add(2u);
  add_tensor(print, place.of);
  print.add(static_cast<std::uint64_t>(place.row));
  print.add(static_cast<std::uint64_t>(place.rows));
  const std::int64_t end = place.row + std::max<std::int64_t>(place.rows, 1);
  Tensor& known = known_[print];
  if (!known.defined()) known = place.of.slice({{place.row, end}}).reshape(type.shape);
  return known;
}

Tensor Stacks::stacked(const std::vector<Place>& places, const TensorType& type, std::int64_t size) {
  ir::Fingerprint print;
  print.add(3u);
  print.add(static_cast<std::uint64_t>(size));
  for (const Place& place : places) {
    add_tensor(print, place.of);
    print.add(static_cast<std::uint64_t>(place.row));
  }
  if (const auto known = known_.find(print); known != known_.end()) return known->second;

  std::vector<Source> sources;
  std::vector<Tensor> without_row;
  std::vector<std::int64_t> at;  // of each value: its source, and the place among that one's rows
  std::unordered_map<ir::Value, std::size_t, ir::ValueHash> numbers;
  constexpr std::size_t kLoose = 0;
  sources.emplace_back();  // of those without a row
  for (const Place& place : places) {
    std::size_t number = kLoose;
    if (place.row < 0 || place.rows > 0) {
      const Tensor own = alone(place, type);
      const auto [known, fresh] = numbers.emplace(own.value(), without_row.size());
      if (fresh) without_row.push_back(own);
      sources[kLoose].rows.push_back(static_cast<std::int64_t>(known->second));
    } else {
      const auto [known, fresh] = numbers.emplace(place.of.value(), sources.size());
      if (fresh) sources.push_back({place.of, {}});
      number = known->second;
      sources[number].rows.push_back(place.row);
    }
    at.push_back(static_cast<std::int64_t>(number));
    at.push_back(static_cast<std::int64_t>(sources[number].rows.size()) - 1);
  }
  if (!without_row.empty()) sources[kLoose].of = loose(without_row, type);
  const Tensor result = joined_sources(sources, at, size);
  known_.emplace(print, result);
  return result;
}

// What has no row yet, [k, ..].
Tensor Stacks::loose(const std::vector<Tensor>& values, const TensorType& type) {
  std::vector<std::shared_ptr<const ir::Array>> arrays;
  for (const Tensor& value : values)
    if (auto array = known_array(value)) arrays.push_back(std::move(array));
  if (arrays.size() < values.size()) {
    std::vector<Tensor> layers;
    for (const Tensor& value : values) layers.push_back(in_rows_of(value, type.shape));
    return concat(layers, 0);
  }
  auto all = ir::new_array({type.dtype, with_leading(static_cast<std::int64_t>(values.size()), type.shape)});
  auto* to = static_cast<std::byte*>(all->storage->data());
  for (const auto& array : arrays) {
    ir::read_elements(*array, to, type.dtype);
    to += type.bytes();
  }
  return Tensor(ir::Value{ir::constant_node(all), 0});
}

Tensor Stacks::joined_sources(std::vector<Source>& sources, const std::vector<std::int64_t>& at, std::int64_t size) {
  const std::size_t count = at.size() / 2;
  std::size_t used = 0, only = 0, total = 0;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    if (sources[s].rows.empty()) continue;
    ++used;
    only = s;
    total += static_cast<std::size_t>(sources[s].of.dim(0));
  }
  if (used == 1) return rows_of(sources[only].of, sources[only].rows, size);
  // All rows, or, where many are not needed, those that are.
  const bool whole = total <= 2 * count + 16;
  std::vector<Tensor> parts;
  std::vector<std::int64_t> begin(sources.size(), 0);
  std::int64_t length = 0;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    if (sources[s].rows.empty()) continue;
    begin[s] = length;
    const auto needed = static_cast<std::int64_t>(sources[s].rows.size());
    parts.push_back(whole ? sources[s].of : rows_of(sources[s].of, sources[s].rows, needed));
    length += parts.back().dim(0);
  }
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < count; ++i) {
    const auto source = static_cast<std::size_t>(at[2 * i]);
    const std::int64_t row = at[2 * i + 1];
    order.push_back(begin[source] + (whole ? sources[source].rows[static_cast<std::size_t>(row)] : row));
  }
  ir::Fingerprint print;
  print.add(4u);
  for (const Tensor& part : parts) add_tensor(print, part);
  Tensor& all = known_[print];
  if (!all.defined()) all = concat(parts, 0);
  const Tensor joined = all;  // the table may move while rows are taken
  return rows_of(joined, std::move(order), size);
}

Tensor Stacks::rows_of(const Tensor& all, std::vector<std::int64_t> rows, std::int64_t size) {
  const auto count = static_cast<std::int64_t>(rows.size());
  if (counts_up(rows)) {
    const auto filled = filled_.find(all.value());
    const bool is_all = rows[0] == 0 && all.dim(0) == size;
    if (is_all && (count == size || (filled != filled_.end() && filled->second == count))) return all;
    if (count == size) return all.slice({{rows[0], rows[0] + count}});
  }
  rows.resize(static_cast<std::size_t>(size), rows.back());
  return gather(all, positions(rows), 0);
}

const Tensor& Stacks::positions(const std::vector<std::int64_t>& rows) {
  Tensor& known = positions_[rows];
  if (!known.defined()) known = tensor(std::vector<std::int32_t>(rows.begin(), rows.end()));
  return known;
}

}  // namespace varve
