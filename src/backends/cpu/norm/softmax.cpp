// Softmax and log-softmax of rows, and their gradients.
#include "backends/cpu/norm/rows.h"
#include "backends/cpu/norm/softmax_kernels.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

Prepared make_softmax(const Task& task) {
  const auto run = task.op == "softmax" ? &softmax : &log_softmax;
  return backend::prepared([run, shape = rows_of(task.shape_out())](const RunArgs& args) {
    run(floats(args.in[0]), floats(args.out[0]), shape);
  });
}

Prepared make_gradient(const Task& task) {
  const auto run = task.op == "softmax_grad" ? &softmax_grad : &log_softmax_grad;
  return backend::prepared([run, shape = rows_of(task.shape_out())](const RunArgs& args) {
    run(floats(args.in[0]), floats(args.in[1]), floats(args.out[0]), shape);
  });
}

}  // namespace

void add_softmax_claims(ClaimMap& map) {
  offer_rows(map, "softmax", make_softmax);
  offer_rows(map, "log_softmax", make_softmax);
  offer_rows(map, "softmax_grad", make_gradient);
  offer_rows(map, "log_softmax_grad", make_gradient);
}

}  // namespace varve::cpu
