// Losses of sequences without an alignment, and of distances between embeddings.
#pragma once

#include "varve/ops.h"

namespace varve {

struct CtcOptions {
  std::int64_t blank = 0;      // the class that stands for no symbol
  bool zero_infinity = false;  // what cannot be aligned counts 0 and has no gradient, instead of being infinite
};
// Connectionist temporal classification (Graves 2006): -log of the probability of a sequence of symbols, summed over
// all alignments with the steps. logits [T, B, C], which become log_softmax along C; targets [B, S], integers; lengths
// [B], integers: steps of each example, and symbols; what lies behind them is not read. The mean is that of loss /
// symbols.
Tensor ctc_loss(const Tensor& logits, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
                const CtcOptions& = {}, Reduction = Reduction::mean);

// a·b / (|a|·|b|) along an axis, where no length counts as less than epsilon.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis = -1, double epsilon = 1e-8);

// Embeddings lie along the last axis.
struct TripletOptions {
  double margin = 1;
  double p = 2;       // of the distance: 1, 2 or infinity
  bool swap = false;  // the negative's distance to the positive, where that is smaller
};
// max(|anchor - positive| - |anchor - negative| + margin, 0)
Tensor triplet_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative, const TripletOptions& = {},
                    Reduction = Reduction::mean);
// same · d² + (1 - same) · max(margin - d, 0)² with the distance d of a and b, and `same` 1 or 0 for each pair
Tensor contrastive_loss(const Tensor& a, const Tensor& b, const Tensor& same, double margin = 1,
                        Reduction = Reduction::mean);
// 1 - cosine where `same` is 1, max(cosine - margin, 0) where it is -1
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& same, double margin = 0,
                             Reduction = Reduction::mean);

}  // namespace varve
