// cuDNN's graphs of operations, through its C interface: owned descriptors, every status checked, and plans to run.
#pragma once

#include <cudnn_backend.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "varve/dtype.h"

namespace varve::cuda::dnn {

// Throws Error: "cudnnBackendFinalize of a tensor failed: … (CUDNN_STATUS_BAD_PARAM)."
void check(cudnnStatus_t status, const std::string& call);

// What cuDNN calls the type of an attribute, by the type of its values.
constexpr cudnnBackendAttributeType_t type_of(const std::int64_t*) { return CUDNN_TYPE_INT64; }
constexpr cudnnBackendAttributeType_t type_of(const float*) { return CUDNN_TYPE_FLOAT; }
constexpr cudnnBackendAttributeType_t type_of(const bool*) { return CUDNN_TYPE_BOOLEAN; }
constexpr cudnnBackendAttributeType_t type_of(const char*) { return CUDNN_TYPE_CHAR; }
constexpr cudnnBackendAttributeType_t type_of(void* const*) { return CUDNN_TYPE_VOID_PTR; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnHandle_t*) { return CUDNN_TYPE_HANDLE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnDataType_t*) { return CUDNN_TYPE_DATA_TYPE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnConvolutionMode_t*) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnPointwiseMode_t*) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnBackendHeurMode_t*) { return CUDNN_TYPE_HEUR_MODE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnBackendKnobType_t*) { return CUDNN_TYPE_KNOB_TYPE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnBackendNumericalNote_t*) { return CUDNN_TYPE_NUMERICAL_NOTE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnBackendBehaviorNote_t*) { return CUDNN_TYPE_BEHAVIOR_NOTE; }

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& from) noexcept {
    std::swap(handle_, from.handle_);
    return *this;
  }
  ~Descriptor() {
    if (handle_) cudnnBackendDestroyDescriptor(handle_);
  }
  cudnnBackendDescriptor_t get() const { return handle_; }

  // One value; several; another descriptor, which must outlive this one; several of them.
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set_raw(name, type_of(&value), 1, &value);
  }
  template <class T, std::size_t N>
  Descriptor& set(cudnnBackendAttributeName_t name, const std::array<T, N>& values) {
    return set_raw(name, type_of(values.data()), N, values.data());
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return set_raw(name, type_of(values.data()), values.size(), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle_);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<cudnnBackendDescriptor_t>& others) {
    return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, others.size(), others.data());
  }
  Descriptor& set_addresses(cudnnBackendAttributeName_t name, const std::vector<void*>& addresses) {
    return set_raw(name, CUDNN_TYPE_VOID_PTR, addresses.size(), addresses.data());
  }
  void finish();  // no attribute can be set after that

  // Up to `most` values.
  template <class T>
  std::vector<T> get(cudnnBackendAttributeName_t name, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    values.resize(get_raw(name, type_of(values.data()), most, values.data()));
    return values;
  }
  // Copies of the descriptors that an attribute lists.
  std::vector<Descriptor> get(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                              std::int64_t most) const;
  std::int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;

 private:
  Descriptor& set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
                      const void* values);
  std::size_t get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                      void* values) const;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

// Why this process cannot use cuDNN; empty: it can.
const std::string& refusal();

// A tensor [N, C, H, W], in memory with its channels last. Values inside a graph are never written to memory.
struct Image {
  std::array<std::int64_t, 4> size;
  DType dtype;
  bool inside = false;
};

struct Taps {
  std::array<std::int64_t, 2> stride, dilation, pad_before, pad_after;
};

// What engines may do with the numbers. All are to give the same bits at every run.
struct Accept {
  bool tensor_cores = false;  // for f32 that means rounding to tf32
  bool any_order = false;     // of sums: other bits at every run
  std::size_t workspace = std::size_t{256} << 20;
};

struct Operand {
  std::int64_t id;
  const void* address;
};

// Ready to run, for the life of the process. Runs on the context's stream; may be captured.
class Plan {
 public:
  Plan(std::shared_ptr<const std::vector<Descriptor>> graph, Descriptor config, Descriptor plan);
  std::size_t workspace_bytes() const { return workspace_; }
  void run(const std::vector<Operand>& operands, void* workspace) const;

 private:
  std::shared_ptr<const std::vector<Descriptor>> graph_;  // what the plan refers to
  Descriptor config_, plan_;
  std::size_t workspace_ = 0;
};

// One algorithm for a graph, not yet tried.
struct Candidate {
  std::string tag;      // engine and knobs: "eng62 k2=4 k13=0", the same in every process
  std::int64_t engine;  // several candidates may be one engine with other knobs
  Descriptor config;
};

// Operations on images. Images are known by the number they were added as.
class Graph {
 public:
  // `gpu`: the properties of a GPU that is not there, for tests; null: the one of this process.
  explicit Graph(std::shared_ptr<const Descriptor> gpu = nullptr) : gpu_(std::move(gpu)) {}
  std::int64_t image(const Image& image);
  void convolution(cudnnBackendDescriptorType_t pass, std::int64_t x, std::int64_t w, std::int64_t y, const Taps& taps);
  void add(std::int64_t a, std::int64_t b, std::int64_t to);
  void relu(std::int64_t from, std::int64_t to);

  // After the last operation: what cuDNN offers, the most promising first. Empty when it knows none.
  std::vector<Candidate> candidates(const Accept& accept);
  // Nothing when the engine turns out not to support it, or wants more memory.
  std::optional<Plan> plan(Candidate candidate, const Accept& accept) const;

 private:
  const Descriptor& finish();
  void pointwise(cudnnPointwiseMode_t mode, std::int64_t x, std::optional<std::int64_t> b, std::int64_t y);
  const Descriptor& of(std::int64_t id) const { return (*parts_)[places_[static_cast<std::size_t>(id)]]; }
  std::size_t keep(Descriptor descriptor);

  std::shared_ptr<const Descriptor> gpu_;
  std::shared_ptr<std::vector<Descriptor>> parts_ = std::make_shared<std::vector<Descriptor>>();
  std::vector<std::size_t> places_;      // of images among the parts
  std::vector<std::size_t> operations_;  // likewise
  std::optional<std::size_t> graph_;
};

}  // namespace varve::cuda::dnn
