#include "backends/reference/kernels.h"

#include <mutex>
#include <set>

#include "base/convert.h"

namespace varve::reference {

double View::get(std::int64_t i) const { return load_f(data, type->dtype, i); }
void View::set(std::int64_t i, double value) const { store_f(data, type->dtype, i, value); }
std::int64_t View::get_int(std::int64_t i) const { return load_i(data, type->dtype, i); }
void View::set_int(std::int64_t i, std::int64_t value) const { store_i(data, type->dtype, i, value); }

void View::copy(std::int64_t to, const View& other, std::int64_t from) const {
  const std::byte* source =
      static_cast<const std::byte*>(other.data) + from * static_cast<std::int64_t>(size_of(other.type->dtype));
  convert(source, other.type->dtype,
          static_cast<std::byte*>(data) + to * static_cast<std::int64_t>(size_of(type->dtype)), type->dtype, 1);
}

const std::string& lasting(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> texts;  // a set never moves what it holds
  const std::lock_guard lock(mutex);
  return *texts.insert(text).first;
}

bool next_index(std::vector<std::int64_t>& index, const Shape& shape) {
  for (int a = shape.rank() - 1; a >= 0; --a) {
    if (++index[static_cast<std::size_t>(a)] < shape[a]) return true;
    index[static_cast<std::size_t>(a)] = 0;
  }
  return false;
}

const KernelMap& kernels() {
  static const KernelMap all = [] {
    KernelMap map;
    add_create_kernels(map);
    add_shape_kernels(map);
    add_checking_kernels(map);
    add_reduce_kernels(map);
    add_index_kernels(map);
    add_scatter_kernels(map);
    add_random_kernels(map);
    add_matmul_kernels(map);
    add_conv_kernels(map);
    add_pool_kernels(map);
    add_linalg_kernels(map);
    add_fft_kernels(map);
    return map;
  }();
  return all;
}

}  // namespace varve::reference
