// LSTM and its gradient. The gates of a step are computed where they are kept: the input's share, plus the product,
// then activated in place.
#include "backends/cpu/recurrent/lstm.h"

#include <utility>

#include "backends/cpu/recurrent/lstm_step.h"
#include "base/convert.h"

namespace varve::cpu {
namespace {

using backend::RunArgs;

constexpr std::size_t kHiddenFactor = 0, kInputFactor = 1;

// One step's rows of the layer's input, or a copy of them in f32.
plain::Left input_rows(const RunArgs& args, const CellCall& call, std::size_t operand, std::int64_t t,
                       const SequenceBlock& block, float* room) {
  const SequenceInput& x = call.x;
  const std::int64_t skipped = t * x.step + block.first * x.row;
  if (call.dtype == f32) return {call.input(args, operand) + skipped, x.row, x.column};
  const auto* from = reinterpret_cast<const bfloat16*>(call.input(args, operand)) + skipped;
  for (std::int64_t row = 0; row < block.rows; ++row, from += x.row) {
    float* to = room + row * x.features;
    if (x.column == 1)
      from_half(from, x.features, to);
    else
      for (std::int64_t i = 0; i < x.features; ++i) to[i] = static_cast<float>(from[i * x.column]);
  }
  return {room, x.features};
}

// Which rows of the table one step's sequences have; one that is none of them is noted, and counts as the first.
std::int32_t* table_rows(const RunArgs& args, const CellCall& call, std::size_t operand, std::int64_t t,
                         const SequenceBlock& block, float* room) {
  auto* rows = reinterpret_cast<std::int32_t*>(room);
  const std::int64_t first = t * call.shape.batch + block.first;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const std::int64_t id = load_i(args.in[call.in[operand]], call.table.ids, first + row);
    const bool inside = id >= 0 && id < call.table.rows;
    if (!inside) args.errors->note(call.table.out_of_range, id);
    rows[row] = inside ? static_cast<std::int32_t>(id) : 0;
  }
  return rows;
}

class Lstm final : public CellKernel, LstmOperands {
 public:
  explicit Lstm(const CellCall& call) : CellKernel(call, spec_of(call)) {}

 protected:
  void run_block(const RunArgs& args, const Worker& worker) const override {
    const SequenceBlock& block = worker.block;
    const std::int64_t width = block.shape.width, count = block.rows * width;
    const auto in = [&](In i, std::int64_t columns) { return call().input(args, i, block, columns); };
    const auto out = [&](Out o, std::int64_t columns) { return call().output(args, o, block, columns); };
    const Series pre = in(kPre, 4 * width), y = out(kY, width), kept_gates = out(kGates, 4 * width),
                 kept_cells = out(kCells, width);
    const Room room = rooms(worker);
    const float *h = in(kH0, width).read(0, count, room.h[1]), *c = in(kC0, width).read(0, count, room.c[1]);
    const float* bias = Series(call().input(args, kBias), call().dtype, 0).read(0, 4 * width, room.bias);
    const bool table = call().has_input(kTable);
    const std::int32_t* rows = nullptr;  // of the table; `start` finds them
    const auto start = [&](std::int64_t t, float* gates) -> plain::Start {
      if (table) {
        rows = table_rows(args, call(), kIds, t, block, room.rows);
        return {worker.table, 4 * width};
      }
      if (pre) return {pre.read(t, 4 * count, gates), 4 * width};
      return {bias, 0};
    };
    for (std::int64_t t = 0; t < block.longest; ++t) {
      // Without a gradient to come, one step's gates and two steps' cells are enough.
      float* gates = kept_gates ? kept_gates.place(t, room.gates) : room.gates;
      float* next_c = kept_cells ? kept_cells.place(t, room.c[t % 2]) : room.c[t % 2];
      float* next_h = y.place(t, room.h[t % 2]);
      lstm_step(
          {.rows = block.rows,
           .width = width,
           .terms = {LstmTerm{{h, width}, width, worker.weights[kHiddenFactor]}, input_term(args, worker, t, room)},
           .start = start(t, gates),
           .start_rows = rows,
           .c_prev = c,
           .gates = gates,
           .c = next_c,
           .h = next_h,
           .fetch = block.fetch(pre, t + 1, 4 * width)});
      block.zero_ended(t, next_h, width);
      block.each_ended(t, [&](std::int64_t row) { copy(c + row * width, width, next_c + row * width); });
      kept_gates.keep(t, 4 * count, gates);
      kept_cells.keep(t, count, next_c);
      y.keep(t, count, next_h);
      h = next_h;  // ended sequences go on from 0: what comes of it is never used
      c = next_c;
    }
    for (std::int64_t t = block.longest; t < block.shape.steps; ++t) {
      if (table) table_rows(args, call(), kIds, t, block, room.rows);  // a wrong id is an error there, too
      y.zero(t, count);
      kept_gates.zero(t, 4 * count);
      kept_cells.keep(t, count, c);
    }
    block.last_state(in(kH0, width), y, out(kH, width), call().dtype);
    out(kC, width).keep(0, count, c);
  }

 private:
  struct Room {
    float *gates, *c[2], *rows, *h[2], *x, *bias;
  };
  Room rooms(const Worker& worker) const {
    const std::int64_t count = worker.block.rows * worker.block.shape.width;
    float* at = worker.scratch;
    const auto take = [&](std::int64_t floats) { return std::exchange(at, at + floats); };
    Room room{.gates = take(4 * count), .c = {take(count), take(count)}, .rows = take(worker.block.rows)};
    if (call().dtype == f32) return room;
    room.h[0] = take(count);
    room.h[1] = take(count);
    room.x = take(worker.block.rows * call().x.features);
    room.bias = at;
    return room;
  }
  static Spec spec_of(const CellCall& call) {
    const std::int64_t width = call.shape.width;
    const bool wide = call.dtype == f32;
    Spec spec{.factors = {{{.k = width, .n = 4 * width, .gates = true}, kHidden}},
              .lengths = kLengths,
              .worker_floats = 1 + (wide ? 6 * width : 8 * width + call.x.features),
              .worker_more = wide ? 0 : 4 * width};
    if (call.has_input(kTable)) {
      spec.table = kTable;
      spec.table_floats = call.table.rows * 4 * width;
    }
    if (call.has_input(kX)) spec.factors.push_back({{.k = call.x.features, .n = 4 * width, .gates = true}, kInput});
    return spec;
  }

  // What the layer's input adds to a step's gates, where it is not in them already.
  LstmTerm input_term(const RunArgs& args, const Worker& worker, std::int64_t t, const Room& room) const {
    if (!call().has_input(kX)) return {};
    return {input_rows(args, call(), kX, t, worker.block, room.x), call().x.features, worker.weights[kInputFactor]};
  }
};

class LstmGrad final : public CellKernel, LstmGradOperands {
 public:
  explicit LstmGrad(const CellCall& call) : CellKernel(call, spec_of(call)) {}

 protected:
  void run_block(const RunArgs& args, const Worker& worker) const override {
    const SequenceBlock& block = worker.block;
    const std::int64_t width = block.shape.width, count = block.rows * width;
    const auto in = [&](In i, std::int64_t columns) { return call().input(args, i, block, columns); };
    const auto out = [&](Out o, std::int64_t columns) { return call().output(args, o, block, columns); };
    const Series gates = in(kGates, 4 * width), cells = in(kCells, width), dy = in(kDy, width), c0 = in(kC0, width),
                 kept_dpre = out(kDpre, 4 * width), dh0 = out(kDh0, width), dc0 = out(kDc0, width);
    const Room room = rooms(worker);
    const float *last_dh = in(kDh, width).read(0, count, room.last_dh),
                *last_dc = in(kDc, width).read(0, count, room.last_dc);
    // The states' gradients go from step to step where the first ones' will stand in the end.
    float *dh = dh0.place(0, room.dh), *dc = dc0.place(0, room.dc);
    const auto start = [&](std::int64_t t) {
      block.start_gradient_at(t, last_dh, dh);
      block.start_gradient_at(t, last_dc, dc);
    };
    block.start_gradient(last_dh, dh);
    block.start_gradient(last_dc, dc);
    for (std::int64_t t = block.longest; t-- > 0;) {
      start(t + 1);
      block.add(dy.read(t, count, room.dy), dh);
      float* dpre = kept_dpre ? kept_dpre.place(t, room.dpre) : room.dpre;
      lstm_cell_grad({dh, dc, gates.read(t, 4 * count, room.gates),
                      t == 0 ? c0.read(0, count, room.c[0]) : cells.read(t - 1, count, room.c[0]),
                      cells.read(t, count, room.c[1]), dpre, dc},
                     block.cell());
      block.zero_ended(t, dpre, 4 * width);
      kept_dpre.keep(t, 4 * count, dpre);
      multiply(worker, kHiddenFactor,
               {.a = dpre, .a_row = 4 * width, .c = dh, .c_row = width, .fetch = block.fetch(gates, t - 1, 4 * width)});
      add_step(args, worker, t, dpre, room);
    }
    start(0);
    dh0.keep(0, count, dh);
    dc0.keep(0, count, dc);
    for (std::int64_t t = block.longest; t < block.shape.steps; ++t) {
      kept_dpre.zero(t, 4 * count);
      out(kDx, call().x.features).zero(t, block.rows * call().x.features);
    }
  }

  void finish(const RunArgs& args, const float* sums) const override {
    const std::int64_t columns = 4 * call().shape.width;
    for (const auto& [output, rows] : summed(call())) {
      Series(call().output(args, output), call().dtype, 0).keep(0, rows * columns, sums);
      sums += rows * columns;
    }
  }

 private:
  struct Room {
    float *dpre, *rows, *gates, *c[2], *dy, *dh, *dc, *last_dh, *last_dc, *y, *x, *dx;
  };
  Room rooms(const Worker& worker) const {
    const std::int64_t count = worker.block.rows * worker.block.shape.width;
    float* at = worker.scratch;
    const auto take = [&](std::int64_t floats) { return std::exchange(at, at + floats); };
    Room room{.dpre = take(4 * count), .rows = take(worker.block.rows)};
    if (call().dtype == f32) return room;
    room.gates = take(4 * count);
    for (float** each : {&room.c[0], &room.c[1], &room.dy, &room.dh, &room.dc, &room.last_dh, &room.last_dc, &room.y})
      *each = take(count);
    room.x = take(worker.block.rows * call().x.features);
    room.dx = take(worker.block.rows * call().x.features);
    return room;
  }
  static Spec spec_of(const CellCall& call) {
    const std::int64_t columns = 4 * call.shape.width;
    Spec spec{.factors = {{{.k = columns, .n = call.shape.width, .transposed = true}, kHidden}}, .lengths = kLengths};
    if (call.has_output(kDx))
      spec.factors.push_back({{.k = columns, .n = call.x.features, .transposed = true}, kInput});
    spec.worker_floats = 1 + (call.dtype == f32 ? columns : 16 * call.shape.width + 2 * call.x.features);
    for (const auto& [output, rows] : summed(call)) spec.sum_floats += rows * columns;
    // Every step of a block reads and writes the sums: rather few large ones.
    if (spec.sum_floats > 0) spec.enough_rows = 128;
    return spec;
  }

  // What is accumulated over all steps and rows, in the order of the sums: outputs and their rows.
  static std::vector<std::pair<std::size_t, std::int64_t>> summed(const CellCall& call) {
    std::vector<std::pair<std::size_t, std::int64_t>> all;
    if (call.has_output(kDhidden)) all.push_back({kDhidden, call.shape.width});
    if (call.has_output(kDinput)) all.push_back({kDinput, call.x.features});
    if (call.has_output(kDbias)) all.push_back({kDbias, 1});
    if (call.has_output(kDtable)) all.push_back({kDtable, call.table.rows});
    return all;
  }

  // What one step's gates add to the gradients of weights and bias, and the step's gradient of the input, while the
  // gates' gradient is in the cache.
  void add_step(const RunArgs& args, const Worker& worker, std::int64_t t, const float* dpre, const Room& room) const {
    const SequenceBlock& block = worker.block;
    const std::int64_t width = block.shape.width, columns = 4 * width, features = call().x.features;
    float* sums = worker.sums;
    const auto add = [&](const plain::Left& a, std::int64_t rows, const std::array<plain::Fetch, 2>& next) {
      if (a.data)
        plain::multiply(plain::PanelProduct{.m = rows,
                                            .n = columns,
                                            .k = block.rows,
                                            .a = {a.data, a.step, a.row},  // transposed
                                            .b = plain::right_as_it_lies(dpre, columns),
                                            .start = {sums, columns},
                                            .c = sums,
                                            .c_row = columns,
                                            .fetch = next});
      sums += rows * columns;
    };
    if (call().has_output(kDhidden)) {
      const Series h0 = call().input(args, kH0, block, width), y = call().input(args, kY, block, width);
      const float* h = t == 0 ? h0.read(0, block.rows * width, room.y) : y.read(t - 1, block.rows * width, room.y);
      const Series cells = call().input(args, kCells, block, width);
      add({h, width}, width, {block.fetch(y, t - 2, width), block.fetch(cells, t - 2, width)});
    }
    if (call().has_output(kDinput)) add(input_rows(args, call(), kX, t, block, room.x), features, {});
    if (call().has_output(kDbias))
      plain::add_columns(dpre, columns, block.rows, columns, std::exchange(sums, sums + columns));
    if (call().has_output(kDtable))
      plain::add_rows(dpre, columns, table_rows(args, call(), kIds, t, block, room.rows), block.rows, sums);
    if (const Series dx = call().output(args, kDx, block, features)) {
      float* now = dx.place(t, room.dx);
      multiply(worker, kInputFactor, {.a = dpre, .a_row = columns, .c = now, .c_row = features});
      dx.keep(t, block.rows * features, now);
    }
  }
};

}  // namespace

backend::Prepared prepare_lstm(const CellCall& call) { return prepare_cell<Lstm>(call); }
backend::Prepared prepare_lstm_grad(const CellCall& call) { return prepare_cell<LstmGrad>(call); }

CellOffer lstm_offer() {
  using Operands = LstmOperands;
  return {.op = "lstm",
          .hidden = Operands::kHidden,
          .sequence = Operands::kPre,
          .half = true,
          .residuals = {Operands::kGates, Operands::kCells},
          .in_place = {{Operands::kGates, Operands::kPre}},
          .prepare = prepare_lstm};
}

CellOffer lstm_grad_offer() {
  using Operands = LstmGradOperands;
  return {.op = "lstm_grad",
          .hidden = Operands::kHidden,
          .sequence = Operands::kGates,
          .half = true,
          .zero_inputs = {Operands::kDy, Operands::kDh, Operands::kDc},
          .in_place = {{Operands::kDpre, Operands::kGates}},
          .prepare = prepare_lstm_grad};
}

void add_lstm_claims(ClaimMap& map) {
  // Before the products alone: larger patterns first.
  map["matmul"].insert(map["matmul"].begin(), claim_lstm_with_input);
  map["embedding"].insert(map["embedding"].begin(), claim_lstm_with_table);
  map["lstm_grad"].push_back(claim_lstm_gradients);
  offer_cell(map, lstm_offer());
  offer_cell(map, lstm_grad_offer());
}

}  // namespace varve::cpu
