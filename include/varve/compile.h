// compile(fn): a function of tensors, with the variables it reads and assigns, as one program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "varve/tensor.h"

namespace varve {

struct CompileOptions {
  std::string device = "";  // empty: the current device
  std::string name = "program";
  bool tf32 = false;  // products of f32 may round their operands to 10 bits: several times faster on GPUs that can
};

// Time spent in one kernel of a program, and what the machine could have done meanwhile.
struct ProfileRow {
  std::string kernel, op, shape, origin;
  std::int64_t calls = 0;
  double ms = 0, flops = 0, bytes = 0;      // a call, on average
  double flops_share = 0, bytes_share = 0;  // of the machine's measured peak
};
struct Profile {
  std::vector<ProfileRow> rows;  // in the order of execution
  double total_ms = 0;
  std::string table() const;
  std::string chrome_trace() const;  // opens in Perfetto
};

namespace detail {
using ProgramFn = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
class CompiledFn;
std::shared_ptr<CompiledFn> compile(ProgramFn fn, CompileOptions options);
// A call: the program for these arguments, made at the first call with such shapes, is run by one thread at a time,
// which keeps it until the results are taken.
class Running {
 public:
  Running(CompiledFn& fn, const Tensor* const* args, std::size_t count);
  const std::vector<Tensor>& results() const { return *results_; }

 private:
  std::unique_lock<std::mutex> lock_;
  std::vector<Tensor> inlined_;  // inside a trace: recorded, not run
  const std::vector<Tensor>* results_ = &inlined_;
};
inline void call(CompiledFn& fn, const Tensor* const* args, std::size_t count, std::vector<Tensor>& results) {
  results = Running(fn, args, count).results();
}
std::int64_t peak_bytes(CompiledFn& fn, const std::vector<Tensor>& args);
std::string text(CompiledFn& fn, const std::vector<Tensor>& args);  // the graph as compiled, and who claimed what
std::string graphviz(CompiledFn& fn, const std::vector<Tensor>& args);
Profile profile(CompiledFn& fn, const std::vector<Tensor>& args, int repeats);
std::size_t programs(CompiledFn& fn);

inline std::vector<Tensor> pack() { return {}; }
inline std::vector<Tensor> pack(Tensor t) { return {std::move(t)}; }
inline std::vector<Tensor> pack(std::vector<Tensor> ts) { return ts; }
template <class... T>
std::vector<Tensor> pack(std::tuple<T...> ts) {
  return std::apply([](auto&... t) { return std::vector<Tensor>{t...}; }, ts);
}
template <class A, class B>
std::vector<Tensor> pack(std::pair<A, B> ts) {
  return {ts.first, ts.second};
}

template <class R>
struct Unpack;
template <>
struct Unpack<void> {
  static void get(const std::vector<Tensor>&) {}
};
template <>
struct Unpack<Tensor> {
  static Tensor get(const std::vector<Tensor>& r) { return r[0]; }
};
template <>
struct Unpack<std::vector<Tensor>> {
  static std::vector<Tensor> get(const std::vector<Tensor>& r) { return r; }
};
template <class A, class B>
struct Unpack<std::pair<A, B>> {
  static std::pair<A, B> get(const std::vector<Tensor>& r) { return {r[0], r[1]}; }
};
template <class... T>
struct Unpack<std::tuple<T...>> {
  template <std::size_t... I>
  static std::tuple<T...> get(const std::vector<Tensor>& r, std::index_sequence<I...>) {
    return {r[I]...};
  }
  static std::tuple<T...> get(const std::vector<Tensor>& r) { return get(r, std::index_sequence_for<T...>()); }
};

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class C, class... A>
struct Signature<R (C::*)(A...) const> {
  using Result = R;
  static constexpr std::size_t arity = sizeof...(A);
};
template <class R, class C, class... A>
struct Signature<R (C::*)(A...)> {
  using Result = R;
  static constexpr std::size_t arity = sizeof...(A);
};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = R;
  static constexpr std::size_t arity = sizeof...(A);
};
}  // namespace detail

// A compiled function: call it like the function. One program for each set of argument shapes, bounded in number.
template <class R, std::size_t N>
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<detail::CompiledFn> fn) : fn_(std::move(fn)) {}

  template <class... A>
  R operator()(const A&... args) {
    static_assert(sizeof...(A) == N, "a compiled function takes as many tensors as the function it was made of");
    if constexpr (N == 0) {
      return detail::Unpack<R>::get(detail::Running(*fn_, nullptr, 0).results());
    } else {
      const Tensor held[] = {static_cast<Tensor>(args)...};  // a variable gives a tensor of its own
      const Tensor* pointers[N];
      for (std::size_t i = 0; i < N; ++i) pointers[i] = &held[i];
      return detail::Unpack<R>::get(detail::Running(*fn_, pointers, N).results());
    }
  }

  template <class... A>
  std::int64_t peak_bytes(const A&... args) {
    return detail::peak_bytes(*fn_, {args...});
  }  // before it ever runs
  template <class... A>
  std::string text(const A&... args) {
    return detail::text(*fn_, {args...});
  }
  template <class... A>
  std::string graphviz(const A&... args) {
    return detail::graphviz(*fn_, {args...});
  }
  // Runs the program `repeats` times, timing every kernel. State is updated as in any other call.
  template <class... A>
  Profile profile(int repeats, const A&... args) {
    return detail::profile(*fn_, {args...}, repeats);
  }
  std::size_t programs() const { return detail::programs(*fn_); }

 private:
  std::shared_ptr<detail::CompiledFn> fn_;
};

template <class F>
auto compile(F f, CompileOptions options = {}) {
  using S = detail::Signature<F>;
  using R = typename S::Result;
  auto body = [f = std::move(f)](const std::vector<Tensor>& in) mutable {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (std::is_void_v<R>) {
        f(in[I]...);
        return detail::pack();
      } else {
        return detail::pack(f(in[I]...));
      }
    }
    (std::make_index_sequence<S::arity>());
  };
  return Compiled<R, S::arity>(detail::compile(std::move(body), std::move(options)));
}

std::string bytes(std::int64_t count);  // "12.1 MB"

// What it takes to compute `output` from tensors already there: the sum over recorded nodes that have not run yet.
Cost cost(const Tensor& output, const std::vector<Tensor>& from = {});
Cost cost(const std::vector<Tensor>& outputs, const std::vector<Tensor>& from = {});

// ---- threads and determinism
void set_threads(int count);
int threads();
void set_deterministic(bool on);  // the same bits for any number of threads
bool deterministic();

}  // namespace varve
