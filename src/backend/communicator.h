// The contract with an engine that moves values between ranks (Gloo, MPI, NCCL), and the one queue of what a process
// has to say to the others. An engine is a library of its own, loaded when ranks are many; it claims nothing: backends
// claim the collective operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "varve/dtype.h"
#include "varve/error.h"

namespace varve::backend {

enum class Combine : std::uint8_t { sum, max, min };

// An engine lost another rank. Who is to blame is often known a moment later.
struct BrokenConnection : Error {
  using Error::Error;
};

// Calls block, come from one thread, and come in the same order on every rank. Elements are f32, f64, i32 or i64: what
// is narrower is widened before. A call throws BrokenConnection when another rank is gone or abort() was called.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::string engine() const = 0;  // "gloo"
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce(void* data, std::size_t count, DType dtype, Combine combine) = 0;  // in place
  virtual void all_gather(const void* in, void* out, std::size_t bytes) = 0;                 // `bytes` of each rank
  // The sum of `count` elements for each rank, of which this rank gets its own.
  virtual void sum_scatter(const void* in, void* out, std::size_t count, DType dtype) = 0;
  // Block r of `in` goes to rank r; block r of `out` is what rank r has sent. `bytes` each.
  virtual void all_to_all(const void* in, void* out, std::size_t bytes) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void send(const void* data, std::size_t bytes, int to, int tag) = 0;
  virtual void receive(void* data, std::size_t bytes, int from, int tag) = 0;
  virtual int receive_any(void* data, std::size_t bytes, int tag) = 0;  // from whoever is first: who it was
  virtual void barrier() = 0;
  virtual void abort() = 0;  // from any thread: calls that wait end with an Error, and so do all later ones
  virtual double sent_bytes() const { return 0; }  // to the other ranks since the start, by this one; from any thread
};

// What an engine's library needs to join the ranks. It offers
//   extern "C" const char* varve_plugin_version();
//   extern "C" backend::Communicator* varve_plugin_communicator(const backend::Joining& joining);  // throws Error
struct Joining {
  int rank = 0, size = 1;
  std::string host;  // the address of this machine that the others can reach, as a number
  std::function<void(const std::string& key, const std::string& value)> set;  // in the table that all ranks see
  std::function<std::string(const std::string& key)> get;                     // waits until somebody has set it
  double deadline_seconds = 600;  // a rank that is alive but comes later than this is given up
};

// What this process has to say, in order, by a thread of its own, so that it computes meanwhile.
class Communication {
 public:
  using Work = std::function<void(Communicator&)>;
  using Ticket = std::uint64_t;

  static Communication& get();  // opens the communicator at the first call; throws Error: why it cannot
  static bool is_open();

  Ticket post(Work work);
  void wait(Ticket ticket);  // until that work is done; throws what went wrong in it or before it
  void run(Work work) { wait(post(std::move(work))); }
  // Of each program run: all ranks are about to make the same collectives, in the same order, of the same types.
  // Otherwise the rank that differs is named.
  Ticket check_same(std::uint64_t hash);
  // This rank cannot go on. The others are told why, and end.
  void fail(const std::string& why);
  void last_words(const std::string& why);                      // why this rank leaves, if it leaves now
  void note(const std::string& key, const std::string& value);  // for the launcher
  void drain();                                                 // until nothing is under way, well or not
  std::string engine() const;
  std::string host() const;       // the address of this machine that the others can reach; empty: not known
  std::string failure() const;    // why the job cannot go on; empty: all is well
  double seconds_waited() const;  // of wait(), all together: what was not hidden
  double seconds_busy() const;    // of the engine, all together
  double sent_bytes() const;
  std::int64_t messages() const;  // done so far

  ~Communication();
  Communication(const Communication&) = delete;
  Communication& operator=(const Communication&) = delete;

 private:
  struct State;
  explicit Communication(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// How the communicator is found: installed by the runtime, which loads libraries.
struct Opened {
  std::unique_ptr<Communicator> communicator;
  double deadline_seconds = 600;                     // of a collective; engines that keep none themselves are watched
  std::string host;                                  // of this machine, as Joining has it
  std::function<std::string()> verdict;              // why the job failed, when that is known; may be empty
  std::function<void(const std::string& why)> tell;  // the other ranks
  std::function<void(std::uint64_t)> begun;          // how many collectives of all ranks this one has begun
  std::function<void(const std::string& why)> last_words;  // told to the others when this process ends now
  std::function<void(const std::string& why)> lost;        // a connection broke: asks whose fault it is
  std::function<void(const std::string& key, const std::string& value)> note;  // where the launcher sees it
  std::function<void(std::function<void(const std::string&)> told)> listen;
};
void set_communicator_loader(std::function<Opened()> loader);

}  // namespace varve::backend
