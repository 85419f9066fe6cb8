// Gradients and parameters of which each rank has its part, several to a message.
#pragma once

#include <vector>

#include "varve/tensor.h"

namespace varve::optim {

// The means over ranks of this rank's parts (distributed::own_part) of these values.
std::vector<Tensor> scatter_means(const std::vector<Tensor>& values);
// The whole values of all ranks' parts.
std::vector<Tensor> gather_wholes(const std::vector<Tensor>& parts, const std::vector<Shape>& shapes);

}  // namespace varve::optim
