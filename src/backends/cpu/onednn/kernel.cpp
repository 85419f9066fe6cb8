#include "backends/cpu/onednn/kernel.h"

#include <omp.h>
#include <varve/error.h>

#include <cassert>

#include "base/threads.h"

namespace varve::cpu::dnn {

const dnnl::engine& engine() {
  static const dnnl::engine cpu = [] {
    limit_isa();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return cpu;
}

void check(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  throw Error(std::string(call) + " failed with oneDNN status " + std::to_string(static_cast<int>(status)));
}

dnnl::memory::data_type data_type(Type type) {
  return type == Type::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

#if DNNL_VERSION_MAJOR >= 3

dnnl::memory::data_type type_of(const Desc& desc) { return desc.get_data_type(); }

Dims dims_of(const Desc& desc) { return desc.get_dims(); }

Dims strides_of(const Desc& desc) { return desc.get_strides(); }

std::vector<std::pair<std::int64_t, int>> inner_blocks(const Desc& desc) {
  const Dims sizes = desc.get_inner_blks();
  const Dims axes = desc.get_inner_idxs();
  std::vector<std::pair<std::int64_t, int>> blocks;
  for (std::size_t i = 0; i < sizes.size(); ++i) blocks.emplace_back(sizes[i], static_cast<int>(axes[i]));
  return blocks;
}

static void append_eltwise(dnnl::post_ops& ops, dnnl::algorithm algorithm, float alpha) {
  ops.append_eltwise(algorithm, alpha, 0.f);
}

#else

dnnl::memory::data_type type_of(const Desc& desc) { return desc.data_type(); }

Dims dims_of(const Desc& desc) { return desc.dims(); }

Dims strides_of(const Desc& desc) {
  const auto& strides = desc.data.format_desc.blocking.strides;
  return Dims(strides, strides + desc.data.ndims);
}

std::vector<std::pair<std::int64_t, int>> inner_blocks(const Desc& desc) {
  const auto& blocking = desc.data.format_desc.blocking;
  std::vector<std::pair<std::int64_t, int>> blocks;
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    blocks.emplace_back(blocking.inner_blks[i], static_cast<int>(blocking.inner_idxs[i]));
  }
  return blocks;
}

static void append_eltwise(dnnl::post_ops& ops, dnnl::algorithm algorithm, float alpha) {
  ops.append_eltwise(1.f, algorithm, alpha, 0.f);
}

#endif

void append_activation(dnnl::post_ops& ops, Activation activation) {
  using dnnl::algorithm;
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      // oneDNN's relu makes 0 of NaN and would hide it from everybody after; its elu keeps NaN, and with alpha 0
      // is relu but for the sign of zeros, which the absolute value mends.
      append_eltwise(ops, algorithm::eltwise_elu, 0.f);
      return append_eltwise(ops, algorithm::eltwise_abs, 0.f);
    case Activation::tanh:
      return append_eltwise(ops, algorithm::eltwise_tanh, 0.f);
    case Activation::sigmoid:
      return append_eltwise(ops, algorithm::eltwise_logistic, 0.f);
    case Activation::gelu_erf:
      return append_eltwise(ops, algorithm::eltwise_gelu_erf, 0.f);
    case Activation::gelu_tanh:
      return append_eltwise(ops, algorithm::eltwise_gelu_tanh, 0.f);
    case Activation::silu:
      return append_eltwise(ops, algorithm::eltwise_swish, 1.f);
  }
}

dnnl::primitive_attr user_scratch_attr() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

OneThread::OneThread(bool active) {
  if (!active) return;
  previous_ = omp_get_max_threads();
  omp_set_num_threads(1);
}

OneThread::~OneThread() {
  if (previous_ > 0) omp_set_num_threads(previous_);
}

Kernel::Kernel(dnnl::primitive primitive, const Desc& scratch, std::string implementation,
               std::initializer_list<Argument> arguments, bool single_thread)
    : primitive_(std::move(primitive)),
      stream_(engine()),
      implementation_(std::move(implementation)),
      scratch_bytes_(scratch.get_size()),
      single_thread_(single_thread) {
  for (const Argument& argument : arguments) add(argument);
  if (scratch_bytes_ > 0) add({DNNL_ARG_SCRATCHPAD, scratch});
}

void Kernel::add(const Argument& argument) {
  assert(slots_ < kMaxArguments);
  const std::size_t slot = slots_++;
  if (argument.desc.get_size() == 0) return;
  memories_[slot] = dnnl::memory(argument.desc, engine(), DNNL_MEMORY_NONE);
  arguments_[count_++] = {argument.number, memories_[slot].get()};
}

// Version 2 rewrites the zero padding of a blocked layout whenever a pointer is set, so a pointer is set only when it
// changed.
void Kernel::bind(std::size_t slot, const void* pointer) const {
  if (bound_[slot] == pointer || !memories_[slot].get(true)) return;
  // oneDNN's C interface knows no const; the arguments that we read are not written.
  check(dnnl_memory_set_data_handle(memories_[slot].get(), const_cast<void*>(pointer)), "dnnl_memory_set_data_handle");
  bound_[slot] = pointer;
}

void Kernel::run(std::initializer_list<const void*> pointers, void* scratch) const {
  std::size_t slot = 0;
  for (const void* pointer : pointers) bind(slot++, pointer);
  if (scratch_bytes_ > 0) bind(slot++, scratch);
  assert(slot == slots_);
  const OneThread guard(single_thread_);
  FlushDenormals::include_team(omp_get_max_threads());
  check(dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(count_), arguments_.data()),
        "dnnl_primitive_execute");
}

Kernel make_reorder(const Desc& from, const Desc& to, bool single_thread) {
  const OneThread guard(single_thread);
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to);
  return Kernel::make<dnnl::reorder>(desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, single_thread);
}

}  // namespace varve::cpu::dnn
