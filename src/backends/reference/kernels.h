// Reference kernels: plain loops over contiguous operands, one function an operator. They are the oracle, so they are
// written to be read, and compute in double, or in exact integers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "ir/node.h"

namespace varve::reference {

// One operand, contiguous; elements as double or exact integers. Values are converted as `cast` does.
struct View {
  const TensorType* type;
  void* data;

  double get(std::int64_t i) const;
  void set(std::int64_t i, double value) const;
  std::int64_t get_int(std::int64_t i) const;
  void set_int(std::int64_t i, std::int64_t value) const;
  // Element `from` of `other`, converted, exactly where both hold integers.
  void copy(std::int64_t to, const View& other, std::int64_t from) const;

  bool integral() const { return !is_floating(type->dtype); }  // integers and bool
  const Shape& shape() const { return type->shape; }
  std::int64_t numel() const { return type->shape.numel(); }
};

using RefFn = std::function<void(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out,
                                 backend::ErrorWord& errors)>;
using KernelMap = std::map<std::string, RefFn>;

// A text that lives as long as the process, for ErrorWord::note, which keeps a reference to it. One for each text.
const std::string& lasting(const std::string& text);

// Row-major walking. Advances `index` inside `shape`; false when it came round to zero.
bool next_index(std::vector<std::int64_t>& index, const Shape& shape);

// By family; an operator without an entry here is decomposed or refused.
void add_create_kernels(KernelMap&);    // fill, iota
void add_shape_kernels(KernelMap&);     // pad, unslice, concat
void add_checking_kernels(KernelMap&);  // check_finite, barrier
void add_reduce_kernels(KernelMap&);
void add_index_kernels(KernelMap&);
void add_scatter_kernels(KernelMap&);
void add_random_kernels(KernelMap&);
void add_matmul_kernels(KernelMap&);
void add_conv_kernels(KernelMap&);
void add_pool_kernels(KernelMap&);
void add_linalg_kernels(KernelMap&);
void add_fft_kernels(KernelMap&);

const KernelMap& kernels();  // all of them, by operator name

}  // namespace varve::reference
