// Tensors from nothing, shape operators that copy, and marks that become copies.
#include <array>
#include <bit>
#include <cmath>

#include "backend/check_finite.h"
#include "backends/cpu/common/loops.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

const std::int64_t* integer_attribute(const Attrs& attrs, const char* key) {
  for (const auto& [name, value] : attrs.entries())
    if (name == key) return value.get<std::int64_t>();
  return nullptr;
}

// ---- iota: start and step are both integers, or both computed with in double

template <class T, class Value>
Prepared each_position(std::int64_t count, Value value) {
  constexpr std::int64_t kBlock = 16 << 10;  // elements that are worth a thread's while
  return backend::prepared([=](const RunArgs& args) {
    T* out = static_cast<T*>(args.out[0]);
    parallel_for(count, kBlock, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = cast_to<T>(value(i));
    });
  });
}

Prepared iota(const Task& task) {
  const std::int64_t *start = integer_attribute(task.attrs, "start"), *step = integer_attribute(task.attrs, "step");
  const std::int64_t count = task.shape_out().numel();
  return dispatch(task.dtype_out(), [&]<class T>(std::type_identity<T>) {
    if (start && step) {
      const auto from = static_cast<std::uint64_t>(*start), by = static_cast<std::uint64_t>(*step);  // these wrap
      return each_position<T>(
          count, [=](std::int64_t i) { return static_cast<std::int64_t>(from + static_cast<std::uint64_t>(i) * by); });
    }
    const double from = task.attrs.number("start"), by = task.attrs.number("step");
    return each_position<T>(count, [=](std::int64_t i) { return from + static_cast<double>(i) * by; });
  });
}

// ---- pad and unslice: x in a window of a larger tensor, a value elsewhere

struct WindowAxis {
  std::int64_t out, in, begin, step;

  bool whole() const { return out == in && begin == 0 && step == 1; }
  // The element of x that lands at position p, or -1.
  std::int64_t source(std::int64_t p) const {
    const std::int64_t d = p - begin;
    if (step == 0) return d == 0 ? in - 1 : -1;
    const std::int64_t k = d / step;
    return d % step == 0 && k >= 0 && k < in ? k : -1;
  }
};

// The inner axes that x fills whole count as one long element, and so does the innermost other axis when its elements
// follow each other: what is left is rows to copy.
struct Placing {
  std::vector<WindowAxis> outer;  // outermost first
  WindowAxis last{1, 1, 0, 1};
  std::int64_t chunk = 1;  // elements
  std::int64_t rows = 1;   // product of the outer axes in the output

  Placing(const Shape& out, const Shape& in, const Ints& begin, const Ints& step) {
    int a = out.rank() - 1;
    const auto axis = [&](int i) {
      const auto n = static_cast<std::size_t>(i);
      return WindowAxis{out[i], in[i], begin[n], in[i] > 1 ? step[n] : 1};
    };
    while (a >= 0 && axis(a).whole()) chunk *= out[a--];
    if (a >= 0) last = axis(a--);
    if (last.step == 1) {
      last = {last.out * chunk, last.in * chunk, last.begin * chunk, 1};
      chunk = 1;
    }
    for (int i = 0; i <= a; ++i) {
      outer.push_back(axis(i));
      rows *= out[i];
    }
  }

  // The row of x that lands in this row of the output, or -1.
  std::int64_t source_row(std::int64_t row) const {
    std::int64_t source = 0, stride = 1;
    for (std::size_t i = outer.size(); i-- > 0;) {
      const std::int64_t k = outer[i].source(row % outer[i].out);
      if (k < 0) return -1;
      source += k * stride;
      stride *= outer[i].in;
      row /= outer[i].out;
    }
    return source;
  }
};

template <class U>
void fill(U* out, std::int64_t count, U value) {
  parallel_for(count, kCopyBlock / static_cast<std::int64_t>(sizeof(U)),
               [=](std::int64_t begin, std::int64_t end) { std::fill(out + begin, out + end, value); });
}

template <class U>
void place_row(const Placing& p, std::int64_t source, const U* in, U* out, U value) {
  const std::int64_t length = p.last.out * p.chunk;
  if (source < 0 || p.last.in == 0) {
    fill(out, length, value);
    return;
  }
  const U* from = in + source * p.last.in * p.chunk;
  if (p.last.step == 1) {
    fill(out, p.last.begin, value);
    copy_row(out + p.last.begin, from, p.last.in * static_cast<std::int64_t>(sizeof(U)));
    fill(out + p.last.begin + p.last.in, length - p.last.begin - p.last.in, value);
    return;
  }
  fill(out, length, value);
  for (std::int64_t k = 0; k < p.last.in; ++k)
    copy_row(out + (p.last.begin + k * p.last.step) * p.chunk, from + k * p.chunk,
             p.chunk * static_cast<std::int64_t>(sizeof(U)));
}

Prepared place(const Task& task, const Ints& begin, const Ints& step, double number) {
  if (task.shape_out().numel() == 0) return nothing();
  const Placing placing(task.shape_out(), task.shape_in(0), begin, step);
  std::array<std::byte, 8> value{};
  store_f(value.data(), task.dtype_out(), 0, number);
  return dispatch_size(size_of(task.dtype_out()), [&]<class U>(std::type_identity<U>) {
    const U bits = load_as<U>(value.data(), 0);
    const std::int64_t length = placing.last.out * placing.chunk;
    return backend::prepared([placing, bits, length](const RunArgs& args) {
      const U* in = static_cast<const U*>(args.in[0]);
      U* out = static_cast<U*>(args.out[0]);
      parallel_for(placing.rows, grain_for(length * static_cast<std::int64_t>(sizeof(U))),
                   [&](std::int64_t first, std::int64_t end) {
                     for (std::int64_t row = first; row < end; ++row)
                       place_row(placing, placing.source_row(row), in, out + row * length, bits);
                   });
    });
  });
}

Prepared pad(const Task& task) {
  const Ints& before = task.attrs.ints("before");
  return place(task, before, Ints(before.size(), 1), task.attrs.number("value"));
}

Prepared unslice(const Task& task) { return place(task, task.attrs.ints("begin"), task.attrs.ints("step"), 0); }

// ---- concat: rows of the parts behind each other

Prepared concat(const Task& task) {
  if (task.shape_out().numel() == 0) return nothing();
  const std::int64_t axis = task.attrs.integer("axis"), bytes = element_bytes(task.dtype_out());
  const Rows whole(task.shape_out(), axis);
  std::vector<std::int64_t> widths;  // bytes of a part in each row
  for (const backend::Port& part : task.in)
    widths.push_back(part.type.shape[static_cast<int>(axis)] * whole.inner * bytes);
  const std::int64_t outer = whole.outer, width = whole.size * whole.inner * bytes;
  return backend::prepared([widths, outer, width](const RunArgs& args) {
    parallel_for(outer, grain_for(width), [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t o = first; o < end; ++o) {
        std::byte* to = at(args.out[0], o * width);
        for (std::size_t part = 0; part < widths.size(); ++part) {
          copy_row(to, at(args.in[part], o * widths[part]), widths[part]);
          to += widths[part];
        }
      }
    });
  });
}

// ---- marks

Prepared barrier(const Task& task) {
  std::vector<std::int64_t> bytes;
  for (const backend::Port& port : task.in) bytes.push_back(static_cast<std::int64_t>(port.type.bytes()));
  return backend::prepared([bytes](const RunArgs& args) {
    for (std::size_t i = 0; i < bytes.size(); ++i) copy_bytes(args.out[i], args.in[i], bytes[i]);
  });
}

constexpr std::int64_t kCheckBlock = 32 << 10;  // elements that are worth a thread's while

// The first position whose exponent has every bit set, or -1.
template <class U>
std::int64_t first_not_finite(const void* data, std::int64_t begin, std::int64_t end, U exponent) {
  constexpr std::int64_t kStep = 512;  // elements between two looks
  for (std::int64_t from = begin; from < end; from += kStep) {
    const std::int64_t to = std::min(from + kStep, end);
    unsigned bad = 0;
#pragma omp simd reduction(| : bad)
    for (std::int64_t i = from; i < to; ++i) bad |= (load_as<U>(data, i) & exponent) == exponent;
    if (!bad) continue;
    for (std::int64_t i = from; i < to; ++i)
      if ((load_as<U>(data, i) & exponent) == exponent) return i;
  }
  return -1;
}

template <class U>
Prepared check_exponents(const Task& task) {
  const auto exponent = static_cast<U>(backend::exponent_bits(task.dtype_in(0)));
  const std::int64_t count = task.shape_in(0).numel();
  const std::int64_t blocks = (count + kCheckBlock - 1) / kCheckBlock;
  const std::string text = backend::not_finite(task.attrs);
  const auto run = [=](const RunArgs& args) {
    auto* found = static_cast<std::int64_t*>(args.scratch);  // one for each block
    parallel_for(count, kCheckBlock, [&](std::int64_t begin, std::int64_t end) {
      found[begin / kCheckBlock] = first_not_finite<U>(args.in[0], begin, end, exponent);
      const auto offset = begin * static_cast<std::int64_t>(sizeof(U));
      if (args.out[0] != args.in[0])
        std::memcpy(at(args.out[0], offset), at(args.in[0], offset), static_cast<std::size_t>(end - begin) * sizeof(U));
    });
    for (std::int64_t block = 0; block < blocks; ++block)
      if (found[block] >= 0) return args.errors->note(text, found[block]);
  };
  return backend::prepared(run, static_cast<std::size_t>(blocks) * sizeof(std::int64_t));
}

Prepared check_finite(const Task& task) {
  if (backend::exponent_bits(task.dtype_in(0)) == 0) return barrier(task);
  switch (size_of(task.dtype_in(0))) {
    case 8:
      return check_exponents<std::uint64_t>(task);
    case 4:
      return check_exponents<std::uint32_t>(task);
    default:
      return check_exponents<std::uint16_t>(task);
  }
}

}  // namespace

void add_shape_claims(ClaimMap& map) {
  offer(map, "iota", iota);
  offer(map, "pad", pad);
  offer(map, "unslice", unslice);
  offer(map, "concat", concat);
  offer(map, "barrier", barrier);
  offer(map, "check_finite", check_finite);
}

}  // namespace varve::cpu
