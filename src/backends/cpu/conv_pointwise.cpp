// The gradient of a 1×1 convolution's weights is one product with long sums, dyᵀ·x, over all pixels. Our product
// keeps near the peak there, where oneDNN's convolution stays below two thirds of it when channels are few.
#include "backends/cpu/conv_claims.h"
#include "backends/cpu/loops.h"
#include "backends/cpu/plain/gemm.h"
#include "backends/cpu/team.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Port;
using backend::RunArgs;

constexpr std::int64_t kManyPixels = 8192;  // measured: below, the convolution is as fast

std::string refusal_of(const ConvCall& call, DType dtype) {
  const ConvShape& s = call.shape;
  if (dtype != f32) return varve::name(dtype);
  if (call.empty) return "an empty tensor";
  if (s.taps() != 1 || s.groups != 1 || s.stride_height != 1 || s.stride_width != 1) return "not 1×1 with stride 1";
  if (s.pad_top != 0 || s.pad_bottom != 0 || s.pad_left != 0 || s.pad_right != 0) return "padding";
  if (s.batch * s.out_height * s.out_width < kManyPixels) return cat("fewer than ", kManyPixels, " pixels");
  return "";
}

// x [pixels,I]  dy [pixels,O]  dw [O,I]
Product product_of(const ConvShape& s) {
  return {.m = s.out_channels,
          .n = s.in_channels,
          .k = s.batch * s.out_height * s.out_width,
          .a = {.row = 1, .col = s.out_channels},
          .b = {.row = s.in_channels, .col = 1},
          .c = {.row = s.in_channels, .col = 1}};
}

}  // namespace

void claim_pointwise(const backend::Site& site, std::vector<Claim>& claims) {
  const ConvCall call = conv_call(site.node());
  const char* const kernel = "cpu matmul of pixels";
  if (const std::string refusal = refusal_of(call, site.node().types[0].dtype); !refusal.empty())
    return claims.push_back(Claim::no(kernel, refusal));
  claims.push_back(Claim::of(
      kernel, site.root(), [call, setting = Setting::now()](const std::vector<Port>&, const std::vector<Port>&) {
        const plain::Gemm gemm(product_of(call.shape), {.lanes = setting.threads});
        return backend::prepared(
            [gemm](const RunArgs& args) { gemm.run(args.in[1], args.in[0], args.out[0], args.scratch); },
            gemm.scratch_bytes());
      }));
}

}  // namespace varve::cpu
