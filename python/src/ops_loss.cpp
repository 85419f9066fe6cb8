// Losses of sequences and of embeddings.
#include <varve/losses.h>

#include "ops.h"

namespace varve::python {

void bind_sequence_losses(nb::module_& m) {
  op(
      m, "ctc_loss",
      [](const Tensor& logits, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
         std::int64_t blank, bool zero_infinity, Reduction reduction) {
        return ctc_loss(logits, targets, input_lengths, target_lengths, {blank, zero_infinity}, reduction);
      },
      R"(-log of the probability of a sequence of symbols, over all alignments with the steps (CTC).

logits [T, B, C], which become log_softmax along C; targets [B, S] and lengths [B] are integers, and what lies behind the
lengths is not read. The mean is that of loss / symbols. zero_infinity: what cannot be aligned counts 0 and has no gradient.

>>> round(vv.ctc_loss(vv.zeros((2, 1, 2)), [[1]], [2], [1]).item(), 4)
0.2877)",
      "logits"_a, "targets"_a, "input_lengths"_a, "target_lengths"_a, "blank"_a = 0, "zero_infinity"_a = false,
      "reduction"_a = "mean");
  op(m, "cosine_similarity", cosine_similarity,
     R"(a·b / (|a|·|b|) along an axis, where no length counts as less than epsilon.

>>> vv.cosine_similarity(vv.tensor([1.0, 0.0]), vv.tensor([0.0, 2.0])).item()
0.0)",
     "a"_a, "b"_a, "axis"_a = -1, "epsilon"_a = 1e-8);
  op(
      m, "triplet_loss",
      [](const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin, double p, bool swap,
         Reduction reduction) {
        return triplet_loss(anchor, positive, negative, {margin, p, swap}, reduction);
      },
      R"(max(|anchor - positive| - |anchor - negative| + margin, 0) of embeddings along the last axis.

swap takes the negative's distance to the positive, where that is smaller.

>>> vv.triplet_loss(vv.tensor([[0.0]]), vv.tensor([[1.0]]), vv.tensor([[9.0]])).item()
0.0)",
      "anchor"_a, "positive"_a, "negative"_a, "margin"_a = 1.0, "p"_a = 2.0, "swap"_a = false, "reduction"_a = "mean");
  op(m, "contrastive_loss", contrastive_loss,
     R"(Squared distances of pairs that are the same; of others what lacks to the margin, squared.

>>> vv.contrastive_loss(vv.tensor([[0.0]]), vv.tensor([[9.0]]), vv.tensor([0])).item()
0.0)",
     "a"_a, "b"_a, "same"_a, "margin"_a = 1.0, "reduction"_a = "mean");
  op(m, "cosine_embedding_loss", cosine_embedding_loss,
     R"(1 - cosine where `same` is 1, max(cosine - margin, 0) where it is -1.

>>> vv.cosine_embedding_loss(vv.tensor([[1.0, 0.0]]), vv.tensor([[0.0, 1.0]]), vv.tensor([-1])).item()
0.0)",
     "a"_a, "b"_a, "same"_a, "margin"_a = 0.0, "reduction"_a = "mean");
}

}  // namespace varve::python
