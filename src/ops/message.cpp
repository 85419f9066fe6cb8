// A value of one rank, had on another: as an operator with a gradient, and as what the compiler makes of it and of
// send and recv (compiler/passes/messages.cpp).
#include "base/ranks.h"
#include "base/text.h"
#include "ops/families.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve {
namespace {

const TensorType kTicket{i64, {}}, kToken{f32, {}};

std::int64_t checked_rank(const Call& call, const char* end) {
  const std::int64_t rank = call.attrs.integer(end), ranks = call.attrs.integer("ranks");
  if (rank < 0 || rank >= ranks) throw Error(cat(call.op.name, ": '", end, "' is rank ", rank, " of ", ranks, "."));
  return rank;
}

Cost moves_input(const Call& call, const std::vector<TensorType>&) {
  return {0, 2 * static_cast<double>(call.in[0].bytes())};
}
Cost moves_output(const Call&, const std::vector<TensorType>& out) {
  return {0, 2 * static_cast<double>(out[0].bytes())};
}
Attrs with_ends_swapped(const Attrs& attrs) {
  return {{"ranks", attrs.integer("ranks")}, {"from", attrs.integer("to")}, {"to", attrs.integer("from")}};
}

const OpDef transfer_op = define(
    {.name = "transfer",
     .doc = "One rank's value, on another rank; zeros on all others.",
     .family = "collective",
     .arity = 1,
     .never_batched = kOncePerBatch,
     .shape =
         [](const Call& call) {
           checked_rank(call, "from");
           checked_rank(call, "to");
           return std::vector<TensorType>{call.in[0]};
         },
     // What flows into the value where it has come to flows back to where it came from.
     .gradient = [](const Vjp& v) { return std::vector<Tensor>{record(v.op, {v.dy}, with_ends_swapped(v.attrs))[0]}; },
     .cost = moves_input});

// ---- what becomes of messages: begun early, awaited late, so that a rank computes meanwhile

void check_ticket(const Call& call) {
  if (call.in[1] != kTicket) throw Error(cat(call.op.name, ": its ticket must be an i64 scalar."));
}

const OpDef send_begin_op = define({.name = "send_begin",
                                    .doc = "A value on its way to another rank, and a ticket; after the message "
                                           "with the ticket given, if one is.",
                                    .family = "collective",
                                    .arity = -1,
                                    .never_batched = kOncePerBatch,
                                    .shape =
                                        [](const Call& call) {
                                          call.attrs.integer("to");
                                          call.attrs.integer("tag");
                                          return std::vector<TensorType>{call.in[0], kTicket};
                                        },
                                    .cost = moves_input,
                                    .differentiable = false,
                                    .pure = false,
                                    .timing = Timing::early,
                                    .in_place = {{0, 0}}});
const OpDef send_end_op = define({.name = "send_end",
                                  .doc = "When the value that was sent with this ticket has left: a token.",
                                  .family = "collective",
                                  .arity = 2,
                                  .never_batched = kOncePerBatch,
                                  .shape =
                                      [](const Call& call) {
                                        check_ticket(call);
                                        return std::vector<TensorType>{kToken};
                                      },
                                  .cost = costs_nothing,
                                  .differentiable = false,
                                  .pure = false,
                                  .timing = Timing::late});
const OpDef recv_begin_op = define(
    {.name = "recv_begin",
     .doc = "Memory in which a value of another rank will arrive, and a ticket; after the message with the ticket "
            "given, if one is.",
     .family = "collective",
     .arity = -1,
     .never_batched = kOncePerBatch,
     .shape =
         [](const Call& call) {
           call.attrs.integer("from");
           call.attrs.integer("tag");
           return std::vector<TensorType>{{call.attrs.dtype("dtype"), Shape(call.attrs.ints("shape"))}, kTicket};
         },
     .cost = moves_output,
     .differentiable = false,
     .pure = false,
     .timing = Timing::early});
const OpDef recv_end_op = define({.name = "recv_end",
                                  .doc = "The value that was awaited with this ticket, and a token.",
                                  .family = "collective",
                                  .arity = 2,
                                  .never_batched = kOncePerBatch,
                                  .shape =
                                      [](const Call& call) {
                                        check_ticket(call);
                                        return std::vector<TensorType>{call.in[0], kToken};
                                      },
                                  .cost = costs_nothing,
                                  .differentiable = false,
                                  .pure = false,
                                  .timing = Timing::late,
                                  .in_place = {{0, 0}}});
const OpDef exchanged_op = define({.name = "exchanged",
                                   .doc = "The first input, when the messages with these tokens are done.",
                                   .family = "collective",
                                   .arity = -1,
                                   .never_batched = kOncePerBatch,
                                   .shape = [](const Call& call) { return std::vector<TensorType>{call.in[0]}; },
                                   .cost = costs_nothing,
                                   .differentiable = false,
                                   .pure = false,
                                   .in_place = {{0, 0}}});

}  // namespace

std::vector<const OpRecord*> message_ops() {
  return {&transfer_op.record(),   &send_begin_op.record(), &send_end_op.record(),
          &recv_begin_op.record(), &recv_end_op.record(),   &exchanged_op.record()};
}

namespace distributed {

Tensor transfer(const Tensor& x, int from, int to) {
  return record(transfer_op.record(), {x}, {{"ranks", size()}, {"from", from}, {"to", to}})[0];
}

}  // namespace distributed
}  // namespace varve
