// Linear algebra: the plain algorithms of backend/linalg.h, matrix by matrix.
#include "backend/linalg.h"

#include "backends/reference/kernels.h"

namespace varve::reference {
namespace {

std::vector<TensorType> types_of(const std::vector<View>& views) {
  std::vector<TensorType> types;
  for (const View& view : views) types.push_back(*view.type);
  return types;
}

void run(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out, backend::ErrorWord& errors) {
  const backend::MatrixCall call = backend::matrix_call(node.op->name, node.attrs, types_of(in), types_of(out));
  std::vector<std::vector<double>> inputs, outputs;
  for (const std::int64_t count : call.in) inputs.emplace_back(static_cast<std::size_t>(count));
  for (const std::int64_t count : call.out) outputs.emplace_back(static_cast<std::size_t>(count));
  std::vector<double> work(static_cast<std::size_t>(call.work));
  std::vector<const double*> from;
  std::vector<double*> to;
  for (const auto& values : inputs) from.push_back(values.data());
  for (auto& values : outputs) to.push_back(values.data());
  for (std::int64_t b = 0; b < call.batch; ++b) {
    for (std::size_t i = 0; i < in.size(); ++i)
      for (std::int64_t e = 0; e < call.in[i]; ++e)
        inputs[i][static_cast<std::size_t>(e)] = in[i].get(b * call.in[i] + e);
    if (!call.run(from.data(), to.data(), work.data())) errors.note(lasting(call.complaint), b);
    for (std::size_t i = 0; i < out.size(); ++i)
      for (std::int64_t e = 0; e < call.out[i]; ++e) out[i].set(b * call.out[i] + e, to[i][e]);
  }
}

}  // namespace

void add_linalg_kernels(KernelMap& map) {
  for (const std::string& op : backend::matrix_operators()) map[op] = run;
}

}  // namespace varve::reference
