#include "backends/cpu/conv/conv_biased.h"

#include "backend/followers.h"
#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/scratch.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Followers;
using backend::Port;
using backend::RunArgs;
using backend::Site;

// The bias as f32, then the convolution.
class Kernel {
 public:
  Kernel(std::unique_ptr<plain::BiasedConvolution> conv, DType dtype, std::int64_t bias)
      : conv_(std::move(conv)), dtype_(dtype), channels_(bias) {}

  std::size_t scratch_bytes() const { return bias_bytes() + conv_->scratch_bytes(); }

  void operator()(const RunArgs& args) const {
    auto* bias = channels_ > 0 ? static_cast<float*>(args.scratch) : nullptr;
    if (bias) convert(args.in[2], dtype_, bias, f32, channels_);
    conv_->run({args.in[0], args.in[1], bias, args.out[0], at(args.scratch, static_cast<std::int64_t>(bias_bytes()))});
  }

 private:
  std::size_t bias_bytes() const { return float_bytes(channels_); }

  std::unique_ptr<plain::BiasedConvolution> conv_;
  DType dtype_;
  std::int64_t channels_;  // of the bias; 0: none
};

Claim biased_claim(const Site& site, const ConvCall& call, const BiasedConv& conv, const Followers& with) {
  const bool relu = with.activation == "relu";
  const std::int64_t bias = with.biased() ? call.shape.out_channels : 0;
  Claim claim = Claim::of(cat(conv.kernel, " ", name(call.pass), with.text()), site.root(),
                          [make = conv.make, relu, bias, dtype = site.node().types[0].dtype](const std::vector<Port>&,
                                                                                             const std::vector<Port>&) {
                            Kernel kernel(make(relu), dtype, bias);
                            const std::size_t scratch = kernel.scratch_bytes();
                            return backend::prepared(std::move(kernel), scratch);
                          });
  with.cover(claim);
  return claim;
}

}  // namespace

void offer_biased_conv(const Site& site, const ConvCall& call, const BiasedConv& conv, std::vector<Claim>& claims) {
  if (call.pass == ConvPass::forward) {
    // A ReLU costs these kernels next to nothing, however short the sums.
    for (const Followers& with : backend::followers_of(site, [](const ir::Node& next) { return next.is("relu"); }))
      claims.push_back(biased_claim(site, call, conv, with));
  }
  claims.push_back(biased_claim(site, call, conv, {}));
}

}  // namespace varve::cpu
