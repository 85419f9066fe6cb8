// Convolutions over few input channels by our own direct kernels.
#include "backends/cpu/conv_own.h"
#include "backends/cpu/loops.h"
#include "backends/cpu/plain/thin.h"
#include "backends/cpu/team.h"
#include "backends/cpu/workspace.h"

namespace varve::cpu {

void claim_thin(const backend::Site& site, std::vector<backend::Claim>& claims) {
  const ConvCall call = conv_call(site.node());
  std::string refusal =
      call.empty ? "an empty tensor" : plain::thin_refusal(call.pass, call.shape, site.node().types[0].dtype);
  const auto make = [call, lanes = Setting::now().threads](bool relu) {
    return plain::thin_convolution(call.pass, call.shape, relu, lanes);
  };
  if (refusal.empty() && make(false)->scratch_bytes() > workspace_limit()) refusal = "needs more workspace";
  if (!refusal.empty())
    claims.push_back(backend::Claim::no(cat("thin ", name(call.pass)), refusal));
  else
    offer_own_conv(site, call, {"thin", make}, claims);
}

}  // namespace varve::cpu
