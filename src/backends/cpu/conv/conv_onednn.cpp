#ifdef VARVE_HAS_ONEDNN

#include "backends/cpu/conv/conv_onednn.h"

#include <algorithm>

#include "backends/cpu/conv/direct/convolution.h"

namespace varve::cpu {
namespace {

using dnn::Conv2d;
using dnn::Conv2dPass;
using dnn::Conv2dSpec;

Conv2dPass library_pass(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return Conv2dPass::forward;
    case ConvPass::input_grad:
      return Conv2dPass::backward_data;
    case ConvPass::weight_grad:
      break;
  }
  return Conv2dPass::backward_weights;
}

Conv2dSpec library_spec(const ConvShape& s, const DnnConvSpec& spec, std::int64_t images, bool single_thread) {
  const dnn::Type type = spec.dtype == bf16 ? dnn::Type::bf16 : dnn::Type::f32;
  return {.batch = images,
          .in_height = s.in_height,
          .in_width = s.in_width,
          .in_channels = s.in_channels,
          .out_channels = s.out_channels,
          .kernel_height = s.kernel_height,
          .kernel_width = s.kernel_width,
          .stride_height = s.stride_height,
          .stride_width = s.stride_width,
          .dilation_height = s.dilation_height,
          .dilation_width = s.dilation_width,
          .pad_top = s.pad_top,
          .pad_bottom = s.pad_bottom,
          .pad_left = s.pad_left,
          .pad_right = s.pad_right,
          .groups = s.groups,
          .input = type,
          .output = type,
          .bias = spec.bias,
          .activation = spec.activation,
          .single_thread = single_thread};
}

}  // namespace

DnnConv::DnnConv(ConvPass pass, const ConvShape& shape, const DnnConvSpec& spec, const Setting& setting)
    : pass_(pass), shape_(shape), threads_(setting.threads), element_bytes_(element_bytes(spec.dtype)) {
  // The library gives weight gradients in f32.
  if (pass == ConvPass::weight_grad && (setting.deterministic || spec.dtype != f32))
    sums_.emplace(shape.weights(), setting.deterministic ? plain::image_blocks(shape) : 1, spec.dtype);
  cut(setting);
}

// Blocks by sizes alone when the bits must not depend on the threads.
void DnnConv::cut(const Setting& setting) {
  constexpr std::int64_t kBlocks = 16;  // fixed, for the same bits with any number of threads
  const std::int64_t blocks = !setting.deterministic ? 1 : sums_ ? sums_->blocks() : std::min(kBlocks, shape_.batch);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = block * shape_.batch / blocks, count = (block + 1) * shape_.batch / blocks - begin;
    const auto known = std::find(images_.begin(), images_.end(), count);
    jobs_.push_back({begin, static_cast<std::size_t>(known - images_.begin())});
    if (known == images_.end()) images_.push_back(count);
  }
}

std::string DnnConv::prepare_workers(const DnnConvSpec& spec, const Setting& setting) {
  const std::size_t workers =
      setting.deterministic ? std::min(static_cast<std::size_t>(setting.threads), jobs_.size()) : 1;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    std::vector<Conv2d>& shapes = workers_.emplace_back();
    for (const std::int64_t images : images_) {
      auto offered = Conv2d::prepare(library_pass(pass_), library_spec(shape_, spec, images, setting.deterministic));
      if (!offered) return offered.reason();
      worker_bytes_ = std::max(worker_bytes_, cache_aligned(offered->scratch_bytes()));
      shapes.push_back(std::move(*offered));
    }
  }
  return "";
}

dnn::Offer<DnnConv> DnnConv::prepare(ConvPass pass, const ConvShape& shape, const DnnConvSpec& spec,
                                     const Setting& setting) {
  const Team team(setting.threads);
  DnnConv result(pass, shape, spec, setting);
  if (const std::string refusal = result.prepare_workers(spec, setting); !refusal.empty()) return dnn::Refused{refusal};
  return result;
}

dnn::Conv2dArgs DnnConv::job_args(std::size_t job, const DnnConvArgs& args, void* scratch) const {
  // The library's interface knows no const; what it reads it does not write.
  const auto image = [&](const void* images, std::int64_t elements) -> void* {
    return at(const_cast<void*>(images), jobs_[job].first_image * elements * element_bytes_);
  };
  dnn::Conv2dArgs bound{.bias = const_cast<float*>(args.bias), .scratch = scratch};
  const void* x = pass_ == ConvPass::input_grad ? args.out : args.first;
  const void* y = pass_ == ConvPass::forward ? args.out : pass_ == ConvPass::input_grad ? args.first : args.second;
  bound.x = image(x, shape_.in_image());
  bound.y = image(y, shape_.out_image());
  if (pass_ != ConvPass::weight_grad)
    bound.weights = const_cast<void*>(args.second);
  else
    bound.weights =
        sums_ ? sums_->place(static_cast<std::byte*>(args.scratch), static_cast<std::int64_t>(job)) : args.out;
  return bound;
}

void DnnConv::run(const DnnConvArgs& args) const {
  const Team team(threads_);
  const auto workers = static_cast<std::int64_t>(workers_.size());
  parallel_for(workers, 1, [&](std::int64_t worker, std::int64_t) {
    const std::size_t from = sums_bytes() + static_cast<std::size_t>(worker) * worker_bytes_;
    for (auto j = static_cast<std::size_t>(worker); j < jobs_.size(); j += static_cast<std::size_t>(workers))
      workers_[static_cast<std::size_t>(worker)][jobs_[j].shape].run(
          job_args(j, args, at(args.scratch, static_cast<std::int64_t>(from))));
  });
  if (sums_) sums_->add(static_cast<const std::byte*>(args.scratch), args.out);
}

}  // namespace varve::cpu

#endif  // VARVE_HAS_ONEDNN
