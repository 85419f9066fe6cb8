#include "backends/cuda/norm/batch_norm_kernels.h"

#include <algorithm>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr int kNormThreads = 1024;       // as in norm/batch_norm.cuh
constexpr std::int64_t kMostWidth = 64;  // channels of a slice: 128 bytes of a row at least

// Up to 16 bytes at a time; 8 of 16-bit types, whose numbers take twice the registers.
int widest(const NormShape& shape) {
  const int vec = shape.dtype == f64 ? 2 : 4;
  return shape.channels % vec == 0 ? vec : 1;
}

// The texts of these files, one after the other, made for a cut.
KernelText text_of(const char* file, const NormShape& shape, const NormCut& cut, const Constants& more = {}) {
  return {file,
          defines({{"T", type_name(shape.dtype)}, {"VEC", cat(cut.vec)}, {"X", cat(cut.across)}}) + defines(more)};
}

// What takes any address is there for operands that are not where those of a program mostly are.
Begin begin_of(const NormShape& shape, int vec) { return vec < widest(shape) ? Begin::when_started : Begin::now; }

std::string flag(bool on) { return on ? "1" : "0"; }

std::size_t bytes_of_parts(const NormShape& shape, const NormCut& cut) {
  return static_cast<std::size_t>(cut.parts * 2 * shape.channels) * (shape.dtype == f64 ? 8 : 4);
}

bool packs_aligned(std::initializer_list<const void*> addresses, const NormShape& shape, const NormCut& cut) {
  const std::size_t bytes = static_cast<std::size_t>(cut.vec) * size_of(shape.dtype);
  return std::all_of(addresses.begin(), addresses.end(),
                     [bytes](const void* a) { return reinterpret_cast<std::uintptr_t>(a) % bytes == 0; });
}

// As norm/batch_norm.cuh reads it.
struct Bands {
  std::int64_t rows, band, parts;
};
Bands bands(const NormShape& shape, const NormCut& cut) { return {shape.rows, cut.band, cut.parts}; }

template <class Variant, class... Args>
std::optional<Variant> vector_variant(const NormShape& shape, Args... args) {
  return widest(shape) > 1 ? std::optional<Variant>(std::in_place, shape, widest(shape), args...) : std::nullopt;
}

}  // namespace

NormCut::NormCut(const NormShape& shape, int vec_) : vec(vec_), across(1) {
  while (across * vec < std::min(shape.channels, kMostWidth)) across *= 2;
  slices = ceil_div(shape.channels, across * vec);
  // A block fills a multiprocessor: as many as there are, unless rows are few.
  const std::int64_t least_rows = kNormThreads / across * 4;
  parts = std::clamp<std::int64_t>(gpu().multiprocessors / slices, 1, ceil_div(shape.rows, least_rows));
  band = ceil_div(shape.rows, parts);
  parts = ceil_div(shape.rows, band);
  // Many narrow bands, where that leaves no block with much more than the others.
  constexpr std::int64_t kMany = 16;
  if (ceil_div(shape.rows, least_rows) >= kMany * parts) band = least_rows;
}

// ---- forward

namespace {

// As norm/batch_norm_forward.cu reads it.
struct Side {
  const void *scale, *shift, *parts;
  void *mean, *var;
  double epsilon;
};
Side side(const NormSide& norm, const void* parts, double epsilon) {
  return {norm.scale, norm.shift, parts, norm.mean, norm.var, epsilon};
}

}  // namespace

NormForwardKernel::Variant::Variant(const NormShape& shape, int vec, const NormAfter& after)
    : cut(shape, vec),
      moments("bn_moments", text_of("norm/batch_norm_moments.cu", shape, cut), begin_of(shape, vec)),
      apply("bn_apply",
            text_of(
                "norm/batch_norm_forward.cu", shape, cut,
                {{"ADD", cat(static_cast<int>(after.adds))}, {"RELU", flag(after.relu)}, {"SIGNS", flag(after.signs)}}),
            begin_of(shape, vec)) {}

void NormForwardKernel::Variant::run(const NormShape& shape, const NormAfter& after, const NormForward& args,
                                     void* scratch) const {
  const Launch launch{.grid = cut.blocks(), .block = kNormThreads};
  void* other = static_cast<std::byte*>(scratch) + bytes_of_parts(shape, cut);
  moments(launch, args.x, scratch, bands(shape, cut), shape.channels);
  if (after.adds == NormAfter::norm) moments(launch, args.added, other, bands(shape, cut), shape.channels);
  apply(launch, args.x, args.added, side(args.norm, scratch, shape.epsilon),
        side(args.other, other, after.other_epsilon), args.y, args.signs, bands(shape, cut), shape.channels);
}

NormForwardKernel::NormForwardKernel(const NormShape& shape, const NormAfter& after)
    : shape_(shape), after_(after), scalar_(shape, 1, after), vector_(vector_variant<Variant>(shape, after)) {}

std::size_t NormForwardKernel::scratch_bytes() const {
  const std::size_t parts =
      std::max(bytes_of_parts(shape_, scalar_.cut), vector_ ? bytes_of_parts(shape_, vector_->cut) : 0);
  return after_.adds == NormAfter::norm ? 2 * parts : parts;
}

void NormForwardKernel::run(const NormForward& args, void* scratch) const {
  const bool wide = vector_ && packs_aligned({args.x, args.added, args.y}, shape_, vector_->cut);
  (wide ? *vector_ : scalar_).run(shape_, after_, args, scratch);
}

// ---- gradient

NormBackwardKernel::Variant::Variant(const NormShape& shape, int vec, const NormGradient& source) : cut(shape, vec) {
  const Constants whole{{"PASSING", cat(static_cast<int>(source.passing))}, {"MORE", flag(source.more)}};
  const Constants nothing{{"PASSING", "0"}, {"MORE", "0"}};  // what has passed is read back as it is
  Constants first = whole, second = source.passes ? nothing : whole;
  first.emplace_back("PASSED", flag(source.passes));
  second.emplace_back("AGAIN", flag(source.again));
  const Begin begin = begin_of(shape, vec);
  sums = Function("bn_grad_sums", text_of("norm/batch_norm_sums.cu", shape, cut, first), begin);
  apply = Function("bn_grad_apply", text_of("norm/batch_norm_backward.cu", shape, cut, second), begin);
}

void NormBackwardKernel::Variant::run(const NormShape& shape, const NormGradient& source, const NormBackward& args,
                                      void* scratch) const {
  const Launch launch{.grid = cut.blocks(), .block = kNormThreads};
  sums(launch, args.x, args.dy, args.more, args.y, args.mean, args.var, args.scale, args.shift, args.passed, scratch,
       bands(shape, cut), shape.channels, shape.epsilon);
  apply(launch, args.x, source.passes ? static_cast<const void*>(args.passed) : args.dy, args.more, args.y, args.mean,
        args.var, args.scale, args.shift, static_cast<const void*>(scratch), args.dx, args.dscale, args.dshift,
        args.again, bands(shape, cut), shape.channels, shape.epsilon);
}

NormBackwardKernel::NormBackwardKernel(const NormShape& shape, const NormGradient& source)
    : shape_(shape), source_(source), scalar_(shape, 1, source), vector_(vector_variant<Variant>(shape, source)) {}

std::size_t NormBackwardKernel::scratch_bytes() const {
  return std::max(bytes_of_parts(shape_, scalar_.cut), vector_ ? bytes_of_parts(shape_, vector_->cut) : 0);
}

void NormBackwardKernel::run(const NormBackward& args, void* scratch) const {
  const void* y = source_.passing == Passing::output ? args.y : nullptr;
  const bool wide =
      vector_ && packs_aligned({args.x, args.dy, args.more, y, args.dx, args.passed, args.again}, shape_, vector_->cut);
  (wide ? *vector_ : scalar_).run(shape_, source_, args, scratch);
}

}  // namespace varve::cuda
