// Lazy tensors and the variables that hold them between steps.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "varve/dtype.h"
#include "varve/error.h"
#include "varve/op.h"
#include "varve/shape.h"

namespace varve {

namespace ir {
struct Node;
struct Value;
struct Array;
}  // namespace ir

inline constexpr std::int64_t kEnd = INT64_MAX;  // "to the end" in a range

// begin, end (excluded), step, as in Python: negative positions count from the end.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = kEnd;
  std::int64_t step = 1;
};

struct NewAxis {};
struct Ellipsis {};
inline constexpr NewAxis new_axis;   // in an index: an axis of size 1
inline constexpr Ellipsis ellipsis;  // in an index: all axes that the other entries leave
class Index;

// A value that is computed when somebody reads it. Copies share it; nothing a Tensor offers changes it.
class Tensor {
 public:
  Tensor() = default;  // undefined: has no shape, fits nowhere
  ~Tensor();
  Tensor(const Tensor&);
  Tensor(Tensor&&) noexcept;
  Tensor& operator=(const Tensor&);
  Tensor& operator=(Tensor&&) noexcept;

  bool defined() const { return node_ != nullptr; }
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return shape().rank(); }
  std::int64_t dim(int axis) const;  // negative axes count from the end
  std::int64_t numel() const { return shape().numel(); }

  // Reading. Each computes what is needed first; inside a trace each throws.
  const Tensor& eval() const;
  bool ready() const;  // reading it would neither compute nor wait for a device
  template <class T>
  T item() const;  // of a tensor with one element
  template <class T>
  std::vector<T> to_vector() const;  // row-major, converted to T
  const void* data() const;          // contiguous, of this dtype, alive as long as this handle
  std::string str() const;           // as NumPy prints

  // As in NumPy, a view where free: a[-1], a[{0, {1, 3}}], a[{ellipsis, 0}], a[rows].
  Tensor operator[](const Index& index) const;
  Tensor operator[](std::initializer_list<Index> indices) const;
  Tensor slice(std::initializer_list<Range> ranges) const;  // leading axes; a view where free
  Tensor reshape(const Shape& shape) const;                 // one size may be -1
  Tensor to(DType dtype) const;

  // For the house: the node behind the handle.
  explicit Tensor(ir::Value value);
  ir::Value value() const;
  const std::shared_ptr<ir::Node>& node() const { return node_; }
  int index() const { return index_; }

 private:
  void read_raw(void* out, DType dtype) const;
  std::shared_ptr<ir::Node> node_;
  int index_ = 0;
};

// Computes all of them at once: what they share is computed once. Each computed already is left as it is.
void eval(const std::vector<Tensor>& tensors);

std::ostream& operator<<(std::ostream&, const Tensor&);

// One entry of a[{…}]: a position, whose axis goes; a range; new_axis; ellipsis; or a tensor of positions. Negative
// positions count from the end.
class Index {
 public:
  Index(int position) : Index(static_cast<std::int64_t>(position)) {}
  Index(std::int64_t position) : kind_(Kind::position), range_{position, 0, 0} {}
  Index(std::int64_t begin, std::int64_t end, std::int64_t step = 1) : Index(Range{begin, end, step}) {}
  Index(const Range& range) : kind_(Kind::range), range_(range) {}
  Index(NewAxis) : kind_(Kind::added) {}
  Index(Ellipsis) : kind_(Kind::rest) {}
  Index(const Tensor& positions) : kind_(Kind::positions), positions_(positions) {}

  enum class Kind : std::uint8_t { position, range, added, rest, positions };
  Kind kind() const { return kind_; }
  const Range& range() const { return range_; }
  std::int64_t position() const { return range_.begin; }
  const Tensor& positions() const { return positions_; }

 private:
  Kind kind_;
  Range range_ = {};
  Tensor positions_;
};

// A tensor, or a number that takes the type of the tensors beside it.
class Operand {
 public:
  Operand(const Tensor& t) : tensor_(t) {}
  Operand(const class Variable& v);
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T number)
      : is_number_(true),
        number_(static_cast<double>(number)),
        integral_(std::is_integral_v<T>),
        whole_(std::is_integral_v<T> ? static_cast<std::int64_t>(number) : 0) {}

  bool is_number() const { return is_number_; }
  bool is_integral() const { return integral_; }
  std::int64_t whole() const { return whole_; }
  const Tensor& tensor() const { return tensor_; }
  Tensor as(DType dtype) const;  // the number as a scalar tensor of that type; tensors are converted

 private:
  Tensor tensor_;
  bool is_number_ = false;
  double number_ = 0;
  bool integral_ = false;
  std::int64_t whole_ = 0;
};

// ---- creation

namespace detail {
Tensor from_bytes(const void* data, TensorType type);
}  // namespace detail

template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape);
template <class T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(values, Shape{static_cast<std::int64_t>(values.size())});
}
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value) { return detail::from_bytes(&value, {dtype_of<T>(), {}}); }
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<T> values) {
  return tensor(std::vector<T>(values));
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows);
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes);

// Memory of yours, not copied: `release` is called when the last tensor on it is gone. It must not change meanwhile.
Tensor from_memory(const void* data, TensorType type, std::function<void()> release = {});

Tensor full(const Shape& shape, double value, DType dtype = f32);
Tensor full_int(const Shape& shape, std::int64_t value, DType dtype = i64);
Tensor zeros(const Shape& shape, DType dtype = f32);
Tensor ones(const Shape& shape, DType dtype = f32);
Tensor arange(std::int64_t end);  // i64 [0, end)
Tensor arange(double begin, double end, double step = 1, DType dtype = f32);
Tensor linspace(double begin, double end, std::int64_t count, DType dtype = f32);
Tensor eye(std::int64_t n, DType dtype = f32);

// ---- variables

class Variable;
namespace detail {
// While a model is copied as a whole, what a copy of a variable names.
class Copying {
 public:
  virtual ~Copying() = default;
  virtual Variable variable(const Variable& original) = 0;
};
inline constinit thread_local Copying* copying = nullptr;
}  // namespace detail

// A named mutable slot (parameter, statistic, counter, rate). Copies name the same slot.
class Variable {
 public:
  struct State;
  Variable() = default;
  Variable(const Variable& other) : state_(detail::copying ? detail::copying->variable(other).state_ : other.state_) {}
  Variable(Variable&&) noexcept = default;
  Variable& operator=(const Variable&) = default;
  Variable& operator=(Variable&&) noexcept = default;
  ~Variable() = default;
  Variable(std::string name, const Tensor& initial, bool trainable = true);

  const std::string& name() const;
  void rename(const std::string& name);
  bool trainable() const;
  void set_trainable(bool);
  TensorType type() const;
  const Shape& shape() const;
  Tensor value() const;  // inside a trace: what the step has made of it so far
  operator Tensor() const { return value(); }
  void assign(const Tensor& value);  // same shape and type, else Error; inside a trace: recorded
  void accept();                     // a step failed while it was writing: go on with the value it left
  bool same(const Variable& other) const { return state_ == other.state_; }

  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// ---- what a gradient rule sees

struct Vjp {
  const OpRecord& op;
  const Attrs& attrs;
  std::vector<Tensor> in;
  std::vector<Tensor> out;
  std::vector<Tensor> dys;  // of each output; undefined where none flows
  std::vector<bool> needs;  // which inputs' gradients somebody asked for
  Tensor dy;                // dys[0], zeros where undefined
};

// ---- what a batching rule sees

// Many calls of one operator with equal attributes. Inputs that differ from call to call are stacked along a new
// leading axis of `size`; the others are shared. At least one is batched, but for random numbers that each call draws
// anew.
struct Batching {
  const OpRecord& op;
  const Attrs& attrs;
  std::vector<Tensor> in;
  std::vector<bool> batched;
  std::int64_t size;
  bool fresh = false;              // random numbers: each call draws its own, not what it would draw alone
  const ir::Node* node = nullptr;  // for the house: of a call with regions or a gradient of its own
};

// ---- where nodes come from

// Names what this thread records meanwhile, for the profiler and for messages: scopes nest, "block1.conv2".
class Scope {
 public:
  // `rank`: where it is computed among ranks (distributed.h); -1: where the scope around it says; kEveryRank: nowhere
  // in particular, whatever that says.
  static constexpr int kEveryRank = -2;
  explicit Scope(const std::string& name, int rank = -1);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  static const std::string& path();  // of all scopes open in this thread
  static int rank();                 // of the innermost that says one; -1: none

 private:
  std::shared_ptr<void> held_;
};

bool tracing();  // whether this thread is recording a program: values cannot be read meanwhile

// ---- where programs run

void set_device(
    const std::string& name);  // "cpu", "cuda", "cuda:1", "reference", "null"; throws Error: unknown, or why not
std::string device();
// Whether a device ("": the current one) reads memory of its own, a GPU's: what its programs read is copied there
// first.
bool has_own_memory(const std::string& device = "");
// Until everything that was started on a device ("": the current one) has ended; throws what went wrong there. Reading
// a value waits by itself: this is for clocks.
void synchronize(const std::string& device = "");

// ---- values that other libraries of this process read, or made, on a device
//
// Streams are numbered as in DLPack: 1 is CUDA's default stream, 2 the thread's own, others are a CUstream; -1: none,
// the caller sees to the order himself.

// Where the value of a tensor lies: "cpu", "cuda", "cuda:1". Computes it first.
std::string device_of(const Tensor& tensor);
// Memory of yours on a device, not copied. What writes it must come before later work of device_stream(device), and it
// must not change meanwhile. `release` is called when the last tensor on it is gone and the device has read it.
Tensor from_memory(const void* data, TensorType type, const std::string& device, std::function<void()> release = {});
// The elements in row-major order where that device reads them, brought there first when they lie elsewhere. Work that
// `stream` is given from now on sees them. They stay, unchanged, while the pointer is held; letting it go waits for
// that stream, on the device. An index out of range that a kernel noted is told to who reads the tensor, not here.
std::shared_ptr<const void> data_on(const std::string& device, const Tensor& tensor, std::intptr_t stream = 1);
// The stream that a GPU's programs run on: a CUstream.
std::intptr_t device_stream(const std::string& device);

// ---- templates

template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape) {
  if (shape.numel() != static_cast<std::int64_t>(values.size()))
    throw Error("tensor: " + std::to_string(values.size()) + " values do not fill shape " + shape.str() + ".");
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<std::uint8_t> bytes(values.begin(), values.end());
    return detail::from_bytes(bytes.data(), {boolean, shape});
  } else {
    return detail::from_bytes(values.data(), {dtype_of<T>(), shape});
  }
}

template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows) {
  std::vector<T> flat;
  const std::size_t columns = rows.size() ? rows.begin()->size() : 0;
  for (const auto& row : rows) {
    if (row.size() != columns) throw Error("tensor: rows of different lengths.");
    flat.insert(flat.end(), row.begin(), row.end());
  }
  return tensor(flat, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)});
}

template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes) {
  std::vector<T> flat;
  const std::size_t rows = planes.size() ? planes.begin()->size() : 0;
  const std::size_t columns = rows ? planes.begin()->begin()->size() : 0;
  for (const auto& plane : planes) {
    if (plane.size() != rows) throw Error("tensor: planes of different sizes.");
    for (const auto& row : plane) {
      if (row.size() != columns) throw Error("tensor: rows of different lengths.");
      flat.insert(flat.end(), row.begin(), row.end());
    }
  }
  return tensor(flat, {static_cast<std::int64_t>(planes.size()), static_cast<std::int64_t>(rows),
                       static_cast<std::int64_t>(columns)});
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(numel()));
    read_raw(bytes.data(), boolean);
    return std::vector<bool>(bytes.begin(), bytes.end());
  } else {
    std::vector<T> values(static_cast<std::size_t>(numel()));
    read_raw(values.data(), dtype_of<T>());
    return values;
  }
}

template <class T>
T Tensor::item() const {
  if (numel() != 1) throw Error("item: needs a tensor with one element, got shape " + shape().str() + ".");
  T value;
  read_raw(&value, dtype_of<T>());
  return value;
}

}  // namespace varve
