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
  op(m, "all_to_all", dist::all_to_all,
     R"(Part r of an axis goes to rank r; in its place comes rank r's part for this rank.

>>> distributed.all_to_all(vv.tensor([1.0, 2.0])).tolist()
[1.0, 2.0])",
     "x"_a, "axis"_a = 0);
  op(
      m, "broadcast", [](const Tensor& x, std::int64_t root) { return dist::broadcast(x, static_cast<int>(root)); },
      R"(One rank's value, on every rank.

>>> distributed.broadcast(vv.tensor([1.0]), root=0).tolist()
[1.0])",
      "x"_a, "root"_a = 0);
  op(
      m, "transfer",
      [](const Tensor& x, std::int64_t from, std::int64_t to) {
        return dist::transfer(x, static_cast<int>(from), static_cast<int>(to));
      },
      R"(The value that one rank has, on another; zeros on all others. Its gradient travels back.

>>> distributed.transfer(vv.tensor([1.0]), 0, 0).tolist()
[1.0])",
      "x"_a, "source"_a, "to"_a);
}

class WholeBatchScope {
 public:
  void enter() { whole_.emplace(); }
  void exit() { whole_.reset(); }

 private:
  std::optional<dist::WholeBatch> whole_;
};

void bind_placed(nb::module_& m) {
  m.def(
      "place",
      [](const std::vector<Variable>& variables, int rank) { unlocked([&] { dist::place(variables, rank); }); },
      "variables"_a, "rank"_a,
      "From now on this rank alone keeps them. Reading one elsewhere sends it: all ranks must.\n\n"
      ">>> distributed.place([vv.Variable([1.0])], rank=0)");
  m.def("is_split", &dist::is_split, "variable"_a,
        "Whether each rank keeps, and computes with, a slice of it.\n\n>>> "
        "distributed.is_split(vv.Variable([1.0]))\nFalse");
  m.def(
      "split",
      [](const std::vector<Variable>& variables, int axis, std::int64_t blocks) {
        unlocked([&] { dist::split(variables, axis, blocks); });
      },
      "variables"_a, "axis"_a, "blocks"_a = 1,
      "From now on each rank keeps its slice of each along an axis, or of each of so many equal blocks of it.\n\n"
      ">>> distributed.split([vv.Variable([1.0, 2.0])], axis=0)");
  m.def(
      "keep_like",
      [](const Variable& like, const std::vector<Variable>& variables) {
        unlocked([&] { dist::keep_like(like, variables); });
      },
      "like"_a, "variables"_a,
      "These are kept as `like` is, where it is placed or split.\n\n"
      ">>> distributed.keep_like(vv.Variable([1.0]), [vv.Variable([2.0])])");
  m.def("placed_on", &dist::placed_on, "variable"_a,
        "The rank that a variable lives on; -1: not on one alone.\n\n>>> "
        "distributed.placed_on(vv.Variable([1.0]))\n-1");
  m.def("kept_of", &dist::kept_of, "variable"_a,
        "What this rank keeps of a variable, sharded or placed.\n\n>>> "
        "distributed.kept_of(vv.Variable([1.0])).tolist()\n[1.0]");
  m.def("shares_batch", &dist::shares_batch,
        "Whether this rank has its own share of each batch.\n\n>>> distributed.shares_batch()\nFalse");
  nb::class_<WholeBatchScope>(m, "_WholeBatch")
      .def(nb::init<>())
      .def("enter", &WholeBatchScope::enter)
      .def("exit", &WholeBatchScope::exit);
}

void bind_sharded(nb::module_& m) {
  m.def(
      "shard", [](const std::vector<Variable>& variables) { unlocked([&] { dist::shard(variables); }); }, "variables"_a,
      "From now on each rank keeps its part of each variable. Reading one gathers the whole: all ranks must.\n\n"
      ">>> distributed.shard([vv.Variable([1.0])])");
  m.def(
      "unshard", [](const std::vector<Variable>& variables) { unlocked([&] { dist::unshard(variables); }); },
      "variables"_a, "Whole again, on every rank.\n\n>>> distributed.unshard([vv.Variable([1.0])])");
  m.def("is_sharded", &dist::is_sharded, "variable"_a,
        "Whether each rank keeps its part.\n\n>>> distributed.is_sharded(vv.Variable([1.0]))\nFalse");
  m.def("part_of", &dist::part_of, "variable"_a,
        "What this rank keeps of a variable; itself, where it is not sharded.\n\n>>> "
        "distributed.part_of(vv.Variable([1.0])).tolist()\n[1.0]");
  m.def(
      "variable_of_each_rank",
      [](const std::string& name, nb::handle own) {
        const Tensor value = to_tensor(own);
        return unlocked([&] { return dist::variable_of_each_rank(name, value); });
      },
      "name"_a, "own"_a, nb::sig("def variable_of_each_rank(name: str, own: TensorLike) -> Variable"),
      "A variable of which each rank has a value of its own; read as [ranks, ...].\n\n"
      ">>> distributed.variable_of_each_rank('lost', vv.zeros(2)).shape\n(1, 2)");
  m.def("is_of_each_rank", &dist::is_of_each_rank, "variable"_a,
        "Whether each rank has a value of its own.\n\n>>> distributed.is_of_each_rank(vv.Variable([1.0]))\nFalse");
  op(m, "own_part", dist::own_part, R"(The part of a whole value that this rank would keep.

>>> distributed.own_part(vv.tensor([[1.0, 2.0]])).tolist()
[1.0, 2.0])",
     "whole"_a);
  m.def(
      "whole_of",
      [](nb::handle part, nb::handle shape) {
        const Tensor value = to_tensor(part);
        const Shape whole = to_shape(shape);
        return unlocked([&] { return dist::whole_of(value, whole); });
      },
      "part"_a, "shape"_a, nb::sig("def whole_of(part: TensorLike, shape: Sequence[int]) -> Tensor"),
      "The whole of all ranks' parts.\n\n>>> distributed.whole_of(vv.tensor([1.0, 2.0]), (2, 1)).shape\n(2, 1)");
  op(m, "scatter_gradients", dist::scatter_gradients,
     R"(This rank's part of the sum of flat gradients; compiled, as soon as the backward pass has made them.

>>> distributed.scatter_gradients(vv.tensor([1.0, 2.0])).tolist()
[1.0, 2.0])",
     "flat"_a);
}

void bind_alone(nb::module_& m) {
  struct AloneBlock {
    std::unique_ptr<dist::Alone> alone;
  };
  nb::class_<AloneBlock>(m, "Alone", R"(While one is entered, what this thread records is this rank's alone.

>>> with distributed.Alone(): distributed.size()
1)")
      .def(nb::init<>())
      .def(
          "__enter__",
          [](AloneBlock& block) -> AloneBlock& {
            block.alone = std::make_unique<dist::Alone>();
            return block;
          },
          nb::rv_policy::reference)
      .def(
          "__exit__", [](AloneBlock& block, nb::handle, nb::handle, nb::handle) { block.alone.reset(); },
          "kind"_a.none(), "error"_a.none(), "traceback"_a.none());
}

void bind_parallel(nb::module_& m) {
  nb::class_<dist::Compression>(m, "Compression",
                                "What gradients become on the wire; what is lost is added to the next ones.\n\n"
                                ">>> distributed.top_k(0.01).share\n0.01")
      .def_ro("name", &dist::Compression::name)
      .def_ro("share", &dist::Compression::share)
      .def_ro("rank", &dist::Compression::rank)
      .def("__repr__", [](const dist::Compression& c) { return "<varve compression " + c.name + ">"; });
  m.def("half", &dist::half, "Gradients travel in bf16.\n\n>>> distributed.half().name\n'half'");
  m.def("one_bit", &dist::one_bit,
        "Signs, and two means for each column: CNTK's 1-bit SGD.\n\n>>> distributed.one_bit().name\n'one_bit'");
  m.def("top_k", &dist::top_k, "share"_a = 0.001,
        "The largest entries alone: deep gradient compression.\n\n>>> distributed.top_k(0.5).name\n'top_k'");
  m.def("power_sgd", &dist::power_sgd, "rank"_a = 4,
        "Two narrow factors of each matrix.\n\n>>> distributed.power_sgd().rank\n4");
  m.def("compression_by_name", &dist::compression_by_name, "name"_a,
        "options"_a = std::vector<std::pair<std::string, double>>(),
        "A compression by its name.\n\n>>> distributed.compression_by_name('top_k', [('share', 0.1)]).share\n0.1");
  nb::class_<dist::Parallel>(m, "Parallel",
                             R"(How many ranks train one model together: `fit(parallel=…)`, `Optimizer.over`.

>>> distributed.Parallel(shard_optimizer=True).shard_optimizer
True)")
      .def(
          "__init__",
          [](dist::Parallel* self, bool shard_optimizer, bool shard_parameters, nb::handle compress,
             std::int64_t shards, std::int64_t micro_batches, bool pipeline, bool split, bool sync_batch_norm,
             std::int64_t check_every, std::int64_t average_every, double block_momentum, std::int64_t staleness) {
            dist::Compression compression;
            if (nb::isinstance<nb::str>(compress))
              compression = dist::compression_by_name(nb::cast<std::string>(compress), {});
            else if (!nb::try_cast<dist::Compression>(compress, compression))
              throw nb::type_error("Parallel: compress is a name or a compression of varve.distributed");
            new (self) dist::Parallel{.shard_optimizer = shard_optimizer,
                                      .shard_parameters = shard_parameters,
                                      .compress = compression,
                                      .shards = shards,
                                      .micro_batches = micro_batches,
                                      .pipeline = pipeline,
                                      .split = split,
                                      .sync_batch_norm = sync_batch_norm,
                                      .check_every = check_every,
                                      .average_every = average_every,
                                      .block_momentum = block_momentum,
                                      .staleness = staleness};
          },
          nb::kw_only(), "shard_optimizer"_a = false, "shard_parameters"_a = false, "compress"_a = "none",
          "shards"_a = 0, "micro_batches"_a = 1, "pipeline"_a = false, "split"_a = false, "sync_batch_norm"_a = false,
          "check_every"_a = 0, "average_every"_a = 0, "block_momentum"_a = 0.0, "staleness"_a = -1,
          nb::sig(
              "def __init__(self, *, shard_optimizer: bool = False, shard_parameters: bool = False, compress: str | "
              "Compression = 'none', shards: int = 0, micro_batches: int = 1, pipeline: bool = False, split: bool = "
              "False, sync_batch_norm: "
              "bool = False, check_every: int = 0, "
              "average_every: int = 0, block_momentum: float = 0.0, staleness: int = -1) -> None"))
      .def_ro("shard_optimizer", &dist::Parallel::shard_optimizer)
      .def_ro("shard_parameters", &dist::Parallel::shard_parameters)
      .def_ro("compress", &dist::Parallel::compress)
      .def_ro("shards", &dist::Parallel::shards)
      .def_ro("micro_batches", &dist::Parallel::micro_batches)
      .def_ro("pipeline", &dist::Parallel::pipeline)
      .def_ro("split", &dist::Parallel::split)
      .def_ro("sync_batch_norm", &dist::Parallel::sync_batch_norm)
      .def_ro("check_every", &dist::Parallel::check_every)
      .def_ro("average_every", &dist::Parallel::average_every)
      .def_ro("block_momentum", &dist::Parallel::block_momentum)
      .def_ro("staleness", &dist::Parallel::staleness);
}

}  // namespace

void bind_distributed(nb::module_& m) {
  bind_collectives(m);
  bind_sharded(m);
  bind_alone(m);
  bind_placed(m);
  bind_parallel(m);
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
      [](nb::handle gradients, const std::vector<Variable>& of) {
        const std::vector<Tensor> all = to_tensors(gradients);
        if (!of.empty() && of.size() != all.size())
          throw nb::value_error("mean_gradients: as many gradients as variables that they are of");
        return unlocked([&] { return dist::mean_gradients(all, of); });
      },
      "gradients"_a, "of"_a = std::vector<Variable>(),
      nb::sig("def mean_gradients(gradients: Sequence[TensorLike], of: Sequence[Variable] = []) -> list[Tensor]"),
      "Gradients averaged over ranks, as a bound optimiser does by itself; `of` which variables matters where some are "
      "split.\n\n"
      ">>> [g.tolist() for g in distributed.mean_gradients([vv.tensor([1.0])])]\n[[1.0]]");
  m.def(
      "gather_gradients",
      [](nb::handle values) {
        const std::vector<Tensor> all = to_tensors(values);
        return unlocked([&] { return dist::gather_gradients(all); });
      },
      "values"_a, nb::sig("def gather_gradients(values: Sequence[TensorLike]) -> list[Tensor]"),
      "What gradients were made into, of each rank as a row.\n\n"
      ">>> [g.tolist() for g in distributed.gather_gradients([vv.tensor([1.0])])]\n[[[1.0]]]");
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
      "recv_any",
      [](nb::handle shape, int tag, nb::handle dtype) {
        const TensorType type{to_dtype(dtype), to_shape(shape)};
        dist::Received received = unlocked([&] { return dist::recv_any(type, tag); });
        return std::pair(received.value, received.from);
      },
      "shape"_a, "tag"_a = 0, "dtype"_a = f32,
      nb::sig("def recv_any(shape: Sequence[int], tag: int = 0, dtype: DTypeLike = f32) -> tuple[Tensor, int]"),
      "A message from whoever sends first, and who that was.\n\n"
      ">>> try:\n...     distributed.recv_any((2,))\n... except vv.Error as error:\n...     print(\"one rank\" in "
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
      "check_processors", [] { unlocked([] { dist::check_processors(); }); },
      "An error that names the ranks whose processors compute by other instructions than rank 0's.\n\n>>> "
      "distributed.check_processors()");
  m.def(
      "gather_text", [](const std::string& text) { return unlocked([&] { return dist::gather_text(text); }); },
      "text"_a, "A text of each rank, in order.\n\n>>> distributed.gather_text(\"here\")\n['here']");
  m.def(
      "note", [](const std::string& key, const std::string& value) { unlocked([&] { dist::note(key, value); }); },
      "key"_a, "value"_a,
      "For the launcher: \"run\" is the folder that it goes on with.\n\n>>> distributed.note(\"run\", \"runs/a\")");
  m.def(
      "last_words", [](const std::string& why) { unlocked([&] { dist::last_words(why); }); }, "why"_a,
      "What the others are told when this process ends now and they wait for it; an exception that nobody catches says "
      "it by itself.\n\n>>> distributed.last_words(\"the table is gone\")");
  m.def(
      "wire_time",
      [] {
        const dist::WireTime time = dist::wire_time();
        return std::tuple(time.busy_seconds, time.waited_seconds, time.sent_bytes, time.messages);
      },
      "Seconds that values were moving, how many of them nothing was computed, bytes that this rank sent, and in how "
      "many messages.\n\n>>> distributed.wire_time()\n(0.0, 0.0, 0.0, 0)");
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
