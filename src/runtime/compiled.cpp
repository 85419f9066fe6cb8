#include "runtime/compiled.h"

#include "base/text.h"
#include "base/threads.h"
#include "runtime/engine.h"
#include "runtime/profile.h"

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
  programs_.emplace_front(std::move(traced), std::move(types), device);
  if (runtime::explains()) {
    runtime::print_explanation(options_.name, programs_.front().plan(), captured);
  }
  while (programs_.size() > kMostPrograms) programs_.pop_back();
  return programs_.front();
}

void CompiledFn::call(const Tensor* const* args, std::size_t count, std::vector<Tensor>& results, std::vector<double>* seconds) {
  if (Trace::current()) {   // part of a larger program
    std::vector<Tensor> in;
    for (std::size_t i = 0; i < count; ++i) in.push_back(*args[i]);
    results = fn_(in);
    return;
  }
  const std::lock_guard lock(mutex_);
  runtime::Program& program = this->program(args, count);
  if (program.arena_bytes() && (!arena_ || arena_->bytes < program.arena_bytes())) {
    arena_ = nullptr;   // first give back, then take
    arena_ = ir::new_storage(program.arena_bytes());
  }
  program.run(args, arena_, results, seconds);
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
void call(CompiledFn& fn, const Tensor* const* args, std::size_t count, std::vector<Tensor>& results) { fn.call(args, count, results); }
std::int64_t peak_bytes(CompiledFn& fn, const std::vector<Tensor>& args) { return fn.program(pointers(args).data(), args.size()).peak_bytes(); }
std::string text(CompiledFn& fn, const std::vector<Tensor>& args) {
  const compiler::Plan& plan = fn.program(pointers(args).data(), args.size()).plan();
  return plan.text + plan.explain;
}
std::string graphviz(CompiledFn& fn, const std::vector<Tensor>& args) { return fn.program(pointers(args).data(), args.size()).plan().graphviz; }
std::size_t programs(const CompiledFn& fn) { return fn.programs(); }

Profile profile(CompiledFn& fn, const std::vector<Tensor>& args, int repeats) {
  if (repeats < 1) throw Error(cat("profile: needs at least one repeat, got ", repeats, "."));
  std::vector<Tensor> results;
  std::vector<double> seconds;
  const std::vector<const Tensor*> in = pointers(args);
  fn.call(in.data(), in.size(), results);   // warm
  for (int i = 0; i < repeats; ++i) fn.call(in.data(), in.size(), results, &seconds);
  return runtime::make_profile(fn.program(in.data(), in.size()).plan(), seconds, repeats);
}

}  // namespace detail

std::string bytes(std::int64_t count) { return human_bytes(static_cast<std::uint64_t>(count)); }

}  // namespace varve
