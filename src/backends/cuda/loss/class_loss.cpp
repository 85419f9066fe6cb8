// A classifier of many classes: the losses, the gradient of the logits, and the bias's gradient in one pass over the
// logits, which are the largest tensor of such a step. The products around it are those of matmul.cpp.
#include <algorithm>

#include "backends/cuda/claims.h"
#include "backends/cuda/device/context.h"
#include "backends/cuda/device/function.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/matmul/matmul_match.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

constexpr const char* kName = "class loss+gradient+bias gradient";
constexpr std::size_t kLeastBytes = std::size_t{8} << 20;  // of logits: less is read again in no time
constexpr std::int64_t kFewestClasses = 256;
// A thread has a number and a sum for each of its classes. Of the 64 registers that each of 1024 threads may have, both
// take no more than 40; with the numbers in shared memory, the sums take up to 28.
constexpr std::int64_t kMostThreads = 1024, kClassesInRegisters = 20, kSumsInRegisters = 28;

// logits: [M,N]  labels, losses, dloss: [M]  bias gradient: [N]
struct ClassLoss {
  std::int64_t rows = 0, classes = 0;
  DType dtype = f32, loss = f32, labels = i64;  // of logits and gradients, of losses, of labels
  bool each = false;                            // dloss is read; otherwise it is this number for all rows
  double given = 0;

  // So many that a row fits into their registers beside the sums; as many blocks as run at once.
  int threads() const { return classes <= 256 * 16 ? 256 : classes <= 512 * kClassesInRegisters ? 512 : 1024; }
  std::int64_t blocks() const {
    return std::min<std::int64_t>(rows, gpu().multiprocessors * (kMostThreads / threads()));
  }
  bool kept() const {
    return classes > kMostThreads * kClassesInRegisters;
  }  // in shared memory: registers hold the sums
  std::size_t kept_bytes() const {
    return kept() ? static_cast<std::size_t>((classes + 4095) / 4096 * 4096) * sizeof(float) : 0;
  }
  std::size_t parts_bytes() const { return static_cast<std::size_t>(blocks() * classes) * sizeof(float); }
  int vector() const { return classes % 4 == 0 ? 4 : 1; }
  KernelText text(int elements) const {
    return {"loss/class_loss.cu", defines({{"T", type_name(dtype)},
                                           {"LOSS", type_name(loss)},
                                           {"LABEL", type_name(labels)},
                                           {"COLUMNS", std::to_string(classes)},
                                           {"THREADS", std::to_string(threads())},
                                           {"VEC", std::to_string(elements)},
                                           {"WORDS", size_of(dtype) == 4 ? "uint4" : "uint2"},
                                           {"KEPT", kept() ? "1" : "0"},
                                           {"EACH", each ? "1" : "0"}})};
  }
};

Prepared prepare_class_loss(const ClassLoss& l) {
  const Function wide("class_loss", l.text(l.vector())), one("class_loss", l.text(1), Begin::when_started),
      sums("class_loss_sums", l.text(l.vector()));
  const int complaint =
      gpu().present() ? context().note(cat("cross_entropy: a label is out of range [0, ", l.classes, ").")) : 0;
  return backend::prepared(
      [=](const RunArgs& args) {
        const Function& loss = on_16_bytes(args.in[0]) && on_16_bytes(args.out[1]) ? wide : one;
        loss({.grid = l.blocks(), .block = l.threads(), .shared = l.kept_bytes()}, args.in[0], args.in[1],
             l.each ? args.in[2] : nullptr, static_cast<float>(l.given), args.out[0], args.out[1], args.scratch,
             args.errors->word(), complaint, l.rows);
        sums({.grid = (l.classes + 31) / 32, .block = 32, .block_y = 8}, args.scratch, args.out[2],
             static_cast<int>(l.blocks()));
      },
      l.parts_bytes());
}

// What the kernel takes the place of. Logits of half precision are widened for the loss, as a rule, and the gradient is
// narrowed again; the kernel reads and writes them as they are.
struct Pattern {
  ir::Value logits;                      // before they are widened
  ir::NodePtr widened;                   // null: they are not
  ir::NodePtr loss, gradient, narrowed;  // of the same logits and labels
  ir::NodePtr bias;                      // the sum of the gradient over all rows; null: there is no pattern
  const ir::NodePtr& dlogits() const { return narrowed ? narrowed : gradient; }
};

bool is_half(const ir::Value& value) { return value.type().dtype == bf16 || value.type().dtype == f16; }

// The site is whichever of losses and gradient comes first in the graph. The gradient must not wait for the losses.
bool find_pair(const Site& site, Pattern& p) {
  for (const ir::Use& use : site.users(site.node().inputs[0])) {
    if (use.input != 0 || use.user->inputs.size() < 2 || use.user->inputs[1] != site.node().inputs[1]) continue;
    if (use.user->is("softmax_cross_entropy")) p.loss = use.user;
    if (use.user->is("softmax_cross_entropy_grad")) p.gradient = use.user;
  }
  return p.loss && p.gradient && !backend::depends_on(p.gradient->inputs[2], p.loss.get());
}

void find_casts(const Site& site, Pattern& p) {
  const ir::NodePtr& widened = p.logits.node;
  const ir::NodePtr narrowed = site.sole_user({p.gradient, 0});
  if (!widened->is("cast") || !is_half(widened->inputs[0]) || !narrowed || !narrowed->is("cast")) return;
  if (narrowed->types[0].dtype != widened->inputs[0].type().dtype) return;
  p.widened = widened;
  p.narrowed = narrowed;
  p.logits = widened->inputs[0];
}

ir::NodePtr bias_gradient(const Site& site, const ir::Value& dlogits) {
  const std::int64_t classes = dlogits.type().shape.back();
  const auto readers = backend::readers_of(site, dlogits);
  if (!readers || classes == 0) return nullptr;
  for (const backend::Reader& reader : *readers)
    if (reader.node->is("sum") && reader.node->attrs.ints("axes") == Ints{0} &&
        reader.node->types[0].shape.numel() == classes &&
        backend::is_rows_of(reader.value, dlogits, 0, dlogits.type().shape.numel() / classes))
      return reader.node;
  return nullptr;
}

Pattern pattern_at(const Site& site) {
  Pattern p{.logits = site.node().inputs[0]};
  if (!find_pair(site, p)) return p;
  find_casts(site, p);
  p.bias = bias_gradient(site, {p.dlogits(), 0});
  return p;
}

std::string refusal_of(const ClassLoss& l) {
  if (!lever("class-loss")) return kLeftOut;
  if (l.dtype == f64) return name(l.dtype);
  if (l.classes < kFewestClasses) return "few classes";
  if (l.classes > kMostThreads * kSumsInRegisters || l.kept_bytes() > gpu().shared_bytes)
    return "more classes than fit into a block";
  if (static_cast<std::size_t>(l.rows * l.classes) * size_of(l.dtype) < kLeastBytes) return "few logits";
  return "";
}

Claim make_claim(const Site& site, const Pattern& p, ClassLoss l) {
  Claim claim;
  claim.kernel = kName;
  claim.nodes = {p.loss, p.gradient, p.bias};
  if (p.narrowed) claim.nodes.push_back(p.narrowed);
  if (p.widened && backend::is_read_only_by(site, {p.widened, 0}, claim.nodes)) claim.nodes.push_back(p.widened);
  claim.inputs = {p.logits, p.loss->inputs[1]};
  claim.outputs = {{p.loss, 0}, {p.dlogits(), 0}, {p.bias, 0}};
  claim.in_place = {{1, 0}};
  const ir::Value& dloss = p.gradient->inputs[2];
  if (const auto number = backend::number_behind(dloss)) {
    l.given = *number;
    match::cover_number(site, dloss, claim);
  } else {
    l.each = true;
    claim.inputs.push_back(dloss);
  }
  claim.prepare = [l](const std::vector<Port>&, const std::vector<Port>&) { return prepare_class_loss(l); };
  return claim;
}

void claim_class_loss(const Site& site, std::vector<Claim>& claims) {
  const Pattern p = pattern_at(site);
  if (!p.bias) return;
  const TensorType& logits = p.logits.type();
  const ClassLoss l{.rows = logits.shape.numel() / logits.shape.back(),
                    .classes = logits.shape.back(),
                    .dtype = logits.dtype,
                    .loss = p.loss->types[0].dtype,
                    .labels = p.loss->inputs[1].type().dtype};
  const std::string refusal = refusal_of(l);
  claims.push_back(refusal.empty() ? make_claim(site, p, l) : Claim::no(kName, refusal));
}

}  // namespace

void add_class_loss_claims(ClaimMap& map) {
  for (const char* root : {"softmax_cross_entropy", "softmax_cross_entropy_grad"})
    map[root].insert(map[root].begin(), claim_class_loss);
}

}  // namespace varve::cuda
