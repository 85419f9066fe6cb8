// Products with weights that lie in the layout oneDNN asks for. Worth it in bf16, where a program only reads them:
// there the library's packing at every call costs a quarter of the time.
#ifdef VARVE_HAS_ONEDNN

#include "backends/cpu/matmul/matmul_claims.h"
#include "backends/cpu/matmul/matmul_onednn.h"
#include "base/convert.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;

class DnnPacked final : public ir::PackedLayout {
 public:
  DnnPacked(dnn::PackedLayout layout, std::int64_t count) : layout_(std::move(layout)), count_(count) {}

  std::string key() const override { return "onednn " + layout_.description(); }
  std::size_t bytes() const override { return layout_.bytes(); }
  void pack(const void* row_major, void* packed) const override {
    std::vector<float> wide(static_cast<std::size_t>(count_));
    convert(row_major, bf16, wide.data(), f32, count_);
    layout_.pack(wide.data(), packed);
  }
  void unpack(const void* packed, void* row_major) const override {
    std::vector<float> wide(static_cast<std::size_t>(count_));
    layout_.unpack(packed, wide.data());
    convert(wide.data(), f32, row_major, bf16, count_);
  }

 private:
  dnn::PackedLayout layout_;
  std::int64_t count_;
};

// y = x·w      x: [M,K]  w: [K,N]
dnn::MatmulSpec packed_spec(const Shape& x, const Shape& y) {
  const std::int64_t m = y[0], n = y[1], k = x[1];
  return {.m = m,
          .n = n,
          .k = k,
          .a = {.row = k},
          .c = {.row = n},
          .input = dnn::Type::bf16,
          .output = dnn::Type::bf16,
          .packed_b = true};
}

Prepared prepare_packed(const dnn::MatmulSpec& spec, const Setting& setting) {
  const Team team(setting.threads);
  auto offered = dnn::Matmul::prepare(spec);  // accepted once already, when the layout was asked for
  const std::size_t scratch = offered->scratch_bytes();
  return backend::prepared(
      [matmul = std::move(*offered), threads = setting.threads](const RunArgs& args) {
        const Team running(threads);
        matmul.run({.a = args.in[0], .b = args.in[1], .c = args.out[0], .scratch = args.scratch});
      },
      scratch);
}

std::string refusal(const backend::Site& site, const Setting& setting) {
  const ir::Node& node = site.node();
  if (node.types[0].dtype != bf16) return "only bf16 gains from it";
  if (!dnn::has_bf16()) return "bf16, which this CPU does not multiply";
  if (setting.deterministic) return "deterministic products are cut in blocks";
  if (node.types[0].shape.rank() != 2 || node.inputs[1].type().shape.rank() != 2) return "a batch";
  if (transposes_of(node).a || transposes_of(node).b) return "transposed";
  if (node.inputs[1].node->op != &ir::input_op()) return "the weights are computed";
  if (node.types[0].shape.numel() == 0 || node.inputs[0].type().shape[1] == 0) return "empty";
  return "";
}

}  // namespace

void claim_dnn_packed(const backend::Site& site, std::vector<Claim>& claims) {
  const Setting setting = Setting::now();
  const char* const kernel = "onednn bf16 matmul";
  if (const std::string reason = refusal(site, setting); !reason.empty()) {
    claims.push_back(Claim::no(kernel, reason));
    return;
  }
  const dnn::MatmulSpec spec = packed_spec(site.node().inputs[0].type().shape, site.node().types[0].shape);
  const auto offered = dnn::Matmul::prepare(spec);
  if (!offered) {
    claims.push_back(Claim::no(kernel, offered.reason()));
    return;
  }
  const backend::Prepare plain = dense_prepare(site.node());
  Claim claim =
      Claim::of(kernel, site.root(), [spec, setting, plain](const std::vector<Port>& in, const std::vector<Port>& out) {
        return in[1].packed ? prepare_packed(spec, setting)
                            : plain(in, out);  // others may read the weights as they lie
      });
  if (has_tiles()) claim.cost = tile_seconds(product_size(site.node()), true);
  claim.wants = {nullptr, std::make_shared<DnnPacked>(offered->b_layout(), site.node().inputs[1].type().shape.numel())};
  claims.push_back(std::move(claim));
}

}  // namespace varve::cpu

#endif  // VARVE_HAS_ONEDNN
