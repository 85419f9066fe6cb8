// scan: a body run step by step along the leading axis, and its gradient, which is a scan in reverse.
#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/region.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/error.h"
#include "varve/ops.h"

namespace varve {
namespace {

std::vector<Tensor> scan_gradient(const Vjp& v);
std::optional<std::vector<Tensor>> batch_scan(const Batching& call);

const OpDef scan_op =
    define({.name = "scan",
            .doc = "A body run once for each slice along the leading axis, carrying values from step to step.",
            .family = "recurrent",
            .arity = -1,
            .shape = [](const Call&) { return std::vector<TensorType>(); },  // typed by the body
            .gradient = scan_gradient,
            .batching = batch_scan,
            .pure = false});

TensorType slice_type(const TensorType& type) {
  return {type.dtype, Shape(std::vector<std::int64_t>(type.shape.begin() + 1, type.shape.end()))};
}

TensorType stacked_type(const TensorType& type, std::int64_t length) {
  std::vector<std::int64_t> sizes{length};
  sizes.insert(sizes.end(), type.shape.begin(), type.shape.end());
  return {type.dtype, Shape(std::move(sizes))};
}

std::int64_t common_length(const std::vector<Tensor>& xs, const ScanOptions& options) {
  std::int64_t length = options.length;
  for (const Tensor& x : xs) {
    if (x.rank() == 0) throw Error("scan: every x needs a leading time axis, got a scalar.");
    if (length >= 0 && x.dim(0) != length) throw Error(cat("scan: time axes differ: ", length, " and ", x.dim(0), "."));
    length = x.dim(0);
  }
  if (length < 0) throw Error("scan: needs an x or a length.");
  return length;
}

void check_carry(const std::vector<Tensor>& before, const std::vector<Tensor>& after) {
  if (before.size() != after.size())
    throw Error(cat("scan: the body takes ", before.size(), " carries and returns ", after.size(), "."));
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i].type() != after[i].type())
      throw Error(cat("scan: carry ", i, " is ", before[i].type().str(), " and becomes ", after[i].type().str(),
                      "; it must stay the same."));
}

// Results: last carries, the body's outs, and the carries at the start of each step, which the gradient needs. A
// program that uses no gradient drops the latter.
std::vector<Tensor> record_scan(const ScanBody& body, const std::vector<Tensor>& carry, const std::vector<Tensor>& xs,
                                std::int64_t length, bool reverse) {
  Region region("scan", Invariants::outside);
  std::vector<TensorType> slices;
  for (const Tensor& x : xs) slices.push_back(slice_type(x.type()));
  const std::vector<Tensor> carry_in = region.add_inputs(types_of(carry), "carry"),
                            x_in = region.add_inputs(slices, "x");
  ScanStep step;
  region.record([&] {
    step = body(carry_in, x_in);
    check_carry(carry_in, step.carry);
    return joined(joined(step.carry, step.out), carry_in);
  });
  const std::vector<Tensor> captured = captured_by({&region});
  RecordExtras extras;
  extras.regions = {region.graph(values_of(captured))};
  for (const Tensor& c : carry) extras.types.push_back(c.type());
  for (const Tensor& out : step.out) extras.types.push_back(stacked_type(out.type(), length));
  for (const Tensor& c : carry) extras.types.push_back(stacked_type(c.type(), length));
  const Attrs attrs{{"carries", static_cast<std::int64_t>(carry.size())},
                    {"xs", static_cast<std::int64_t>(xs.size())},
                    {"outs", static_cast<std::int64_t>(step.out.size())},
                    {"length", length},
                    {"reverse", reverse}};
  return record(scan_op.record(), joined(joined(carry, xs), captured), attrs, std::move(extras));
}

// The backward body: runs the forward body again from the carries it started with, and pulls its gradients.
// Carries: gradients of carries, then of captured values; xs: start carries, xs, gradients of outs and of start
// carries.
class ScanPull {
 public:
  ScanPull(const Vjp& v, const ir::Graph& graph)
      : graph_(graph),
        carries_(static_cast<std::size_t>(v.attrs.integer("carries"))),
        xs_(static_cast<std::size_t>(v.attrs.integer("xs"))),
        outs_(static_cast<std::size_t>(v.attrs.integer("outs"))),
        captured_(part(v.in, carries_ + xs_, v.in.size() - carries_ - xs_)) {
    for (std::size_t i = 0; i < v.in.size(); ++i)
      if (is_floating(v.in[i].dtype()) && (i < carries_ || v.needs[i])) wanted_.push_back(i);
  }

  std::vector<Tensor> run(const Vjp& v) {
    std::vector<Tensor> carry, xs = part(v.out, carries_ + outs_, carries_);
    for (const std::size_t i : wanted_) {
      if (i < carries_)
        carry.push_back(flowing(v, i));
      else if (i >= carries_ + xs_)
        carry.push_back(zeros(v.in[i].shape(), v.in[i].dtype()));
    }
    xs = joined(xs, part(v.in, carries_, xs_));
    for (std::size_t o = carries_; o < v.out.size(); ++o)
      if (is_floating(v.out[o].dtype())) xs.push_back(flowing(v, o));
    const std::vector<Tensor> pulled = record_scan([&](const auto& c, const auto& x) { return step(v, c, x); }, carry,
                                                   xs, v.attrs.integer("length"), !v.attrs.flag("reverse"));
    std::vector<Tensor> grads(v.in.size());
    std::size_t next_carry = 0, next_out = carry.size();
    for (const std::size_t i : wanted_)
      grads[i] = i < carries_ || i >= carries_ + xs_ ? pulled[next_carry++] : pulled[next_out++];
    return grads;
  }

 private:
  ScanStep step(const Vjp& v, const std::vector<Tensor>& carry, const std::vector<Tensor>& x) const {
    const std::vector<Tensor> inputs = joined(part(x, 0, carries_ + xs_), captured_);
    std::vector<Tensor> seeds;
    std::size_t next_carry = 0, next_x = carries_ + xs_;
    for (std::size_t o = 0; o < v.out.size(); ++o)
      if (is_floating(v.out[o].dtype())) seeds.push_back(o < carries_ ? carry[next_carry++] : x[next_x++]);
    const std::vector<Tensor> grads = pull(graph_, inputs, seeds, wanted_);
    ScanStep result;
    for (std::size_t w = 0; w < wanted_.size(); ++w) {
      if (wanted_[w] < carries_)
        result.carry.push_back(grads[w]);
      else if (wanted_[w] < carries_ + xs_)
        result.out.push_back(grads[w]);
      else
        result.carry.push_back(carry[next_carry++] + grads[w]);  // summed over the steps
    }
    return result;
  }

  const ir::Graph& graph_;
  std::size_t carries_, xs_, outs_;
  std::vector<Tensor> captured_;
  std::vector<std::size_t> wanted_;  // inputs whose gradient is computed: carries always, the rest when asked for
};

std::vector<Tensor> scan_gradient(const Vjp& v) {
  const std::shared_ptr<const ir::Graph> graph = v.out[0].node()->regions[0];
  return ScanPull(v, *graph).run(v);
}

// A loop over all examples at once: time stays the leading axis, the carries are each example's own. Captured values
// may be shared.
std::optional<std::vector<Tensor>> batch_scan(const Batching& call) {
  if (!call.node) return std::nullopt;
  const ir::Graph& graph = *call.node->regions[0];
  const auto carries = static_cast<std::size_t>(call.attrs.integer("carries"));
  const auto xs = static_cast<std::size_t>(call.attrs.integer("xs"));
  const auto outs = static_cast<std::size_t>(call.attrs.integer("outs"));
  std::vector<Tensor> carry, x;
  for (std::size_t i = 0; i < carries; ++i)
    carry.push_back(call.batched[i] ? call.in[i] : spread(call.in[i], call.size));
  for (std::size_t i = carries; i < carries + xs; ++i)
    x.push_back(call.batched[i] ? with_axis_at(call.in[i], 0, 1) : call.in[i]);
  const ScanBody body = [&](const std::vector<Tensor>& carry_in, const std::vector<Tensor>& x_in) {
    BatchWalk walk(call.size, call.fresh, 0);
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      const Tensor& given = i < carries ? carry_in[i] : i < carries + xs ? x_in[i - carries] : call.in[i];
      walk.place({graph.inputs[i], 0}, {given, i < carries || call.batched[i]});
    }
    ScanStep step;
    for (std::size_t o = 0; o < carries + outs; ++o)
      (o < carries ? step.carry : step.out).push_back(walk.batched(Tensor(graph.outputs[o])));
    return step;
  };
  std::vector<Tensor> all = record_scan(body, carry, x, call.attrs.integer("length"), call.attrs.flag("reverse"));
  for (std::size_t o = carries; o < all.size(); ++o) all[o] = with_axis_at(all[o], 1, 0);
  return all;
}

}  // namespace

const OpRecord& scan_record() { return scan_op.record(); }

ScanResult scan(const ScanBody& body, const std::vector<Tensor>& carry, const std::vector<Tensor>& xs,
                const ScanOptions& options) {
  const std::int64_t length = common_length(xs, options);
  const std::vector<Tensor> all = record_scan(body, carry, xs, length, options.reverse);
  const std::size_t outs = all.size() - 2 * carry.size();
  return {part(all, 0, carry.size()), part(all, carry.size(), outs)};
}

}  // namespace varve
