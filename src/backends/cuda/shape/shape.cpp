// Tensors from nothing, shape operators that copy, and marks that become copies. fill is left to generated groups,
// where it is an immediate.
#include <array>

#include "backend/check_finite.h"
#include "backends/cuda/device/arguments.h"
#include "backends/cuda/device/context.h"
#include "backends/cuda/device/counters.h"
#include "backends/cuda/device/launch.h"
#include "backends/cuda/device/stored_type.h"
#include "backends/cuda/shape/pieces.h"
#include "base/convert.h"

namespace varve::cuda {
namespace {

using backend::Prepared;
using backend::RunArgs;

const std::int64_t* integer_attribute(const Attrs& attrs, const char* key) {
  for (const auto& [name, value] : attrs.entries())
    if (name == key) return value.get<std::int64_t>();
  return nullptr;
}

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// ---- iota: start and step are both integers, or both computed with in double

Prepared iota(const Task& task) {
  const std::int64_t count = task.shape_out().numel();
  if (count == 0) return nothing();
  const std::int64_t *start = integer_attribute(task.attrs, "start"), *step = integer_attribute(task.attrs, "step");
  const bool whole = start && step;
  Constants constants{{"T", stored_type(task.dtype_out())}, {"NUMBER", whole ? "i64" : "double"}};
  if (whole) constants.emplace_back("WHOLE", "1");
  const Function function("iota", {"shape/iota.cu", defines(constants)});
  const Launch launch{.grid = piece_blocks(count, 1), .block = kPieceThreads};
  if (whole)
    return backend::prepared(
        [=, from = *start, by = *step](const RunArgs& args) { function(launch, args.out[0], count, from, by); });
  return backend::prepared([=, from = task.attrs.number("start"), by = task.attrs.number("step")](const RunArgs& args) {
    function(launch, args.out[0], count, from, by);
  });
}

// ---- pad and unslice: x in a window of a larger tensor, a value elsewhere

struct WindowAxis {
  std::int64_t out, in, begin, step;

  bool whole() const { return out == in && begin == 0 && step == 1; }
};

// Axes that x fills whole are joined with the one outside them, and elements that move together are one piece.
class Placing {
 public:
  Placing(const Shape& out, const Shape& in, const Ints& begin, const Ints& step, std::int64_t element,
          std::int64_t most)
      : piece_(element) {
    for (int a = 0; a < out.rank(); ++a) {
      const auto i = static_cast<std::size_t>(a);
      join({out[a], in[a], begin[i], in[a] > 1 ? step[i] : 1});
    }
    if (axes_.empty()) axes_.push_back({1, 1, 0, 1});
    WindowAxis& last = axes_.back();
    std::int64_t more = 1;  // elements of a piece
    const auto fits = [&](std::int64_t n) {
      return last.out % n == 0 && last.in % n == 0 && last.begin % n == 0 && element * n <= most;
    };
    while (last.step == 1 && fits(more * 2)) more *= 2;
    last = {last.out / more, last.in / more, last.begin / more, last.step};
    piece_ *= more;
    for (const WindowAxis& axis : axes_) count_ *= axis.out;
    wide_ = needs_64_bits(count_);
    function_ = Function("place", {"shape/place.cu", piece_constants(piece_, wide_, piece_unroll(count_)) +
                                                         defines({{"RANK", cat(axes_.size())}})});
  }

  std::uintptr_t piece() const { return static_cast<std::uintptr_t>(piece_); }

  void run(const RunArgs& args, const std::array<std::byte, 16>& value) const {
    Words words;
    words.add(args.in[0]);
    words.add(static_cast<const void*>(args.out[0]));
    words.add(count_);
    if (piece_ == 16) words.add(std::uint64_t{0});  // the value is aligned
    words.add(load_as<std::uint64_t>(value.data(), 0));
    if (piece_ == 16) words.add(load_as<std::uint64_t>(value.data(), 1));
    std::int64_t stride = 1;
    std::vector<std::int64_t> strides(axes_.size());
    for (std::size_t a = axes_.size(); a-- > 0; stride *= axes_[a].in) strides[a] = stride;
    for (std::size_t a = 0; a < axes_.size(); ++a) add_axis(words, axes_[a], strides[a]);
    const std::int64_t blocks = piece_blocks(count_, piece_unroll(count_));
    words.start(function_, {.grid = blocks, .block = kPieceThreads});
  }

 private:
  void join(const WindowAxis& axis) {
    if (!axes_.empty() && axis.whole() && axes_.back().step == 1)
      axes_.back() = {axes_.back().out * axis.out, axes_.back().in * axis.in, axes_.back().begin * axis.out, 1};
    else if (axis.out != 1 || !axis.whole())
      axes_.push_back(axis);
  }

  void add_axis(Words& words, const WindowAxis& axis, std::int64_t stride) const {
    words.add_extent(axis.out, wide_);
    const bool backward = axis.step < 0;
    // Without a step all elements go to one place, and the last one stays.
    const bool heap = axis.step == 0;
    words.add_extent(heap ? axis.out : backward ? -axis.step : axis.step, wide_);
    words.add(axis.begin);
    words.add(std::int64_t{backward});
    words.add(heap ? std::int64_t{1} : axis.in);
    words.add(stride);
    words.add(heap ? (axis.in - 1) * stride : 0);
  }

  std::vector<WindowAxis> axes_;
  std::int64_t piece_, count_ = 1;
  bool wide_ = false;
  Function function_;
};

Prepared place(const Task& task, const Ints& begin, const Ints& step, double number) {
  if (task.shape_out().numel() == 0) return nothing();
  const std::int64_t element = element_bytes(task.dtype_out());
  std::array<std::byte, 16> value{};
  for (std::int64_t i = 0; i < 16 / element; ++i) store_f(value.data(), task.dtype_out(), i, number);
  const auto make = [=, out = task.shape_out(), in = task.shape_in(0)](std::int64_t most) {
    return Placing(out, in, begin, step, element, most);
  };
  const auto run = [=, fast = make(16), slow = std::shared_ptr<Placing>()](const RunArgs& args) mutable {
    if ((address(args.in[0]) | address(args.out[0])) % fast.piece() == 0) return fast.run(args, value);
    if (!slow) slow = std::make_shared<Placing>(make(element));
    slow->run(args, value);
  };
  return backend::prepared(run);
}

Prepared pad(const Task& task) {
  const Ints& before = task.attrs.ints("before");
  return place(task, before, Ints(before.size(), 1), task.attrs.number("value"));
}

Prepared unslice(const Task& task) { return place(task, task.attrs.ints("begin"), task.attrs.ints("step"), 0); }

// ---- concat and barrier: rows of several parts in one launch

// Bytes: rows of `width`, which lie `stride` apart in the output, from `offset` on.
struct JoinPart {
  std::size_t in, out;
  std::int64_t rows, width, stride, offset;
};

class Join {
 public:
  Join(std::vector<JoinPart> parts, std::int64_t most) : parts_(std::move(parts)), piece_(most) {
    for (const JoinPart& part : parts_)
      piece_ = std::min({piece_, power_dividing(part.width, most), power_dividing(part.stride, most),
                         power_dividing(part.offset, most)});
    std::int64_t largest = 0;
    for (const JoinPart& part : parts_) largest = std::max(largest, part.rows * part.width / piece_);
    wide_ = needs_64_bits(largest);
    unroll_ = piece_unroll(largest);
    function_ = Function(
        "join", {"shape/join.cu", piece_constants(piece_, wide_, unroll_) + defines({{"PARTS", cat(parts_.size())}})});
  }

  bool aligned(const RunArgs& args) const {
    return std::all_of(parts_.begin(), parts_.end(), [&](const JoinPart& part) {
      return (address(args.in[part.in]) | address(args.out[part.out])) % static_cast<std::uintptr_t>(piece_) == 0;
    });
  }

  void run(const RunArgs& args) const {
    Words words;
    std::int64_t blocks = 0;
    std::vector<std::uint64_t> ends;
    for (const JoinPart& part : parts_) {
      // What shares its memory is there already.
      if (args.in[part.in] != args.out[part.out]) blocks += piece_blocks(part.rows * part.width / piece_, unroll_);
      ends.push_back(static_cast<std::uint64_t>(blocks));
    }
    for (std::size_t i = 0; i < ends.size(); i += 2) words.add_halves(ends[i], i + 1 < ends.size() ? ends[i + 1] : 0);
    for (const JoinPart& part : parts_) {
      words.add(args.in[part.in]);
      words.add(static_cast<const void*>(static_cast<std::byte*>(args.out[part.out]) + part.offset));
      words.add(part.rows * part.width / piece_);
      words.add(part.stride / piece_);
      words.add_extent(part.width / piece_, wide_);
    }
    words.start(function_, {.grid = blocks, .block = kPieceThreads});
  }

 private:
  std::vector<JoinPart> parts_;
  std::int64_t piece_, unroll_ = 1;
  bool wide_ = false;
  Function function_;
};

// As many launches as the arguments of so many parts need: one, nearly always.
std::vector<Join> joins(const std::vector<JoinPart>& parts, std::int64_t most) {
  constexpr std::size_t kMost = kMostWords / 8;
  std::vector<Join> result;
  for (std::size_t i = 0; i < parts.size(); i += kMost)
    result.emplace_back(std::vector(parts.begin() + static_cast<std::ptrdiff_t>(i),
                                    parts.begin() + static_cast<std::ptrdiff_t>(std::min(i + kMost, parts.size()))),
                        most);
  return result;
}

Prepared join(const std::vector<JoinPart>& parts, std::int64_t element) {
  if (parts.empty()) return nothing();
  const auto run = [=, fast = joins(parts, 16), slow = std::vector<Join>()](const RunArgs& args) mutable {
    const bool aligned = std::all_of(fast.begin(), fast.end(), [&](const Join& j) { return j.aligned(args); });
    if (!aligned && slow.empty()) slow = joins(parts, element);
    for (const Join& each : aligned ? fast : slow) each.run(args);
  };
  return backend::prepared(run);
}

Prepared concat(const Task& task) {
  if (task.shape_out().numel() == 0) return nothing();
  const std::int64_t axis = task.attrs.integer("axis"), bytes = element_bytes(task.dtype_out());
  const Rows whole(task.shape_out(), axis);
  std::vector<JoinPart> parts;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < task.in.size(); ++i) {
    const std::int64_t width = task.shape_in(i)[static_cast<int>(axis)] * whole.inner * bytes;
    if (width > 0) parts.push_back({i, 0, whole.outer, width, whole.size * whole.inner * bytes, offset});
    offset += width;
  }
  return join(parts, bytes);
}

Prepared barrier(const Task& task) {
  std::vector<JoinPart> parts;
  for (std::size_t i = 0; i < task.in.size(); ++i) {
    const auto bytes = static_cast<std::int64_t>(task.in[i].type.bytes());
    if (bytes > 0) parts.push_back({i, i, 1, bytes, bytes, 0});
  }
  return join(parts, 1);
}

// ---- check_finite

Prepared check_finite(const Task& task) {
  const DType dtype = task.dtype_in(0);
  const std::uint64_t exponent = backend::exponent_bits(dtype);
  if (exponent == 0) return barrier(task);
  const std::int64_t count = task.shape_in(0).numel();
  if (count == 0) return nothing();
  const std::int64_t blocks = std::min<std::int64_t>(piece_blocks(count, 8), 1024),
                     share = (count + blocks - 1) / blocks;
  const int number = gpu().present() ? context().note(backend::not_finite(task.attrs)) : 0;
  const Function function(
      "check_finite",
      {"shape/check_finite.cu", defines({{"T", cat("u", 8 * size_of(dtype))}, {"EXPONENT", cat(exponent, "ull")}})});
  const auto run = [=, counter = zero_counters(1)](const RunArgs& args) {
    function({.grid = blocks, .block = kPieceThreads}, args.in[0], args.out[0], count, share, args.scratch,
             counter->address, args.errors->word(), number);
  };
  return backend::prepared(run, static_cast<std::size_t>(blocks) * 8);
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

}  // namespace varve::cuda
