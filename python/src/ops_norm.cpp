// Normalisation, and activations with parameters.
#include "ops.h"

namespace varve::python {

void bind_norms(nb::module_& m) {
  const auto scale_named = "scale"_a = nb::none();
  const auto shift_named = "shift"_a = nb::none();
  op(m, "batch_norm", batch_norm, R"(x, channels last, normalised by a given mean and variance for each channel.

>>> vv.batch_norm(vv.tensor([[3.0]]), None, None, vv.tensor([1.0]), vv.tensor([4.0]), epsilon=0.0).item()
1.0)",
     "x"_a, "scale"_a.none(), "shift"_a.none(), "mean"_a, "var"_a, "epsilon"_a = 1e-5);
  op(
      m, "batch_norm_train",
      [](const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon) {
        const BatchNorm r = batch_norm_train(x, scale, shift, epsilon);
        return std::tuple(r.y, r.mean, r.var);
      },
      R"(Normalised values, and the batch's mean and (biased) variance for each channel.

>>> y, mean, var = vv.batch_norm_train(vv.tensor([[1.0], [3.0]]))
>>> mean.item(), var.item()
(2.0, 1.0))",
      "x"_a, scale_named, shift_named, "epsilon"_a = 1e-5);
  op(m, "layer_norm", layer_norm, R"(Normalised along the last axis, then scaled and shifted where given.

>>> vv.layer_norm(vv.tensor([1.0, 3.0]), epsilon=0.0).tolist()
[-1.0, 1.0])",
     "x"_a, scale_named, shift_named, "epsilon"_a = 1e-5);
  op(m, "rms_norm", rms_norm, R"(Divided by the root of the mean square along the last axis, then scaled where given.

>>> vv.rms_norm(vv.tensor([3.0, 3.0]), epsilon=0.0).tolist()
[1.0, 1.0])",
     "x"_a, scale_named, "epsilon"_a = 1e-6);
  op(m, "group_norm", group_norm, R"(Normalised over groups of channels of each sample.

>>> vv.group_norm(vv.normal((2, 4, 4, 6), seed=1), 3).shape
(2, 4, 4, 6))",
     "x"_a, "groups"_a, scale_named, shift_named, "epsilon"_a = 1e-5);
  op(m, "instance_norm", instance_norm, R"(Normalised over each channel of each sample.

>>> vv.instance_norm(vv.normal((2, 4, 4, 3), seed=1)).shape
(2, 4, 4, 3))",
     "x"_a, scale_named, shift_named, "epsilon"_a = 1e-5);
  op(
      m, "local_response_norm",
      [](const Tensor& x, std::int64_t size, double alpha, double beta, double k) {
        return local_response_norm(x, {size, alpha, beta, k});
      },
      R"(Each channel divided by the activity of its neighbours, as in AlexNet.

>>> vv.local_response_norm(vv.ones((1, 1, 1, 8))).shape
(1, 1, 1, 8))",
      "x"_a, "size"_a = 5, "alpha"_a = 1e-4, "beta"_a = 0.75, "k"_a = 1.0);
  op(m, "leaky_relu", leaky_relu, R"(x where it is positive, slope · x elsewhere.

>>> vv.leaky_relu(vv.tensor([-2.0, 2.0]), 0.5).tolist()
[-1.0, 2.0])",
     "x"_a, "slope"_a = 0.01);
  op(m, "elu", elu, R"(x where it is positive, alpha · (exp x - 1) elsewhere.

>>> vv.elu(vv.tensor([-1000.0, 2.0])).tolist()
[-1.0, 2.0])",
     "x"_a, "alpha"_a = 1.0);
  op(m, "prelu", prelu, R"(leaky_relu with a slope for each element of the last axis.

>>> vv.prelu(vv.tensor([-2.0, -2.0]), vv.tensor([0.5, 0.25])).tolist()
[-1.0, -0.5])",
     "x"_a, "slope"_a);
}

void bind_losses(nb::module_& m) {
  const auto reduction_named = "reduction"_a = "mean";
  op(
      m, "cross_entropy",
      [](const Tensor& logits, const Tensor& labels, Reduction reduction,
         const std::optional<std::int64_t>& ignore_index, const Tensor& class_weights, const Tensor& weights) {
        return cross_entropy(logits, labels,
                             CrossEntropyOptions{.reduction = reduction,
                                                 .ignore_index = ignore_index,
                                                 .class_weights = class_weights,
                                                 .weights = weights});
      },
      R"(-log softmax at the labels, of logits [.., C] and integer labels [..].

ignore_index: a label that counts for nothing. class_weights: what each class counts. weights: of each label, or of the first of
its axes. The mean is Σ w·loss / Σ w.

>>> vv.cross_entropy(vv.tensor([[100.0, 0.0]]), vv.tensor([0])).item()
0.0
>>> vv.cross_entropy(vv.tensor([[100.0, 0.0], [0.0, 7.0]]), vv.tensor([0, -1]), ignore_index=-1).item()
0.0)",
      "logits"_a, "labels"_a, reduction_named, "ignore_index"_a = nb::none(), "class_weights"_a = nb::none(),
      "weights"_a = nb::none());
  op(m, "weighted_mean", weighted_mean, R"(Σ w·v / Σ w, and 0 where Σ w is; weights have the first of the values' axes.

>>> vv.weighted_mean(vv.tensor([1.0, 2.0]), vv.tensor([3.0, 1.0])).item()
1.25)",
     "values"_a, "weights"_a);
  op(m, "binary_cross_entropy", binary_cross_entropy, R"(Of logits and targets between 0 and 1.

>>> round(vv.binary_cross_entropy(vv.tensor([0.0]), vv.tensor([1.0])).item(), 4)
0.6931)",
     "logits"_a, "targets"_a, reduction_named);
  op(m, "mse_loss", mse_loss, R"(The squared difference.

>>> vv.mse_loss(vv.tensor([1.0, 2.0]), vv.tensor([1.0, 4.0])).item()
2.0)",
     "a"_a, "b"_a, reduction_named);
  op(m, "l1_loss", l1_loss, R"(The absolute difference.

>>> vv.l1_loss(vv.tensor([1.0, 2.0]), vv.tensor([1.0, 4.0]), reduction="sum").item()
2.0)",
     "a"_a, "b"_a, reduction_named);
  op(m, "huber_loss", huber_loss, R"(Squared for differences up to delta, straight beyond.

>>> vv.huber_loss(vv.tensor([0.0]), vv.tensor([3.0])).item()
2.5)",
     "a"_a, "b"_a, "delta"_a = 1.0, reduction_named);
  op(m, "kl_div", kl_div, R"(target · (log target - log_p), of log-probabilities and probabilities.

>>> vv.kl_div(vv.log(vv.tensor([[0.5, 0.5]])), vv.tensor([[0.5, 0.5]])).item()
0.0)",
     "log_p"_a, "target"_a, reduction_named);
}

}  // namespace varve::python
