// The kernels of recurrent_forward.cu and recurrent_backward.cu, made for one recurrence and started with its operands.
#include <cstring>

#include "backends/cuda/recurrent/recurrent.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::RunArgs;

// As the kernels declare them.
struct ForwardArguments {
  const void* in[ForwardOperands::kY];
  void* out[ForwardOperands::kCount - ForwardOperands::kY];
  void* mail;
  volatile std::uint64_t* errors;
  std::int64_t table_rows;
  int steps, batch, note;
};
struct BackwardArguments {
  const void* in[BackwardOperands::kDpre];
  void* out[BackwardOperands::kCount - BackwardOperands::kDpre];
  void *mail, *bias_parts;
  int steps, batch;
};

const char* real_name(const CellCall& call) { return call.shape.real_bytes == 8 ? "double" : "float"; }

class RecurrentKernel final : public backend::Kernel {
 public:
  explicit RecurrentKernel(const CellCall& call)
      : call_(call),
        function_(call.shape.pass == Pass::forward ? "recurrent_forward" : "recurrent_backward", cell_text(call)),
        launch_{.grid = call.plan.grid(),
                .block = call.plan.threads,
                .shared = call.plan.shared,
                .cooperative = call.plan.group > 1} {
    if (sums_bias()) {
      const Constants types{{"STORE", type_name(call.dtype)}, {"REAL", real_name(call)}};
      bias_ = Function("recurrent_bias", {"recurrent/recurrent_bias.cu", defines(types)});
    }
    if (!gpu().present()) return;
    if (call.table.rows > 0) note_ = context().note(call.table.out_of_range);
    // Survives from launch to launch: see recurrent/recurrent.cuh.
    if (const std::size_t bytes = call.plan.mail_bytes(call.shape); bytes > 0) {
      mail_ = context().allocate(bytes);
      const std::vector<std::byte> zeros(bytes);
      context().upload(mail_->address, zeros.data(), bytes, context().mark().get());
    }
  }

  void run(const RunArgs& args) override {
    if (call_.shape.pass == Pass::forward) {
      ForwardArguments given{};
      fill(args, given.in, given.out);
      given.mail = mail();
      given.errors = args.errors ? args.errors->word() : nullptr;
      given.table_rows = call_.table.rows;
      given.steps = static_cast<int>(call_.shape.steps);
      given.batch = static_cast<int>(call_.shape.batch);
      given.note = note_;
      function_(launch_, given);
    } else {
      BackwardArguments given{};
      fill(args, given.in, given.out);
      given.mail = mail();
      given.bias_parts = args.scratch;
      given.steps = static_cast<int>(call_.shape.steps);
      given.batch = static_cast<int>(call_.shape.batch);
      function_(launch_, given);
      if (sums_bias()) sum_bias(args);
    }
  }

  std::size_t scratch_bytes() const {
    if (!sums_bias()) return 0;
    return static_cast<std::size_t>(bias_rows() * bias_columns() * call_.shape.real_bytes);
  }

 private:
  bool sums_bias() const { return call_.shape.pass == Pass::backward && call_.at[BackwardOperands::kDbias] >= 0; }
  int bias_rows() const { return call_.plan.groups * call_.plan.rows; }
  int bias_columns() const { return static_cast<int>(call_.shape.gates * call_.shape.width); }
  void sum_bias(const RunArgs& args) const {
    const Launch launch{.grid = (bias_columns() + 31) / 32, .block = 32, .block_y = 32};
    bias_(launch, args.scratch, bias_rows(), bias_columns(), args.out[call_.at[BackwardOperands::kDbias]]);
  }

  void* mail() const { return mail_ ? mail_->address : nullptr; }

  template <std::size_t I, std::size_t O>
  void fill(const RunArgs& args, const void* (&in)[I], void* (&out)[O]) const {
    for (std::size_t i = 0; i < I; ++i) in[i] = call_.at[i] < 0 ? nullptr : args.in[call_.at[i]];
    for (std::size_t o = 0; o < O; ++o) out[o] = call_.at[I + o] < 0 ? nullptr : args.out[call_.at[I + o]];
  }

  CellCall call_;
  Function function_, bias_;
  Launch launch_;
  std::shared_ptr<ir::Remote> mail_;
  int note_ = 0;
};

}  // namespace

KernelText cell_text(const CellCall& call) {
  const RecurrentPlan& plan = call.plan;
  const bool forward = call.shape.pass == Pass::forward;
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  Constants constants{
      {"CELL_" + call.offer.cell, "1"},    {"STORE", type_name(call.dtype)},    {"REAL", real_name(call)},
      {"LENGTH", type_name(call.lengths)}, {"WIDTH", number(call.shape.width)}, {"UNITS", number(plan.units)},
      {"GROUP", number(plan.group)},       {"ROWS", number(plan.rows)},         {"KEPT_DEPTH", number(plan.kept_depth)},
      {"THREADS", number(plan.threads)}};
  if (call.relu) constants.push_back({"RELU", "1"});
  if (forward) constants.push_back({"ID", type_name(call.table.ids)});
  if (call.table.rows > 0) constants.push_back({"TABLE", "1"});
  if (!forward && call.at[BackwardOperands::kDbias] >= 0) constants.push_back({"BIAS", "1"});
  const char* file = forward ? "recurrent/recurrent_forward.cu" : "recurrent/recurrent_backward.cu";
  if (!plan.tensor) {
    constants.push_back({"LANES", number(plan.lanes)});
    if (!forward) constants.push_back({"OUTPUTS", number(plan.outputs)});
    return {file, defines(constants)};
  }
  const TensorCores tensor = call.shape.tensor;
  constants.push_back({tensor == TensorCores::tf32   ? "TENSOR_TF32"
                       : tensor == TensorCores::bf16 ? "TENSOR_BF16"
                                                     : "TENSOR_F16",
                       "1"});
  constants.push_back({"SPLIT", number(plan.split)});
  constants.push_back({"CHAINS", number(plan.chains)});
  if (!forward) constants.push_back({"STRIPS", number(plan.strips)});
  return {file, defines(constants)};
}

backend::Prepared prepare_cell(const CellCall& call) {
  auto kernel = std::make_unique<RecurrentKernel>(call);
  const std::size_t scratch = kernel->scratch_bytes();
  return {std::move(kernel), scratch};
}

}  // namespace varve::cuda
