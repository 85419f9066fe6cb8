// What gradients become on the wire.
#include "optim/named.h"
#include "varve/distributed.h"

namespace varve::distributed {
namespace {

struct Record {
  std::string name;
  optim::Fields<Compression> fields;
  Compression standard;
};

const std::vector<Record>& records() {
  static const std::vector<Record> all = {
      {"none", {}, {}},
      {"half", {}, half()},
      {"one_bit", {}, one_bit()},
      {"top_k", {{"share", &Compression::share}}, top_k()},
      {"power_sgd", {{"rank", &Compression::rank}}, power_sgd()},
  };
  return all;
}

}  // namespace

Compression half() { return {.name = "half"}; }
Compression one_bit() { return {.name = "one_bit"}; }

Compression top_k(double share) {
  optim::check_positive("top_k: share", share);
  if (share > 1) throw Error("top_k: share must be at most 1, got " + optim::text(share) + ".");
  return {.name = "top_k", .share = share};
}

Compression power_sgd(int rank) {
  optim::check_at_least("power_sgd: rank", rank, 1);
  return {.name = "power_sgd", .rank = rank};
}

Compression compression_by_name(const std::string& name, const std::vector<std::pair<std::string, double>>& options) {
  const Record& record = optim::find_record(records(), "compression", name);
  Compression made = record.standard;
  for (const auto& [key, value] : options)
    if (!optim::set_field(made, record.fields, name, key, value))
      optim::throw_unknown(name + ": option", key, optim::names_of(record.fields));
  if (name == "top_k") return top_k(made.share);
  if (name == "power_sgd") return power_sgd(made.rank);
  return made;
}

}  // namespace varve::distributed
