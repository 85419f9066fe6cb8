// Eigenvalues and singular values by LAPACK, which is loaded when the first is asked for. Its other factorisations are
// no faster than the plain ones (docs/decisions/0044-linear-algebra.md).
#pragma once

#include "backend/linalg.h"

namespace varve::cpu {

// Gives the call to LAPACK where that is there, not left out by VARVE_WITHOUT, and faster.
void prefer_lapack(backend::MatrixCall& call, const std::string& op, const Shape& a);

}  // namespace varve::cpu
