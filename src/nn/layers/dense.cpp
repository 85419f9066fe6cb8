#include "nn/check.h"
#include "nn/state.h"
#include "varve/distributed.h"

namespace varve::nn {
namespace {

std::string times(const Shape& image) {
  return std::to_string(image[0]) + "×" + std::to_string(image[1]) + "×" + std::to_string(image[2]);
}

// Where features come from an image, its size says more than their number.
std::string about_flatten(const Tensor& x, const Shape& before) {
  const Shape image = flattened_image(x);
  if (!image.rank()) return "";
  return "\n  The layer before it, flatten, gives " + times(image) + " = " + std::to_string(image.numel()) +
         (before.rank() ? "; it gave " + times(before) + " when this layer was made." : ".");
}

}  // namespace

Dense::Dense(std::int64_t out, DenseOptions options) : out_(out), options_(std::move(options)) {
  if (out != kAsInput) check_size("dense", "the number of outputs", out);
  learns_size();
}

void Dense::split_over_ranks(Split how) {
  if (how == Split::heads) return Module::split_over_ranks(how);
  set_split(how);
}

Tensor Dense::forward(Tensor x, Mode) {
  if (x.rank() < 1) throw Error(where() + ": expected input [.., features], got a scalar.");
  const State::Entry* const made = state()->find("weight");
  if (made && made->variable.shape()[0] != x.dim(-1))
    throw Error(features_message(where(), "input features", made->variable.shape()[0], x) +
                about_flatten(x, made->foreign.flattened));
  const std::int64_t in = x.dim(-1), out = out_ == kAsInput ? in : out_;
  const Variable weight = parameter("weight", {in, out}, weight_init(options_.weight_init, options_.activation),
                                    {.fans = {in, out},
                                     .foreign = {ForeignLayout::transposed, flattened_image(x)},
                                     .cut = {.columns = 1, .rows = 0}});
  const Variable bias = options_.bias ? parameter("bias", {out}, bias_init(options_.bias_init),
                                                  {.fans = {in, out}, .cut = {.columns = 0}})
                                      : Variable{};
  const auto product = [&](const Tensor& in_parts, const Variable& w, const Variable& b) {
    return varve::linear(compute_type(in_parts), compute_type(w), b.state() ? compute_type(b) : Tensor{});
  };
  if (!is_divided(where(), weight)) return options_.activation(product(x, weight, bias));
  const Variable own = distributed::part_of(weight);
  if (state()->split == Split::columns)
    return of_entries(gather_columns(product(x, own, options_.bias ? distributed::part_of(bias) : bias)),
                      options_.activation);
  const Tensor sums = distributed::all_sum(product(own_columns(x), own, {}));
  return options_.activation(options_.bias ? sums + compute_type(bias) : sums);
}

Tensor Flatten::forward(Tensor x, Mode) {
  const Tensor y = varve::flatten(x, 1);
  if (x.rank() == 4) note_flattened(y, {x.dim(1), x.dim(2), x.dim(3)});
  return y;
}

}  // namespace varve::nn
