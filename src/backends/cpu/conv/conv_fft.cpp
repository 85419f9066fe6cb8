// Convolutions as products of spectra, with bias and ReLU, where they cost less than the other plain algorithms.
#include <algorithm>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/team.h"
#include "backends/cpu/common/workspace.h"
#include "backends/cpu/conv/conv_biased.h"
#include "backends/cpu/conv/conv_claims.h"
#include "backends/cpu/conv/conv_costs.h"
#include "backends/cpu/conv/fft/fft_convolution.h"
#include "backends/cpu/conv/winograd/winograd.h"
#include "base/levers.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Site;

// The least of what direct convolution and Winograd's tiles cost.
double cost_of_others(ConvPass pass, const ConvShape& shape, DType dtype) {
  double least = direct_cost(shape, dtype);
  if (!lever("winograd")) return least;
  for (const plain::WinogradSize size : plain::kWinogradSizes)
    if (size.kernel() == shape.kernel_height && plain::winograd_refusal(shape, size, dtype).empty())
      least = std::min(least, winograd_cost(pass, shape, size));
  return least;
}

std::string refusal_of(const ConvCall& call, DType dtype, const plain::FftOptions& options) {
  if (!lever("fft")) return kLeftOut;
  if (call.empty) return "an empty tensor";
  std::string refusal = plain::fft_refusal(call.shape, dtype);
  if (!refusal.empty()) return refusal;
  const double share = fft_cost(call.shape) / cost_of_others(call.pass, call.shape, dtype);
  if (share >= 1) return cat("costs ", static_cast<std::int64_t>(share * 100), "% of the best candidate");
  const std::size_t bytes = plain::fft_convolution(call.pass, call.shape, options)->scratch_bytes();
  return bytes > workspace_limit() ? cat("needs ", bytes >> 20, " MB of workspace") : "";
}

}  // namespace

void claim_fft(const Site& site, std::vector<Claim>& claims) {
  const ConvCall call = conv_call(site.node());
  const plain::FftOptions options{.workers = Setting::now().threads};
  const std::string refusal = refusal_of(call, site.node().types[0].dtype, options);
  if (!refusal.empty()) {
    claims.push_back(Claim::no(cat("fft ", name(call.pass)), refusal));
    return;
  }
  const auto make = [call, options](bool relu) {
    plain::FftOptions finished = options;
    finished.relu = relu;
    return plain::fft_convolution(call.pass, call.shape, finished);
  };
  offer_biased_conv(site, call, {"fft", make}, claims);
}

}  // namespace varve::cpu
