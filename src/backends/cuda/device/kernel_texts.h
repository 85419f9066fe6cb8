// Texts of kernels: files of this backend, which are built into the library, and what is generated at run time.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace varve::cuda {

// What a kernel is compiled from. Shapes and types are constants of the compiled kernel: the file finds them, and
// functions that are written at run time, as "generated.cuh".
struct KernelText {
  std::string file;       // below src/backends/cuda: "conv/conv_plain.cu"
  std::string generated;  // defines() and more

  auto operator<=>(const KernelText&) const = default;
};

// A kernel that is generated as a whole.
KernelText generated_kernel(std::string text);

// "#define NAME value" lines.
using Constants = std::vector<std::pair<std::string, std::string>>;
std::string defines(const Constants& constants);

struct NamedText {
  std::string name, text;
};
// The file, and then every header that it includes, directly or not. Throws Error when one does not exist.
std::vector<NamedText> reached_texts(const KernelText& text);

// Tells apart all that is compiled: changes with the file, with each header that it reaches, and with what is
// generated.
std::string hash_of(const KernelText& text);

// All files, by their path; made by the build.
std::unordered_map<std::string, std::string> kernel_files();

}  // namespace varve::cuda
