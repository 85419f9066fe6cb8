// Many ranks: processes that train one model together, on one machine or several. Whoever started them decides how many
// there are (`varve launch`, mpirun, srun, torchrun); a program that nobody started so is a world of one rank, in which
// every collective is the identity and costs nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "varve/tensor.h"

namespace varve::distributed {

int rank();        // 0 … size() - 1
int size();        // 1: nobody else
int local_rank();  // among those on this machine
int local_size();
// Joins the others, where there are others, on the device in use too; the first collective does so as well. Throws
// Error: who is missing, or which package brings the engine that is not there.
void join();
// What the others are told when this process ends now and they wait for it. `fit` and the command say it of errors; own
// loops may. Who goes on with the next collective takes it back.
void last_words(const std::string& why);
std::string engine();  // "gloo", "mpi", "nccl"; "none" in a world of one

// ---- collectives: operators like any other, lazy and differentiable, in a compiled program or not. All ranks call the
// same ones, in the same order, with equal shapes and types; a rank that does not is named.

Tensor all_sum(const Tensor& x);
Tensor all_mean(const Tensor& x);
Tensor all_max(const Tensor& x);
Tensor all_min(const Tensor& x);
Tensor all_gather(const Tensor& x, std::int64_t axis = 0);   // one after the other along an axis; scalars as [size]
Tensor sum_scatter(const Tensor& x, std::int64_t axis = 0);  // this rank's part of the sum
Tensor broadcast(const Tensor& x, int root = 0);             // root's value
// Part r of an axis goes to rank r; in its place comes rank r's part for this rank.
Tensor all_to_all(const Tensor& x, std::int64_t axis = 0);
// The value that `from` has, on rank `to`; zeros on all others. Its gradient travels back.
Tensor transfer(const Tensor& x, int from, int to);

// The same of gradients, flat and padded: in a compiled program as soon as the backward pass has made them.
Tensor scatter_gradients(const Tensor& flat);
// Gradients averaged over ranks, as a bound optimiser does by itself: in a compiled program several travel together, in
// the order in which they become ready, while the backward pass goes on.
std::vector<Tensor> mean_gradients(const std::vector<Tensor>& gradients);
// And of these variables: where some are split, all ranks have seen the same samples, and each has its slices' own.
std::vector<Tensor> mean_gradients(const std::vector<Tensor>& gradients, const std::vector<Variable>& of);
// What gradients were made into, of each rank as a row [ranks, elements]; several travel together too.
std::vector<Tensor> gather_gradients(const std::vector<Tensor>& values);

// While one lives, what this thread records is this rank's alone: size() is 1, and collectives do nothing. For ranks
// that step by themselves (Parallel::average_every); the data are still shared among all of them.
class Alone {
 public:
  Alone();
  ~Alone();
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
};

// ---- messages. Outside a compiled function they are sent at once; inside, they run in the order in which they were
// recorded, whether or not anybody reads what they give. They are begun early and awaited late: the sender goes on. No
// gradient comes back through them: sending what one is being recorded of is an Error, and transfer() what to call.

void send(const Tensor& x, int to, int tag = 0);
Tensor recv(const TensorType& type, int from, int tag = 0);
// From whoever sends first. Outside compiled functions.
struct Received {
  Tensor value;
  int from = 0;
};
Received recv_any(const TensorType& type, int tag = 0);
void rank_barrier();  // no rank goes on before all have come here

// ---- variables of which each rank keeps its part

// From now on each rank keeps an equal part of each variable's elements. Reading one gathers the whole, and assigning
// keeps the part: both mean the same as before, but all ranks must read together. Nothing in a world of one.
void shard(const std::vector<Variable>& variables);
void unshard(const std::vector<Variable>& variables);  // whole again, on every rank; placed ones too
bool is_sharded(const Variable& variable);
// What this rank keeps: one axis, the last rank's filled up with zeros. The variable itself, where it is not sharded.
Variable part_of(const Variable& variable);
// A variable of which each rank has a value of its own: read as [ranks, …], as files hold it. part_of() is this rank's
// value. In a world of one rank a plain variable [1, …].
Variable variable_of_each_rank(const std::string& name, const Tensor& own);
bool is_of_each_rank(const Variable& variable);
// The part of a whole value that this rank would keep, and the whole of all ranks' parts.
Tensor own_part(const Tensor& whole);
Tensor whole_of(const Tensor& part, const Shape& shape);

// ---- variables of which each rank keeps, and computes with, a slice

// From now on each rank keeps its slice of each variable along an axis, or of each of so many equal blocks of it.
// Reading one gathers the whole, as of sharded ones; part_of() is what a layer computes with that is split over ranks
// (nn::Module::place), and a gradient with respect to the variable is one of that slice. Error where the axis does not
// divide. Nothing in a world of one.
void split(const std::vector<Variable>& variables, int axis, std::int64_t blocks = 1);
bool is_split(const Variable& variable);

// ---- variables that live on one rank

// From now on this rank alone keeps them, and computes their new values. Reading one elsewhere gives the same value,
// which is sent: all ranks must read together. Nothing in a world of one rank; Error where there is no such rank.
void place(const std::vector<Variable>& variables, int rank);
int placed_on(const Variable& variable);  // -1: not on one rank alone
// What this rank keeps of a variable, sharded or placed: nothing, of one that lives elsewhere.
Variable kept_of(const Variable& variable);
// These are kept as `like` is, where it is placed or split.
void keep_like(const Variable& like, const std::vector<Variable>& variables);

// While one is alive, the ranks of this thread work on the same samples, each on its part of the model: loaders read
// whole batches, and gradients, statistics and metrics are not averaged over ranks. `fit` and `evaluate` do so by
// themselves for a model that is placed on ranks.
class WholeBatch {
 public:
  WholeBatch();
  ~WholeBatch();
  WholeBatch(const WholeBatch&) = delete;
  WholeBatch& operator=(const WholeBatch&) = delete;

 private:
  bool before_;
};
// Whether this rank has its own share of each batch: there are several, and neither a WholeBatch nor a placed module
// around this call.
bool shares_batch();

// ---- values outside programs

// Every rank's variables take rank 0's values. Sharded and placed ones have but one: they are left as they are.
void broadcast_variables(const std::vector<Variable>& variables, int root = 0);
// Error that names the variable and the ranks where they differ in a bit.
void check_ranks(const std::vector<Variable>& variables);
// Error that names the ranks whose processors compute by other instructions than rank 0's: their kernels round
// otherwise.
void check_processors();
std::vector<std::string> gather_text(const std::string& text);  // of each rank
void note(const std::string& key,
          const std::string& value);  // for the launcher: "run", the folder that it goes on with

// What was spent on the wire since the start.
struct WireTime {
  double busy_seconds = 0;    // moving values
  double waited_seconds = 0;  // of them, while nothing was computed
  double sent_bytes = 0;      // by this rank to the others
  std::int64_t messages = 0;  // collectives among them
};
WireTime wire_time();

// ---- how a model is trained by many ranks: FitOptions::parallel, Optimizer::over

// What gradients become on the wire. What is lost on the way is kept, and added to the next ones.
struct Compression {
  std::string name = "none";  // none, half, one_bit, top_k, power_sgd
  double share = 0;           // top_k: of the entries
  int rank = 0;               // power_sgd: of the two factors
};
Compression half();                       // in bf16
Compression one_bit();                    // signs, and two means for each column: CNTK's 1-bit SGD
Compression top_k(double share = 0.001);  // the largest entries alone: deep gradient compression
Compression power_sgd(int rank = 4);      // two narrow factors of each matrix
// "top_k" and named numbers, as configuration files give them.
Compression compression_by_name(const std::string& name, const std::vector<std::pair<std::string, double>>& options);

struct Parallel {
  bool shard_optimizer = false;   // each rank keeps and updates its part of the optimiser's state (ZeRO-1)
  bool shard_parameters = false;  // and of the parameters, which are gathered before use (ZeRO-3)
  Compression compress = {};
  // Parts that a batch is cut into, each computed apart and added in one order: with set_deterministic(true), any
  // number of ranks that divides it ends with the same bits. 0: as many as ranks. Of fit, not of own loops.
  std::int64_t shards = 0;
  // A model that is placed on ranks, layer by layer (nn::Module::place), is a pipeline: each batch is cut into so many
  // parts, and a rank computes one while the next has another.
  std::int64_t micro_batches = 1;
  bool pipeline = false;         // `fit` places the layers, so that ranks have equal work
  bool split = false;            // `fit` splits the layers that can be, so that each rank has a part of all of them
  bool sync_batch_norm = false;  // statistics of the whole batch, not of a rank's share
  std::int64_t check_every = 0;  // steps between two looks whether all ranks have the same weights; 0: never
  // Asynchronous: ranks step by themselves, and average their weights every so many steps (local SGD). 0: off.
  std::int64_t average_every = 0;
  double block_momentum = 0;  // of those averages
  // Rank 0 keeps the weights, the others send it gradients and run at most so many steps ahead of the slowest of them
  // (a parameter server). -1: off.
  std::int64_t staleness = -1;
};

// ---- starting

struct LaunchOptions {
  int ranks = 1;                        // on each host
  std::vector<std::string> hosts = {};  // empty: this machine
  std::vector<std::string> command;     // a program and its arguments
  int restarts = 0;                     // how often the job may start again when a rank has died
  bool elastic = false;      // with one rank fewer each time; with hosts, without the one whose rank has died
  int threads = 0;           // of each rank; 0: the machine's cores divided among its ranks
  std::string address = "";  // of this machine, for ranks on other hosts; "": 127.0.0.1, or its name
  bool labels = true;        // "[2] " before each line of ranks but the first
};
// Starts the ranks and waits for them. Returns 0, or the exit code of the rank that failed first (128 + n: ended by
// signal n). Each gets VARVE_RANK, VARVE_RANKS, VARVE_LOCAL_RANK, VARVE_LOCAL_RANKS, VARVE_MEETING, VARVE_JOB_KEY and
// VARVE_THREADS; after a restart VARVE_RESTART, with which `fit` goes on from its last checkpoint.
int launch(const LaunchOptions& options);

}  // namespace varve::distributed
