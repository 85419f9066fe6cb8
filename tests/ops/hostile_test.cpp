// Wrong shapes, types, options and values: an Error or a result, never a crash.
#include <gtest/gtest.h>

#include <limits>

#include "ops/compare.h"
#include "ops/refusal.h"
#include "ops/row.h"
#include "ops/values.h"
#include "tensor/record.h"

namespace varve::test {

namespace {

// ---- any row, with its inputs spoilt

bool is_small(const Tensors& outputs) {
  constexpr double kLimit = 1 << 20;
  double elements = 0;
  for (const ir::NodePtr& node : ir::topological(values_of(outputs)))
    for (const TensorType& type : node->types) {
      double count = 1;
      for (std::int64_t size : type.shape) count *= static_cast<double>(size);
      elements += count;
    }
  return elements <= kLimit;
}

Shape spoilt(Shape shape, Random& random) {
  static const std::int64_t sizes[] = {0, 1, 2, 3, 7, -1, kHuge, kLargest};
  const std::int64_t size = sizes[random.below(std::ssize(sizes))];
  if (shape.rank() > 0 && random.below(3) > 0) {
    shape[static_cast<int>(random.below(shape.rank()))] = size;
  } else if (shape.rank() > 0 && random.below(2) == 0) {
    shape = Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end()));
  } else {
    shape.push_back(size);
  }
  return shape;
}

// Huge ones are views of one element: they cost nothing until somebody computes with them.
Tensor any_tensor(const Shape& shape, DType dtype, Random& random) {
  static const double values[] = {0, 1, -1, 2, 0.5, 1e30, -1e30, kInfinity, kNaN};
  if (shape.numel() > 4096) return broadcast_to(full({}, 1, dtype), shape);
  Doubles data = doubles(shape);
  for (double& v : data.data) {
    v = values[random.below(is_floating(dtype) ? std::ssize(values) : 4)];
    if (dtype == u8 && v < 0) v = 255;
  }
  return to_tensor(data, dtype);
}

void call_and_read(const Row& row, const std::string& what, const std::function<Tensors()>& inputs) {
  try {
    const Tensors out = row.call(inputs());
    if (is_small(out)) from_tensors(out);
  } catch (const Error& e) {
    EXPECT_GT(std::string(e.what()).size(), 5u) << what;
  } catch (const std::exception& e) {
    ADD_FAILURE() << row.op << " " << row.label << " " << what << " threw something else than Error: " << e.what();
  }
}

struct HostileParam {
  const Row* row;
  std::string backend;
};

std::ostream& operator<<(std::ostream& out, const HostileParam& p) { return out << p.row->op << " on " << p.backend; }

class Hostile : public testing::TestWithParam<HostileParam> {
 protected:
  void SetUp() override {
    before_ = device();
    set_device(GetParam().backend);
  }
  void TearDown() override { set_device(before_); }
  const Row& row() const { return *GetParam().row; }

 private:
  std::string before_;
};

TEST_P(Hostile, SpoiltInputs) {
  Random random("hostile " + row().op + row().label);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<Shape> shapes = row().shapes[static_cast<std::size_t>(random.below(std::ssize(row().shapes)))];
    if (shapes.empty()) return;  // no inputs to spoil
    std::vector<DType> types;
    for (int i = 0; i < static_cast<int>(shapes.size()); ++i)
      types.push_back(input_type(row(), i, row().types.front()));
    const auto victim = static_cast<std::size_t>(random.below(std::ssize(shapes)));
    const std::int64_t kind = random.below(4);
    if (kind != 0) shapes[victim] = spoilt(shapes[victim], random);
    if (kind == 3) shapes[victim] = spoilt(shapes[victim], random);
    if (kind <= 1) types[victim] = kAllDTypes[random.below(std::ssize(kAllDTypes))];
    std::string what = "of";
    for (std::size_t i = 0; i < shapes.size(); ++i) what += std::string(" ") + name(types[i]) + " " + shapes[i].str();
    SCOPED_TRACE(what);
    call_and_read(row(), what, [&] {
      Tensors in;
      for (std::size_t i = 0; i < shapes.size(); ++i) in.push_back(any_tensor(shapes[i], types[i], random));
      return in;
    });
  }
}

TEST_P(Hostile, ExtremeValues) {
  for (double extreme : {kNaN, kInfinity, -kInfinity, 1e300, -1e300, 1e-300, -0.0})
    for (const std::vector<Shape>& shapes : row().shapes)
      call_and_read(row(), print(shapes) + " of " + std::to_string(extreme), [&] {
        DoublesList in = make_inputs(row(), shapes, row().types.front(), Purpose::values);
        for (int i = 0; i < static_cast<int>(in.size()); ++i)
          if (is_floating(input_type(row(), i, row().types.front())))
            std::fill(in[static_cast<std::size_t>(i)].data.begin(), in[static_cast<std::size_t>(i)].data.end(),
                      extreme);
        return to_tensors(row(), in, row().types.front());
      });
}

TEST_P(Hostile, UndefinedInputs) {
  const std::vector<Shape>& shapes = row().shapes.front();
  for (std::size_t missing = 0; missing < shapes.size(); ++missing)
    call_and_read(row(), "without input " + std::to_string(missing), [&] {
      Tensors in =
          to_tensors(row(), make_inputs(row(), shapes, row().types.front(), Purpose::values), row().types.front());
      in[missing] = Tensor{};
      return in;
    });
}

std::vector<HostileParam> params() {
  std::vector<HostileParam> all;
  for (const Row& row : table())
    for (const std::string& backend : executing_backends()) all.push_back({&row, backend});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Table, Hostile, testing::ValuesIn(params()), [](const auto& test) {
  const Row& row = *test.param.row;
  std::string text = row.op + (row.label.empty() ? "" : "_" + row.label) + "_" + test.param.backend;
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
});

}  // namespace

}  // namespace varve::test
