// Tensors in NumPy's files: what varve/io.h offers.
#include <memory>
#include <utility>

#include "base/text.h"
#include "io/npy.h"
#include "varve/io.h"

namespace varve {
namespace {

// Evaluates, and copies: a file is written from one block of memory, whatever layout the tensor has.
io::NpyArray to_npy(const Tensor& tensor) {
  io::NpyArray array{.dtype = tensor.dtype(), .shape = tensor.shape(), .data = {}};
  const auto* bytes = static_cast<const std::byte*>(tensor.data());
  array.data.assign(bytes, bytes + tensor.type().bytes());
  return array;
}

// The file's memory becomes the tensor's.
Tensor from_npy(io::NpyArray array) {
  auto kept = std::make_shared<io::NpyArray>(std::move(array));
  return from_memory(kept->data.data(), {kept->dtype, kept->shape}, [kept]() mutable { kept.reset(); });
}

void require_defined(const Tensor& tensor, const std::string& what) {
  if (!tensor.defined()) throw Error(cat(what, ": the tensor is undefined, and has nothing to save."));
}

}  // namespace

void save_npy(const std::string& path, const Tensor& tensor) {
  require_defined(tensor, "save_npy");
  io::write_npy(path, to_npy(tensor));
}

Tensor load_npy(const std::string& path) { return from_npy(io::read_npy(path)); }

void save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  std::map<std::string, io::NpyArray> arrays;
  for (const auto& [name, tensor] : tensors) {
    require_defined(tensor, cat("save_npz: '", name, "'"));
    arrays.emplace(name, to_npy(tensor));
  }
  io::write_npz(path, arrays);
}

std::map<std::string, Tensor> load_npz(const std::string& path) {
  std::map<std::string, Tensor> tensors;
  for (auto& [name, array] : io::read_npz(path)) tensors.emplace(name, from_npy(std::move(array)));
  return tensors;
}

}  // namespace varve
