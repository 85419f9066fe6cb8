// Chains of primitives in f32 and f64: a small interpreter whose every step works on several vectors at once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile/kernels_chain.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "backends/cpu/tile/arith-inl.h"
#include "backends/cpu/tile/chain.h"
#include "backends/cpu/tile/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {
using expr::Prim;

// Half of the registers hold running values; the other half is free for operands.
inline constexpr std::size_t kVectors = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

// `width` vectors of a tile. Nested, not an array: only members are sure to be kept in registers.
template <class T, std::size_t width>
struct Pack {
  using D = Tag<T>;
  using V = hn::Vec<D>;
  V v;
  [[no_unique_address]] Pack<T, width - 1> rest;

  HWY_INLINE void fill(V value) {
    v = value;
    rest.fill(value);
  }
  HWY_INLINE void load(const T* from) {
    v = hn::LoadU(D(), from);
    rest.load(from + hn::Lanes(D()));
  }
  HWY_INLINE void store(T* to) const {
    hn::StoreU(v, D(), to);
    rest.store(to + hn::Lanes(D()));
  }
  HWY_INLINE void nontemporal(T* to) const {
    hn::Stream(v, D(), to);
    rest.nontemporal(to + hn::Lanes(D()));
  }
  template <class Op>
  HWY_INLINE void unary() {
    v = Op::run(D(), v);
    rest.template unary<Op>();
  }
  template <class Op>
  HWY_INLINE void binary(const Pack& p) {
    v = Op::run(D(), v, p.v);
    rest.template binary<Op>(p.rest);
  }
  template <class Op>
  HWY_INLINE void reversed(const Pack& p) {
    v = Op::run(D(), p.v, v);
    rest.template reversed<Op>(p.rest);
  }
  template <Role role>
  HWY_INLINE void select(const Pack& p, const Pack& q) {
    const V condition = role == Role::first ? v : p.v;
    const V yes = role == Role::first ? p.v : role == Role::second ? v : q.v;
    const V no = role == Role::third ? v : q.v;
    v = hn::IfThenElse(differ(condition, hn::Zero(D())), yes, no);
    rest.template select<role>(p.rest, q.rest);
  }
};

template <class T>
struct Pack<T, 0> {
  template <class V>
  HWY_INLINE void fill(V) {}
  HWY_INLINE void load(const T*) {}
  HWY_INLINE void store(T*) const {}
  HWY_INLINE void nontemporal(T*) const {}
  template <class Op>
  HWY_INLINE void unary() {}
  template <class Op>
  HWY_INLINE void binary(const Pack&) {}
  template <class Op>
  HWY_INLINE void reversed(const Pack&) {}
  template <Role role>
  HWY_INLINE void select(const Pack&, const Pack&) {}
};

// The running value from element i on; when masked, one vector of which only the first n - i elements exist.
template <class T, std::size_t width, bool masked>
struct Block {
  using D = Tag<T>;
  std::size_t i, n;
  Pack<T, width> pack;

  HWY_INLINE void load(const void* from, bool scalar) {
    const T* x = static_cast<const T*>(from);
    if (scalar)
      pack.fill(hn::Set(D(), *x));
    else if constexpr (masked)
      pack.v = load_tail(D(), x + i, n - i);
    else
      pack.load(x + i);
  }
  HWY_INLINE void store(void* to, bool nontemporal) const {
    T* x = static_cast<T*>(to) + i;
    if constexpr (masked)
      store_tail(D(), pack.v, x, n - i);
    else if (nontemporal)
      pack.nontemporal(x);
    else
      pack.store(x);
  }
  template <Prim prim>
  HWY_INLINE void unary() {
    pack.template unary<Unary<prim>>();
  }
  template <Prim prim>
  HWY_INLINE void binary(const Block& p) {
    pack.template binary<Binary<prim>>(p.pack);
  }
  template <Prim prim>
  HWY_INLINE void either(const Block& p, Role role) {
    if (role == Role::first)
      pack.template binary<Binary<prim>>(p.pack);
    else
      pack.template reversed<Binary<prim>>(p.pack);
  }
  HWY_INLINE void select(const Block& p, const Block& q, Role role) {
    if (role == Role::first)
      pack.template select<Role::first>(p.pack, q.pack);
    else if (role == Role::second)
      pack.template select<Role::second>(p.pack, q.pack);
    else
      pack.template select<Role::third>(p.pack, q.pack);
  }

  HWY_INLINE void call(KernelFn fn) {
    HWY_ALIGN T values[width * hn::MaxLanes(D())];
    const std::size_t count = masked ? n - i : width * hn::Lanes(D());
    pack.store(values);
    fn(values, nullptr, nullptr, values, count);
    pack.load(values);
  }

  HWY_INLINE void apply(const Link& link, std::byte* const* places) {
    if (link.call != nullptr) return call(link.call);
    switch (link.prim) {
      case Prim::neg:
        return unary<Prim::neg>();
      case Prim::abs:
        return unary<Prim::abs>();
      case Prim::sign:
        return unary<Prim::sign>();
      case Prim::floor:
        return unary<Prim::floor>();
      case Prim::ceil:
        return unary<Prim::ceil>();
      case Prim::round:
        return unary<Prim::round>();
      case Prim::trunc:
        return unary<Prim::trunc>();
      case Prim::sqrt:
        return unary<Prim::sqrt>();
      case Prim::rsqrt:
        return unary<Prim::rsqrt>();
      case Prim::logical_not:
        return unary<Prim::logical_not>();
      case Prim::is_nan:
        return unary<Prim::is_nan>();
      default:
        break;
    }
    Block p;
    p.i = i, p.n = n;
    p.load(places[link.p], link.p_scalar);
    switch (link.prim) {
      case Prim::add:
        return binary<Prim::add>(p);  // commutative, bit for bit
      case Prim::mul:
        return binary<Prim::mul>(p);
      case Prim::eq:
        return binary<Prim::eq>(p);
      case Prim::ne:
        return binary<Prim::ne>(p);
      case Prim::logical_and:
        return binary<Prim::logical_and>(p);
      case Prim::logical_or:
        return binary<Prim::logical_or>(p);
      case Prim::sub:
        return either<Prim::sub>(p, link.role);
      case Prim::div:
        return either<Prim::div>(p, link.role);
      case Prim::min:
        return either<Prim::min>(p, link.role);
      case Prim::max:
        return either<Prim::max>(p, link.role);
      case Prim::lt:
        return either<Prim::lt>(p, link.role);
      case Prim::le:
        return either<Prim::le>(p, link.role);
      default:
        break;
    }
    Block q;
    q.i = i, q.n = n;
    q.load(places[link.q], link.q_scalar);
    select(p, q, link.role);
  }
};

template <class T, std::size_t width, bool masked>
HWY_INLINE void run_block(const Link* links, std::size_t count, std::byte* const* places, const void* start, void* out,
                          std::size_t i, std::size_t n, bool nontemporal) {
  Block<T, width, masked> block;
  block.i = i, block.n = n;
  block.load(start, false);
  for (const Link* link = links; link != links + count; ++link) block.apply(*link, places);
  block.store(out, nontemporal);
}

template <class T>
void chain(const Link* links, std::size_t count, std::byte* const* places, const void* start, void* out, std::size_t n,
           bool nontemporal) {
  const std::size_t lanes = hn::Lanes(Tag<T>()), step = kVectors * lanes;
  nontemporal = nontemporal && reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
  std::size_t i = 0;
  for (; i + step <= n; i += step) run_block<T, kVectors, false>(links, count, places, start, out, i, n, nontemporal);
  for (; i < n; i += lanes) {
    if (i + lanes <= n)
      run_block<T, 1, false>(links, count, places, start, out, i, n, false);
    else
      run_block<T, 1, true>(links, count, places, start, out, i, n, false);
  }
}

ChainFn chain_f32() { return &chain<float>; }
ChainFn chain_f64() { return &chain<double>; }

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(chain_f32);
HWY_EXPORT(chain_f64);

ChainFn chain_kernel(DType compute) {
  if (compute == DType::f32) return HWY_DYNAMIC_DISPATCH(chain_f32)();
  if (compute == DType::f64) return HWY_DYNAMIC_DISPATCH(chain_f64)();
  return nullptr;
}

bool inlined_in_chain(expr::Prim prim) {
  using expr::Prim;
  if (prim == Prim::pow || prim == Prim::mod || prim == Prim::atan2) return false;
  return (prim >= Prim::add && prim <= Prim::trunc) || prim == Prim::sqrt || prim == Prim::rsqrt ||
         prim == Prim::logical_not || prim == Prim::is_nan;
}
}  // namespace varve::cpu
#endif
