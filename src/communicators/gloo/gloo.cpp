// Ranks by Gloo, over TCP: libvarve_gloo.so.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <vector>

#include "backend/communicator.h"
#include "base/meeting.h"
#include "base/text.h"
#include "varve/version.h"

namespace varve::gloo_ranks {
namespace {

using backend::Combine;

// The job's table of keys and values, as Gloo asks for it.
class Table final : public gloo::rendezvous::Store {
 public:
  explicit Table(const backend::Joining& joining) : joining_(joining) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    joining_.set("gloo/" + key, {data.begin(), data.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = joining_.get("gloo/" + key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  const backend::Joining& joining_;
};

template <class T, class F>
void combine_with(void* out, const void* a, const void* b, std::size_t count, F f) {
  T* to = static_cast<T*>(out);
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) to[i] = f(x[i], y[i]);
}

using Reduce = void (*)(void* out, const void* a, const void* b, std::size_t count);

template <class T>
Reduce reduce_of(Combine combine) {
  switch (combine) {
    case Combine::sum:
      return [](void* out, const void* a, const void* b, std::size_t n) {
        combine_with<T>(out, a, b, n, [](T x, T y) { return x + y; });
      };
    // NaN wins, as in the operators max and min.
    case Combine::max:
      return [](void* out, const void* a, const void* b, std::size_t n) {
        combine_with<T>(out, a, b, n, [](T x, T y) { return x > y || x != x ? x : y; });
      };
    case Combine::min:
      return [](void* out, const void* a, const void* b, std::size_t n) {
        combine_with<T>(out, a, b, n, [](T x, T y) { return x < y || x != x ? x : y; });
      };
  }
  throw Error("gloo: no such way to combine.");
}

Reduce reduce_of(DType dtype, Combine combine) {
  if (dtype == f32) return reduce_of<float>(combine);
  if (dtype == f64) return reduce_of<double>(combine);
  if (dtype == i32) return reduce_of<std::int32_t>(combine);
  if (dtype == i64) return reduce_of<std::int64_t>(combine);
  throw Error(cat("gloo: sums f32, f64, i32 and i64, not ", dtype, "."));
}

// Connected TCP sockets of this process.
std::set<int> connected_sockets() {
  std::set<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        (address.ss_family == AF_INET || address.ss_family == AF_INET6))
      found.insert(fd);
  }
  return found;
}

constexpr std::chrono::seconds kConnectSeconds(20);  // when all ranks are known to be there

// A write to a rank that is gone raises SIGPIPE, which would end the process. While one is alive, not in this thread,
// nor in those that it starts.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~WithoutSigpipe() {
    // One that came meanwhile must not be delivered now.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    const timespec none{};
    if (!sigismember(&before_, SIGPIPE)) sigtimedwait(&pipe, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t before_{};
};

class GlooCommunicator final : public backend::Communicator {
 public:
  explicit GlooCommunicator(const backend::Joining& joining) {
    const WithoutSigpipe quiet;
    Table table(joining);
    gloo::transport::tcp::attr attributes;
    attributes.hostname = joining.host;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    context_ = std::make_shared<gloo::rendezvous::Context>(joining.rank, joining.size);
    context_->setTimeout(kConnectSeconds);
    const std::set<int> before = connected_sockets();
    try {
      context_->connectFullMesh(table, device);
    } catch (const std::exception& error) {
      throw Error(cat("rank ", joining.rank, " could not connect to the others (gloo: ", error.what(),
                      "). May they reach each other's ports, and does nobody else connect there?"));
    }
    for (const int fd : connected_sockets())
      if (!before.count(fd)) sockets_.push_back(fd);
    greet(joining);
    context_->setTimeout(std::chrono::milliseconds(static_cast<std::int64_t>(joining.deadline_seconds * 1000)));
  }

  std::string engine() const override { return "gloo"; }
  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  void all_reduce(void* data, std::size_t count, DType dtype, Combine combine) override {
    if (count == 0) return;  // Gloo divides by it, here and below
    const Reduce reduce = reduce_of(dtype, combine);
    guarded([&] {
      gloo::AllreduceOptions options(context_);
      if (size_of(dtype) == 8)
        options.setOutput(static_cast<double*>(data), count);
      else
        options.setOutput(static_cast<float*>(data), count);
      options.setReduceFunction(reduce);
      options.setTag(tag_++);
      gloo::allreduce(options);
    });
    sent(2 * count * size_of(dtype) * others() / static_cast<std::size_t>(size()));
  }

  void all_gather(const void* in, void* out, std::size_t bytes) override {
    if (bytes == 0) return;
    guarded([&] {
      gloo::AllgatherOptions options(context_);
      const char* const own = static_cast<char*>(out) + bytes * static_cast<std::size_t>(rank());
      if (in != own) options.setInput(static_cast<char*>(const_cast<void*>(in)), bytes);
      options.setOutput(static_cast<char*>(out), bytes * static_cast<std::size_t>(size()));
      options.setTag(tag_++);
      gloo::allgather(options);
    });
    sent(bytes * others());
  }

  void all_to_all(const void* in, void* out, std::size_t bytes) override {
    if (bytes == 0) return;
    const std::size_t all = bytes * static_cast<std::size_t>(size());
    guarded([&] {
      gloo::AlltoallOptions options(context_);
      options.setInput(static_cast<char*>(const_cast<void*>(in)), all);
      options.setOutput(static_cast<char*>(out), all);
      options.setTag(tag_++);
      gloo::alltoall(options);
    });
    sent(bytes * others());
  }

  // Everybody's parts for this rank, added in the order of ranks.
  void sum_scatter(const void* in, void* out, std::size_t count, DType dtype) override {
    if (count == 0) return;
    const Reduce reduce = reduce_of(dtype, Combine::sum);
    const std::size_t bytes = count * size_of(dtype), all = bytes * static_cast<std::size_t>(size());
    if (parts_.size() < all) parts_.resize(all);
    all_to_all(in, parts_.data(), bytes);
    std::memcpy(out, parts_.data(), bytes);
    for (int r = 1; r < size(); ++r) reduce(out, out, parts_.data() + bytes * static_cast<std::size_t>(r), count);
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    if (bytes == 0) return;
    guarded([&] {
      gloo::BroadcastOptions options(context_);
      options.setOutput(static_cast<char*>(data), bytes);
      options.setRoot(root);
      options.setTag(tag_++);
      gloo::broadcast(options);
    });
    if (root == rank()) sent(bytes * others());
  }

  void send(const void* data, std::size_t bytes, int to, int tag) override {
    guarded([&] {
      auto buffer = context_->createUnboundBuffer(const_cast<void*>(data), bytes);
      buffer->send(to, slot(tag));
      buffer->waitSend(context_->getTimeout());
    });
    sent(bytes);
  }

  void receive(void* data, std::size_t bytes, int from, int tag) override {
    guarded([&] {
      auto buffer = context_->createUnboundBuffer(data, bytes);
      buffer->recv(from, slot(tag));
      buffer->waitRecv(context_->getTimeout());
    });
  }

  int receive_any(void* data, std::size_t bytes, int tag) override {
    int from = -1;
    std::vector<int> others;
    for (int r = 0; r < size(); ++r)
      if (r != rank()) others.push_back(r);
    guarded([&] {
      auto buffer = context_->createUnboundBuffer(data, bytes);
      buffer->recv(others, slot(tag));
      buffer->waitRecv(&from, context_->getTimeout());
    });
    return from;
  }

  void barrier() override {
    guarded([&] {
      gloo::BarrierOptions options(context_);
      options.setTag(tag_++);
      gloo::barrier(options);
    });
  }

  // Gloo's own way to close connections leaves a call that waits waiting; the end of what it reads wakes it.
  void abort() override {
    if (aborted_.exchange(true)) return;
    for (const int fd : sockets_) shutdown(fd, SHUT_RD);
  }

  double sent_bytes() const override { return static_cast<double>(sent_.load(std::memory_order_relaxed)); }

 private:
  static constexpr int kGreeting = -1;
  std::size_t others() const { return static_cast<std::size_t>(size() - 1); }
  void sent(std::size_t bytes) { sent_.fetch_add(bytes, std::memory_order_relaxed); }
  // Messages between two ranks use the upper half, which collectives never do.
  static std::uint64_t slot(int tag) { return (std::uint64_t{1} << 63) | static_cast<std::uint32_t>(tag); }

  // Gloo takes whoever connects first for the rank that it waits for. What a rank says at the other end of each
  // connection is what it has put on the job's table, which only those see who know the key.
  void greet(const backend::Joining& joining) {
    const std::string own = random_key();
    joining.set(cat("greeting/", rank()), own);
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const std::string expected = joining.get(cat("greeting/", r));
      std::string said(own), heard(expected.size(), '\0');
      try {
        auto to = context_->createUnboundBuffer(said.data(), said.size());
        auto from = context_->createUnboundBuffer(heard.data(), heard.size());
        to->send(r, slot(kGreeting));
        from->recv(r, slot(kGreeting));
        to->waitSend(kConnectSeconds);
        from->waitRecv(kConnectSeconds);
      } catch (const std::exception& error) {
        throw Error(cat("rank ", rank(), " could not greet rank ", r, " (gloo: ", error.what(), ")."));
      }
      if (heard != expected)
        throw Error(cat("rank ", rank(), ": who connected as rank ", r,
                        " is not of this job. Is somebody else on this network?"));
    }
  }

  template <class F>
  void guarded(F call) {
    const WithoutSigpipe quiet;
    if (aborted_) throw backend::BrokenConnection("the connection to the other ranks was ended.");
    try {
      call();
    } catch (const std::exception& error) {
      throw backend::BrokenConnection(cat("a connection to another rank broke (gloo: ", error.what(), ")."));
    }
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::uint32_t tag_ = 0;
  std::vector<char> parts_;
  std::vector<int> sockets_;  // of the connections to the other ranks, open as long as the context is
  std::atomic<bool> aborted_{false};
  std::atomic<std::size_t> sent_{0};
};

}  // namespace
}  // namespace varve::gloo_ranks

extern "C" {
__attribute__((visibility("default"))) const char* varve_plugin_version() { return varve::version(); }
__attribute__((visibility("default"))) varve::backend::Communicator* varve_plugin_communicator(
    const varve::backend::Joining& joining) {
  return new varve::gloo_ranks::GlooCommunicator(joining);
}
}
