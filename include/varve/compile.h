// compile(fn): a function of tensors, with the variables it reads and assigns, as one program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "varve/tensor.h"
#include "varve/tree.h"

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

template <class... A>
struct AllTensors {
  static constexpr bool value = (std::is_same_v<std::decay_t<A>, Tensor> && ...);
};
template <class F>
struct Signature {};
template <class F>
requires requires { &F::operator(); }
struct Signature<F> : Signature<decltype(&F::operator())> {};
template <class R, class C, class... A>
struct Signature<R (C::*)(A...) const> {
  using Result = R;
  using Arguments = AllTensors<A...>;
  static constexpr std::size_t arity = sizeof...(A);
};
template <class R, class C, class... A>
struct Signature<R (C::*)(A...)> {
  using Result = R;
  using Arguments = AllTensors<A...>;
  static constexpr std::size_t arity = sizeof...(A);
};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = R;
  using Arguments = AllTensors<A...>;
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

namespace detail {
// Whether all arguments of a function are tensors and it returns what pack() takes: then programs are found fastest.
template <class R>
inline constexpr bool packs = false;
template <>
inline constexpr bool packs<void> = true;
template <>
inline constexpr bool packs<Tensor> = true;
template <>
inline constexpr bool packs<std::vector<Tensor>> = true;
template <>
inline constexpr bool packs<std::pair<Tensor, Tensor>> = true;
template <class... T>
inline constexpr bool packs<std::tuple<T...>> = (std::is_same_v<T, Tensor> && ...);
template <class F>
concept PlainlySigned = requires {
  typename Signature<F>::Result;
}
&&packs<typename Signature<F>::Result>&& Signature<F>::Arguments::value;

// The programs of one function for one structure of its arguments, and how its results are put together.
template <class R>
struct Structured {
  std::shared_ptr<CompiledFn> fn;
  std::mutex mutex;
  std::map<std::string, R> results;  // by the arguments' types: a result with undefined tensors

  void note(const std::string& types, const R& result) {
    const std::vector<Tensor> none(listed(result).size());
    const std::lock_guard lock(mutex);
    results.insert_or_assign(types, made_like(result, none));
  }
  R rebuilt(const std::string& types, const std::vector<Tensor>& tensors) {
    const std::lock_guard lock(mutex);
    return made_like(results.at(types), tensors);
  }
};
template <>
struct Structured<void> {
  std::shared_ptr<CompiledFn> fn;
};
std::string types_of(const std::vector<Tensor>& tensors);
}  // namespace detail

// A compiled function whose arguments or results are vectors, arrays, pairs, tuples or maps of tensors, or that takes
// any (a generic lambda). One set of programs for each structure of the arguments.
template <class F>
class CompiledTree {
 public:
  CompiledTree(F f, CompileOptions options) : shared_(std::make_shared<Shared>(std::move(f), std::move(options))) {}

  template <class... A>
  auto operator()(const A&... args) {
    using R = std::invoke_result_t<F&, detail::Made<A>&...>;
    const std::vector<Tensor> in = flat(args...);
    const auto one = structured<R>(args...);
    const std::vector<const Tensor*> pointers = addresses(in);
    const detail::Running running(*one->fn, pointers.data(), pointers.size());
    if constexpr (!std::is_void_v<R>) {
      static_assert(detail::is_tree<R>, "a compiled function returns tensors, or vectors, tuples or maps of them");
      return one->rebuilt(detail::types_of(in), running.results());
    }
  }

  template <class... A>
  std::int64_t peak_bytes(const A&... args) {
    return detail::peak_bytes(*fn(args...), flat(args...));
  }
  template <class... A>
  std::string text(const A&... args) {
    return detail::text(*fn(args...), flat(args...));
  }
  template <class... A>
  std::string graphviz(const A&... args) {
    return detail::graphviz(*fn(args...), flat(args...));
  }
  template <class... A>
  Profile profile(int repeats, const A&... args) {
    return detail::profile(*fn(args...), flat(args...), repeats);
  }
  std::size_t programs() const {
    const std::lock_guard lock(shared_->mutex);
    std::size_t count = 0;
    for (const auto& [key, each] : shared_->all) count += detail::programs(*each.fn);
    return count;
  }

 private:
  struct Entry {
    std::shared_ptr<void> structured;
    std::shared_ptr<detail::CompiledFn> fn;
  };
  struct Shared {
    Shared(F given, CompileOptions wanted) : f(std::move(given)), options(std::move(wanted)) {}
    F f;
    CompileOptions options;
    std::mutex mutex;
    std::map<std::string, Entry> all;  // by types and structure of the arguments
  };
  static constexpr std::size_t kMostStructures = 64;

  template <class... A>
  static std::vector<Tensor> flat(const A&... args) {
    static_assert((detail::is_tree<A> && ...), "arguments are tensors, or vectors, arrays, tuples or maps of them");
    std::vector<Tensor> in;
    (detail::Tree<A>::list(args, in), ...);
    return in;
  }
  static std::vector<const Tensor*> addresses(const std::vector<Tensor>& tensors) {
    std::vector<const Tensor*> all;
    for (const Tensor& tensor : tensors) all.push_back(&tensor);
    return all;
  }
  template <class... A>
  std::shared_ptr<detail::CompiledFn> fn(const A&... args) {
    return structured<std::invoke_result_t<F&, detail::Made<A>&...>>(args...)->fn;
  }

  template <class R, class... A>
  std::shared_ptr<detail::Structured<R>> structured(const A&... args) {
    std::string key = typeid(std::tuple<A...>).name();
    (detail::Tree<A>::note(args, key), ...);
    const std::lock_guard lock(shared_->mutex);
    Entry& entry = shared_->all[key];
    if (!entry.structured) {
      auto made = std::make_shared<detail::Structured<R>>();
      // Neither the function nor how results are built may keep alive what holds them.
      made->fn = detail::compile(body<R>(std::weak_ptr(made), args...), shared_->options);
      entry = {made, made->fn};
      if (shared_->all.size() > kMostStructures) {
        for (auto it = shared_->all.begin(); it != shared_->all.end(); ++it)
          if (it->first != key) {
            shared_->all.erase(it);
            break;
          }
      }
      return made;
    }
    return std::static_pointer_cast<detail::Structured<R>>(entry.structured);
  }

  // The function of a list of tensors, for arguments of this structure.
  template <class R, class... A>
  detail::ProgramFn body(std::weak_ptr<detail::Structured<R>> made, const A&... args) {
    // With undefined tensors in place of the first call's.
    const std::vector<Tensor> none(flat(args...).size());
    const Tensor* next = none.data();
    std::tuple<detail::Made<A>...> like{detail::Tree<A>::make(args, next)...};
    return [shared = std::weak_ptr(shared_), made, like](const std::vector<Tensor>& in) {
      const auto held = shared.lock();
      const Tensor* at = in.data();
      auto values = std::apply(
          [&](const detail::Made<A>&... each) {
            return std::tuple<detail::Made<A>...>{detail::Tree<detail::Made<A>>::make(each, at)...};
          },
          like);
      const auto call = [&](auto&... each) -> decltype(auto) { return held->f(each...); };
      if constexpr (std::is_void_v<R>) {
        std::apply(call, values);
        return std::vector<Tensor>{};
      } else {
        const R result = std::apply(call, values);
        made.lock()->note(detail::types_of(in), result);
        return detail::listed(result);
      }
    };
  }

  std::shared_ptr<Shared> shared_;
};

// Of a function of tensors: a Compiled. Of any other: a CompiledTree.
template <class F>
auto compile(F f, CompileOptions options = {}) {
  if constexpr (detail::PlainlySigned<F>) {
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
  } else {
    return CompiledTree<F>(std::move(f), std::move(options));
  }
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
