// Where the last layer of a classifier, its loss and all their gradients can be one kernel.
#include "backend/match.h"
#include "backends/cpu/common/workspace.h"
#include "backends/cpu/loss/class_loss.h"
#include "backends/cpu/matmul/matmul_claims.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cpu {
namespace {

using backend::bias_after;
using backend::BiasAdd;
using backend::Claim;
using backend::depends_on;
using backend::is_rows_of;
using backend::Port;
using backend::Reader;
using backend::readers_of;
using backend::Site;

struct Found {
  std::optional<BiasAdd> bias;
  ir::NodePtr loss, gradient, dx, dweights, dbias;  // the last three may not be wanted
  std::string refusal;
};

class Pattern {
 public:
  explicit Pattern(const Site& site)
      : site_(site),
        x_(site.node().inputs[0]),
        weights_(site.node().inputs[1]),
        transposed_(transposes_of(site.node()).b),
        rows_(site.node().types[0].shape[0]),
        classes_(site.node().types[0].shape[1]) {}

  Found find() {
    const ir::Value product{site_.root(), 0};
    found_.bias = bias_after(site_, product);
    read_logits(found_.bias ? ir::Value{found_.bias->node, 0} : product);
    if (found_.refusal.empty()) read_gradient({found_.gradient, 0});
    if (found_.refusal.empty()) check_order();
    return found_;
  }

 private:
  void refuse(const char* why) { found_.refusal = why; }

  void read_logits(const ir::Value& logits) {
    const auto readers = readers_of(site_, logits);
    if (!readers) return refuse("somebody reads the logits");
    for (const Reader& reader : *readers) {
      const bool loss = reader.node->is("softmax_cross_entropy");
      ir::NodePtr& slot = loss ? found_.loss : found_.gradient;
      if ((!loss && !reader.node->is("softmax_cross_entropy_grad")) || reader.input != 0 || slot)
        return refuse("somebody else reads the logits");
      if (!is_same(reader.value, logits)) return refuse("logits in another order");
      slot = reader.node;
    }
    if (!found_.loss || !found_.gradient) return refuse("not both loss and gradient");
    if (found_.loss->inputs[1] != found_.gradient->inputs[1]) refuse("different labels");
  }

  // A matrix in another shape, its rows unchanged.
  bool is_same(const ir::Value& value, const ir::Value& matrix) const {
    return value == matrix ||
           (value.node->is("reshape") && value.node->inputs[0] == matrix && value.type().shape.back() == classes_);
  }

  void read_gradient(const ir::Value& gradient) {
    const auto readers = readers_of(site_, gradient);
    if (!readers) return refuse("somebody reads the logits' gradient");
    for (const Reader& reader : *readers) {
      ir::NodePtr* slot = is_rows_of(reader.value, gradient, 0, rows_) ? slot_of(reader) : nullptr;
      if (!slot || *slot) return refuse("somebody else reads the logits' gradient");
      *slot = reader.node;
    }
  }

  ir::NodePtr* slot_of(const Reader& reader) {
    const ir::Node& node = *reader.node;
    if (node.is("sum")) return node.attrs.ints("axes") == Ints{0} ? &found_.dbias : nullptr;
    if (!node.is("matmul")) return nullptr;
    const Transposes transposes = transposes_of(node);
    const int other = 1 - reader.input;
    const ir::Value& factor = node.inputs[static_cast<std::size_t>(other)];
    // d·wᵀ, or d·w where the weights are transposed.
    if (other == 1 && !transposes.a && transposes.b == !transposed_ && factor == weights_) return &found_.dx;
    // xᵀ·d, or dᵀ·x.
    if (other == (transposed_ ? 1 : 0) && transposes.a && !transposes.b && factor == x_) return &found_.dweights;
    return nullptr;
  }

  void check_order() {
    const ir::Node* root = site_.root().get();
    if (depends_on(found_.loss->inputs[1], root) || depends_on(found_.gradient->inputs[2], root) ||
        (found_.bias && depends_on(found_.bias->bias, root)))
      refuse("labels, bias or the loss's own gradient computed from the logits");
  }

  const Site& site_;
  const ir::Value x_, weights_;
  const bool transposed_;
  const std::int64_t rows_, classes_;
  Found found_;
};

// Packing the weights for both passes must be little beside the products, and beside the logits that it saves.
std::string size_refusal(std::int64_t rows, std::int64_t features, std::int64_t classes) {
  if (rows < 512 || rows < 4 * features) return "few rows";
  return classes < 256 ? "few classes" : "";
}

bool is_dense_product(const ir::Node& node) {
  return node.types[0].dtype == f32 && node.types[0].shape.rank() == 2 && node.types[0].shape.numel() > 0 &&
         node.inputs[0].type().shape.rank() == 2 && node.inputs[1].type().shape.rank() == 2 && !transposes_of(node).a;
}

// Looks no further than needed to see that a product has nothing to do with a loss.
bool leads_to_loss(const Site& site) {
  ir::Value value{site.root(), 0};
  if (const auto bias = bias_after(site, value)) value = {bias->node, 0};
  const auto readers = readers_of(site, value);
  return readers && std::any_of(readers->begin(), readers->end(),
                                [](const Reader& reader) { return reader.node->is("softmax_cross_entropy"); });
}

Claim make_claim(const Site& site, const Found& found) {
  Claim claim;
  claim.kernel = "cpu dense+cross_entropy+gradients";
  claim.nodes = {site.root(), found.loss, found.gradient};
  claim.inputs = {site.node().inputs[0], site.node().inputs[1], found.loss->inputs[1], found.gradient->inputs[2]};
  claim.outputs = {{found.loss, 0}};
  ClassLoss call{.rows = site.node().types[0].shape[0],
                 .features = site.node().inputs[0].type().shape[1],
                 .classes = site.node().types[0].shape[1],
                 .transposed = transposes_of(site.node()).b,
                 .labels = found.loss->inputs[1].type().dtype,
                 .in = {0, 1, 2, 3, -1},
                 .out = {0},
                 .setting = Setting::now()};
  if (found.bias) {
    call.in[ClassLoss::kBias] = static_cast<int>(claim.inputs.size());
    claim.nodes.push_back(found.bias->node);
    claim.inputs.push_back(found.bias->bias);
  }
  for (const ir::NodePtr& node : {found.dx, found.dweights, found.dbias}) {
    call.out.push_back(node ? static_cast<int>(claim.outputs.size()) : -1);
    if (!node) continue;
    claim.nodes.push_back(node);
    claim.outputs.push_back({node, 0});
  }
  const std::size_t bytes = prepare_class_loss(call).scratch_bytes;
  if (bytes > workspace_limit()) return Claim::no(claim.kernel, cat("needs ", bytes >> 20, " MB of workspace"));
  claim.prepare = [call](const std::vector<Port>&, const std::vector<Port>&) { return prepare_class_loss(call); };
  return claim;
}

// Rooted at the product that gives the logits.
void claim_class_loss(const Site& site, std::vector<Claim>& claims) {
  if (!is_dense_product(site.node()) || !leads_to_loss(site)) return;
  const Shape& logits = site.node().types[0].shape;
  Found found;
  found.refusal = lever("class-loss") ? size_refusal(logits[0], site.node().inputs[0].type().shape[1], logits[1])
                                      : std::string(kLeftOut);
  if (found.refusal.empty()) found = Pattern(site).find();
  claims.push_back(found.refusal.empty() ? make_claim(site, found)
                                         : Claim::no("cpu dense+cross_entropy+gradients", found.refusal));
}

}  // namespace

void add_class_loss_claims(ClaimMap& map) { map["matmul"].insert(map["matmul"].begin(), claim_class_loss); }

}  // namespace varve::cpu
