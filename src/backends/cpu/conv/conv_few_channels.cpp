// Convolutions over few input channels by plain direct kernels.
#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/team.h"
#include "backends/cpu/common/workspace.h"
#include "backends/cpu/conv/conv_biased.h"
#include "backends/cpu/conv/direct/few_channels.h"

namespace varve::cpu {

void claim_few_channels(const backend::Site& site, std::vector<backend::Claim>& claims) {
  const ConvCall call = conv_call(site.node());
  std::string refusal =
      call.empty ? "an empty tensor" : plain::few_channels_refusal(call.pass, call.shape, site.node().types[0].dtype);
  const auto make = [call, workers = Setting::now().threads](bool relu) {
    return plain::few_channels_convolution(call.pass, call.shape, relu, workers);
  };
  if (refusal.empty() && make(false)->scratch_bytes() > workspace_limit()) refusal = "needs more workspace";
  if (!refusal.empty())
    claims.push_back(backend::Claim::no(cat("few-channels ", name(call.pass)), refusal));
  else
    offer_biased_conv(site, call, {"few-channels", make}, claims);
}

}  // namespace varve::cpu
