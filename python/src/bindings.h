// What the parts of the Python module share: how Python's values become ours.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <varve/varve.h>

#include "lock.h"

namespace varve::python {

namespace nb = nanobind;
using namespace nb::literals;

// The interpreter's lock is given back while the library works: it may compute, and it takes locks of its own.
template <class F>
auto unlocked(F f) {
  const Unlocked unlocked_meanwhile;
  return f();
}

// A tensor, a variable, a number, or anything that NumPy understands.
Tensor to_tensor(nb::handle value, bool exact = false);
Operand to_operand(nb::handle value);
std::vector<Tensor> to_tensors(nb::handle values);  // a sequence of them
DType to_dtype(nb::handle value);                   // "f32", varve.f32, numpy.float32
Shape to_shape(nb::handle value);                   // a number or a sequence

// Memory of a Python object, shared: the object lives as long as any tensor on it.
Tensor share_array(nb::handle array, bool must_share = false);
Tensor copy_array(nb::handle array);

// An array of a library other than NumPy, and a tensor on its memory, or of a copy, through DLPack.
bool is_foreign_array(nb::handle value);
Tensor from_dlpack(nb::handle value, const std::string& device, std::optional<bool> copy);

// Gives something back to its owner: by the interpreter, its lock held and none of ours, some time after this is gone.
// The last tensor on an object's memory may die anywhere, with the library's locks held.
class GiveBack {
 public:
  explicit GiveBack(std::function<void()> release) : release_(std::move(release)) {}
  ~GiveBack();
  GiveBack(const GiveBack&) = delete;
  GiveBack& operator=(const GiveBack&) = delete;

 private:
  std::function<void()> release_;
};
void give_back_now();  // what waits for that

void bind_tensor(nb::module_& m);
void bind_dlpack(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_own(nb::module_& m);
void bind_io(nb::module_& m);
void bind_functions(nb::module_& m);
void bind_transforms(nb::module_& m);
void bind_nests(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_zoo(nb::module_& m);
void bind_optim(nb::module_& m);
void bind_train(nb::module_& m);
void bind_data(nb::module_& m);
void bind_data_files(nb::module_& m);
void bind_distributed(nb::module_& m);

}  // namespace varve::python
