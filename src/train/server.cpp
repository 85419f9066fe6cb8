#include "train/server.h"

#include <algorithm>
#include <limits>

#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve::train {
namespace {

namespace dist = distributed;

constexpr int kReport = 1, kValues = 2, kAnswer = 3;  // tags

// What a worker says before it sends gradients.
struct WorkerReport {
  double loss = 0, samples = 0;
  bool ends = false, stops = false, finished = false;  // a signal came; a callback asked to; its epoch is over

  static TensorType type() { return {f64, {5}}; }
  Tensor tensor() const {
    return varve::tensor({loss, samples, ends ? 1.0 : 0.0, stops ? 1.0 : 0.0, finished ? 1.0 : 0.0});
  }
  static WorkerReport of(const Tensor& sent) {
    const std::vector<double> v = sent.to_vector<double>();
    return {v[0], v[1], v[2] > 0, v[3] > 0, v[4] > 0};
  }
};

void send_all(const std::vector<Variable>& variables, int to, int tag) {
  for (const Variable& variable : variables) dist::send(variable.value(), to, tag);
}

Tensor receive_for(const Variable& variable, int from, int tag) { return dist::recv(variable.type(), from, tag); }

}  // namespace

ServedModel::ServedModel(const nn::Module& model) {
  std::vector<Variable> parameters = model.parameters();
  for (const nn::NamedVariable& named : model.named_variables()) {
    const auto is_it = [&](const Variable& other) { return other.same(named.variable); };
    if (std::any_of(parameters.begin(), parameters.end(), is_it)) continue;
    if (std::none_of(statistics.begin(), statistics.end(), is_it)) statistics.push_back(named.variable);
  }
  weights = std::move(parameters);
}

struct ParameterServer::Epoch {
  struct Worker {
    std::int64_t clock;
    bool waits = false;    // for an answer
    bool is_over = false;  // its epoch
    bool is_gone = false;  // was told so
  };
  ParameterServer& server;
  TrainStep& step;
  const Hooks& hooks;
  std::vector<Worker> workers;
  std::int64_t slowest;
  TrainStep::Wishes wishes = {};
  double loss = 0, samples = 0;  // since all workers had done the last step

  bool told() const { return wishes.end || wishes.stop; }
  bool some(bool Worker::*what) const {
    return std::any_of(workers.begin(), workers.end(), [&](const Worker& worker) { return worker.*what; });
  }
  bool all_over() const {
    return std::all_of(workers.begin(), workers.end(), [](const Worker& w) { return w.is_over || w.is_gone; });
  }

  void take(int rank, const WorkerReport& report);
  void take_values(int rank);
  void update();
  void advance();
  void answer();
};

// With a bound of 0 the gradients of a step are averaged, as ranks without a server would; otherwise each is applied as
// it comes, by a rate that is shared among the workers (Trainer::set_rate).
void ParameterServer::Epoch::take_values(int rank) {
  for (Variable& sum : step.gradients()) {
    const Tensor gradient = receive_for(sum, rank, kValues);
    sum.assign((sum.value() + gradient).eval());
  }
  const double share = 1.0 / static_cast<double>(workers.size());
  for (Variable& statistic : server.model_.statistics) {
    const Tensor seen = receive_for(statistic, rank, kValues);
    const Tensor now = statistic.value();
    statistic.assign(is_floating(now.dtype()) ? (now + (seen - now) * share).eval() : seen);
  }
}

void ParameterServer::Epoch::take(int rank, const WorkerReport& report) {
  if (report.samples > 0) take_values(rank);
  if (server.staleness_ == 0 || report.samples > 0) step.count_gradients();
  if (server.staleness_ > 0 && report.samples > 0) update();
  loss += report.loss * report.samples;
  samples += report.samples;
  ++workers[static_cast<std::size_t>(rank - 1)].clock;
}

void ParameterServer::Epoch::update() {
  hooks.before_update();
  step.apply();
}

// The slowest worker may have come further.
void ParameterServer::Epoch::advance() {
  std::int64_t now = std::numeric_limits<std::int64_t>::max(), furthest = slowest;
  for (const Worker& worker : workers) {
    furthest = std::max(furthest, worker.clock);
    if (!worker.is_over && !worker.is_gone) now = std::min(now, worker.clock);
  }
  for (now = std::min(now, furthest); slowest < now; ++slowest) {
    if (server.staleness_ == 0) update();
    const TrainStep::Wishes own = hooks.stepped(samples > 0 ? loss / samples : 0);
    loss = samples = 0;
    if (!some(&Worker::is_gone)) wishes = {wishes.end || own.end, wishes.stop || own.stop, false};
  }
}

void ParameterServer::Epoch::answer() {
  const bool over = all_over();
  for (std::size_t w = 0; w < workers.size(); ++w) {
    Worker& worker = workers[w];
    if (!worker.waits) continue;
    const bool goes_on = !told() && !worker.is_over;
    if (goes_on && worker.clock - slowest > server.staleness_) continue;
    if (!goes_on && !told() && !over) continue;
    if (goes_on) server.most_ahead_ = std::max(server.most_ahead_, worker.clock - slowest);
    const int rank = static_cast<int>(w) + 1;
    dist::send(tensor({wishes.end ? 1.0 : 0.0, wishes.stop ? 1.0 : 0.0}), rank, kAnswer);
    send_all(server.model_.weights, rank, kAnswer);
    worker.waits = false;
    worker.is_gone = !goes_on;
  }
}

TrainStep::Wishes ParameterServer::serve(TrainStep& step, std::int64_t first, const Hooks& hooks) {
  Epoch epoch{.server = *this,
              .step = step,
              .hooks = hooks,
              .workers = std::vector<Epoch::Worker>(static_cast<std::size_t>(dist::size() - 1), {first}),
              .slowest = first};
  step.forget_gradients();
  while (!std::all_of(epoch.workers.begin(), epoch.workers.end(), [](const auto& w) { return w.is_gone; })) {
    const auto [sent, rank] = dist::recv_any(WorkerReport::type(), kReport);
    const WorkerReport report = WorkerReport::of(sent);
    Epoch::Worker& worker = epoch.workers[static_cast<std::size_t>(rank - 1)];
    worker.waits = true;
    // What some were told, all are.
    if (!epoch.some(&Epoch::Worker::is_gone)) {
      epoch.wishes.end = epoch.wishes.end || report.ends;
      epoch.wishes.stop = epoch.wishes.stop || report.stops;
    }
    if (report.finished)
      worker.is_over = true;
    else
      epoch.take(rank, report);
    epoch.advance();
    epoch.answer();
  }
  return epoch.wishes;
}

// ---- the other side

TrainStep::Wishes ServerWorker::answer() {
  const std::vector<double> told = dist::recv({f64, {2}}, 0, kAnswer).to_vector<double>();
  for (Variable& weight : model_.weights) weight.assign(receive_for(weight, 0, kAnswer).eval());
  return {told[0] > 0, told[1] > 0, false};
}

TrainStep::Wishes ServerWorker::exchange(TrainStep& step, const Done& done) {
  const auto samples = static_cast<double>(done.samples);
  dist::send(WorkerReport{done.loss, samples, done.ends, done.stops, false}.tensor(), 0, kReport);
  if (done.samples > 0) {
    send_all(step.gradients(), 0, kValues);
    send_all(model_.statistics, 0, kValues);
  }
  step.forget_gradients();
  return answer();
}

TrainStep::Wishes ServerWorker::finish(const Done& done) {
  dist::send(WorkerReport{0, 0, done.ends, done.stops, true}.tensor(), 0, kReport);
  return answer();
}

}  // namespace varve::train
