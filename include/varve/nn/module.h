// What every layer and network is: named variables in a tree, and a forward pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "varve/nn/init.h"
#include "varve/nn/mask.h"
#include "varve/op.h"
#include "varve/tensor.h"
#include "varve/tensors.h"

namespace varve {

struct Safetensors;

enum class Mode : std::uint8_t { train, infer };

namespace nn {

// How PyTorch lays the same variable out, where that differs from ours.
struct ForeignLayout {
  enum Kind : std::uint8_t {
    same,
    transposed,  // dense and recurrent weights: ours [I, O], theirs [O, I]
    conv,        // ours [O, KH, KW, I], theirs [O, I, KH, KW] (and [O, K, I] against [O, I, K])
    conv_back,   // transposed convolution: ours [I, KH, KW, O], theirs [I, O, KH, KW]
  };
  Kind kind = same;
  Shape flattened = {};  // dense after flatten: the [H, W, C] that was flattened; theirs flattens [C, H, W]
};

// A variable of a module, as the tree names it.
struct NamedVariable {
  std::string path;  // "block1.conv2.weight"
  Variable variable;
  bool parameter = true;  // false: a statistic or a counter, kept but not learnt
  ForeignLayout foreign = {};
};

struct BuildOptions {
  DType dtype = f32;  // of the input; i32 for token ids; f64 makes the parameters f64, and computes so
  std::int64_t seed = 0;
  std::int64_t batch = 2;  // stateful recurrent layers keep one state for each
};

struct SaveOptions {
  DType dtype = f32;     // floating-point parameters are stored as this: f32 (f64 ones as they are), f16 or bf16
  bool pytorch = false;  // in PyTorch's layouts
  std::map<std::string, std::string> metadata;  // of the file
};
struct LoadOptions {
  bool pytorch = false;  // from PyTorch's layouts: OIHW, [O, I], C×H×W under a flatten, two LSTM biases
  bool partial = false;  // variables that the file lacks, and entries that fit none, are left alone
};
struct Loaded {
  std::vector<std::string> missing, unexpected;  // partial only
};

// Which of a layer's numbers are divided among ranks. A dense layer's columns: each rank computes some of the outputs
// from all inputs; its rows: a part of each sum, from some of the inputs. An attention's heads, with the dense layer
// behind them; a transformer block's, with the columns and the rows of its two dense layers.
enum class Split : std::uint8_t { none, columns, rows, heads };
std::string name(Split split);
Split split_by_name(const std::string& name);  // Error with the nearest name

struct PlaceOptions {
  int rank = -1;
  Split split = Split::none;
};

struct SummaryRow {
  std::string path, kind;
  Shape output;                     // the first
  std::vector<Field> outputs = {};  // where there are several: all of them
  std::int64_t parameters = 0;      // its own, not those of modules inside it
  bool shared = false;              // counted in an earlier row
  double flops = 0;                 // of a forward pass of the batch; 0 for modules that only hold others
  int depth = 0;
};
struct Summary {
  std::vector<SummaryRow> rows;
  std::int64_t parameters = 0, trainable = 0, parameter_bytes = 0;
  std::int64_t batch = 0;
  double flops = 0;             // forward, the whole batch
  std::int64_t peak_bytes = 0;  // of a training step with Adam, everything included
  std::string str() const;      // as a table
};
struct SummaryOptions {
  std::int64_t batch = 32;
};

// Copies share variables and children, as copies of a Variable do: a layer used in two places is one layer.
class Module {
 public:
  Module();
  virtual ~Module() = default;
  Module(const Module& other);
  Module(Module&&) noexcept = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) noexcept = default;

  // One of the two. Of one input and one output, as most modules are:
  virtual Tensor forward(Tensor x, Mode mode);
  // or of several of either, by position and by name.
  virtual Tensors forward_all(const Tensors& x, Mode mode);
  virtual std::string kind() const { return "module"; }  // for summary and messages

  // A module that says nothing of masks has them handed along the calls inside its forward(): each finds the mask of
  // what it is given, through operators that treat each step by itself, and what it gives has the mask that is behind
  // it. Where an operator mixes steps, that is an Error. A module that knows better says Masking::uses, and overrides
  // masked_forward(): there, modules inside it get the masks that it gives them, and no others.
  virtual Masking masking() const { return Masking::along; }
  virtual Masked masked_forward(Tensor x, Mode mode, const Mask& mask);

  // The forward pass, named by the module's path. Layers make their variables at the first call; inside a trace that
  // is too late, and an Error says to call build() first.
  Tensor operator()(const Tensor& x, Mode mode = Mode::infer);
  // Of several inputs or outputs: model({{"image", images}, {"question", questions}})["digit"]. Inputs that all have
  // names are matched by them, others by position; Error that names what was expected where they do not fit.
  Tensors operator()(const Tensors& x, Mode mode = Mode::infer);
  // The same of a batch with padding. Error where a layer would have to take padding for data. Of several inputs each
  // has a mask of its own, undefined where it has no padding.
  Tensor operator()(const Tensor& x, Mode mode, const Mask& mask);
  Tensors operator()(const Tensors& x, Mode mode, const std::vector<Mask>& masks);
  // And which steps of what it gives are valid.
  Masked masked(const Tensor& x, Mode mode = Mode::infer, const Mask& mask = {});
  MaskedTensors masked_all(const Tensors& x, Mode mode = Mode::infer, const std::vector<Mask>& masks = {});

  // Makes all variables, by a forward pass over a batch of such samples that is never computed.
  void build(const Shape& sample, const BuildOptions& = {});
  // The same of several inputs, each with its own type: {{"image", {f32, {28, 28, 1}}}, {"question", {i32, {20}}}}.
  // The options' dtype is not used.
  void build_all(const std::vector<Field>& sample, const BuildOptions& = {});
  bool built() const;  // every layer that learns its size has done so

  std::vector<Variable> parameters() const;            // the trainable ones, each once; Error before build
  std::vector<NamedVariable> named_variables() const;  // all, under every path; tied ones several times
  std::int64_t parameter_count() const;                // trainable or frozen, each once
  Variable variable(const std::string& path) const;    // Error with the nearest name

  // Frozen parameters stay as they are; a frozen batch norm uses its running statistics in training too.
  void freeze(const std::string& pattern = "*");  // * and ? as in a shell, over paths
  void unfreeze(const std::string& pattern = "*");

  // Where it is computed among ranks, and where its variables are kept: it, and all modules inside it. -1: on all of
  // them. What crosses from one rank to another is sent. Or split: each rank has a slice of it, and all of them see the
  // whole batch; what a layer takes and gives is whole again, as ranks need it. In a world of one rank it means
  // nothing.
  void place(const PlaceOptions& options);
  bool placed() const;  // whether it, or a module inside it, is

  void reset_state();  // what stateful recurrent layers carry from batch to batch, to zero

  void summary() const;  // prints summarize().str()
  Summary summarize(const SummaryOptions& = {}) const;

  // Weights and statistics as safetensors, named as PyTorch would. Dropout's counters and carried states belong to a
  // run, not to a model: its checkpoints keep them. A tied weight is stored once, its other names in the metadata.
  void save(const std::string& path, const SaveOptions& = {}) const;
  Loaded load(const std::string& path, const LoadOptions& = {});  // all or nothing
  // The same without a file: what save() would write, and what load() would read. `name`: for messages.
  Safetensors weights(const SaveOptions& = {}) const;
  Loaded set_weights(Safetensors weights, const LoadOptions& = {}, const std::string& name = "weights");

  // The modules inside it that can be had one by one, by name: those of Sequential, Residual, Branches and Graph. A
  // class of one's own that holds its modules as members has none here.
  virtual std::vector<std::pair<std::string, std::shared_ptr<Module>>> children() const { return {}; }
  // What it was built for, or called with first: a sample's type. Empty before.
  std::optional<TensorType> input() const;
  // All inputs and outputs of a sample then. Empty before.
  std::vector<Field> inputs() const;
  std::vector<Field> outputs() const;

  // Sees each call of this module when it returns, whoever calls it; a defined Tensor that it answers takes the
  // result's place. Of several inputs it sees the first, of several outputs one after the other. Returns a number for
  // unhook().
  using Hook = std::function<Tensor(const Module& module, const Tensor& x, const Tensor& y)>;
  std::int64_t hook(Hook hook);
  // Sees the gradient of each call's result, where one is computed, and the path of the module; a defined Tensor that
  // it answers goes on in its place. The number is unhook()'s too.
  using GradientHook = std::function<Tensor(const std::string& path, const Tensor& dy)>;
  std::int64_t hook_gradient(GradientHook hook);
  void unhook(std::int64_t number);

  struct State;
  const std::shared_ptr<State>& state() const { return state_; }

 protected:
  void add(const std::string& name, Module& child);
  void remove(const std::string& name);  // a module or a variable of this one; nothing where there is none
  void learns_size();                    // in a constructor: parameters are made at the first forward pass

  // Which axis is divided where a module is split by columns, or heads, and by rows; -1: it is whole on every rank.
  struct Cut {
    int columns = -1, rows = -1;
    std::int64_t blocks = 1;  // along the columns, each divided by itself
  };
  struct ParameterOptions {
    Fans fans = {};  // of the initialiser; 0: from the shape
    ForeignLayout foreign = {};
    Cut cut = {};
  };
  // Takes place({.split = …}): Error in a kind that cannot be split so. One that can calls set_split().
  virtual void split_over_ranks(Split how);
  void set_split(Split how);
  // The variable of that name, made at the first call. Later calls check the shape: another input size is an Error.
  Variable parameter(const std::string& name, const Shape& shape, const Initializer& initial,
                     const ParameterOptions& options);
  Variable parameter(const std::string& name, const Shape& shape, const Initializer& initial);
  Variable buffer(const std::string& name, const Tensor& initial);   // kept, not learnt
  Variable carried(const std::string& name, const Tensor& initial);  // a buffer that reset_state() zeroes
  void share(const std::string& name, const Variable& variable);     // an existing one under a name of this module
  std::string where() const;                                         // `conv2d "block1.conv2"`, for messages

 private:
  MaskedTensors call(const Tensors& x, Mode mode, const std::vector<Mask>& masks);
  MaskedTensors located_run(const Tensors& x, Mode mode, const std::vector<Mask>& masks);  // errors say where
  MaskedTensors run(const Tensors& x, Mode mode, const std::vector<Mask>& masks);
  Tensors expected(const Tensors& x) const;  // x in the order and under the names of the first call
  Tensor seen(const Tensors& x, const Tensors& y, std::size_t output) const;  // by hooks and the watch
  std::shared_ptr<State> state_;
};

// While one is alive, it sees each module call of this thread when it returns; what it answers takes the result's
// place.
class Watch {
 public:
  struct Call {
    const Module& module;
    std::string path;
    int depth;    // of modules inside modules
    Tensor x, y;  // of several inputs the first, of several outputs one call for each
    Tensors inputs = {}, outputs = {};
    std::size_t output = 0;  // which of them y is
  };
  explicit Watch(std::function<Tensor(const Call&)> see);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  friend class Module;
  std::function<Tensor(const Call&)> see_;
  Watch* outer_;
};

using Layer = std::shared_ptr<Module>;

namespace copies {
using Copier = Layer (*)(const Module&);
Layer remember_copier(Layer layer, Copier copier);  // what deep_copy() makes another one with
void deep_copy(const Module& module, const std::function<void()>& copy);
}  // namespace copies

template <class M>
requires std::is_base_of_v<Module, std::decay_t<M>> Layer layer(M&& module) {
  using Held = std::decay_t<M>;
  Layer made = std::make_shared<Held>(std::forward<M>(module));
  if constexpr (std::is_copy_constructible_v<Held>)
    return copies::remember_copier(std::move(made), [](const Module& from) -> Layer {
      return std::make_shared<Held>(static_cast<const Held&>(from));
    });
  else
    return made;
}
inline Layer layer(Layer made) { return made; }

// A module held by a module that does not know its class. deep_copy() makes another one of it; a Layer is shared.
class HeldLayer {
 public:
  HeldLayer() = default;
  HeldLayer(std::nullptr_t) {}
  HeldLayer(Layer layer) : layer_(std::move(layer)) {}
  HeldLayer(const HeldLayer& other);
  HeldLayer(HeldLayer&&) noexcept = default;
  HeldLayer& operator=(const HeldLayer&) = default;
  HeldLayer& operator=(HeldLayer&&) noexcept = default;
  ~HeldLayer() = default;
  Module& operator*() const { return *layer_; }
  Module* operator->() const { return layer_.get(); }
  Module* get() const { return layer_.get(); }
  explicit operator bool() const { return layer_ != nullptr; }
  operator const Layer&() const { return layer_; }

 private:
  Layer layer_;
};
// What copies of a module share, and deep_copy() makes anew.
template <class T>
class SharedByCopies {
 public:
  SharedByCopies() : value_(std::make_shared<T>()) {}
  SharedByCopies(const SharedByCopies& other)
      : value_(varve::detail::copying ? std::make_shared<T>(*other.value_) : other.value_) {}
  SharedByCopies(SharedByCopies&&) noexcept = default;
  SharedByCopies& operator=(const SharedByCopies&) = default;
  SharedByCopies& operator=(SharedByCopies&&) noexcept = default;
  ~SharedByCopies() = default;
  T& operator*() const { return *value_; }
  T* operator->() const { return value_.get(); }

 private:
  std::shared_ptr<T> value_;
};

// A model with the same values that shares nothing with this one: neither variables nor modules; variables that are
// tied stay tied. Error that names a module which another one holds by a pointer of its own.
template <class M>
requires std::is_base_of_v<Module, M> M deep_copy(const M& module) {
  std::optional<M> made;
  copies::deep_copy(module, [&] { made.emplace(module); });
  return std::move(*made);
}
Layer deep_copy(const Layer& layer);

// While one is alive, the products of layers (dense, convolution, recurrent, attention) are computed in this type from
// float32 master weights, and norms and losses in float32.
class Precision {
 public:
  explicit Precision(DType dtype);
  ~Precision();
  Precision(const Precision&) = delete;
  Precision& operator=(const Precision&) = delete;
  static DType current();  // f32 unless one is alive in this thread

 private:
  DType saved_;
};

// While one is alive, batch norms in training normalise by the statistics of all ranks' samples, not of a rank's own.
class SyncBatchNorm {
 public:
  explicit SyncBatchNorm(Tensor counted = {});  // a scalar: 1, or 0 on a rank whose samples do not count
  ~SyncBatchNorm();
  SyncBatchNorm(const SyncBatchNorm&) = delete;
  SyncBatchNorm& operator=(const SyncBatchNorm&) = delete;
  static const SyncBatchNorm* current();  // of this thread; null: none
  const Tensor& counted() const { return counted_; }

 private:
  Tensor counted_;
  const SyncBatchNorm* outer_;
};
// In a module's forward pass while it is trained: a scalar that is added to the loss, whatever the loss is: a penalty
// on activations, a divergence. Where nobody collects them, it is dropped.
void add_loss(const Tensor& loss);
// While one is alive, it collects what modules add. fit has one around each step; in a loop of one's own:
//   nn::AddedLosses added;
//   loss = cross_entropy(model(x, Mode::train), labels) + added.total();
class AddedLosses {
 public:
  AddedLosses();
  ~AddedLosses();
  AddedLosses(const AddedLosses&) = delete;
  AddedLosses& operator=(const AddedLosses&) = delete;
  bool empty() const { return !total_.defined(); }
  Tensor total() const;  // 0 when none was added

 private:
  friend void add_loss(const Tensor& loss);
  Tensor total_;
  AddedLosses* outer_;
};

// While one is alive, the samples are one of several shards of a batch, each computed apart: random layers draw by its
// number, and what layers remember of a batch is of this shard alone. Whoever adds the shards does the rest.
class Shard {
 public:
  Shard(Tensor number, std::int64_t count);  // number: an i64 scalar, from 0 to count - 1
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  static const Shard* current();  // of this thread; null: none
  const Tensor& number() const { return number_; }
  std::int64_t count() const { return count_; }

 private:
  Tensor number_;
  std::int64_t count_;
  const Shard* outer_;
};
Tensor compute_type(const Tensor& x);  // x in the current precision, when it is floating-point

}  // namespace nn
}  // namespace varve
