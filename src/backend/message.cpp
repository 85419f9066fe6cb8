// Messages between two ranks, for backends whose memory is the processor's: begun, and awaited.
#include "backend/message.h"

#include <cstring>

#include "backend/communicator.h"

namespace varve::backend {
namespace {

using Ticket = Communication::Ticket;

void note_ticket(void* to, Ticket ticket) { *static_cast<std::int64_t*>(to) = static_cast<std::int64_t>(ticket); }

void wait_for(const void* ticket) {
  Communication::get().wait(static_cast<Ticket>(*static_cast<const std::int64_t*>(ticket)));
}

void copy_bytes(const void* from, void* to, std::size_t bytes) {
  if (from != to && bytes) std::memcpy(to, from, bytes);
}

int small(const Task& task, const char* attr) { return static_cast<int>(task.attrs.integer(attr)); }

}  // namespace

Prepared send_begin(const Task& task) {
  const std::size_t bytes = task.in[0].type.bytes();
  const int to = small(task, "to"), tag = small(task, "tag");
  return prepared([=](const RunArgs& args) {
    copy_bytes(args.in[0], args.out[0], bytes);
    const void* data = args.out[0];
    note_ticket(args.out[1], Communication::get().post([=](Communicator& all) { all.send(data, bytes, to, tag); }));
  });
}

Prepared send_end(const Task&) {
  return prepared([](const RunArgs& args) {
    wait_for(args.in[1]);
    *static_cast<float*>(args.out[0]) = 0;
  });
}

Prepared recv_begin(const Task& task) {
  const std::size_t bytes = task.out[0].type.bytes();
  const int from = small(task, "from"), tag = small(task, "tag");
  return prepared([=](const RunArgs& args) {
    void* data = args.out[0];
    note_ticket(args.out[1],
                Communication::get().post([=](Communicator& all) { all.receive(data, bytes, from, tag); }));
  });
}

Prepared recv_end(const Task& task) {
  const std::size_t bytes = task.out[0].type.bytes();
  return prepared([=](const RunArgs& args) {
    wait_for(args.in[1]);
    copy_bytes(args.in[0], args.out[0], bytes);
    *static_cast<float*>(args.out[1]) = 0;
  });
}

Prepared exchanged(const Task& task) {
  const std::size_t bytes = task.out[0].type.bytes();
  return prepared([=](const RunArgs& args) { copy_bytes(args.in[0], args.out[0], bytes); });
}

}  // namespace varve::backend
