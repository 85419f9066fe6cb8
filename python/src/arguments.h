// Operators from C++ functions: each argument is taken as Python gives it and turned into what the function wants, with
// an error that names it; the signature that help and type checkers show is written from the same types.
#pragma once

#include <array>
#include <tuple>

#include "bindings.h"

namespace varve::python {

// Which argument of which function, and whether None stands for "not given".
struct Where {
  std::string function;
  const char* argument;
  bool optional;
};

// TypeError: "softmax: axis must be an integer, got 'a' (str)".
[[noreturn]] void wrong_kind(const Where& where, const char* expected, nb::handle got);

std::int64_t to_integer(nb::handle value, const Where& where);
double to_number(nb::handle value, const Where& where);
bool to_flag(nb::handle value, const Where& where);
std::string to_text(nb::handle value, const Where& where);
std::string to_path(nb::handle value, const Where& where);                    // str or os.PathLike
std::vector<std::int64_t> to_integers(nb::handle value, const Where& where);  // one, or a sequence
std::vector<double> to_numbers(nb::handle value, const Where& where);         // a sequence
Tensor to_tensor(nb::handle value, const Where& where);
std::vector<Tensor> to_tensors(nb::handle values, const Where& where);
Operand to_operand(nb::handle value, const Where& where);
DType to_dtype(nb::handle value, const Where& where);
Reduction to_reduction(nb::handle value, const Where& where);
ScatterMode to_scatter_mode(nb::handle value, const Where& where);
Interpolation to_interpolation(nb::handle value, const Where& where);
Alignment to_alignment(nb::handle value, const Where& where);
Rounding to_rounding(nb::handle value, const Where& where);
GridPadding to_grid_padding(nb::handle value, const Where& where);

struct Path {
  std::string text;
};
// A number for both axes of a picture, or one for each.
struct Both {
  std::vector<std::int64_t> sizes;
};
// 1, (1, 2) for each axis, or ((before, after), …).
struct Paddings {
  std::vector<Padding> all;
};
std::vector<Padding> to_paddings(nb::handle value, const Where& where);

// How a type is made of a Python object, and what type checkers call it.
template <class T>
struct From;
#define VARVE_FROM(TYPE, ANNOTATION, EXPRESSION)                                             \
  template <>                                                                                \
  struct From<TYPE> {                                                                        \
    static constexpr const char* type = ANNOTATION;                                          \
    static TYPE of(nb::handle value, [[maybe_unused]] const Where& w) { return EXPRESSION; } \
  }
VARVE_FROM(std::int64_t, "int", to_integer(value, w));
VARVE_FROM(int, "int", static_cast<int>(to_integer(value, w)));
VARVE_FROM(double, "float", to_number(value, w));
VARVE_FROM(bool, "bool", to_flag(value, w));
VARVE_FROM(std::string, "str", to_text(value, w));
VARVE_FROM(Path, "PathLike", {to_path(value, w)});
VARVE_FROM(Shape, "ShapeLike", Shape(to_integers(value, w)));
VARVE_FROM(Axes, "ShapeLike", to_integers(value, w));
VARVE_FROM(Both, "ShapeLike", {to_integers(value, w)});
VARVE_FROM(Paddings, "PaddingLike", {to_paddings(value, w)});
VARVE_FROM(Tensor, "TensorLike", to_tensor(value, w));
VARVE_FROM(Operand, "TensorLike", to_operand(value, w));
VARVE_FROM(std::vector<Tensor>, "Sequence[TensorLike]", to_tensors(value, w));
VARVE_FROM(DType, "DTypeLike", to_dtype(value, w));
VARVE_FROM(Reduction, "Literal['mean', 'sum', 'none']", to_reduction(value, w));
VARVE_FROM(ScatterMode, "Literal['assign', 'sum', 'max', 'min', 'product']", to_scatter_mode(value, w));
VARVE_FROM(Interpolation, "Literal['nearest', 'linear', 'cubic']", to_interpolation(value, w));
VARVE_FROM(Alignment, "Literal['half_pixel', 'align_corners', 'asymmetric']", to_alignment(value, w));
VARVE_FROM(Rounding, "Literal['half_down', 'half_up', 'down', 'up']", to_rounding(value, w));
VARVE_FROM(GridPadding, "Literal['zeros', 'border', 'reflection']", to_grid_padding(value, w));
VARVE_FROM(std::vector<double>, "Sequence[float]", to_numbers(value, w));
VARVE_FROM(nb::object, "Any", nb::borrow(value));
#undef VARVE_FROM
template <class T>
struct From<std::optional<T>> {
  static constexpr const char* type = From<T>::type;
  static std::optional<T> of(nb::handle value, const Where& w) {
    if (value.is_none()) return std::nullopt;
    return From<T>::of(value, w);
  }
};

// What type checkers call a result.
template <class T>
struct Result;
#define VARVE_RESULT(TYPE, ANNOTATION)               \
  template <>                                        \
  struct Result<TYPE> {                              \
    static std::string type() { return ANNOTATION; } \
  }
VARVE_RESULT(void, "None");
VARVE_RESULT(bool, "bool");
VARVE_RESULT(int, "int");
VARVE_RESULT(std::int64_t, "int");
VARVE_RESULT(std::size_t, "int");
VARVE_RESULT(double, "float");
VARVE_RESULT(std::string, "str");
VARVE_RESULT(DType, "DType");
VARVE_RESULT(Tensor, "Tensor");
VARVE_RESULT(Variable, "Variable");
VARVE_RESULT(nb::object, "Any");
#undef VARVE_RESULT
template <class T>
struct Result<std::vector<T>> {
  static std::string type() { return "list[" + Result<T>::type() + "]"; }
};
template <class K, class V>
struct Result<std::map<K, V>> {
  static std::string type() { return "dict[" + Result<K>::type() + ", " + Result<V>::type() + "]"; }
};
template <class A, class B>
struct Result<std::pair<A, B>> {
  static std::string type() { return "tuple[" + Result<A>::type() + ", " + Result<B>::type() + "]"; }
};
template <class A, class B, class C>
struct Result<std::tuple<A, B, C>> {
  static std::string type() {
    return "tuple[" + Result<A>::type() + ", " + Result<B>::type() + ", " + Result<C>::type() + "]";
  }
};

namespace binding {

template <class F>
struct Call : Call<decltype(&F::operator())> {};
template <class R, class C, class... A>
struct Call<R (C::*)(A...) const> {
  using Pointer = R (*)(A...);
};
template <class R, class... A>
struct Call<R (*)(A...)> {
  using Pointer = R (*)(A...);
};

template <std::size_t>
using Handle = nb::handle;

// None stands for "not given": `"scale"_a.none()`, or `"scale"_a = nb::none()`.
template <std::uint32_t Flags, bool Locked>
bool takes_none(const nb::arg_t<Flags, Locked>&) {
  return (Flags & nb::detail::cast_flags::accepts_none) != 0;
}
template <std::uint32_t Flags, bool Locked>
bool takes_none(const nb::arg_v_t<Flags, Locked>& arg) {
  return arg.value.is_none();
}
template <std::uint32_t Flags, bool Locked>
auto accepts_none(const nb::arg_t<Flags, Locked>& arg) {
  return arg.none();
}
template <std::uint32_t Flags, bool Locked>
auto accepts_none(const nb::arg_v_t<Flags, Locked>& arg) {
  constexpr std::uint32_t flags = nb::detail::arg_flags_default | nb::detail::cast_flags::accepts_none;
  return nb::arg_v_t<flags, false>(nb::arg(arg.name_), nb::object(arg.value));
}
template <class T, std::uint32_t Flags, bool Locked>
std::string parameter(const nb::arg_t<Flags, Locked>& arg) {
  return std::string(arg.name_) + ": " + From<T>::type + (takes_none(arg) ? " | None" : "");
}
template <class T, std::uint32_t Flags, bool Locked>
std::string parameter(const nb::arg_v_t<Flags, Locked>& arg) {
  return std::string(arg.name_) + ": " + From<T>::type + (arg.value.is_none() ? " | None" : "") + " = " +
         nb::repr(arg.value).c_str();
}

template <class R, class... A, std::size_t... I, class F, class... Named>
void def(nb::module_& m, const char* name, F f, const char* doc, R (*)(A...), std::index_sequence<I...>,
         const Named&... named) {
  static_assert(sizeof...(A) == sizeof...(Named), "every argument needs a name");
  // Functions live as long as the process does.
  const char* shown = name[0] == '_' ? name + 1 : name;  // of a module in Python that stands before it
  const auto* where = new std::array<Where, sizeof...(A)>{{Where{shown, named.name_, takes_none(named)}...}};
  std::string parameters;
  ((parameters += (parameters.empty() ? "" : ", ") + parameter<std::decay_t<A>>(named)), ...);
  const std::string signature = "def " + std::string(name) + "(" + parameters + ") -> " + Result<R>::type();
  m.def(
      name,
      [f, where](Handle<I>... given) -> R {
        std::tuple<std::decay_t<A>...> values{From<std::decay_t<A>>::of(given, (*where)[I])...};
        const Unlocked meanwhile;
        return std::apply(f, values);
      },
      accepts_none(named)..., nb::sig(signature.c_str()), doc);
}

}  // namespace binding

// f as a function of the module. It is called without the interpreter's lock.
template <class F, class... Named>
void op(nb::module_& m, const char* name, F f, const char* doc, const Named&... named) {
  using Pointer = typename binding::Call<F>::Pointer;
  binding::def(m, name, std::move(f), doc, Pointer{}, std::index_sequence_for<Named...>(), named...);
}

}  // namespace varve::python
