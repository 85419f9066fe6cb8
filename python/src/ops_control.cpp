// Branches and loops over Python functions, which are called once, to be recorded.
#include "ops.h"
#include "varve/control.h"

namespace varve::python {
namespace {

using Tensors = std::vector<Tensor>;
using ManyToMany = std::function<Tensors(const Tensors&)>;
using ManyToOne = std::function<Tensor(const Tensors&)>;

}  // namespace

void bind_control(nb::module_& m) {
  m.def(
      "_cond",
      [](const Tensor& predicate, const ManyToMany& then, const ManyToMany& otherwise, const Tensors& operands) {
        Tensors results;
        unlocked([&] { results = cond(predicate, then, otherwise, operands); });
        return results;
      },
      nb::sig("def _cond(predicate: Tensor, then: Callable[[list[Tensor]], list[Tensor]], otherwise: "
              "Callable[[list[Tensor]], list[Tensor]], operands: list[Tensor]) -> list[Tensor]"));
  m.def(
      "_while_loop",
      [](const ManyToOne& condition, const ManyToMany& body, const Tensors& carry, std::int64_t max_steps,
         bool recompute) {
        Tensors results;
        unlocked([&] { results = while_loop(condition, body, carry, {max_steps, recompute}); });
        return results;
      },
      nb::sig("def _while_loop(condition: Callable[[list[Tensor]], Tensor], body: Callable[[list[Tensor]], "
              "list[Tensor]], carry: list[Tensor], max_steps: int, recompute: bool) -> list[Tensor]"));
}

}  // namespace varve::python
