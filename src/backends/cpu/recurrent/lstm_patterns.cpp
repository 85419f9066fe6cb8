// Whole LSTM layers: one kernel forward, one backward. The input's share of the gates and the gradient of the gates are
// the largest tensors of a small layer by far, 4·H wide for every step of every sequence: a kernel that multiplies by
// the input's weights itself never writes them. Worth it while all weights stay in a core's cache; larger ones are
// better multiplied for all steps at once.
#include "backend/match.h"
#include "backends/cpu/recurrent/lstm.h"

#include <limits>

#include "backends/cpu/index/index_add.h"
#include "backends/cpu/matmul/matmul_claims.h"
#include "base/text.h"

namespace varve::cpu {
namespace {

using backend::behind_views;
using backend::bias_after;
using backend::BiasAdd;
using backend::Claim;
using backend::depends_on;
using backend::is_rows_of;
using backend::Memory;
using backend::Port;
using backend::Reader;
using backend::readers_of;
using backend::Site;

constexpr std::int64_t kMostWeightBytes = 512 << 10;  // stay in a core's second-level cache
constexpr std::int64_t kTimes = 4;                    // as large as all sums by id is what they are summed from

// Weights of input and state, [I,4H] and [H,4H].
bool fit_the_cache(std::int64_t features, std::int64_t width) {
  return static_cast<double>(features + width) * 4 * static_cast<double>(width) * sizeof(float) <= kMostWeightBytes;
}

// The sequence behind its rows [T·B, I]: as [T, B, I] with any strides, or the rows themselves.
ir::Value sequence_behind(const ir::Value& rows, const SequenceShape& shape) {
  if (!rows.node->is("reshape")) return rows;
  const ir::Value& before = rows.node->inputs[0];
  return before.type().shape == Shape{shape.steps, shape.batch, rows.type().shape[1]} ? before : rows;
}

SequenceInput input_of(const Port& x, const SequenceShape& shape) {
  const Ints& strides = x.layout.strides;
  if (strides.size() == 3) return {x.type.shape[2], strides[0], strides[1], strides[2]};
  return {x.type.shape[1], shape.batch * strides[0], strides[0], strides[1]};
}

// A claim that takes x as it lies; its place among the inputs is known when the kernel is prepared.
void set_prepare(Claim& claim, const CellCall& call, backend::Prepared (*prepare)(const CellCall&), int x) {
  if (x >= 0) {
    claim.memory.assign(claim.inputs.size(), Memory::contiguous);
    claim.memory[static_cast<std::size_t>(x)] = Memory::strided;
  }
  claim.prepare = [call, prepare, x](const std::vector<Port>& in, const std::vector<Port>&) {
    CellCall known = call;
    if (x >= 0) known.x = input_of(in[static_cast<std::size_t>(x)], call.shape);
    return prepare(known);
  };
}

// The rows that a node of the index family takes from a table, or adds to one.
SequenceTable table_of(const ir::Node& node, const TensorType& table) {
  const std::int64_t rows = table.shape[0];
  return {.rows = rows, .ids = node.inputs[1].type().dtype, .out_of_range = out_of_range(node.op->name, rows, 0)};
}

int take(std::vector<ir::Value>& list, const ir::Value& value) {
  list.push_back(value);
  return static_cast<int>(list.size()) - 1;
}

void place(std::vector<int>& places, std::size_t operand, int at) {
  if (places.size() <= operand) places.resize(operand + 1, -1);
  places[operand] = at;
}

// ---- forward

// The layer that a product is the beginning of: x·w, perhaps a bias, then nothing but the recurrence.
struct Layer {
  std::optional<BiasAdd> bias;
  ir::NodePtr lstm;
};

std::optional<Layer> layer_from(const Site& site) {
  Layer layer;
  ir::Value value{site.root(), 0};
  ir::NodePtr next = site.sole_user(value);
  if (const auto bias = bias_after(site, value)) {
    layer.bias = bias;
    value = {bias->node, 0};
    next = site.sole_user(value);
  }
  if (next && next->is("reshape")) {
    value = {next, 0};
    next = site.sole_user(value);
  }
  if (!next || !next->is("lstm") || next->inputs[LstmOperands::kPre] != value) return std::nullopt;
  layer.lstm = next;
  return layer;
}

// What the recurrence needs beside its input must not wait for that.
std::string state_refusal(const Site& site, const Layer& layer) {
  if (const std::string refusal = cell_refusal(*layer.lstm, lstm_offer()); !refusal.empty()) return refusal;
  for (std::size_t i = 1; i < layer.lstm->inputs.size(); ++i)
    if (depends_on(layer.lstm->inputs[i], site.root().get())) return "a state or weight computed from the input";
  return "";
}

std::string input_refusal(const Site& site, const Layer& layer) {
  const ir::Node& product = site.node();
  if (const std::string refusal = state_refusal(site, layer); !refusal.empty()) return refusal;
  const Shape &x = product.inputs[0].type().shape, &w = product.inputs[1].type().shape;
  if (x.rank() != 2 || w.rank() != 2 || transposes_of(product).a || transposes_of(product).b) return "not x·w";
  if (!fit_the_cache(w[0], w[1] / 4)) return "weights larger than the cache";
  if (layer.bias && depends_on(layer.bias->bias, site.root().get())) return "a bias computed from the input";
  if (product.types[0].dtype != bf16) return "";
  return tiles_refusal({product_size(product)}, static_cast<double>(product.types[0].bytes()));  // read again
}

// ---- backward

// Everything that reads the gates' gradient, by what it computes.
struct Gradients {
  ir::NodePtr input, input_weights, hidden, first_hidden, bias;  // null: not wanted
  ir::NodePtr hidden_sum;                                        // hidden + first_hidden
  ir::NodePtr table;                                             // sums by id
  bool others = false;                                           // that read the gates' gradient itself
  std::string refusal;
};

class GradientReaders {
 public:
  GradientReaders(const Site& site, const CellCall& call)
      : site_(site), shape_(call.shape), setting_(call.setting), d_{site.root(), 0} {}

  Gradients find() {
    const auto readers = readers_of(site_, d_);
    if (!readers) refuse();
    for (std::size_t i = 0; readers && i < readers->size(); ++i) sort((*readers)[i]);
    if (found_.refusal.empty() && found_.first_hidden) pair_hidden();
    return found_;
  }

 private:
  void refuse() { found_.refusal = "two readers of a kind"; }
  void other() { found_.others = true; }
  void set(ir::NodePtr& slot, const ir::NodePtr& node) {
    if (slot) refuse();
    slot = node;
  }

  void sort(const Reader& reader) {
    const ir::Node& node = *reader.node;
    const std::int64_t rows = shape_.steps * shape_.batch;
    const bool whole = is_rows_of(reader.value, d_, 0, rows);
    if (node.is("sum") && whole && node.attrs.ints("axes") == Ints{0}) return set(found_.bias, reader.node);
    if (node.is("embedding_grad") && reader.input == 0 && whole && sums_fit(node))
      return set(found_.table, reader.node);
    if (!node.is("matmul") || node.types[0].shape.rank() != 2) return other();
    const Transposes transposes = transposes_of(node);
    if (reader.input == 0 && !transposes.a && transposes.b && whole) return set(found_.input, reader.node);
    if (reader.input != 1 || !transposes.a || transposes.b) return other();
    if (whole) return set(found_.input_weights, reader.node);
    if (is_rows_of(reader.value, d_, 0, shape_.batch)) return set(found_.first_hidden, reader.node);
    if (is_rows_of(reader.value, d_, shape_.batch, rows - shape_.batch) && reads_states(node.inputs[0]))
      return set(found_.hidden, reader.node);
    other();
  }

  // Every worker has sums of its own: together they should be much smaller than what they save to write and read.
  bool sums_fit(const ir::Node& sums) const {
    constexpr std::int64_t float_size = sizeof(float);  // of sums in any precision
    return !setting_.deterministic && sums.types[0].shape[0] > 0 && sums.types[0].shape[1] == 4 * shape_.width &&
           sums.types[0].shape.numel() * float_size * setting_.threads * kTimes <=
               static_cast<std::int64_t>(d_.type().bytes()) &&
           sums.types[0].shape[0] <= std::numeric_limits<std::int32_t>::max();
  }

  // The states before each step but the first.
  bool reads_states(const ir::Value& value) const {
    const ir::Value& y = behind_views(value);
    return y.type().shape == Shape{shape_.steps, shape_.batch, shape_.width} &&
           is_rows_of(value, y, 0, (shape_.steps - 1) * shape_.batch);
  }

  void pair_hidden() {
    const ir::NodePtr sum = site_.sole_user({found_.first_hidden, 0});
    if (!found_.hidden || !sum || !sum->is("add") || site_.sole_user({found_.hidden, 0}) != sum) return refuse();
    found_.hidden_sum = sum;
  }

  const Site& site_;
  const SequenceShape& shape_;
  const Setting& setting_;
  const ir::Value d_;
  Gradients found_;
};

// Apart, the gates' gradient is written, and read by whoever is no product too.
std::string apart_refusal(const Site& site, const Gradients& found) {
  std::vector<ProductSize> products;
  for (const ir::NodePtr& node : {found.input, found.input_weights, found.hidden})
    if (node) products.push_back(product_size(*node));
  const int passes = (found.others ? 0 : 1) + (found.bias ? 1 : 0) + (found.table ? 1 : 0);
  return tiles_refusal(products, passes * static_cast<double>(site.node().types[0].bytes()));
}

std::string gradients_refusal(const Site& site, const Gradients& found, const SequenceShape& shape) {
  if (!found.refusal.empty()) return found.refusal;
  if (found.others && !found.hidden && !found.bias && !found.table) return "other readers of the gates' gradient";
  if (found.input && found.input_weights &&
      found.input->inputs[1].type().shape[0] != found.input_weights->inputs[0].type().shape[1])
    return "gradients of different inputs";
  const std::int64_t features = found.input           ? found.input->inputs[1].type().shape[0]
                                : found.input_weights ? found.input_weights->inputs[0].type().shape[1]
                                                      : 0;
  if (!fit_the_cache(features, shape.width)) return "weights larger than the cache";
  for (const ir::NodePtr& node : {found.input, found.input_weights, found.hidden, found.first_hidden})
    if (node && depends_on(node->inputs[node == found.input ? 1 : 0], site.root().get()))
      return "an operand computed from a gradient";
  if (found.table && depends_on(found.table->inputs[1], site.root().get())) return "ids computed from a gradient";
  return site.node().types[0].dtype == bf16 ? apart_refusal(site, found) : "";
}

// The gates' gradient, the first output, is no longer written.
void drop_gates(CellClaim& made) {
  made.claim.outputs.erase(made.claim.outputs.begin());
  made.claim.in_place.clear();
  for (int& at : made.call.out) --at;
}

void add_gradients(CellClaim& made, const Gradients& found) {
  using Op = LstmGradOperands;
  auto& [claim, call] = made;
  const auto output = [&](Op::Out operand, const ir::NodePtr& node) {
    claim.nodes.push_back(node);
    place(call.out, operand, take(claim.outputs, {node, 0}));
  };
  if (found.input) {
    output(Op::kDx, found.input);
    place(call.in, Op::kInput, take(claim.inputs, found.input->inputs[1]));
  }
  if (found.input_weights) {
    output(Op::kDinput, found.input_weights);
    place(call.in, Op::kX, take(claim.inputs, sequence_behind(found.input_weights->inputs[0], call.shape)));
  }
  if (found.hidden) {
    output(Op::kDhidden, found.hidden_sum ? found.hidden_sum : found.hidden);
    place(call.in, Op::kY, take(claim.inputs, behind_views(found.hidden->inputs[0])));
  }
  if (found.hidden_sum) {
    claim.nodes.insert(claim.nodes.end(), {found.hidden, found.first_hidden});
    place(call.in, Op::kH0, take(claim.inputs, found.first_hidden->inputs[0]));
  }
  if (found.bias) output(Op::kDbias, found.bias);
  if (found.table) {
    output(Op::kDtable, found.table);
    place(call.in, Op::kIds, take(claim.inputs, found.table->inputs[1]));
    call.table = table_of(*found.table, found.table->types[0]);
  }
}

}  // namespace

void claim_lstm_with_input(const Site& site, std::vector<Claim>& claims) {
  using Op = LstmOperands;
  const std::optional<Layer> layer = layer_from(site);
  if (!layer) return;
  if (const std::string refusal = input_refusal(site, *layer); !refusal.empty())
    return claims.push_back(Claim::no("cpu lstm+input", refusal));
  auto [claim, call] = cell_claim(site, layer->lstm, lstm_offer());
  claim.kernel = "cpu lstm+input";
  claim.nodes.push_back(site.root());
  if (layer->bias) claim.nodes.push_back(layer->bias->node);
  // The input stands where its share of the gates would.
  const int x = call.in[Op::kPre];
  claim.inputs[static_cast<std::size_t>(x)] = sequence_behind(site.node().inputs[0], call.shape);
  call.in[Op::kPre] = -1;
  claim.in_place.clear();
  place(call.in, Op::kX, x);
  place(call.in, Op::kInput, take(claim.inputs, site.node().inputs[1]));
  if (layer->bias) place(call.in, Op::kBias, take(claim.inputs, layer->bias->bias));
  set_prepare(claim, call, prepare_lstm, x);
  claims.push_back(std::move(claim));
}

void claim_lstm_with_table(const Site& site, std::vector<Claim>& claims) {
  using Op = LstmOperands;
  const char* const kernel = "cpu lstm+table";
  const std::optional<Layer> layer = layer_from(site);
  if (!layer || layer->bias) return;
  const TensorType& table = site.node().inputs[0].type();
  if (const std::string refusal = state_refusal(site, *layer); !refusal.empty())
    return claims.push_back(Claim::no(kernel, refusal));
  if (table.shape[0] == 0 || table.shape[0] > std::numeric_limits<std::int32_t>::max())
    return claims.push_back(Claim::no(kernel, "the number of rows of the table"));
  auto [claim, call] = cell_claim(site, layer->lstm, lstm_offer());
  if (table.shape[1] != 4 * call.shape.width)
    return claims.push_back(Claim::no(kernel, "rows that are not a step's gates"));
  claim.kernel = kernel;
  claim.nodes.push_back(site.root());
  claim.in_place.clear();
  // The table stands where the gates would.
  claim.inputs[static_cast<std::size_t>(call.in[Op::kPre])] = site.node().inputs[0];
  place(call.in, Op::kTable, std::exchange(call.in[Op::kPre], -1));
  place(call.in, Op::kIds, take(claim.inputs, site.node().inputs[1]));
  call.table = table_of(site.node(), table);
  set_prepare(claim, call, prepare_lstm, -1);
  claims.push_back(std::move(claim));
}

void claim_lstm_gradients(const Site& site, std::vector<Claim>& claims) {
  using Op = LstmGradOperands;
  const char* const kernel = "cpu lstm gradients";
  if (const std::string refusal = cell_refusal(site.node(), lstm_grad_offer()); !refusal.empty())
    return claims.push_back(Claim::no(kernel, refusal));
  CellClaim made = cell_claim(site, site.root(), lstm_grad_offer());
  if (made.call.shape.steps < 2) return claims.push_back(Claim::no(kernel, "a single step"));
  const Gradients found = GradientReaders(site, made.call).find();
  if (const std::string refusal = gradients_refusal(site, found, made.call.shape); !refusal.empty())
    return claims.push_back(Claim::no(kernel, refusal));
  made.claim.kernel = kernel;
  if (!found.others) drop_gates(made);
  add_gradients(made, found);
  CellCall& call = made.call;
  if (found.input) call.x.features = found.input->inputs[1].type().shape[0];
  set_prepare(made.claim, call, prepare_lstm_grad, call.has_input(Op::kX) ? call.in[Op::kX] : -1);
  claims.push_back(std::move(made.claim));
}

}  // namespace varve::cpu
