// Losses of distances between embeddings, which lie along the last axis.
#include "base/text.h"
#include "varve/losses.h"

namespace varve {
namespace {

constexpr double kApart = 1e-6;  // added to differences, so that a distance of 0 has a gradient

Tensor reduced_to(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::mean ? mean(losses) : reduction == Reduction::sum ? sum(losses) : losses;
}

void check_embeddings(const Tensor& a, const Tensor& b, const char* op) {
  if (a.shape() != b.shape() || a.rank() == 0)
    throw Error(cat(op, ": takes embeddings [.., D] of one shape, got ", a.shape(), " and ", b.shape(), "."));
}

void check_same(const Tensor& a, const Tensor& same, const char* op) {
  const Shape pairs(Ints(a.shape().begin(), a.shape().end() - 1));
  if (same.shape() != pairs)
    throw Error(cat(op, ": embeddings ", a.shape(), " need labels ", pairs, ", got ", same.shape(), "."));
}

void check_margin(double margin, const char* op) {
  if (!(margin >= 0)) throw Error(cat(op, ": margin is ", margin, "; expected 0 or more."));
}

Tensor distance(const Tensor& a, const Tensor& b, double p) { return norm(a - b + kApart, {.p = p, .axes = Axes{-1}}); }

}  // namespace

Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis, double epsilon) {
  if (!(epsilon > 0)) throw Error(cat("cosine_similarity: epsilon is ", epsilon, "; expected more than 0."));
  const auto along = [&](const Tensor& x) { return sum(x, {.axes = Axes{axis}}); };
  const auto length = [&](const Tensor& x) { return sqrt(maximum(along(x * x), epsilon * epsilon)); };
  return along(a * b) / (length(a) * length(b));
}

Tensor triplet_loss(const Tensor& anchor, const Tensor& like, const Tensor& other, const TripletOptions& o,
                    Reduction reduction) {
  check_embeddings(anchor, like, "triplet_loss");
  check_embeddings(anchor, other, "triplet_loss");
  check_margin(o.margin, "triplet_loss");
  Tensor apart = distance(anchor, other, o.p);
  if (o.swap) apart = minimum(apart, distance(like, other, o.p));
  return reduced_to(relu(distance(anchor, like, o.p) - apart + o.margin), reduction);
}

Tensor contrastive_loss(const Tensor& a, const Tensor& b, const Tensor& same, double margin, Reduction reduction) {
  check_embeddings(a, b, "contrastive_loss");
  check_same(a, same, "contrastive_loss");
  check_margin(margin, "contrastive_loss");
  const Tensor d = distance(a, b, 2), y = same.to(d.dtype());
  return reduced_to(y * square(d) + (1.0 - y) * square(relu(margin - d)), reduction);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& same, double margin, Reduction reduction) {
  check_embeddings(a, b, "cosine_embedding_loss");
  check_same(a, same, "cosine_embedding_loss");
  if (!(margin >= -1 && margin <= 1))
    throw Error(cat("cosine_embedding_loss: margin is ", margin, "; expected -1 to 1."));
  const Tensor cosine = cosine_similarity(a, b);
  return reduced_to(where(same > 0, 1.0 - cosine, relu(cosine - margin)), reduction);
}

}  // namespace varve
