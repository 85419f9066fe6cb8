// A program as its device keeps it: one recording, or, where the device cannot decide by itself what runs, several with
// steps in between that the processor starts.
#include <iostream>

#include "base/text.h"
#include "runtime/dependencies.h"
#include "runtime/engine.h"
#include "runtime/execution.h"

namespace varve::runtime {
namespace {

using Pieces = std::vector<backend::Device::Piece>;

// Pieces of the program, all of them before any that it is cut at.
class CutRecording final : public backend::Recording {
 public:
  void add(std::unique_ptr<backend::Recording> part) { parts_.push_back({std::move(part), {}}); }
  void add(std::function<void()> step) { parts_.push_back({nullptr, std::move(step)}); }
  void replay() override {
    for (const Part& part : parts_)
      if (part.recording)
        part.recording->replay();
      else
        part.step();
  }

 private:
  struct Part {
    std::unique_ptr<backend::Recording> recording;
    std::function<void()> step;
  };
  std::vector<Part> parts_;
};

// Those of [from, to), which wait for each other alone: what came before has been started before.
Pieces some(const Pieces& pieces, std::size_t from, std::size_t to) {
  Pieces result;
  for (std::size_t p = from; p < to; ++p) {
    result.push_back({pieces[p].work, {}});
    for (const int earlier : pieces[p].after)
      if (earlier >= static_cast<int>(from)) result.back().after.push_back(earlier - static_cast<int>(from));
  }
  return result;
}

}  // namespace

std::vector<backend::Device::Piece> Execution::pieces() {
  const std::vector<std::vector<int>> after = dependencies(*plan_);
  Pieces pieces;
  for (std::size_t s = 0; s < kernels_.size(); ++s) pieces.push_back({[this, s] { run_step(s); }, after[s]});
  pieces.push_back({[this] { run_copies(); }, after.back()});
  return pieces;
}

std::unique_ptr<backend::Recording> Execution::record() {
  if (!plan_->decides) return plan_->device->record(pieces());
  if (!plan_->device->decision_refusal().empty()) return record_cut();
  try {
    return plan_->device->record(pieces());
  } catch (const Error& error) {
    auto cut = record_cut();  // which does not fail: it is the decisions that the device refuses
    plan_->device->refuse_decisions(error.what());
    if (explains()) std::cerr << "-- the recorded step is cut at its conditions: " << error.what() << "\n";
    return cut;
  }
}

std::unique_ptr<backend::Recording> Execution::record_cut() {
  auto cut = std::make_unique<CutRecording>();
  const Pieces all = pieces();
  std::size_t from = 0;
  const auto record_until = [&](std::size_t to) {
    if (from < to) cut->add(plan_->device->record(some(all, from, to)));
    from = to + 1;
  };
  for (std::size_t s = 0; s < plan_->steps.size(); ++s) {
    const compiler::PlanStep& step = plan_->steps[s];
    if (!step.choice && !step.repeat && !(step.loop && step.loop->body->decides)) continue;
    record_until(s);
    cut->add([this, s] { run_step(s); });
  }
  record_until(all.size());
  return cut;
}

}  // namespace varve::runtime
