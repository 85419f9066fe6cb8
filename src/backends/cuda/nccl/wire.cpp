#include "backends/cuda/nccl/wire.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>

#include "backends/cuda/device/status.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);
constexpr int kVerdictLooks = 60;  // who is to blame is often known a moment after NCCL has noticed

// The network interface with this address, so that NCCL listens there and nowhere else.
std::string interface_of(const std::string& host) {
  ifaddrs* all = nullptr;
  if (host.empty() || getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* each = all; each && found.empty(); each = each->ifa_next) {
    const int family = each->ifa_addr ? each->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST] = "";
    if (getnameinfo(each->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 && host == text)
      found = each->ifa_name;
  }
  freeifaddrs(all);
  return found;
}

// What NCCL reads from the environment, unless it is set there. NCCL takes two ranks on one GPU for a mistake; where
// there are more ranks than GPUs, those that share one say that they are on different hosts, and talk by sockets.
void set_environment(const backend::DeviceRanks& ranks) {
  constexpr int kKeep = 0;
  if (const std::string name = interface_of(ranks.host); !name.empty())
    setenv("NCCL_SOCKET_IFNAME", ("=" + name).c_str(), kKeep);
  const int gpus = count_gpus();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  if (ranks.local_size > gpus && gpus > 0)
    setenv("NCCL_HOSTID", cat(host, "-", ranks.local_rank / gpus).c_str(), kKeep);
}

}  // namespace

struct Wire::Watch {
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false, aborting = false;
  std::string failure;
};

Wire::Wire(Context& context, const backend::DeviceRanks& ranks)
    : context_(context), ranks_(ranks), watch_(std::make_shared<Watch>()) {
  ncclUniqueId id{};
  set_environment(ranks);
  static_cast<void>(nccl());
  if (ranks.rank == 0) check(nccl().get_unique_id(&id), "ncclGetUniqueId");
  ranks.first(&id, sizeof id);
  communicator_ = connect(id);
  int least = 0, greatest = 0;
  check(cuCtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange");
  check(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, greatest), "cuStreamCreateWithPriority");
  check(cuEventCreate(&forked_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  check(cuEventCreate(&joined_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  watchdog_ = std::thread([this] { watch(); });
}

// Runs as the process ends. The communicator and the streams end with it: to destroy a communicator waits for the
// recorded steps that use it, and those may be kept for longer than this.
Wire::~Wire() {
  bool aborting = false;
  {
    const std::lock_guard lock(watch_->mutex);
    watch_->stopping = true;
    aborting = watch_->aborting;
  }
  watch_->changed.notify_all();
  if (aborting)
    watchdog_.detach();
  else
    watchdog_.join();
}

// NCCL waits for all ranks, and cannot be told to stop before it has a communicator: so in a thread of its own, which
// is left behind when the job fails meanwhile.
ncclComm_t Wire::connect(ncclUniqueId id) {
  struct Attempt {
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    ncclComm_t communicator = nullptr;
    std::string error;
  };
  auto attempt = std::make_shared<Attempt>();
  std::thread([attempt, id, &context = context_, size = ranks_.size, rank = ranks_.rank] {
    ncclComm_t communicator = nullptr;
    std::string error;
    try {
      context.make_current();
      check(nccl().comm_init_rank(&communicator, size, id, rank), "ncclCommInitRank");
    } catch (const std::exception& caught) {
      error = caught.what();
    }
    const std::lock_guard lock(attempt->mutex);
    attempt->communicator = communicator;
    attempt->error = error;
    attempt->done = true;
    attempt->ended.notify_all();
  }).detach();
  std::unique_lock lock(attempt->mutex);
  while (!attempt->done) {
    attempt->ended.wait_for(lock, kLook);
    if (const std::string failure = ranks_.failure(); !failure.empty()) throw Error(failure);
  }
  if (!attempt->error.empty()) throw Error(attempt->error);
  return attempt->communicator;
}

void Wire::fork() {
  context_.make_current();
  if (const std::string why = failure(); !why.empty()) throw Error(why);
  check(cuEventRecord(forked_, context_.stream()), "cuEventRecord");
  check(cuStreamWaitEvent(stream_, forked_, 0), "cuStreamWaitEvent");
}

void Wire::join() {
  context_.do_not_overlap(stream_);
  check(cuEventRecord(joined_, stream_), "cuEventRecord");
  check(cuStreamWaitEvent(context_.stream(), joined_, 0), "cuStreamWaitEvent");
}

std::string Wire::failure() const {
  const std::lock_guard lock(watch_->mutex);
  return watch_->failure;
}

std::string Wire::own_error() {
  ncclResult_t status = ncclSuccess;
  if (nccl().comm_get_async_error(communicator_, &status) != ncclSuccess || status == ncclSuccess ||
      status == ncclInProgress)
    return "";
  for (int look = 0; look < kVerdictLooks; ++look) {
    if (const std::string known = ranks_.failure(); !known.empty()) return known;
    std::this_thread::sleep_for(kLook);
  }
  const std::string text =
      cat("a GPU lost the connection to another rank's (NCCL: ", nccl().get_error_string(status), ").");
  ranks_.fail(text);
  return text;
}

void Wire::watch() {
  const std::shared_ptr<Watch> watch = watch_;
  std::unique_lock lock(watch->mutex);
  while (!watch->stopping) {
    watch->changed.wait_for(lock, kLook);
    if (watch->stopping) return;
    lock.unlock();
    std::string why = ranks_.failure();
    if (why.empty()) why = own_error();
    lock.lock();
    if (why.empty()) continue;
    watch->failure = why;
    watch->aborting = true;
    lock.unlock();
    // Kernels that wait for other ranks end. Returns once no recorded step holds the communicator any more.
    nccl().comm_abort(communicator_);
    return;
  }
}

// ---- the one of this process

namespace {

// Ends before what the core has of the ranks does: it was made after that.
std::unique_ptr<Wire>& joined_wire() {
  static std::unique_ptr<Wire> one;
  return one;
}

}  // namespace

Wire& wire() {
  if (!joined_wire()) throw Error("the GPU has not joined those of the other ranks.");
  return *joined_wire();
}

void Context::join(const backend::DeviceRanks& ranks) {
  const std::lock_guard lock(joining_);
  if (joined_) return;
  make_current();
  joined_wire() = std::make_unique<Wire>(*this, ranks);
  joined_ = true;
}

std::string Context::rank_failure() const { return joined_ ? joined_wire()->failure() : ""; }

}  // namespace varve::cuda
