// Ranks: collectives, messages, and what is said about them. varve/distributed.py offers these names.
#include <varve/distributed.h>

#include "ops.h"

namespace varve::python {
namespace {

namespace dist = varve::distributed;

void bind_collectives(nb::module_& m) {
  op(m, "all_sum", dist::all_sum, R"(The sum over ranks, on every rank.

>>> distributed.all_sum(vv.tensor([1.0, 2.0])).tolist()      # a world of one rank
[1.0, 2.0])",
     "x"_a);
  op(m, "all_mean", dist::all_mean, R"(The mean over ranks, on every rank.

>>> distributed.all_mean(vv.tensor([1.0])).tolist()
[1.0])",
     "x"_a);
  op(m, "all_max", dist::all_max, R"(The largest value over ranks, on every rank.

>>> distributed.all_max(vv.tensor([1.0])).tolist()
[1.0])",
     "x"_a);
  op(m, "all_min", dist::all_min, R"(The smallest value over ranks, on every rank.

>>> distributed.all_min(vv.tensor([1.0])).tolist()
[1.0])",
     "x"_a);
  op(m, "all_gather", dist::all_gather, R"(All ranks' values, one after the other along an axis; scalars as [size].

>>> distributed.all_gather(vv.tensor(3.0)).shape
(1,))",
     "x"_a, "axis"_a = 0);
  op(m, "sum_scatter", dist::sum_scatter, R"(The sum over ranks, of which each rank has its part of an axis.

>>> distributed.sum_scatter(vv.tensor([1.0, 2.0])).tolist()
[1.0, 2.0])",
     "x"_a, "axis"_a = 0);
  op(
      m, "broadcast", [](const Tensor& x, std::int64_t root) { return dist::broadcast(x, static_cast<int>(root)); },
      R"(One rank's value, on every rank.

>>> distributed.broadcast(vv.tensor([1.0]), root=0).tolist()
[1.0])",
      "x"_a, "root"_a = 0);
}

}  // namespace

void bind_distributed(nb::module_& m) {
  bind_collectives(m);
  m.def("rank", &dist::rank, "This process among those of the job: 0 to size() - 1.\n\n>>> distributed.rank()\n0");
  m.def("size", &dist::size, "How many processes train together; 1: this one alone.\n\n>>> distributed.size()\n1");
  m.def("local_rank", &dist::local_rank, "The rank among those on this machine.\n\n>>> distributed.local_rank()\n0");
  m.def("local_size", &dist::local_size, "The ranks on this machine.\n\n>>> distributed.local_size()\n1");
  m.def(
      "join", [] { unlocked([] { dist::join(); }); },
      "Joins the other ranks, where there are others; the first collective does so too.\n\n>>> distributed.join()");
  m.def(
      "engine", [] { return unlocked([] { return dist::engine(); }); },
      "What moves values between ranks: gloo or mpi; none in a world of one.\n\n>>> distributed.engine()\n'none'");
  m.def(
      "mean_gradients",
      [](nb::handle gradients) {
        const std::vector<Tensor> all = to_tensors(gradients);
        return unlocked([&] { return dist::mean_gradients(all); });
      },
      "gradients"_a, nb::sig("def mean_gradients(gradients: Sequence[TensorLike]) -> list[Tensor]"),
      "Gradients averaged over ranks, as a bound optimiser does by itself.\n\n"
      ">>> [g.tolist() for g in distributed.mean_gradients([vv.tensor([1.0])])]\n[[1.0]]");
  m.def(
      "send",
      [](nb::handle x, int to, int tag) {
        const Tensor value = to_tensor(x);
        unlocked([&] { dist::send(value, to, tag); });
      },
      "x"_a, "to"_a, "tag"_a = 0, nb::sig("def send(x: TensorLike, to: int, tag: int = 0) -> None"),
      "A message to another rank; it takes it with recv.\n\n"
      ">>> try:\n...     distributed.send(vv.ones(2), to=1)\n... except vv.Error as error:\n...     print(\"another "
      "rank\" in "
      "str(error))\nTrue");
  m.def(
      "recv",
      [](nb::handle shape, int from, int tag, nb::handle dtype) {
        const TensorType type{to_dtype(dtype), to_shape(shape)};
        return unlocked([&] { return dist::recv(type, from, tag); });
      },
      "shape"_a, "source"_a, "tag"_a = 0, "dtype"_a = f32,
      nb::sig("def recv(shape: Sequence[int], source: int, tag: int = 0, dtype: DTypeLike = f32) -> Tensor"),
      "A message from another rank, of this shape and type.\n\n"
      ">>> try:\n...     distributed.recv((2,), source=1)\n... except vv.Error as error:\n...     print(\"another "
      "rank\" in "
      "str(error))\nTrue");
  m.def(
      "rank_barrier", [] { unlocked([] { dist::rank_barrier(); }); },
      "No rank goes on before all have come here.\n\n>>> distributed.rank_barrier()");
  m.def(
      "broadcast_variables",
      [](const std::vector<Variable>& variables, int root) {
        unlocked([&] { dist::broadcast_variables(variables, root); });
      },
      "variables"_a, "root"_a = 0,
      "Every rank's variables take one rank's values.\n\n>>> distributed.broadcast_variables([vv.Variable([1.0])])");
  m.def(
      "check_ranks", [](const std::vector<Variable>& variables) { unlocked([&] { dist::check_ranks(variables); }); },
      "variables"_a,
      "An error that names the variable and the ranks where they differ.\n\n>>> "
      "distributed.check_ranks([vv.Variable([1.0])])");
  m.def(
      "gather_text", [](const std::string& text) { return unlocked([&] { return dist::gather_text(text); }); },
      "text"_a, "A text of each rank, in order.\n\n>>> distributed.gather_text(\"here\")\n['here']");
  m.def(
      "note", [](const std::string& key, const std::string& value) { unlocked([&] { dist::note(key, value); }); },
      "key"_a, "value"_a,
      "For the launcher: \"run\" is the folder that it goes on with.\n\n>>> distributed.note(\"run\", \"runs/a\")");
  m.def(
      "wire_time",
      [] {
        const dist::WireTime time = dist::wire_time();
        return std::pair(time.busy_seconds, time.waited_seconds);
      },
      "Seconds that values were moving, and how many of them nothing was computed.\n\n>>> "
      "distributed.wire_time()\n(0.0, "
      "0.0)");
  m.def(
      "launch",
      [](const std::vector<std::string>& command, int ranks, const std::vector<std::string>& hosts, int restarts,
         bool elastic, int threads, const std::string& address, bool labels) {
        return unlocked([&] {
          return dist::launch({.ranks = ranks,
                               .hosts = hosts,
                               .command = command,
                               .restarts = restarts,
                               .elastic = elastic,
                               .threads = threads,
                               .address = address,
                               .labels = labels});
        });
      },
      "command"_a, "ranks"_a = 2, "hosts"_a = std::vector<std::string>(), "restarts"_a = 0, "elastic"_a = false,
      "threads"_a = 0, "address"_a = "", "labels"_a = true,
      "Starts a command as several ranks and waits for them; gives the exit code.\n\n"
      ">>> distributed.launch([\"true\"], ranks=2)\n0");
}

}  // namespace varve::python
