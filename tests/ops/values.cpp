#include "ops/values.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <sstream>

namespace varve::test {

// ---- random

Random::Random(const std::string& seed) : state_(1469598103934665603u) {
  for (unsigned char c : seed) state_ = (state_ ^ c) * 1099511628211u;
}

std::uint64_t Random::bits() {  // splitmix64
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
}

std::int64_t Random::below(std::int64_t n) {
  return n <= 0 ? 0 : static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n));
}

Doubles random_like(const Shape& shape, Random& random, double low, double high) {
  Doubles values = doubles(shape);
  for (double& v : values.data) v = random.uniform(low, high);
  return values;
}

// ---- inputs of a row

DType input_type(const Row& row, int input, DType tested) {
  if (const auto fixed = row.fixed_types.find(input); fixed != row.fixed_types.end()) return fixed->second;
  if (row.integer_inputs.count(input)) return i64;
  if (row.boolean_inputs.count(input)) return boolean;
  return tested;
}

double quantize(double value, DType dtype) {
  if (dtype == boolean) return value != 0 ? 1 : 0;
  if (!is_integer(dtype)) return value;
  if (std::isnan(value)) return 0;
  double low = -0x1p31, high = 0x1p31 - 1;
  if (dtype == i64) low = -0x1p53, high = 0x1p53;
  if (dtype == i8) low = -128, high = 127;
  if (dtype == u8) value = std::abs(value), high = 255;
  return std::round(std::clamp(value, low, high)) + 0.0;  // integers have no -0
}

namespace {

Range2 range_of(const Row& row, int input, Purpose purpose) {
  if (purpose == Purpose::gradient) {
    if (const auto found = row.gradient_ranges.find(input); found != row.gradient_ranges.end()) return found->second;
    if (row.gradient_range != Range2{0, 0} && !row.ranges.count(input)) return row.gradient_range;
  }
  const auto found = row.ranges.find(input);
  return found != row.ranges.end() ? found->second : row.range;
}

void spread(Doubles& values, Range2 range, Random& random) {
  const auto n = static_cast<std::int64_t>(values.data.size());
  for (std::int64_t i = 0; i < n; ++i)
    values.data[static_cast<std::size_t>(i)] =
        range.first + (range.second - range.first) * (static_cast<double>(i) + 0.5) / static_cast<double>(n);
  for (std::int64_t i = n - 1; i > 0; --i)
    std::swap(values.data[static_cast<std::size_t>(i)], values.data[static_cast<std::size_t>(random.below(i + 1))]);
}

// Element i of input j of k takes value (i / n^(k-1-j)) mod n: inputs of equal shape meet in every combination.
void sprinkle(Doubles& input, const std::vector<double>& values, int j, int k, std::size_t case_number) {
  const std::size_t n = values.size(), count = input.data.size();
  std::size_t period = 1;
  for (int step = j + 1; step < k; ++step) period = std::min(period * n, count + 1);
  std::size_t combinations = 1;
  for (int step = 0; step < k; ++step) combinations = std::min(combinations * n, count + 1);
  const std::size_t first = count == 1 ? case_number : 0;  // scalars and such: another value in each case
  for (std::size_t i = 0; i < std::min(count, combinations); ++i) input.data[i] = values[(first + i / period) % n];
}

}  // namespace

DoublesList make_inputs(const Row& row, const std::vector<Shape>& shapes, DType tested, Purpose purpose,
                        std::size_t case_number) {
  Random random(row.op + "/" + row.label + "/" + std::to_string(case_number));
  std::vector<int> ordinary;
  for (int i = 0; i < static_cast<int>(shapes.size()); ++i)
    if (!row.integer_inputs.count(i) && !row.boolean_inputs.count(i)) ordinary.push_back(i);
  DoublesList inputs;
  for (int i = 0; i < static_cast<int>(shapes.size()); ++i) {
    Doubles values = doubles(shapes[static_cast<std::size_t>(i)]);
    const auto place = std::find(ordinary.begin(), ordinary.end(), i);
    if (place == ordinary.end()) {
      const std::int64_t n = row.boolean_inputs.count(i) ? 2 : row.integer_inputs.at(i);
      for (double& v : values.data) v = static_cast<double>(random.below(n));
    } else {
      const Range2 range = range_of(row, i, purpose);
      if (row.distinct)
        spread(values, range, random);
      else
        for (double& v : values.data) v = random.uniform(range.first, range.second);
      if (purpose == Purpose::values && !row.values.empty())
        sprinkle(values, row.values, static_cast<int>(place - ordinary.begin()), static_cast<int>(ordinary.size()),
                 case_number);
    }
    inputs.push_back(std::move(values));
  }
  if (row.adjust) row.adjust(inputs);
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i)
    for (double& v : inputs[static_cast<std::size_t>(i)].data)
      v = round_to(quantize(v, input_type(row, i, tested)), input_type(row, i, tested));
  return inputs;
}

// ---- between double and tensors

namespace {
template <class T>
Tensor typed(const Doubles& values) {
  std::vector<T> data(values.data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
      data[i] = T(static_cast<float>(values.data[i]));
    else
      data[i] = static_cast<T>(values.data[i]);
  }
  return tensor(data, values.shape);
}
}  // namespace

Tensor to_tensor(const Doubles& values, DType dtype) {
  switch (dtype) {
    case DType::f64:
      return typed<double>(values);
    case DType::f32:
      return typed<float>(values);
    case DType::f16:
      return typed<half>(values);
    case DType::bf16:
      return typed<bfloat16>(values);
    case DType::i64:
      return typed<std::int64_t>(values);
    case DType::i32:
      return typed<std::int32_t>(values);
    case DType::i8:
      return typed<std::int8_t>(values);
    case DType::u8:
      return typed<std::uint8_t>(values);
    case DType::boolean:
      return typed<bool>(values);
  }
  throw Error("to_tensor: unknown type.");
}

Doubles from_tensor(const Tensor& tensor) { return {tensor.shape(), tensor.to_vector<double>()}; }

Tensors to_tensors(const Row& row, const DoublesList& inputs, DType tested) {
  Tensors tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    tensors.push_back(to_tensor(inputs[i], input_type(row, static_cast<int>(i), tested)));
  return tensors;
}

DoublesList from_tensors(const Tensors& tensors) {
  DoublesList values;
  for (const Tensor& t : tensors) values.push_back(from_tensor(t));
  return values;
}

double round_to(double value, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::f16:
      return static_cast<double>(static_cast<float>(half(static_cast<float>(value))));
    case DType::bf16:
      return static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(value))));
    default:
      return value;
  }
}

// ---- strides

const char* name(View view) {
  switch (view) {
    case View::transposed:
      return "transposed";
    case View::stepped:
      return "stepped";
    case View::flipped:
      return "flipped";
    case View::offset:
      return "offset";
  }
  return "";
}

namespace {

// Elements of `inner` placed at begin + step·index of a larger block; what lies between must never be read.
Doubles spread_out(const Doubles& inner, std::int64_t begin, std::int64_t step) {
  Shape outer = inner.shape;
  for (int axis = 0; axis < outer.rank(); ++axis) outer[axis] = begin + step * outer[axis] + 1;
  Doubles block = doubles(outer, 77);
  std::size_t next = 0;
  each_index(inner.shape, [&](std::vector<std::int64_t> index) {
    for (std::int64_t& i : index) i = begin + step * i;
    block.data[static_cast<std::size_t>(offset(outer, index))] = inner.data[next++];
  });
  return block;
}

Doubles reversed(const Doubles& values) {
  Doubles result = values;
  std::reverse(result.data.begin(), result.data.end());
  return result;
}

Doubles transposed(const Doubles& values) {
  Shape shape;
  for (int axis = values.shape.rank() - 1; axis >= 0; --axis) shape.push_back(values.shape[axis]);
  Doubles result = doubles(shape);
  std::size_t next = 0;
  each_index(values.shape, [&](std::vector<std::int64_t> index) {
    std::reverse(index.begin(), index.end());
    result.data[static_cast<std::size_t>(offset(shape, index))] = values.data[next++];
  });
  return result;
}

Tensor sliced(const Doubles& values, DType dtype, std::int64_t begin, std::int64_t step) {
  std::vector<Range> ranges;
  for (std::int64_t size : values.shape) ranges.push_back({begin, begin + step * size, step});
  return slice(to_tensor(spread_out(values, begin, step), dtype), ranges);
}

}  // namespace

Tensor through_view(const Doubles& values, DType dtype, View view, bool evaluated) {
  const int rank = values.shape.rank();
  Tensor result;
  if (rank == 0) {
    result = to_tensor(values, dtype);
  } else if (view == View::transposed) {
    Axes order(static_cast<std::size_t>(rank));
    std::iota(order.rbegin(), order.rend(), 0);
    result = transpose(to_tensor(transposed(values), dtype), order);
  } else if (view == View::flipped) {
    Axes axes(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
    result = flip(to_tensor(reversed(values), dtype), axes);
  } else {
    result = view == View::stepped ? sliced(values, dtype, 0, 2) : sliced(values, dtype, 1, 1);
  }
  if (evaluated) result.eval();
  return result;
}

std::vector<std::string> executing_backends() {
  static const std::vector<std::string> names = [] {
    const std::string before = device();
    std::vector<std::string> found;
    if (const char* asked = std::getenv("VARVE_TEST_DEVICES")) {  // must work: no silence when it does not
      std::istringstream words(asked);
      for (std::string word; std::getline(words, word, ',');) {
        set_device(word);
        found.push_back(word);
      }
    } else {
      for (const char* candidate : {"reference", "cpu", "cuda"}) {
        try {
          set_device(candidate);
          found.push_back(candidate);
        } catch (const Error&) {
        }
      }
    }
    set_device(before);
    return found;
  }();
  return names;
}

}  // namespace varve::test
