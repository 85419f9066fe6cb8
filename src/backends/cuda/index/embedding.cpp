// Rows taken from a table, and the table's gradient, each with what stands beside it in the graph.
#include <algorithm>
#include <array>

#include "backends/cuda/index/index_add.h"
#include "backends/cuda/matmul/matmul_match.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Memory;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

bool is_cast_between_floats(const ir::NodePtr& node) {
  return node && node->is("cast") && is_floating(node->types[0].dtype) && is_floating(node->inputs[0].type().dtype);
}

// ---- embedding → cast → add, of rows that repeat → dropout: each if it is there

struct Embed {
  ir::NodePtr cast, add, dropout;
  ir::Value added;
  ir::Value result;

  explicit Embed(const Site& site) : result{site.root(), 0} {
    if (!is_floating(result.type().dtype)) return;
    const auto next = [&] { return site.sole_user(result); };
    if (is_cast_between_floats(next())) result = {cast = next(), 0};
    if (next() && next()->is("add") && adds_rows(*next())) result = {add = next(), 0};
    if (next() && next()->is("dropout") && next()->inputs[0] == result) result = {dropout = next(), 0};
  }

  bool alone() const { return !cast && !add && !dropout; }

 private:
  // The other operand is the last axes of the result, once for all of the first: sums of two whole tensors are better
  // left to the norm that often follows.
  bool adds_rows(const ir::Node& node) {
    const ir::Value& other = node.inputs[node.inputs[0] == result ? 1 : 0];
    const Shape &whole = result.type().shape, &part = other.type().shape;
    if (node.types[0] != result.type() || other.type().dtype != result.type().dtype) return false;
    if (part.rank() < 1 || part.rank() >= whole.rank() ||
        !std::equal(part.begin(), part.end(), whole.end() - part.rank()))
      return false;
    added = other;
    return true;
  }
};

// Operands as index/embedding.cu has them.
struct EmbedArgs {
  const void *table, *indices, *added = nullptr;
  void* y;
  std::int64_t count, size, width, added_rows = 1;
  volatile std::uint64_t* errors;
  int text;
  int unused = 0;
  DropArgs drop = {};
};

struct EmbedPlan {
  bool adds = false;
  std::optional<Drop> drop = {};
};

// table, indices, what is added, seed, counter -> y
Prepared prepare_embed(const EmbedPlan& plan, const std::vector<Port>& in, const std::vector<Port>& out) {
  if (out[0].type.shape.numel() == 0) return nothing();
  const Shape& table = in[0].type.shape;
  EmbedArgs known{.count = in[1].type.shape.numel(),
                  .size = table[0],
                  .width = table[1],
                  .text = number_of(out_of_range("embedding", table[0], 0))};
  if (plan.adds) known.added_rows = in[2].type.shape.numel() / known.width;
  const std::int64_t from = element_bytes(in[0].type.dtype), to = element_bytes(out[0].type.dtype);
  const std::int64_t vec = 16 / std::max(from, to);
  Constants constants = {{"FROM", type_name(in[0].type.dtype)},
                         {"TO", type_name(out[0].type.dtype)},
                         {"INDEX", index_type(in[1].type.dtype)},
                         {"VEC", cat(vec)}};
  if (plan.adds) constants.emplace_back("ADD", "1");
  if (plan.drop) constants.emplace_back("DROPOUT", "1");
  const KernelText text{"index/embedding.cu", defines(constants)};
  const auto run = [=, kernel = Function("embed", text), singly = Function("embed_singly", text)](const RunArgs& args) {
    EmbedArgs e = known;
    e.table = args.in[0];
    e.indices = args.in[1];
    e.y = args.out[0];
    e.errors = args.errors->word();
    if (plan.adds) e.added = args.in[2];
    const std::size_t drop_at = plan.adds ? 3 : 2;
    if (plan.drop) e.drop = {*plan.drop, args.in[drop_at], args.in[drop_at + 1]};
    const bool wide = e.width % vec == 0 && aligned(vec * from, e.table) && aligned(vec * to, e.y, e.added);
    (wide ? kernel : singly)(along_rows(ceil_div(e.width, wide ? vec : 1), e.count), e);
  };
  return backend::prepared(run);
}

void claim_embedding(const Site& site, std::vector<Claim>& claims) {
  if (const Embed chain(site); !chain.alone()) {
    EmbedPlan plan{.adds = chain.add != nullptr};
    if (chain.dropout) plan.drop = Drop(*chain.dropout);
    Claim claim = Claim::of(
        "cuda embedding", site.root(),
        [plan](const std::vector<Port>& in, const std::vector<Port>& out) { return prepare_embed(plan, in, out); });
    if (chain.add) claim.inputs.push_back(chain.added);
    if (chain.dropout)
      claim.inputs.insert(claim.inputs.end(), chain.dropout->inputs.begin() + 1, chain.dropout->inputs.end());
    for (const ir::NodePtr& node : {chain.cast, chain.add, chain.dropout}) {
      if (!node) continue;
      claim.nodes.push_back(node);
      claim.kernel += "+" + node->op->name;
    }
    claim.outputs = {chain.result};
    claims.push_back(std::move(claim));
  }
  claims.push_back(claim_of(site.root(), gather));
}

// ---- dropout → cast → embedding_grad → add or sgd_update: each but the third if it is there

struct TableGradient {
  ir::NodePtr dropout, cast, grad, next;

  // From the dropout, or from the gradient itself.
  explicit TableGradient(const Site& site) {
    if (site.node().is("dropout")) {
      dropout = site.root();
      const ir::NodePtr reader = site.sole_user({dropout, 0});
      cast = is_cast_between_floats(reader) ? reader : nullptr;
      grad = cast ? site.sole_user({cast, 0}) : reader;
      if (!grad || !grad->is("embedding_grad") || grad->inputs[0] != ir::Value{cast ? cast : dropout, 0})
        grad = nullptr;
    } else {
      grad = site.root();
      const ir::Value& dy = grad->inputs[0];
      if (is_cast_between_floats(dy.node) && site.sole_user(dy) == grad) cast = dy.node;
    }
    if (grad) next = site.sole_user({grad, 0});
  }

  const ir::Value& updates() const { return dropout ? dropout->inputs[0] : cast ? cast->inputs[0] : grad->inputs[0]; }

  // The other operand of an addition that follows: of a value that nobody else reads the sum can take the place, and
  // only rows that are named are touched.
  std::optional<ir::Value> added(const Site& site) const {
    const ir::Value dx{grad, 0};
    if (!next || !next->is("add") || next->types[0] != dx.type()) return std::nullopt;
    const ir::Value& other = next->inputs[next->inputs[0] == dx ? 1 : 0];
    if (other.type() != dx.type() || site.sole_user(other) != next || other.node->inputs.empty()) return std::nullopt;
    return other;
  }

  // A plain step without decay leaves rows that are not named as they are.
  bool steps() const {
    return next && next->is("sgd_update") && next->inputs[1] == ir::Value{grad, 0} &&
           next->inputs[0].type() == grad->types[0] && next->inputs[0] != next->inputs[1] &&
           backend::is_scalar(next->inputs[2]) && backend::number_of(next->inputs[3]) == 0.0;
  }
};

// Rows [.., D] of a port as IndexSort::Keys has places: one or two axes of rows. False: they lie otherwise.
bool find_places(const Port& port, IndexSort::Keys& keys) {
  const Shape& shape = port.type.shape;
  const std::int64_t width = shape.back();
  if (width > 1 && port.layout.strides.back() != 1) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // sizes and strides in rows; neighbours joined
  for (int a = 0; a + 1 < shape.rank(); ++a) {
    const std::int64_t stride = port.layout.strides[static_cast<std::size_t>(a)];
    if (shape[a] == 1) continue;
    if (stride < 0 || stride % width != 0) return false;
    if (!axes.empty() && axes.back().second == shape[a] * (stride / width))
      axes.back() = {axes.back().first * shape[a], stride / width};
    else
      axes.emplace_back(shape[a], stride / width);
  }
  if (axes.empty() || (axes.size() == 1 && axes[0].second == 1)) return true;
  std::int64_t last = 0;
  for (const auto& [size, stride] : axes) last += (size - 1) * stride;
  if (axes.size() > 2 || last >= std::int64_t{1} << 32) return false;
  const auto whole = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  keys.period = axes.size() == 1 ? 1 : whole(axes[1].first);
  keys.far = whole(axes[0].second);
  keys.near = axes.size() == 1 ? 0 : whole(axes[1].second);
  return true;
}

// Updates that lie in no simple way are copied first, behind the scratch memory of the rest.
Prepared prepare_copied(const Scatter& s, const IndexSort::Keys& keys, const std::vector<Port>& in) {
  constexpr std::size_t kMostInputs = 8;
  const auto at = static_cast<std::size_t>(s.updates);
  Port plain = in[at];
  plain.layout = contiguous(plain.type.shape);
  Prepared copies = prepare_strided_copy(in[at], plain), adds = prepare_scatter(s, keys);
  const std::size_t before = (std::max(copies.scratch_bytes, adds.scratch_bytes) + 63) / 64 * 64;
  const auto run = [copy = std::shared_ptr(std::move(copies.kernel)), add = std::shared_ptr(std::move(adds.kernel)),
                    count = in.size(), before, at](const RunArgs& args) {
    void* target = static_cast<std::byte*>(args.scratch) + before;
    const void* source = args.in[at];
    copy->run({&source, &target, args.scratch, args.errors});
    std::array<const void*, kMostInputs> inputs{};
    std::copy_n(args.in, count, inputs.begin());
    inputs[at] = target;
    add->run({inputs.data(), args.out, args.scratch, args.errors});
  };
  return backend::prepared(run, before + plain.type.bytes());
}

// updates, indices, then what `s` says -> the table's gradient, or the new table
Prepared prepare_gradient(Scatter s, const std::vector<Port>& in, const std::vector<Port>& out) {
  const Shape& table = out[0].type.shape;
  if (table.numel() == 0 && in[0].type.shape.numel() == 0) return nothing();
  const std::int64_t count = in[1].type.shape.numel();
  s.rows = table[0];
  s.inner = table[1];
  s.positions = count;
  s.dtype = out[0].type.dtype;
  s.update_dtype = in[0].type.dtype;
  IndexSort::Keys keys{.dtype = in[1].type.dtype,
                       .positions = count,
                       .rows = s.rows,
                       .size = s.rows,
                       .count = count,
                       .text = number_of(out_of_range("embedding_grad", s.rows, 0))};
  return count == 0 || find_places(in[0], keys) ? prepare_scatter(s, keys) : prepare_copied(s, keys, in);
}

// The gradient with all that stands beside it, or, less and less, with nothing.
Claim table_gradient_claim(const Site& site, const TableGradient& g, bool with_next, bool with_cast) {
  Scatter s;
  Claim claim = Claim::of("", g.grad, {});
  if (g.dropout) claim.kernel += "dropout+";
  if (g.cast && with_cast) claim.kernel += "cast+";
  claim.kernel = cat("cuda ", claim.kernel, "embedding_grad");
  const bool takes_cast = g.dropout || (g.cast && with_cast);
  if (takes_cast && g.cast) claim.nodes.push_back(g.cast);
  if (g.dropout) claim.nodes.push_back(g.dropout);
  claim.inputs[0] = takes_cast ? g.updates() : g.grad->inputs[0];
  const auto input = [&](const ir::Value& value) {
    claim.inputs.push_back(value);
    return static_cast<int>(claim.inputs.size()) - 1;
  };
  if (with_next) {
    claim.nodes.push_back(g.next);
    claim.outputs = {{g.next, 0}};
    claim.kernel += "+" + g.next->op->name;
    s.steps = g.steps();
    s.x = input(s.steps ? g.next->inputs[0] : *g.added(site));
    claim.in_place = {{0, s.x}};
    if (s.steps) {
      if (const auto rate = backend::number_of(g.next->inputs[2]))
        s.known_rate = *rate;
      else
        s.rate_at = input(g.next->inputs[2]);
    }
  }
  if (g.dropout) {
    s.drop = Drop(*g.dropout);
    s.drop_at = input(g.dropout->inputs[1]);
    input(g.dropout->inputs[2]);
  } else {
    claim.memory = {Memory::strided};  // dropout numbers elements as they lie
  }
  claim.prepare = [s](const std::vector<Port>& in, const std::vector<Port>& out) {
    return prepare_gradient(s, in, out);
  };
  return claim;
}

void claim_table_gradient(const Site& site, std::vector<Claim>& claims) {
  const TableGradient g(site);
  if (!g.grad) return;
  const std::string no = scatter_refusal(g.grad->types[0].shape, 0, g.grad->inputs[0].type().shape,
                                         g.grad->inputs[1].type().shape.numel());
  if (!no.empty()) return claims.push_back(Claim::no("cuda embedding_grad", no));
  const bool has_next = g.added(site) || g.steps();
  if (has_next) claims.push_back(table_gradient_claim(site, g, true, true));
  if (has_next && g.cast && !g.dropout) claims.push_back(table_gradient_claim(site, g, true, false));
  if (g.cast || g.dropout) claims.push_back(table_gradient_claim(site, g, false, true));
  if (!g.dropout) claims.push_back(table_gradient_claim(site, g, false, false));
}

}  // namespace

void add_table_claims(ClaimMap& map) {
  map["embedding"].push_back(claim_embedding);
  map["embedding_grad"].push_back(claim_table_gradient);
  map["dropout"].insert(map["dropout"].begin(), claim_table_gradient);
}

}  // namespace varve::cuda
