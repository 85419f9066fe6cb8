// Values of several ranks, combined. Every rank records the same calls; a program's collectives form one chain
// (compiler/passes/chain.cpp), so that no two ranks can order them differently.
#include "base/levers.h"
#include "base/ranks.h"
#include "base/text.h"
#include "ops/families.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "tensor/trace.h"
#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve {
namespace {

std::int64_t ranks_of(const Call& call) {
  const std::int64_t ranks = call.attrs.integer("ranks");
  if (ranks < 1) throw Error(cat(call.op.name, ": a world of ", ranks, " ranks."));
  return ranks;
}

std::vector<TensorType> same_type(const Call& call) {
  ranks_of(call);
  return {call.in[0]};
}

std::vector<TensorType> number_type(const Call& call) {
  if (call.in[0].dtype == boolean)
    throw Error(cat(call.op.name, ": needs numbers, got ", call.in[0].str(), ". Convert it: x.to(i32)."));
  return same_type(call);
}

std::vector<TensorType> gathered_type(const Call& call) {
  TensorType type = call.in[0];
  if (type.shape.rank() == 0) return {{type.dtype, {ranks_of(call)}}};
  type.shape[0] *= ranks_of(call);
  return {type};
}

void check_parts(const Call& call) {
  const TensorType& type = call.in[0];
  if (type.shape.rank() == 0 || type.shape[0] % ranks_of(call) != 0)
    throw Error(cat(call.op.name, ": the leading axis of ", type.str(), " does not divide into ", ranks_of(call),
                    " equal parts, one for each rank."));
}

std::vector<TensorType> scattered_type(const Call& call) {
  TensorType type = number_type(call)[0];
  check_parts(call);
  type.shape[0] /= ranks_of(call);
  return {type};
}

std::vector<TensorType> exchanged_type(const Call& call) {
  check_parts(call);
  return {call.in[0]};
}

std::vector<TensorType> broadcast_type(const Call& call) {
  const std::int64_t root = call.attrs.integer("root");
  if (root < 0 || root >= ranks_of(call))
    throw Error(cat("broadcast: root is rank ", root, " of ", ranks_of(call), "."));
  return same_type(call);
}

// Each value passes the wire twice in a sum, once otherwise.
Cost wire_cost(const Call& call, const std::vector<TensorType>& out) {
  const double elements = static_cast<double>(call.in[0].shape.numel());
  return {elements, 2 * static_cast<double>(call.in[0].bytes()) + static_cast<double>(out[0].bytes())};
}

Tensor same_call(const Vjp& v, const Tensor& dy) { return record(v.op, {dy}, v.attrs)[0]; }

// The loss is the sum of all ranks' losses: what flows into y on any rank flows into every rank's x.
std::vector<Tensor> all_sum_vjp(const Vjp& v) { return {same_call(v, v.dy)}; }

extern const OpDef all_sum_op, all_gather_op, sum_scatter_op;

Attrs of_ranks(const Attrs& attrs) { return {{"ranks", attrs.integer("ranks")}}; }

// To the ranks that have the extreme value, shared among equals as the reductions do.
std::vector<Tensor> extreme_vjp(const Vjp& v) {
  const Attrs ranks = of_ranks(v.attrs);
  const Tensor is_it = (v.in[0] == v.out[0]).to(v.dy.dtype());
  const Tensor count = record(all_sum_op.record(), {is_it}, ranks)[0];
  return {record(all_sum_op.record(), {v.dy}, ranks)[0] * is_it / count};
}

const OpDef all_sum_op = define({.name = "all_sum",
                                 .doc = "The sum over ranks, on every rank.",
                                 .family = "collective",
                                 .arity = 1,
                                 .never_batched = kOncePerBatch,
                                 .shape = number_type,
                                 .gradient = all_sum_vjp,
                                 .cost = wire_cost,
                                 .in_place = {{0, 0}}});
OpDef define_extreme(const char* name, const char* doc) {
  return define({.name = name,
                 .doc = doc,
                 .family = "collective",
                 .arity = 1,
                 .never_batched = kOncePerBatch,
                 .shape = number_type,
                 .gradient = extreme_vjp,
                 .cost = wire_cost,
                 .smooth = false,
                 .in_place = {{0, 0}}});
}
const OpDef all_max_op = define_extreme("all_max", "The largest value over ranks, on every rank.");
const OpDef all_min_op = define_extreme("all_min", "The smallest value over ranks, on every rank.");
const OpDef all_gather_op = define({.name = "all_gather",
                                    .doc = "All ranks' values, one after the other along the leading axis.",
                                    .family = "collective",
                                    .arity = 1,
                                    .never_batched = kOncePerBatch,
                                    .shape = gathered_type,
                                    .gradient =
                                        [](const Vjp& v) {
                                          const Tensor own =
                                              record(sum_scatter_op.record(), {v.dy}, of_ranks(v.attrs))[0];
                                          return std::vector<Tensor>{own.reshape(v.in[0].shape())};
                                        },
                                    .cost = wire_cost});
const OpDef sum_scatter_op = define(
    {.name = "sum_scatter",
     .doc = "The sum over ranks, of which each rank has its part of the leading axis.",
     .family = "collective",
     .arity = 1,
     .never_batched = kOncePerBatch,
     .shape = scattered_type,
     .gradient =
         [](const Vjp& v) { return std::vector<Tensor>{record(all_gather_op.record(), {v.dy}, of_ranks(v.attrs))[0]}; },
     .cost = wire_cost});
const OpDef all_to_all_op =
    define({.name = "all_to_all",
            .doc = "Part r of the leading axis goes to rank r; in its place comes rank r's part for this rank.",
            .family = "collective",
            .arity = 1,
            .never_batched = kOncePerBatch,
            .shape = exchanged_type,
            .gradient = [](const Vjp& v) { return std::vector<Tensor>{same_call(v, v.dy)}; },
            .cost = wire_cost});
const OpDef broadcast_op = define({.name = "rank_broadcast",
                                   .doc = "One rank's value, on every rank.",
                                   .family = "collective",
                                   .arity = 1,
                                   .never_batched = kOncePerBatch,
                                   .shape = broadcast_type,
                                   .gradient =
                                       [](const Vjp& v) {
                                         const Tensor all = record(all_sum_op.record(), {v.dy}, of_ranks(v.attrs))[0];
                                         // All ranks take part in the sum; the root alone has an input that mattered.
                                         // Not a literal, which would simplify the sum away on some ranks.
                                         const Tensor is_root = tensor(rank_place().rank == v.attrs.integer("root"));
                                         return std::vector<Tensor>{where(is_root, all, 0)};
                                       },
                                   .cost = wire_cost});

// ---- sums of several values at once, by the bucket (compiler/passes/buckets.cpp)

const OpDef begin_op = define({.name = "all_sum_begin",
                               .doc = "Values one after the other on their way to the other ranks, and a ticket.",
                               .family = "collective",
                               .arity = -1,
                               .never_batched = kOncePerBatch,
                               .shape =
                                   [](const Call& call) {
                                     TensorType all{call.attrs.dtype("dtype"), {0}};
                                     for (const TensorType& in : call.in) all.shape[0] += in.shape.numel();
                                     if (call.in.size() == 1) all.shape = call.in[0].shape;
                                     ranks_of(call);
                                     return std::vector<TensorType>{all, {i64, {}}};
                                   },
                               .cost = wire_cost,
                               .differentiable = false,
                               .pure = false,
                               .timing = Timing::early,
                               .in_place = {{0, 0}}});
const OpDef end_op = define({.name = "all_sum_end",
                             .doc = "The sums that were begun with this ticket.",
                             .family = "collective",
                             .arity = 2,
                             .never_batched = kOncePerBatch,
                             .shape =
                                 [](const Call& call) {
                                   if (call.in[1] != TensorType{i64, {}})
                                     throw Error("all_sum_end: its ticket must be an i64 scalar.");
                                   return std::vector<TensorType>{call.in[0]};
                                 },
                             .cost = costs_nothing,
                             .differentiable = false,
                             .pure = false,
                             .timing = Timing::late,
                             .in_place = {{0, 0}}});

// The values of a rank in bytes, one after the other.
const OpDef gather_begin_op = define({.name = "all_gather_begin",
                                      .doc = "Values of any types on their way to all ranks, and a ticket.",
                                      .family = "collective",
                                      .arity = -1,
                                      .never_batched = kOncePerBatch,
                                      .shape =
                                          [](const Call& call) {
                                            std::int64_t bytes = 0;
                                            for (const TensorType& in : call.in)
                                              bytes += static_cast<std::int64_t>(in.bytes());
                                            return std::vector<TensorType>{{u8, {ranks_of(call), bytes}}, {i64, {}}};
                                          },
                                      .cost = wire_cost,
                                      .differentiable = false,
                                      .pure = false,
                                      .timing = Timing::early});

std::vector<TensorType> gather_end_shape(const Call& call) {
  if (call.in[1] != TensorType{i64, {}} || call.in[0].dtype != u8 || call.in[0].shape.rank() != 2)
    throw Error("all_gather_end: expected the bytes of all ranks and their ticket, an i64 scalar.");
  const std::int64_t ranks = call.in[0].shape[0];
  std::vector<TensorType> out;
  std::int64_t bytes = 0;
  const Ints &counts = call.attrs.ints("counts"), &types = call.attrs.ints("types");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    out.push_back({static_cast<DType>(types.at(i)), {ranks, counts[i]}});
    bytes += static_cast<std::int64_t>(out.back().bytes()) / ranks;
  }
  if (bytes != call.in[0].shape[1]) throw Error("all_gather_end: expected as many bytes as were begun with.");
  return out;
}

const OpDef gather_end_op = define({.name = "all_gather_end",
                                    .doc = "The values that were begun with this ticket: a row of each rank.",
                                    .family = "collective",
                                    .arity = 2,
                                    .never_batched = kOncePerBatch,
                                    .shape = gather_end_shape,
                                    .cost = costs_nothing,
                                    .differentiable = false,
                                    .pure = false,
                                    .timing = Timing::late});

// ---- messages: each takes and gives the token, a variable that orders them and keeps them alive

const TensorType kToken{f32, {}};

void check_token(const Call& call, std::size_t at) {
  if (call.in[at] != kToken) throw Error(cat(call.op.name, ": its token must be an f32 scalar."));
}

const OpDef send_op = define({.name = "send",
                              .doc = "A message to another rank; gives the token that orders messages.",
                              .family = "collective",
                              .arity = 2,
                              .never_batched = kOncePerBatch,
                              .shape =
                                  [](const Call& call) {
                                    check_token(call, 1);
                                    call.attrs.integer("to");
                                    call.attrs.integer("tag");
                                    return std::vector<TensorType>{kToken};
                                  },
                              .cost = wire_cost,
                              .differentiable = false,
                              .pure = false});
const OpDef recv_op =
    define({.name = "recv",
            .doc = "A message from another rank, and the token that orders messages.",
            .family = "collective",
            .arity = 1,
            .never_batched = kOncePerBatch,
            .shape =
                [](const Call& call) {
                  check_token(call, 0);
                  call.attrs.integer("from");
                  call.attrs.integer("tag");
                  return std::vector<TensorType>{{call.attrs.dtype("dtype"), Shape(call.attrs.ints("shape"))}, kToken};
                },
            .cost = wire_cost,
            .differentiable = false,
            .pure = false});
const OpDef rank_barrier_op = define({.name = "rank_barrier",
                                      .doc = "No rank goes on before all have come here; gives the token.",
                                      .family = "collective",
                                      .arity = 1,
                                      .never_batched = kOncePerBatch,
                                      .shape =
                                          [](const Call& call) {
                                            check_token(call, 0);
                                            ranks_of(call);
                                            return std::vector<TensorType>{kToken};
                                          },
                                      .cost = costs_nothing,
                                      .differentiable = false,
                                      .pure = false});

thread_local int alone = 0;

Attrs whole_world() { return {{"ranks", std::int64_t{distributed::size()}}}; }

Tensor along(const Tensor& x, std::int64_t axis, const char* op, Tensor (*collective)(const Tensor&)) {
  if (x.rank() == 0) return collective(x);
  const std::int64_t a = axis < 0 ? axis + x.rank() : axis;
  if (a < 0 || a >= x.rank()) throw Error(cat(op, ": axis ", axis, " of a tensor with ", x.rank(), " axes."));
  if (a == 0) return collective(x);
  Axes order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[0], order[static_cast<std::size_t>(a)]);
  return transpose(collective(transpose(x, order)), order);
}

// One for the process. A program that sends reads and assigns it, as it does other state.
Variable& token() {
  static auto& variable = *new Variable("token", zeros({}), false);
  return variable;
}

void set_token(const Tensor& next) {
  token().assign(next);
  if (!tracing()) token().value().eval();
}

int checked_peer(const char* op, int peer) {
  if (peer < 0 || peer >= rank_place().size || peer == rank_place().rank)
    throw Error(
        cat(op, ": expected another rank of ", rank_place().size, ", got ", peer, " on rank ", rank_place().rank, "."));
  return peer;
}

int checked_tag(const char* op, int tag) {
  // The one above is transfer's; MPI promises no more.
  if (tag < 0 || tag > 32766) throw Error(cat(op, ": expected a tag from 0 to 32766, got ", tag, "."));
  return tag;
}

}  // namespace

std::vector<const OpRecord*> collective_ops() {
  return {&all_sum_op.record(),      &all_max_op.record(),      &all_min_op.record(),   &all_gather_op.record(),
          &sum_scatter_op.record(),  &all_to_all_op.record(),   &broadcast_op.record(), &send_op.record(),
          &recv_op.record(),         &rank_barrier_op.record(), &begin_op.record(),     &end_op.record(),
          &gather_begin_op.record(), &gather_end_op.record()};
}

namespace distributed {

Tensor all_sum(const Tensor& x) { return record(all_sum_op.record(), {x}, whole_world())[0]; }
Tensor all_mean(const Tensor& x) { return size() == 1 ? x : all_sum(x) * (1.0 / size()); }
std::vector<Tensor> mean_gradients(const std::vector<Tensor>& gradients) {
  if (size() == 1 ? lever("lone-rank") : !shares_batch()) return gradients;
  Attrs attrs = whole_world();
  attrs.set("bucket", true);
  std::vector<Tensor> means;
  for (const Tensor& gradient : gradients)
    means.push_back(record(all_sum_op.record(), {gradient}, attrs)[0] * (1.0 / size()));
  return means;
}
std::vector<Tensor> mean_gradients(const std::vector<Tensor>& gradients, const std::vector<Variable>& of) {
  const auto is_split = [](const Variable& v) { return v.state() && v.state()->form && v.state()->form->axis >= 0; };
  if (std::none_of(of.begin(), of.end(), is_split)) return mean_gradients(gradients);
  if (gradients.size() != of.size())
    throw Error(cat("mean_gradients: ", gradients.size(), " gradients of ", of.size(), " variables."));
  // Every rank's loss is the whole one, and what flows into a value is the sum over their losses.
  Attrs attrs = whole_world();
  attrs.set("bucket", true);
  std::vector<Tensor> means;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor sum = is_split(of[i]) ? gradients[i] : record(all_sum_op.record(), {gradients[i]}, attrs)[0];
    means.push_back(sum * (1.0 / size()));
  }
  return means;
}
std::vector<Tensor> gather_gradients(const std::vector<Tensor>& values) {
  Attrs attrs = whole_world();
  attrs.set("bucket", true);
  std::vector<Tensor> rows;
  for (const Tensor& value : values) {
    const Tensor flat = value.reshape({value.numel()});
    rows.push_back(record(all_gather_op.record(), {flat}, attrs)[0].reshape({std::int64_t{size()}, value.numel()}));
  }
  return rows;
}
Tensor all_max(const Tensor& x) { return record(all_max_op.record(), {x}, whole_world())[0]; }
Tensor all_min(const Tensor& x) { return record(all_min_op.record(), {x}, whole_world())[0]; }
Tensor all_gather(const Tensor& x, std::int64_t axis) {
  return along(x, axis, "all_gather",
               [](const Tensor& t) { return record(all_gather_op.record(), {t}, whole_world())[0]; });
}
Tensor sum_scatter(const Tensor& x, std::int64_t axis) {
  return along(x, axis, "sum_scatter",
               [](const Tensor& t) { return record(sum_scatter_op.record(), {t}, whole_world())[0]; });
}
Tensor all_to_all(const Tensor& x, std::int64_t axis) {
  return along(x, axis, "all_to_all",
               [](const Tensor& t) { return record(all_to_all_op.record(), {t}, whole_world())[0]; });
}
Tensor scatter_gradients(const Tensor& flat) {
  Attrs attrs = whole_world();
  attrs.set("bucket", true);
  return record(sum_scatter_op.record(), {flat}, attrs)[0];
}
Tensor broadcast(const Tensor& x, int root) {
  Attrs attrs = whole_world();
  attrs.set("root", root);
  return record(broadcast_op.record(), {x}, attrs)[0];
}

void send(const Tensor& x, int to, int tag) {
  if (GradientScope::current() && is_floating(x.dtype()) && !x.node()->is("stop_gradient"))
    throw Error(
        "send: a gradient is being recorded, and none comes back through a message. distributed::transfer(x, from, to) "
        "has one: all ranks call it. To send the value alone: send(stop_gradient(x), …).");
  set_token(record(send_op.record(), {x, token().value()},
                   {{"to", checked_peer("send", to)}, {"tag", checked_tag("send", tag)}})[0]);
}

Tensor recv(const TensorType& type, int from, int tag) {
  const std::vector<Tensor> both = record(recv_op.record(), {token().value()},
                                          {{"from", checked_peer("recv", from)},
                                           {"tag", checked_tag("recv", tag)},
                                           {"shape", type.shape},
                                           {"dtype", type.dtype}});
  set_token(both[1]);
  return both[0];
}

void rank_barrier() { set_token(record(rank_barrier_op.record(), {token().value()}, whole_world())[0]); }

WholeBatch::WholeBatch() : before_(std::exchange(ranks_see_whole_batch(), true)) {}
WholeBatch::~WholeBatch() { ranks_see_whole_batch() = before_; }
bool shares_batch() { return rank_place().size > 1 && !ranks_see_whole_batch() && Scope::rank() < 0; }

int rank() { return rank_place().rank; }
int size() { return alone > 0 ? 1 : rank_place().size; }
Alone::Alone() { ++alone; }
Alone::~Alone() { --alone; }
int local_rank() { return rank_place().local_rank; }
int local_size() { return rank_place().local_size; }

}  // namespace distributed
}  // namespace varve
