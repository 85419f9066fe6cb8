#pragma once

// The one door to oneDNN (2.6 or 3.x) for the CPU backend: plain pointers, sizes and options; no graph, no tensors.
//
// Every class is prepared once for fixed shapes and then run many times. `run` allocates nothing of its own; scratch
// memory is the caller's (`scratch_bytes()`, 64-byte aligned). An instance keeps its bound pointers inside, so it
// serves one thread at a time; two instances, each with its own scratch, may run side by side.
//
// `single_thread` prepares for, and runs on, the calling thread only: the sums then do not depend on the number of
// threads. Such instances may be run inside an OpenMP parallel region; others must not, because they were planned for
// more threads than they would get there.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/cpu.h"

namespace varve::cpu::dnn {

enum class Type { f32, bf16 };

enum class Activation { none, relu, tanh, sigmoid, gelu_erf, gelu_tanh, silu };

// Why the library will not do what was asked.
struct Refused {
  std::string reason;
};

// Either a prepared primitive or a refusal.
template <class T>
class Offer {
 public:
  Offer(T value) : content_(std::move(value)) {}
  Offer(Refused refused) : content_(std::move(refused)) {}

  explicit operator bool() const { return std::holds_alternative<T>(content_); }
  T& operator*() { return std::get<T>(content_); }
  const T& operator*() const { return std::get<T>(content_); }
  T* operator->() { return &std::get<T>(content_); }
  const T* operator->() const { return &std::get<T>(content_); }
  const std::string& reason() const { return std::get<Refused>(content_).reason; }

 private:
  std::variant<T, Refused> content_;
};

// --- The machine -----------------------------------------------------------------------------------------------------

// Asks the kernel for AMX, or keeps oneDNN away from it where it would crash. Idempotent; every `prepare` calls it, but
// it has an effect only before oneDNN's first use in the process.
void limit_isa();
bool is_kept_from_amx(Amx amx);

// What oneDNN multiplies bf16 with: nothing (it emulates it, slower than f32), AVX-512's dot products, those of a
// processor whose tiles it may not use, or tiles.
enum class Bf16 : std::uint8_t { none, avx512, amx_refused, amx };
Bf16 bf16_products();
Bf16 decide_bf16(bool vectors, bool tiles, Amx amx);  // by what oneDNN says that it may use
bool has_bf16();                                      // any but none

// For tests: what decisions are made for from now on; nothing: what there is. oneDNN itself is not told, so programs
// planned this way still run.
void pretend_bf16_products(std::optional<Bf16> products);

// Such as "2.6.3".
std::string version();

// --- Private weight layouts ------------------------------------------------------------------------------------------

// How a primitive wants its weights: a permutation with zero padding. The plain form of a matrix is row-major [K, N],
// of convolution weights [O, KH, KW, I/groups].
class PackedLayout {
 public:
  struct Impl;
  explicit PackedLayout(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::size_t bytes() const;
  Type type() const;
  // Packing to a bf16 layout rounds; unpacking widens.
  void pack(const float* plain, void* packed) const;
  void unpack(const void* packed, float* plain) const;
  // Such as "f32 2048x512 strides 1024,131072 blocks 16a 64b".
  std::string description() const;
  bool operator==(const PackedLayout& other) const;

  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// --- Matrix product --------------------------------------------------------------------------------------------------

// Distances in elements. A batch stride of 0 repeats the same matrix.
struct Strides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t col = 1;
};

// C[b] = activation(beta·C[b] + A[b]·B[b] + bias)      A: [M,K]  B: [K,N]  C: [M,N]  bias: [N]
struct MatmulSpec {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Strides a;
  Strides b;  // ignored with packed_b
  Strides c;
  Type input = Type::f32;
  Type output = Type::f32;
  bool bias = false;
  Activation activation = Activation::none;
  float beta = 0;
  bool packed_b = false;  // B comes in the layout of `b_layout()`; no batch
  bool single_thread = false;
};

struct MatmulArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  const float* bias = nullptr;
  void* c = nullptr;
  void* scratch = nullptr;
};

class Matmul {
 public:
  static Offer<Matmul> prepare(const MatmulSpec& spec);
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;
  ~Matmul();

  std::size_t scratch_bytes() const;
  // Only with packed_b.
  const PackedLayout& b_layout() const;
  // oneDNN's name for the kernel, for explanations.
  std::string implementation() const;
  void run(const MatmulArgs& args) const;

 private:
  struct Impl;
  explicit Matmul(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// C = Aᵀ·B      A: [K,M]  B: [K,N]  C: [M,N], row-major f32; long sums, which are split among the threads.
struct TransposedProduct {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
};
void transposed_product(const TransposedProduct& product);

// --- The gradient of a dense layer's input ---------------------------------------------------------------------------

// y = x·w      x: [M,K]  w: [K,N]  y: [M,N], all row-major and dense
struct DenseSpec {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  Type input = Type::f32;   // of dy and w
  Type output = Type::f32;  // of dx
  bool single_thread = false;
};

// dx = dy·wᵀ
class DenseBackwardData {
 public:
  static Offer<DenseBackwardData> prepare(const DenseSpec& spec);
  DenseBackwardData(DenseBackwardData&&) noexcept;
  DenseBackwardData& operator=(DenseBackwardData&&) noexcept;
  ~DenseBackwardData();

  std::size_t scratch_bytes() const;
  std::string implementation() const;
  void run(const void* dy, const void* w, void* dx, void* scratch) const;

 private:
  struct Impl;
  explicit DenseBackwardData(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// --- Convolution -----------------------------------------------------------------------------------------------------

struct Conv2dSpec {
  std::int64_t batch = 1;
  std::int64_t in_height = 0;
  std::int64_t in_width = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel_height = 1;
  std::int64_t kernel_width = 1;
  std::int64_t stride_height = 1;
  std::int64_t stride_width = 1;
  std::int64_t dilation_height = 1;  // 1: the taps touch
  std::int64_t dilation_width = 1;
  std::int64_t pad_top = 0;
  std::int64_t pad_bottom = 0;
  std::int64_t pad_left = 0;
  std::int64_t pad_right = 0;
  std::int64_t groups = 1;
  Type input = Type::f32;                    // of x, dy and w
  Type output = Type::f32;                   // of y or dx; dw is always f32
  bool bias = false;                         // forward: add it; backward weights: also give its gradient
  Activation activation = Activation::none;  // forward only
  bool accumulate = false;                   // forward only: y = activation(y + x*w + bias)
  bool packed_weights = false;               // weights in `weights_layout()` instead of OHWI
  bool single_thread = false;

  std::int64_t out_height() const;
  std::int64_t out_width() const;
};

enum class Conv2dPass { forward, backward_data, backward_weights };

struct Conv2dArgs {
  void* x = nullptr;        // [B,H,W,I]; forward and backward weights read it, backward data writes dx
  void* weights = nullptr;  // backward weights writes dw (f32)
  float* bias = nullptr;    // backward weights writes db
  void* y = nullptr;        // [B,OH,OW,O]; forward writes it, both gradients read dy
  void* scratch = nullptr;
};

class Conv2d {
 public:
  // With `shared`, the weights come in that layout (say, the forward pass's) and packed_weights is implied; a pass that
  // prefers another one reorders them in its scratch.
  static Offer<Conv2d> prepare(Conv2dPass pass, const Conv2dSpec& spec, const PackedLayout* shared = nullptr);
  Conv2d(Conv2d&&) noexcept;
  Conv2d& operator=(Conv2d&&) noexcept;
  ~Conv2d();

  std::size_t scratch_bytes() const;
  // The layout in which `run` expects the weights, or writes their gradient.
  const PackedLayout& weights_layout() const;
  // True when the weights are reordered at every run.
  bool reorders_weights() const;
  std::string implementation() const;
  void run(const Conv2dArgs& args) const;

 private:
  struct Impl;
  explicit Conv2d(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace varve::cpu::dnn
