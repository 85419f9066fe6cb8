// Reading at positions that are themselves tensors. An index out of range is noted, gives 0 and touches no memory.
#include <array>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/index/index_add.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

std::int64_t axis_of(const Task& task) { return task.attrs.has("axis") ? task.attrs.integer("axis") : 0; }

// ---- gather and embedding: y[o, j, :] = x[o, indices[j], :]

Prepared gather(const Task& task) {
  if (task.shape_out().numel() == 0) return nothing();
  const std::int64_t axis = axis_of(task), count = task.shape_in(1).numel();
  const Rows x(task.shape_in(0), axis);
  const std::int64_t width = x.inner * element_bytes(task.dtype_in(0));
  const std::string text = out_of_range(task.op, x.size, axis);
  return dispatch_index(task.dtype_in(1), [&]<class I>(std::type_identity<I>) {
    return backend::prepared([=](const RunArgs& args) {
      const I* indices = static_cast<const I*>(args.in[1]);
      parallel_for(x.outer * count, grain_for(width), [&](std::int64_t begin, std::int64_t end) {
        std::byte* to = at(args.out[0], begin * width);
        each_row(begin, end, count, [&](std::int64_t o, std::int64_t j) {
          const std::int64_t index = indices[j];
          if (index >= 0 && index < x.size) {
            copy_row(to, at(args.in[0], (o * x.size + index) * width), width);
          } else {
            args.errors->note(text, index);
            std::memset(to, 0, static_cast<std::size_t>(width));
          }
          to += width;
        });
      });
    });
  });
}

// ---- take_along_axis: y[o, j, i] = x[o, indices[o, j, i], i]

template <class U, class I>
Prepared prepare_take(const Task& task) {
  const std::int64_t axis = axis_of(task), count = task.shape_in(1)[static_cast<int>(axis)];
  const Rows x(task.shape_in(0), axis);
  const std::string text = out_of_range(task.op, x.size, axis);
  return backend::prepared([=](const RunArgs& args) {
    const U* from = static_cast<const U*>(args.in[0]);
    const I* indices = static_cast<const I*>(args.in[1]);
    U* out = static_cast<U*>(args.out[0]);
    const std::int64_t bytes = x.inner * static_cast<std::int64_t>(sizeof(U) + sizeof(I));
    parallel_for(x.outer * count, grain_for(bytes), [&](std::int64_t begin, std::int64_t end) {
      std::int64_t place = begin * x.inner;
      each_row(begin, end, count, [&](std::int64_t o, std::int64_t) {
        const U* column = from + o * x.size * x.inner;
        for (std::int64_t i = 0; i < x.inner; ++i, ++place) {
          const std::int64_t index = indices[place];
          const bool inside = index >= 0 && index < x.size;
          if (!inside) args.errors->note(text, index);
          out[place] = inside ? column[index * x.inner + i] : U{0};
        }
      });
    });
  });
}

Prepared take_along_axis(const Task& task) {
  if (task.shape_out().numel() == 0) return nothing();
  return dispatch_size(size_of(task.dtype_in(0)), [&]<class U>(std::type_identity<U>) {
    return dispatch_index(task.dtype_in(1), [&]<class I>(std::type_identity<I>) { return prepare_take<U, I>(task); });
  });
}

// ---- one_hot

template <class U, class I>
Prepared prepare_one_hot(const Task& task, U one) {
  const std::int64_t classes = task.shape_out().back();
  const std::string text = out_of_range(task.op, classes, task.shape_out().rank() - 1);
  const std::int64_t count = task.shape_in(0).numel(), width = classes * static_cast<std::int64_t>(sizeof(U));
  return backend::prepared([=](const RunArgs& args) {
    const I* indices = static_cast<const I*>(args.in[0]);
    U* out = static_cast<U*>(args.out[0]);
    parallel_for(count, grain_for(width), [&](std::int64_t begin, std::int64_t end) {
      if (width > 0) std::memset(out + begin * classes, 0, static_cast<std::size_t>((end - begin) * width));
      for (std::int64_t j = begin; j < end; ++j) {
        const std::int64_t index = indices[j];
        if (index >= 0 && index < classes)
          out[j * classes + index] = one;
        else
          args.errors->note(text, index);
      }
    });
  });
}

Prepared one_hot(const Task& task) {
  if (task.shape_in(0).numel() == 0) return nothing();
  std::array<std::byte, 8> one{};
  store_f(one.data(), task.dtype_out(), 0, 1);
  return dispatch_size(size_of(task.dtype_out()), [&]<class U>(std::type_identity<U>) {
    return dispatch_index(task.dtype_in(0), [&]<class I>(std::type_identity<I>) {
      return prepare_one_hot<U, I>(task, load_as<U>(one.data(), 0));
    });
  });
}

}  // namespace

std::string out_of_range(const std::string& op, std::int64_t size, std::int64_t axis) {
  return cat(op, ": index out of range [0, ", size, ") along axis ", axis, ".");
}

void add_index_claims(ClaimMap& map) {
  offer(map, "gather", gather);
  offer(map, "embedding", gather);
  offer(map, "take_along_axis", take_along_axis);
  offer(map, "one_hot", one_hot);
  offer(map, "scatter_add", scatter_add);
  offer(map, "embedding_grad", embedding_grad);
  offer(map, "put_along_axis_add", put_along_axis_add);
  offer(map, "scatter", scatter);
  offer(map, "put_along_axis", put_along_axis);
}

}  // namespace varve::cpu
