// The gradient of a 1×1 convolution's weights is one product with long sums, dyᵀ·x, over all pixels. dnnl_sgemm keeps
// near the processor's peak there, where oneDNN's convolution stays below two thirds of it when channels are few (and
// so does the plain product, which has no split-K).
#ifdef VARVE_HAS_ONEDNN

#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/team.h"
#include "backends/cpu/conv/conv_claims.h"
#include "backends/cpu/onednn/onednn.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Port;
using backend::RunArgs;

constexpr std::int64_t kManyPixels = 8192;  // measured: below, the convolution is as fast

std::string pointwise_refusal(const ConvCall& call, DType dtype) {
  const ConvShape& s = call.shape;
  if (dtype != f32) return varve::name(dtype);
  if (call.empty) return "an empty tensor";
  if (s.taps() != 1 || s.groups != 1 || s.stride_height != 1 || s.stride_width != 1) return "not 1×1 with stride 1";
  if (s.pad_top != 0 || s.pad_bottom != 0 || s.pad_left != 0 || s.pad_right != 0) return "padding";
  if (s.batch * s.out_height * s.out_width < kManyPixels) return cat("fewer than ", kManyPixels, " pixels");
  return Setting::now().deterministic ? "sums that are split among threads" : "";
}

}  // namespace

// x [pixels,I]  dy [pixels,O]  dw [O,I]
void claim_pointwise(const backend::Site& site, std::vector<Claim>& claims) {
  const ConvCall call = conv_call(site.node());
  const char* const kernel = "onednn matmul of pixels";
  if (const std::string refusal = pointwise_refusal(call, site.node().types[0].dtype); !refusal.empty())
    return claims.push_back(Claim::no(kernel, refusal));
  claims.push_back(
      Claim::of(kernel, site.root(),
                [s = call.shape, threads = Setting::now().threads](const std::vector<Port>&, const std::vector<Port>&) {
                  return backend::prepared([s, threads](const RunArgs& args) {
                    const Team team(threads);
                    dnn::transposed_product({.m = s.out_channels,
                                             .n = s.in_channels,
                                             .k = s.batch * s.out_height * s.out_width,
                                             .a = static_cast<const float*>(args.in[1]),
                                             .b = static_cast<const float*>(args.in[0]),
                                             .c = static_cast<float*>(args.out[0])});
                  });
                }));
}

}  // namespace varve::cpu

#endif  // VARVE_HAS_ONEDNN
