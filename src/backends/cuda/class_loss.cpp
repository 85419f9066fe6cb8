// A classifier of many classes: the losses, the gradient of the logits, and the bias's gradient in one pass over the
// logits, which are the largest tensor of such a step. The products around it are those of matmul.cpp.
#include <algorithm>

#include "backends/cuda/claims.h"
#include "backends/cuda/context.h"
#include "backends/cuda/function.h"
#include "backends/cuda/matmul_match.h"
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
constexpr std::int64_t kFewestClasses = 256, kMostClasses = 20480;

// logits: [M,N]  labels, losses, dloss: [M]  bias gradient: [N]
struct ClassLoss {
  std::int64_t rows = 0, classes = 0;
  DType dtype = f32, labels = i64;
  bool each = false;  // dloss is read; otherwise it is this number for all rows
  double given = 0;

  // So many that a row fits into their registers beside the sums; as many blocks as run at once.
  int threads() const { return classes <= 4096 ? 256 : classes <= 10240 ? 512 : 1024; }
  std::int64_t blocks() const { return std::min<std::int64_t>(rows, gpu().multiprocessors * (1024 / threads())); }
  std::size_t parts_bytes() const { return static_cast<std::size_t>(blocks() * classes) * sizeof(float); }
  int vector() const { return classes % 4 == 0 ? 4 : 1; }
  std::string text(int elements) const {
    return defines({{"T", type_name(dtype)},
                    {"LABEL", type_name(labels)},
                    {"COLUMNS", std::to_string(classes)},
                    {"THREADS", std::to_string(threads())},
                    {"VEC", std::to_string(elements)},
                    {"WORDS", size_of(dtype) == 4 ? "uint4" : "uint2"},
                    {"EACH", each ? "1" : "0"}}) +
           kernel_text("class_loss");
  }
};

bool on_16_bytes(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

Prepared prepare_class_loss(const ClassLoss& l) {
  const Function wide("class_loss", l.text(l.vector())), one("class_loss", l.text(1)),
      sums("class_loss_sums", l.text(l.vector()));
  const int complaint =
      gpu().present() ? context().note(cat("cross_entropy: a label is out of range [0, ", l.classes, ").")) : 0;
  return backend::prepared(
      [=](const RunArgs& args) {
        const Function& loss = on_16_bytes(args.in[0]) && on_16_bytes(args.out[1]) ? wide : one;
        loss({.grid = l.blocks(), .block = l.threads()}, args.in[0], args.in[1], l.each ? args.in[2] : nullptr,
             static_cast<float>(l.given), args.out[0], args.out[1], args.scratch, args.errors->word(), complaint,
             l.rows);
        sums({.grid = (l.classes + 31) / 32, .block = 32, .block_y = 8}, args.scratch, args.out[2],
             static_cast<int>(l.blocks()));
      },
      l.parts_bytes());
}

// Losses and gradient of the same logits and labels, where the gradient does not wait for the losses. Whichever comes
// first in the graph is the site.
struct Pair {
  ir::NodePtr loss, gradient;
  bool found() const { return loss && gradient && !match::is_computed_from(gradient->inputs[2], loss.get()); }
};

Pair pair_at(const Site& site) {
  Pair pair;
  for (const ir::Use& use : site.users(site.node().inputs[0])) {
    if (use.input != 0 || use.user->inputs.size() < 2 || use.user->inputs[1] != site.node().inputs[1]) continue;
    if (use.user->is("softmax_cross_entropy")) pair.loss = use.user;
    if (use.user->is("softmax_cross_entropy_grad")) pair.gradient = use.user;
  }
  return pair;
}

// The sum of the gradient over all rows.
ir::NodePtr bias_gradient(const Site& site, const ir::Value& gradient, const ClassLoss& l) {
  const auto readers = match::readers_of(site, gradient);
  if (!readers) return nullptr;
  for (const match::Reader& reader : *readers)
    if (reader.node->is("sum") && reader.node->attrs.ints("axes") == Ints{0} &&
        reader.node->types[0].shape.numel() == l.classes && match::is_matrix_of(reader.value, gradient, l.rows))
      return reader.node;
  return nullptr;
}

std::string refusal_of(const ClassLoss& l) {
  if (!lever("class-loss")) return kLeftOut;
  if (l.dtype == f64) return name(l.dtype);
  if (l.classes < kFewestClasses) return "few classes";
  if (l.classes > kMostClasses) return "more classes than registers hold";
  if (static_cast<std::size_t>(l.rows * l.classes) * size_of(l.dtype) < kLeastBytes) return "few logits";
  return "";
}

void claim_class_loss(const Site& site, std::vector<Claim>& claims) {
  const TensorType& logits = site.node().inputs[0].type();
  ClassLoss l{.rows = logits.shape.numel() / std::max<std::int64_t>(logits.shape.back(), 1),
              .classes = logits.shape.back(),
              .dtype = logits.dtype,
              .labels = site.node().inputs[1].type().dtype};
  const Pair pair = pair_at(site);
  const ir::NodePtr bias = pair.found() ? bias_gradient(site, {pair.gradient, 0}, l) : nullptr;
  if (!bias) return;
  if (const std::string refusal = refusal_of(l); !refusal.empty()) return claims.push_back(Claim::no(kName, refusal));
  Claim claim;
  claim.kernel = kName;
  claim.nodes = {pair.loss, pair.gradient, bias};
  claim.inputs = {site.node().inputs[0], site.node().inputs[1]};
  claim.outputs = {{pair.loss, 0}, {pair.gradient, 0}, {bias, 0}};
  claim.in_place = {{1, 0}};
  const ir::Value& dloss = pair.gradient->inputs[2];
  if (const auto number = match::number_behind(dloss)) {
    l.given = *number;
    match::cover_number(site, dloss, claim);
  } else {
    l.each = true;
    claim.inputs.push_back(dloss);
  }
  claim.prepare = [l](const std::vector<Port>&, const std::vector<Port>&) { return prepare_class_loss(l); };
  claims.push_back(std::move(claim));
}

}  // namespace

void add_class_loss_claims(ClaimMap& map) {
  for (const char* root : {"softmax_cross_entropy", "softmax_cross_entropy_grad"})
    map[root].insert(map[root].begin(), claim_class_loss);
}

}  // namespace varve::cuda
