#include "runtime/compiled.h"

#include <algorithm>

#include "base/memory.h"
#include "base/text.h"
#include "base/threads.h"
#include "runtime/engine.h"
#include "runtime/profile.h"
#include "runtime/residence.h"

namespace varve {
namespace detail {

runtime::Program& CompiledFn::program(const Tensor* const* args, std::size_t count) {
  const std::string device = options_.device.empty() ? varve::device() : options_.device;
  for (auto it = programs_.begin(); it != programs_.end(); ++it)
    if (it->matches(args, count, device)) {
      if (it != programs_.begin()) programs_.splice(programs_.begin(), programs_, it);
      return programs_.front();
    }
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < count; ++i) types.push_back(args[i]->type());
  runtime::Traced traced = runtime::trace(fn_, types);
  std::string captured;
  for (const auto& constant : traced.constants) captured += cat("captured constant ", constant->type.str(), "\n");
  programs_.emplace_front(std::move(traced), std::move(types), device, backend::Choices{.tf32 = options_.tf32});
  if (runtime::explains()) {
    runtime::print_explanation(options_.name, programs_.front().plan(), captured);
  }
  while (programs_.size() > kMostPrograms) programs_.pop_back();
  return programs_.front();
}

std::vector<Tensor> CompiledFn::record(const Tensor* const* args, std::size_t count) {
  std::vector<Tensor> in;
  for (std::size_t i = 0; i < count; ++i) in.push_back(*args[i]);
  return fn_(in);
}

namespace {

// The values that take most of a program's arena, for the one who must make it smaller.
std::string largest_values(const compiler::Plan& plan) {
  std::vector<std::pair<std::size_t, std::string>> values;
  for (const compiler::PlanStep& step : plan.steps)
    for (std::size_t o = 0; o < step.out.size(); ++o)
      if (step.out[o].kind == compiler::Place::Kind::arena) {
        const TensorType& type = step.out_ports[o].type;
        values.push_back({type.bytes(), cat(type.str(), " of ", step.op.substr(0, 40),
                                            step.origin.empty() ? "" : cat(" (", step.origin, ")"))});
      }
  constexpr std::size_t kShown = 3;
  std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, values.size()); ++i)
    text += cat(i ? "; " : "", human_bytes(values[i].first), " ", values[i].second);
  return text;
}

}  // namespace

const std::vector<Tensor>& CompiledFn::run(const Tensor* const* args, std::size_t count, std::vector<double>* seconds) {
  runtime::Program& program = this->program(args, count);
  const bool fits = arena_ && arena_->bytes >= program.arena_bytes() && program.plan().device == arena_device_;
  if (program.arena_bytes() && !fits) {
    arena_device_ = program.plan().device;
    arena_ = nullptr;  // first give back, then take
    try {
      arena_ = runtime::new_storage(program.arena_bytes(), program.plan().device);
    } catch (const OutOfMemory& error) {
      throw OutOfMemory(cat(error.what(), " The program '", options_.name, "' needs ",
                            human_bytes(program.arena_bytes()),
                            " for intermediate values; the largest: ", largest_values(program.plan()), "."));
    }
  }
  program.run(args, arena_, results_, seconds);
  return results_;
}

Running::Running(CompiledFn& fn, const Tensor* const* args, std::size_t count) {
  if (Trace::current() || GradientScope::current() || RegionScope::current()) {
    inlined_ = fn.record(args, count);
  } else {
    lock_ = fn.lock();
    results_ = &fn.run(args, count);
  }
}

namespace {
std::vector<const Tensor*> pointers(const std::vector<Tensor>& args) {
  std::vector<const Tensor*> result;
  for (const Tensor& arg : args) result.push_back(&arg);
  return result;
}
}  // namespace

std::shared_ptr<CompiledFn> compile(ProgramFn fn, CompileOptions options) {
  return std::make_shared<CompiledFn>(std::move(fn), std::move(options));
}
std::int64_t peak_bytes(CompiledFn& fn, const std::vector<Tensor>& args) {
  const auto lock = fn.lock();
  const std::vector<const Tensor*> in = pointers(args);
  return fn.program(in.data(), in.size()).peak_bytes(in.data());
}
std::string text(CompiledFn& fn, const std::vector<Tensor>& args) {
  const auto lock = fn.lock();
  const compiler::Plan& plan = fn.program(pointers(args).data(), args.size()).plan();
  return plan.text + plan.explain;
}
std::string graphviz(CompiledFn& fn, const std::vector<Tensor>& args) {
  const auto lock = fn.lock();
  return fn.program(pointers(args).data(), args.size()).plan().graphviz;
}
std::string types_of(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor& tensor : tensors) text += tensor.type().str() + ';';
  return text;
}
std::size_t programs(CompiledFn& fn) {
  const auto lock = fn.lock();
  return fn.programs();
}

Profile profile(CompiledFn& fn, const std::vector<Tensor>& args, int repeats) {
  if (repeats < 1) throw Error(cat("profile: needs at least one repeat, got ", repeats, "."));
  std::vector<double> seconds;
  const std::vector<const Tensor*> in = pointers(args);
  const auto lock = fn.lock();
  fn.run(in.data(), in.size());  // warm
  for (int i = 0; i < repeats; ++i) fn.run(in.data(), in.size(), &seconds);
  return runtime::make_profile(fn.program(in.data(), in.size()).plan(), seconds, repeats);
}

}  // namespace detail

std::string bytes(std::int64_t count) { return human_bytes(static_cast<std::uint64_t>(count)); }

}  // namespace varve
