// The files of kernels/ by name, made by the build.
#pragma once

#include <string>
#include <unordered_map>

namespace varve::cuda {

std::unordered_map<std::string, std::string> kernel_texts();

}  // namespace varve::cuda
