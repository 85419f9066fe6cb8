// What kernels that work on one row of the last axis at a time share: how a row is divided among threads (see
// kernels/rows.cuh).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "backend/backend.h"
#include "backends/cuda/claims.h"
#include "backends/cuda/device/function.h"

namespace varve::cuda {

// Contiguous, not empty.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
};
Matrix matrix_of(const Shape& shape);

// Why rows of this type are none of ours; empty: they are.
std::string row_refusal(const TensorType& type);

// The threads of a row.
struct Team {
  int threads = 32;  // up to a warp, or the whole block
  int block = 128;
  int vector = 1;  // neighbours that a thread reads at once
  int items = 0;   // how often; 0: the row does not fit into registers

  int rows() const { return block / threads; }  // of a block
  std::int64_t blocks(std::int64_t rows_of_all) const { return (rows_of_all + rows() - 1) / rows(); }
};
// A thread keeps no more than `most` elements of each array that it has in registers.
Team team_for(const Matrix& matrix, DType dtype, int most = 32);

// A file that includes kernels/rows.cuh, for elements of this type.
KernelText row_text(const std::string& file, const Team& team, DType dtype, Constants more = {});
// The type that elements are computed in.
DType wide(DType dtype);

// Whether all may be read 16 bytes at a time: an argument of the kernels.
int aligned(std::initializer_list<const void*> pointers);

void add_softmax_claims(ClaimMap&);     // softmax, log_softmax, the gradient of softmax
void add_row_loss_claims(ClaimMap&);    // cross entropy, its gradient, its mean
void add_layer_norm_claims(ClaimMap&);  // layer norm and its gradient, RMS norm

}  // namespace varve::cuda
