#include "train/same_start.h"

#include <cmath>
#include <sstream>

#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve::train {
namespace {

// Means of a few samples and targets, which say enough: another file, another order, other scaling. Pictures need not
// be decoded to the same bits on every machine.
constexpr double kNear = 1e-3;

std::string some_samples(const data::Dataset& dataset) {
  if (!dataset.parts().empty() || dataset.streams() > 0 || dataset.size() == 0) return "";
  std::ostringstream text;
  text.precision(9);
  for (const std::int64_t index : {std::int64_t{0}, dataset.size() / 2, dataset.size() - 1}) {
    const auto [inputs, targets] = dataset.sample(index);
    for (const Tensors& fields : {inputs, targets})
      for (const auto& [name, field] : fields) text << mean(cast(field, f32)).item<float>() << ' ';
  }
  return text.str();
}

std::string network_text(const std::vector<Kept>& variables) {
  std::int64_t numbers = 0;
  std::string names;
  for (const Kept& kept : variables) {
    numbers += kept.variable.type().shape.numel();
    names += kept.name + " " + kept.variable.type().str() + "; ";
  }
  std::ostringstream text;
  text << variables.size() << " variables of " << numbers << " numbers (" << std::hex << std::hash<std::string>()(names)
       << ")";
  return text.str();
}

std::string data_text(const data::Dataset& dataset) {
  if (!dataset.defined()) return "none";
  return std::to_string(dataset.total()) + " samples of " + str(dataset.inputs()) + " with " + str(dataset.targets());
}

// One line each: what it is, and what this rank has.
std::string described(const Position& p, const std::vector<Kept>& variables, const data::Dataset& train,
                      const data::Dataset& validation) {
  std::ostringstream text;
  text << "seed: " << p.seed << "\nbatch: " << p.batch << "\naccumulate: " << p.accumulate
       << "\noptimizer: " << p.optimizer << "\nloss: " << p.loss << "\nnetwork: " << network_text(variables)
       << "\ntraining data: " << data_text(train) << "\nvalidation data: " << data_text(validation)
       << "\ntraining samples: " << some_samples(train) << "\n";
  return text.str();
}

bool near_numbers(const std::string& a, const std::string& b) {
  std::istringstream one(a), other(b);
  for (double x = 0, y = 0; one >> x && other >> y;)
    if (!(std::abs(x - y) <= kNear * (1 + std::abs(x)))) return false;
  return true;
}

}  // namespace

void check_same_start(const Position& position, const std::vector<Kept>& variables, const data::Dataset& train,
                      const data::Dataset& validation) {
  const std::vector<std::string> all = distributed::gather_text(described(position, variables, train, validation));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::istringstream first(all[0]), other(all[rank]);
    for (std::string expected, got; std::getline(first, expected) && std::getline(other, got);) {
      const std::size_t colon = expected.find(": ");
      const std::string what = expected.substr(0, colon);
      if (expected == got) continue;
      if (what == "training samples" && near_numbers(expected.substr(colon + 2), got.substr(colon + 2))) continue;
      throw Error("the ranks do not train the same: rank " + std::to_string(rank) + " has " + got + ", rank 0 has " +
                  expected + ". Start all of them with the same network, settings and data.");
    }
  }
}

}  // namespace varve::train
