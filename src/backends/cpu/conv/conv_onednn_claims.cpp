// Convolutions by oneDNN, with what follows them: bias and activation.
#ifdef VARVE_HAS_ONEDNN

#include "backends/cpu/common/epilogue.h"
#include "backends/cpu/common/loops.h"
#include "backends/cpu/conv/conv_claims.h"
#include "backends/cpu/conv/conv_onednn.h"
#include "backends/cpu/conv/direct/convolution.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Followers;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// Why oneDNN will not do it; empty: it may.
std::string refusal_of(const ConvCall& call, DType dtype) {
  constexpr std::int64_t kMost = 1 << 16;  // the library keeps such numbers in 32 bits, and their products too
  const ConvShape& s = call.shape;
  if (dtype == bf16 && !dnn::has_bf16()) return "bf16, which this CPU does not multiply";
  if (dtype != f32 && dtype != bf16) return varve::name(dtype);
  if (call.empty) return "an empty tensor";
  for (const std::int64_t number : {s.kernel_height, s.kernel_width, s.stride_height, s.stride_width, s.dilation_height,
                                    s.dilation_width, s.in_height, s.in_width})
    if (number > kMost) return "a size above 65536";
  if (std::max(s.pad_top, s.pad_bottom) > (s.kernel_height - 1) * s.dilation_height ||
      std::max(s.pad_left, s.pad_right) > (s.kernel_width - 1) * s.dilation_width)
    return "padding as wide as the kernel";
  return "";
}

struct Conv {
  ConvCall call;
  DType dtype;
  Epilogue epilogue;
  Setting setting = Setting::now();
};

// The plain convolution, then what follows as a pass over the result.
Prepared prepare_without_library(const Conv& c) {
  if (c.epilogue.empty()) return prepare_plain_conv(c.call, c.dtype, c.setting.threads);
  const ConvShape& s = c.call.shape;
  std::unique_ptr<plain::Convolution> conv = plain::convolution(c.call.pass, s, c.dtype, c.setting.threads);
  const std::size_t scratch = conv->scratch_bytes();
  return backend::prepared(
      [conv = std::move(conv), rest = c.epilogue.alone(s.batch * s.out_height * s.out_width, s.out_channels),
       bias = c.epilogue.biased](const RunArgs& args) {
        conv->run(args.in[0], args.in[1], args.out[0], args.scratch);
        rest.run({.bias = bias ? static_cast<const float*>(args.in[2]) : nullptr, .c = args.out[0]});
      },
      scratch);
}

Prepared prepare_conv(const Conv& c) {
  const bool bias = c.epilogue.biased;
  auto offered = DnnConv::prepare(c.call.pass, c.call.shape,
                                  {.dtype = c.dtype, .bias = bias, .activation = c.epilogue.activation}, c.setting);
  if (!offered) return prepare_without_library(c);
  const std::size_t scratch = offered->scratch_bytes();
  return backend::prepared(
      [conv = std::move(*offered), bias](const RunArgs& args) {
        conv.run({args.in[0], args.in[1], bias ? static_cast<const float*>(args.in[2]) : nullptr, args.out[0],
                  args.scratch});
      },
      scratch);
}

Claim conv_claim(const Site& site, const ConvCall& call, const Followers& with) {
  const Conv conv{call, site.node().types[0].dtype, Epilogue(with)};
  Claim claim = Claim::of(cat("onednn ", name(call.pass), with.text()), site.root(),
                          [conv](const std::vector<Port>&, const std::vector<Port>&) { return prepare_conv(conv); });
  with.cover(claim);
  return claim;
}

}  // namespace

void claim_dnn_conv(const Site& site, std::vector<Claim>& claims) {
  const ConvCall call = conv_call(site.node());
  const DType dtype = site.node().types[0].dtype;
  if (const std::string refusal = refusal_of(call, dtype); !refusal.empty()) {
    claims.push_back(Claim::no(cat("onednn ", name(call.pass)), refusal));
    return;
  }
  const std::int64_t terms = call.shape.taps() * call.shape.in_group();
  if (call.pass == ConvPass::forward && dtype == f32)
    for (const Followers& with : followers_of(site, terms)) claims.push_back(conv_claim(site, call, with));
  claims.push_back(conv_claim(site, call, {}));
}

}  // namespace varve::cpu

#endif  // VARVE_HAS_ONEDNN
