// Several workers at once, on processors of their own: ranks that share each batch, or processes that know nothing of
// one another and show what the machine has for so many.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/frameworks.h"
#include "bench/hosts.h"

namespace varve::bench {

struct Together {
  int ranks = 1;
  bool connected = true;         // false: each a world of its own
  const Hosts* hosts = nullptr;  // that the ranks are spread over; null: this machine
};

// The answer of all, as if of one: of ranks that share a batch, sample by sample the slowest one's; of others all
// samples. Memory is that of the largest process, wire times are means over ranks. Anything but "ok" of one is that of
// all.
Answer ask_together(const Framework& framework, const Request& request, const Together& together, double limit_seconds);

// The answers of ranks as one, for tests.
nlohmann::json merged(const std::vector<nlohmann::json>& answers, bool connected);

}  // namespace varve::bench
