// Tensors in NumPy's files.
#pragma once

#include <map>
#include <string>

#include "varve/tensor.h"

namespace varve {

void save_npy(const std::string& path, const Tensor& tensor);  // replaces the file only when all of it is written
Tensor load_npy(const std::string& path);
void save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors);
std::map<std::string, Tensor> load_npz(const std::string& path);

}  // namespace varve
