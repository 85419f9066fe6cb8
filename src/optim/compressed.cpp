#include "optim/compressed.h"

#include <algorithm>
#include <cmath>

#include "varve/ops.h"

namespace varve::optim {
namespace {

namespace dist = distributed;

// Smaller ones are not worth a message of their own.
constexpr std::int64_t kLeastElements = 1024;
// Two means for fewer entries than this would cost more than the bits.
constexpr std::int64_t kLeastColumn = 256;

double share_of_rank() { return 1.0 / dist::size(); }

// Columns are those of the last axis; short ones are joined, two and two.
std::int64_t columns_of(const Shape& shape) {
  const std::int64_t elements = shape.numel();
  std::int64_t columns = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  while (columns > 1 && elements / columns < kLeastColumn) columns = columns % 2 == 0 ? columns / 2 : 1;
  return columns;
}

// A matrix of the same elements, cut where it comes closest to a square.
Shape matrix_of(const Shape& shape) {
  Shape best{1, shape.numel()};
  std::int64_t rows = 1;
  for (const std::int64_t length : shape) {
    rows *= length;
    const std::int64_t columns = shape.numel() / rows;
    if (std::min(rows, columns) > std::min(best[0], best[1])) best = {rows, columns};
  }
  return best;
}

Tensor rows_product(const Tensor& a, const Tensor& b) { return sum(a * b, {.axes = Axes{1}, .keep = true}); }

// Gram-Schmidt: rows of length 1, each at right angles to those before. One of which nearly nothing is left of its own
// becomes zero.
Tensor orthogonal_rows(const Tensor& rows) {
  constexpr double kLeastShare = 1e-8;  // of its square
  std::vector<Tensor> done;
  for (std::int64_t i = 0; i < rows.dim(0); ++i) {
    Tensor row = rows.slice({{i, i + 1}});
    const Tensor whole = rows_product(row, row);
    for (const Tensor& other : done) row = row - rows_product(row, other) * other;
    const Tensor left = rows_product(row, row);
    done.push_back(where(left > whole * kLeastShare, row * rsqrt(left), 0));
  }
  return concat(done, 0);
}

Tensor first_factor(std::int64_t rank, std::int64_t columns) {
  return normal({rank, columns}, {.seed = 1, .stream = "power_sgd"});
}

}  // namespace

Compressor::Compressor(const dist::Compression& how, const std::vector<Variable>& parameters) : how_(how) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Variable& parameter = parameters[i];
    if (!compresses(parameter)) continue;
    Member member{i, dist::variable_of_each_rank("lost." + parameter.name(), zeros(parameter.shape())), {}};
    if (how_.name == "power_sgd") {
      const Tensor factor = first_factor(how_.rank, matrix_of(parameter.shape())[1]);
      member.factor = dist::variable_of_each_rank("factor." + parameter.name(), factor);
    }
    members_.push_back(std::move(member));
  }
}

bool Compressor::compresses(const Variable& parameter) const {
  if (parameter.type().dtype != f32 || parameter.shape().numel() < kLeastElements) return false;
  if (how_.name != "power_sgd") return true;
  const Shape matrix = matrix_of(parameter.shape());
  return 2 * how_.rank * (matrix[0] + matrix[1]) <= matrix.numel();  // a vector has no factors
}

std::vector<Variable> Compressor::state() const {
  std::vector<Variable> all;
  for (const Member& member : members_) {
    all.push_back(member.lost);
    if (member.factor.state()) all.push_back(member.factor);
  }
  return all;
}

std::vector<Tensor> Compressor::means(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> plain, taken;
  std::vector<bool> is_taken(gradients.size(), false);
  for (const Member& member : members_) {
    is_taken[member.index] = true;
    taken.push_back(gradients[member.index]);
  }
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!is_taken[i]) plain.push_back(gradients[i]);
  const std::vector<Tensor> plain_means = dist::mean_gradients(plain);
  const std::vector<Tensor> means = how_.name == "half"      ? half(taken)
                                    : how_.name == "one_bit" ? one_bit(taken)
                                    : how_.name == "top_k"   ? top_k(taken)
                                                             : power_sgd(taken);
  std::vector<Tensor> all;
  for (std::size_t i = 0, p = 0, m = 0; i < gradients.size(); ++i)
    all.push_back(is_taken[i] ? means[m++] : plain_means[p++]);
  if (tracing()) return all;
  // Without compile nobody else reads what was assigned.
  for (const Variable& variable : state()) dist::part_of(variable).value().eval();
  return all;
}

std::vector<Tensor> Compressor::half(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> sent;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Variable lost = dist::part_of(members_[i].lost);
    const Tensor all = gradients[i] + lost.value();
    sent.push_back(all.to(bf16));
    lost.assign(all - sent.back().to(f32));
  }
  std::vector<Tensor> means = dist::mean_gradients(sent);
  for (Tensor& mean : means) mean = mean.to(f32);
  return means;
}

std::vector<Tensor> Compressor::one_bit(const std::vector<Tensor>& gradients) {
  static const OpDef pack(&find_operator("one_bit")), unpack(&find_operator("one_bit_sum"));
  std::vector<Tensor> sent;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Variable lost = dist::part_of(members_[i].lost);
    const std::vector<Tensor> packed =
        pack.call({gradients[i], lost.value()}, {{"columns", columns_of(gradients[i].shape())}});
    sent.insert(sent.end(), {packed[0], packed[1]});
    lost.assign(packed[2]);
  }
  const std::vector<Tensor> rows = dist::gather_gradients(sent);
  std::vector<Tensor> means;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor means_of_ranks = rows[2 * i + 1].reshape({dist::size(), 2, sent[2 * i + 1].dim(1)});
    means.push_back(
        unpack.call({rows[2 * i], means_of_ranks}, {{"shape", gradients[i].shape()}, {"scale", share_of_rank()}})[0]);
  }
  return means;
}

std::vector<Tensor> Compressor::top_k(const std::vector<Tensor>& gradients) {
  static const OpDef take(&find_operator("top_entries"));
  std::vector<Tensor> sent;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Variable lost = dist::part_of(members_[i].lost);
    const auto count = static_cast<std::int64_t>(std::ceil(how_.share * static_cast<double>(gradients[i].numel())));
    const std::vector<Tensor> largest = take.call({gradients[i], lost.value()}, {{"count", count}});
    sent.insert(sent.end(), {largest[0], largest[1]});
    lost.assign(largest[2]);
  }
  const std::vector<Tensor> rows = dist::gather_gradients(sent);
  std::vector<Tensor> means;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor values = rows[2 * i].reshape({-1}) * share_of_rank(), places = rows[2 * i + 1].reshape({-1});
    means.push_back(scatter_add(zeros({gradients[i].numel()}), places, values).reshape(gradients[i].shape()));
  }
  return means;
}

// M ≈ Pᵀ·Q    M: [rows, columns]  P: [rank, rows], orthogonal  Q: [rank, columns]
// P = orthogonal(mean of Q'·Mᵀ) with the Q' of the last step; Q = mean of P·M.
std::vector<Tensor> Compressor::power_sgd(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> matrices, lefts, rights;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Shape shape = matrix_of(gradients[i].shape());
    matrices.push_back((gradients[i] + dist::part_of(members_[i].lost).value()).reshape(shape));
    // A row that became zero begins anew, or it would stay so.
    const Tensor last = dist::part_of(members_[i].factor).value();
    const Tensor factor = where(rows_product(last, last) > 0, last, first_factor(how_.rank, shape[1]));
    lefts.push_back(matmul(factor, transpose(matrices[i])));
  }
  lefts = dist::mean_gradients(lefts);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    lefts[i] = orthogonal_rows(lefts[i]);
    rights.push_back(matmul(lefts[i], matrices[i]));
    const Tensor lost = matrices[i] - matmul(transpose(lefts[i]), rights[i]);
    dist::part_of(members_[i].lost).assign(lost.reshape(gradients[i].shape()));
  }
  rights = dist::mean_gradients(rights);
  std::vector<Tensor> means;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    dist::part_of(members_[i].factor).assign(rights[i]);
    means.push_back(matmul(transpose(lefts[i]), rights[i]).reshape(gradients[i].shape()));
  }
  return means;
}

}  // namespace varve::optim
